/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks are missing? Before an expensive step such as a checkpoint, all ranks call a
 * monitored barrier. If some do not arrive before the deadline, each other rank gets the list of
 * them.
 *
 *     ringcomm-run -n 4 -- ./missing          # all arrive
 *     ringcomm-run -n 4 -- ./missing 1 3      # ranks 1 and 3 do something else
 *
 * Exit status 0 if no rank is missing, or only ranks that the arguments name.
 */
#include <ringcomm.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RANKS_MAX = 1024, PATIENCE_MS = 1000 };

static int fail(const char *what) {
    fprintf(stderr, "missing: %s: %s\n", what, rcm_last_error());
    return 1;
}

static int is_named(int rank, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (atoi(argv[i]) == rank)
            return 1;
    return 0;
}

/* Does not arrive until the barrier has failed, an error that this rank gets too. */
static rcm_status do_something_else(rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    const struct timespec nap = {0, 10000000};
    while (rcm_comm_error(comm, &error) == RCM_OK)
        nanosleep(&nap, NULL);
    return error.status;
}

/* Prints the missing ranks. Returns how many of them the arguments do not name. */
static int list_missing(rcm_comm *comm, int argc, char **argv) {
    int ranks[RANKS_MAX], wrong = 0;
    size_t count = 0;
    if (rcm_comm_missing(comm, ranks, RANKS_MAX, &count) != RCM_OK)
        return fail("missing");
    printf("rank %d: %zu of %d ranks are missing:", rcm_rank(comm), count, rcm_size(comm));
    for (size_t i = 0; i < count && i < RANKS_MAX; i++) {
        printf(" %d", ranks[i]);
        wrong += !is_named(ranks[i], argc, argv);
    }
    printf("\n");
    return wrong;
}

int main(int argc, char **argv) {
    rcm_comm *comm;
    struct rcm_call call = RCM_CALL_INIT;
    int wrong = 0;
    call.timeout_ms = PATIENCE_MS;
    if (rcm_init(NULL, &comm) != RCM_OK)
        return fail("init");
    if (rcm_barrier(comm, NULL, NULL) != RCM_OK) /* all have started */
        return fail("barrier");
    const rcm_status status = is_named(rcm_rank(comm), argc, argv)
                                  ? do_something_else(comm)
                                  : rcm_monitored_barrier(comm, 0, &call, NULL);
    if (status == RCM_OK)
        printf("rank %d: all came\n", rcm_rank(comm));
    else if (status == RCM_ERR_TIMEOUT)
        wrong = list_missing(comm, argc, argv);
    else
        wrong = fail("monitored barrier");
    (void)!rcm_destroy(comm); /* returns the same error */
    return wrong != 0;
}
