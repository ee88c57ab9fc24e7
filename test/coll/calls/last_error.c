/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call that succeeds, or is not yet complete, leaves rcm_last_error unchanged.
 *
 *     last_error TRANSPORT RANKS
 */
#include <stdio.h>
#include <stdlib.h>
#include "../works/works.h"

enum { TAG = 3, COUNT = 20000 };

static char words[512];

/* Fails a call. Its error text must stay. */
static void fail_first(void) {
    rcm_dtype dtype;
    if (rcm_dtype_from_name("an invalid type", &dtype) == RCM_OK)
        abort();
    snprintf(words, sizeof words, "%s", rcm_last_error());
}

static bool kept(void) {
    return words[0] && strcmp(words, rcm_last_error()) == 0;
}

#define KEEPS(errors, wanted, call)                                                                \
    do {                                                                                           \
        const rcm_status got_ = (call);                                                            \
        CHECK(errors, got_ == (wanted), "%s: %s: %s", #call, rcm_status_name(got_),                \
              rcm_last_error());                                                                   \
        CHECK(errors, kept(), "%s left \"%s\"", #call, rcm_last_error());                          \
        fail_first();                                                                              \
    } while (0)

/* ---- Operations ------------------------------------------------------------------------------ */

/* While this call waits, receives of other calls fail. */
static int check_operations(rcm_comm *comm) {
    static int32_t values[COUNT];
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    const struct rcm_call no_stream = {.size = sizeof no_stream, .flags = RCM_NO_STREAM};
    const struct rcm_call algorithm = {.size = sizeof algorithm, .algorithm = "ring"};
    rcm_work *work = NULL, *short_one = NULL, *never = NULL;
    char in, two[2] = {0};
    int errors = 0;
    KEEPS(errors, RCM_OK, rcm_barrier(comm, NULL, NULL));
    KEEPS(errors, RCM_OK, rcm_all_reduce(comm, values, values, 1, RCM_INT32, RCM_SUM, NULL, NULL));
    KEEPS(errors, RCM_OK,
          rcm_all_reduce(comm, values, values, COUNT, RCM_INT32, RCM_SUM, &no_stream, NULL));
    KEEPS(errors, RCM_OK,
          rcm_all_reduce(comm, values, values, COUNT, RCM_INT32, RCM_SUM, &algorithm, NULL));
    KEEPS(errors, RCM_OK,
          rcm_all_reduce(comm, values, values, COUNT, RCM_INT32, RCM_SUM, NULL, &work));
    KEEPS(errors, RCM_OK, rcm_work_wait(work, -1));
    rcm_work_free(work);
    CHECK(errors, kept(), "rcm_work_free left \"%s\"", rcm_last_error());
    CHECK_OK(errors, rcm_irecv(comm, &in, 1, RCM_UINT8, from, TAG, &short_one));
    CHECK_OK(errors, rcm_irecv(comm, &in, 1, RCM_UINT8, from, TAG + 1, &never));
    fail_first();
    KEEPS(errors, RCM_PENDING, rcm_work_test(never));
    KEEPS(errors, RCM_PENDING, rcm_work_wait(never, 1));
    KEEPS(errors, RCM_OK, rcm_send(comm, two, 2, RCM_UINT8, to, TAG, NULL, NULL));
    KEEPS(errors, RCM_OK, rcm_barrier(comm, NULL, NULL));
    KEEPS(errors, RCM_PENDING, rcm_iprobe(comm, from, TAG + 2, NULL));
    CHECK(errors, rcm_work_wait(short_one, -1) == RCM_ERR_TRUNCATED && !kept(), "%s",
          rcm_last_error());
    fail_first();
    rcm_work_free(short_one);
    CHECK(errors, kept(), "rcm_work_free of a failed work left \"%s\"", rcm_last_error());
    KEEPS(errors, RCM_OK, rcm_work_cancel(never));
    rcm_work_free(never);
    return errors;
}

/* ---- Calls with several attempts ------------------------------------------------------------- */

static int check_life(rcm_comm *comm) {
    struct rcm_transport_info info;
    struct rcm_unique_id id;
    rcm_comm *made = NULL, *half = NULL;
    rcm_store *store = NULL;
    void *memory = NULL;
    static char own[8192];
    int errors = 0;
    fail_first();
    for (size_t i = 0; i < 3; i++)
        KEEPS(errors, RCM_OK, rcm_transport_at(i, &info));
    KEEPS(errors, RCM_OK, rcm_comm_duplicate(comm, NULL, &made));
    KEEPS(errors, RCM_OK, rcm_comm_split(comm, rcm_rank(comm) % 2, 0, NULL, &half));
    KEEPS(errors, RCM_OK, rcm_comm_prepare(made, RCM_ALL_REDUCE, 1 << 20, 0, NULL));
    KEEPS(errors, RCM_OK, rcm_mem_alloc(comm, 4096, &memory));
    KEEPS(errors, RCM_OK, rcm_mem_register(comm, own, sizeof own));
    KEEPS(errors, RCM_OK, rcm_mem_deregister(comm, own, sizeof own));
    KEEPS(errors, RCM_OK, rcm_mem_free(comm, memory));
    KEEPS(errors, RCM_OK, rcm_unique_id_get(&id));
    KEEPS(errors, RCM_OK, rcm_unique_id_free(&id));
    KEEPS(errors, RCM_OK, rcm_store_open("tcp://127.0.0.1:0?server=1", 5000, &store));
    KEEPS(errors, RCM_OK, rcm_store_set(store, "k", "v", 1));
    rcm_store_close(store);
    KEEPS(errors, RCM_OK, rcm_destroy(half));
    KEEPS(errors, RCM_OK, rcm_destroy(made));
    return errors;
}

/* rcm_init probes for devices that do not exist here. */
static int check_init(void) {
    rcm_comm *second = NULL;
    int errors = 0;
    fail_first();
    KEEPS(errors, RCM_OK, rcm_init(NULL, &second));
    KEEPS(errors, RCM_OK, rcm_barrier(second, NULL, NULL));
    KEEPS(errors, RCM_OK, rcm_destroy(second));
    return errors;
}

/* An internal failure of a successful call does not show up in the text of the next failure. */
static int check_failures(rcm_comm *comm) {
    rcm_comm *made;
    int errors = 0;
    CHECK_REFUSED(errors, rcm_comm_subset(comm, NULL, 0, 1, NULL, &made), "n is 0");
    CHECK_REFUSED(errors, rcm_mem_register(comm, NULL, 8), "memory is NULL");
    return errors;
}

static int rank_run(rcm_comm *comm, void *arg) {
    (void)arg;
    fail_first();
    return check_operations(comm) + check_life(comm) + check_init() + check_failures(comm);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1], .timeout_ms = 30000};
    return ranks_run(&ranks, rank_run, NULL) != 0;
}
