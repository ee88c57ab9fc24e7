/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that leaves while the others are still at operations that it has completed:
 *     leave_first TRANSPORT
 *
 * Of three ranks one leaves at once, one is late, and rank 1 waits for the late one, longer than
 * the library waits for what a rank has sent before it left. Nothing fails.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "../ranks.h"

enum { RANKS = 3, WAITS = 1, LATE_US = 600000, SMALL = 8, LARGE = 65536 };

static const char *transport;
static int first; /* that leaves: 0 or 2 */

static bool is_late(rcm_comm *comm) {
    return rcm_rank(comm) != first && rcm_rank(comm) != WAITS;
}

static struct rcm_call call_by(const char *algorithm) {
    struct rcm_call call = RCM_CALL_INIT;
    call.algorithm = algorithm;
    return call;
}

/* The second one has to wait until the first has read the channel of the rank that left. */
static int two_reduce(rcm_comm *comm) {
    const struct rcm_call call = call_by("direct");
    int32_t in[SMALL] = {1}, out[2][SMALL];
    rcm_work *works[2] = {NULL, NULL};
    int errors = 0;
    for (int i = 0; i < 2; i++)
        CHECK(errors,
              rcm_reduce(comm, in, out[i], SMALL, RCM_INT32, RCM_SUM, WAITS, &call, &works[i]) ==
                  RCM_OK,
              "rank %d: %s", rcm_rank(comm), rcm_last_error());
    for (int i = 0; i < 2; i++) {
        CHECK(errors,
              rcm_work_wait(works[i], -1) == RCM_OK &&
                  (rcm_rank(comm) != WAITS || out[i][0] == RANKS),
              "reduce %d on rank %d: %s", i, rcm_rank(comm), rcm_last_error());
        rcm_work_free(works[i]);
    }
    return errors;
}

/* The root waits until both others have read its memory. */
static int one_broadcast(rcm_comm *comm) {
    const struct rcm_call call = call_by(strcmp(transport, "shm") == 0 ? "flat" : NULL);
    void *data = NULL;
    int errors = 0;
    CHECK(errors,
          rcm_mem_alloc(comm, LARGE, &data) == RCM_OK &&
              rcm_broadcast(comm, data, LARGE, RCM_UINT8, WAITS, &call, NULL) == RCM_OK,
          "broadcast on rank %d: %s", rcm_rank(comm), rcm_last_error());
    return errors;
}

/* Along the chain from rank 0 to 2, or back: rank 1 has a channel to the first to leave, which has
 * none to the late one. */
static int one_prepare(rcm_comm *comm) {
    const enum rcm_collective collective = first == 2 ? RCM_BROADCAST : RCM_REDUCE;
    int errors = 0;
    CHECK(errors, rcm_comm_prepare(comm, collective, LARGE, 0, "chain") == RCM_OK,
          "prepare on rank %d: %s", rcm_rank(comm), rcm_last_error());
    return errors;
}

/* Receives with RCM_AWAIT_LEFT of a message that does not come: they wait until they are canceled.
 */
static int one_awaited(rcm_comm *comm) {
    const int from[2] = {first, RCM_ANY_SOURCE};
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *works[2] = {NULL, NULL};
    int32_t got;
    int errors = 0;
    call.flags = RCM_AWAIT_LEFT;
    for (int i = 0; i < 2 && rcm_rank(comm) == WAITS; i++)
        CHECK(errors, rcm_recv(comm, &got, 1, RCM_INT32, from[i], 1, &call, &works[i]) == RCM_OK,
              "%s", rcm_last_error());
    if (rcm_rank(comm) == WAITS)
        CHECK(errors, rcm_work_wait(works[0], 2 * LATE_US / 1000) == RCM_PENDING, "%s",
              rcm_last_error());
    for (int i = 0; i < 2 && rcm_rank(comm) == WAITS; i++) {
        CHECK(errors,
              rcm_work_cancel(works[i]) == RCM_OK && rcm_work_status(works[i]) == RCM_ERR_CANCELED,
              "%s", rcm_last_error());
        rcm_work_free(works[i]);
    }
    return errors;
}

static int (*const cases[])(rcm_comm *comm) = {two_reduce, one_broadcast, one_prepare, one_awaited};
enum { NCASES = sizeof cases / sizeof cases[0] };

/* The channels are there, so that the first one need not wait for the late one to open them. */
static int operation_run(rcm_comm *comm, int which) {
    int errors = 0;
    if (cases[which] != one_prepare && cases[which] != one_awaited)
        errors = cases[which](comm);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    if (is_late(comm))
        usleep(LATE_US);
    errors += cases[which](comm);
    return errors;
}

static int group_run(rcm_comm *world, void *arg) {
    int errors = 0;
    (void)arg;
    for (int which = 0; which < NCASES; which++) {
        rcm_comm *group = NULL;
        CHECK(errors, rcm_comm_duplicate(world, NULL, &group) == RCM_OK, "%s", rcm_last_error());
        errors += operation_run(group, which);
        CHECK(errors, rcm_leave(group) == RCM_OK, "rank %d, case %d: %s", rcm_rank(world), which,
              rcm_last_error());
        CHECK(errors, rcm_barrier(world, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    }
    return errors;
}

static int world_run(rcm_comm *world, void *arg) {
    int errors = operation_run(world, *(const int *)arg);
    CHECK(errors, rcm_leave(world) == RCM_OK, "rcm_leave: %s", rcm_last_error());
    return errors;
}

int main(int argc, char **argv) {
    int errors = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: leave_first TRANSPORT\n");
        return 2;
    }
    transport = argv[1];
    struct ranks ranks = {.n = RANKS, .transport = transport};
    for (first = 0; first < RANKS; first += 2) {
        ranks.keep = false;
        errors += ranks_run(&ranks, group_run, NULL);
        ranks.keep = true;
        for (int which = 0; which < NCASES; which++)
            if (cases[which] != one_awaited) /* its receives would connect to processes that end */
                errors += ranks_run(&ranks, world_run, &which);
    }
    return errors ? 1 : 0;
}
