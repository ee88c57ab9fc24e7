/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that arrive long after their sender left its communicator, as after a TCP
 * retransmission: they are received, and only what needs more from that rank fails.
 *
 *     late_messages_of_leaver CASE TRANSPORT RANKS
 *
 * The chaos transport delays messages by up to DELAY_MS, in all ranks. Each round has its own
 * communicator, and one operation more than the last, because the number of a message determines
 * its delay. Rank 0 sends, completes its operations and leaves.
 */
#include "../coll/ranks.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 4, DELAY_MS = 600, MANY = 3000, LARGE = 300000 };

static rcm_comm *world;

static rcm_comm *group_new(int *errors) {
    rcm_comm *group = NULL;
    CHECK(*errors, rcm_comm_duplicate(world, NULL, &group) == RCM_OK, "%s", rcm_last_error());
    return group;
}

/* All ranks have done what rank 0 took part in. A failure of one fails the group on all. */
static void meet(int *errors) {
    CHECK(*errors, rcm_barrier(world, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
}

/* Rank 0 has left and sends no more. */
static void check_left(rcm_comm *group, rcm_status status, int *errors) {
    CHECK(*errors, status == RCM_ERR_PEER && strstr(rcm_last_error(), "has left"), "%s: %s",
          rcm_status_name(status), rcm_last_error());
    CHECK(*errors, rcm_leave(group) == RCM_ERR_PEER, "%s", rcm_last_error());
}

static void leave(rcm_comm *group, int *errors) {
    CHECK(*errors, rcm_leave(group) == RCM_OK, "%s", rcm_last_error());
}

/* Fills or checks n numbers that begin with `first`. */
static void fill(int32_t *data, int n, int first) {
    for (int i = 0; i < n; i++)
        data[i] = first + i;
}

static int wrong(const int32_t *data, int n, int first) {
    int count = 0;
    for (int i = 0; i < n; i++)
        count += data[i] != first + i;
    return count;
}

/* Rank 0 sends n numbers to each rank, `times`; the others receive them from src, and once more. */
static void messages_round(rcm_comm *group, int n, int src, int times, int *errors) {
    static int32_t data[LARGE];
    const int me = rcm_rank(group);
    for (int i = 0; i < times; i++) {
        fill(data, n, me == 0 ? i : -1);
        for (int r = 1; me == 0 && r < rcm_size(group); r++)
            CHECK(*errors, rcm_send(group, data, (size_t)n, RCM_INT32, r, 1, NULL, NULL) == RCM_OK,
                  "%s", rcm_last_error());
        if (me == 0)
            continue;
        CHECK(*errors, rcm_recv(group, data, (size_t)n, RCM_INT32, src, 1, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(*errors, wrong(data, n, i) == 0, "wrong numbers");
    }
    if (me == 0)
        leave(group, errors);
    meet(errors);
    if (me == 0)
        return;
    check_left(group, rcm_recv(group, data, (size_t)n, RCM_INT32, 0, 1, NULL, NULL), errors);
}

static void small(rcm_comm *group, int times, int *errors) {
    messages_round(group, 1, 0, times, errors);
}

static void eager(rcm_comm *group, int times, int *errors) {
    messages_round(group, MANY, 0, times, errors);
}

static void large(rcm_comm *group, int times, int *errors) {
    messages_round(group, LARGE, 0, times, errors);
}

static void any_source(rcm_comm *group, int times, int *errors) {
    messages_round(group, 1, RCM_ANY_SOURCE, times, errors);
}

/* Rank 0 is the root. */
static void broadcast(rcm_comm *group, int times, int *errors) {
    static int32_t data[MANY];
    const int me = rcm_rank(group);
    for (int i = 0; i < times; i++) {
        fill(data, MANY, me == 0 ? i : -1);
        CHECK(*errors, rcm_broadcast(group, data, MANY, RCM_INT32, 0, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
        CHECK(*errors, wrong(data, MANY, i) == 0, "wrong numbers");
    }
    if (me == 0)
        leave(group, errors);
    meet(errors);
    if (me != 0)
        check_left(group, rcm_barrier(group, NULL, NULL), errors);
}

static const struct {
    const char *name;
    void (*round)(rcm_comm *group, int times, int *errors);
} cases[] = {{"small", small},
             {"eager", eager},
             {"large", large},
             {"any-source", any_source},
             {"broadcast", broadcast}};

static int run(rcm_comm *comm, void *arg) {
    int errors = 0;
    world = comm;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int times = 1; strcmp(cases[i].name, arg) == 0 && times <= ROUNDS; times++) {
            cases[i].round(group_new(&errors), times, &errors);
            if (errors > 0)
                exit(1);
        }
    return errors;
}

int main(int argc, char **argv) {
    char transport[32], chaos[64];
    if (argc != 4) {
        fprintf(stderr, "usage: late_messages_of_leaver CASE TRANSPORT RANKS\n");
        return 2;
    }
    snprintf(transport, sizeof transport, "chaos:%s", argv[2]);
    snprintf(chaos, sizeof chaos, "seed=5,delay=%d,often=70", DELAY_MS * 1000);
    setenv("RINGCOMM_CHAOS", chaos, 1);
    setenv("RINGCOMM_LOG", "error", 0);
    const struct ranks ranks = {.n = atoi(argv[3]), .transport = transport};
    return ranks_run(&ranks, run, argv[1]) ? 1 : 0;
}
