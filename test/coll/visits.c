/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks that share a CPU and exchange small messages go apart, or very large ones while the
 * others wait; others make room, and all are at home again when that is over (api/visit.c). Four
 * ranks on two CPUs: 0 and 1 share one, 2 and 3 the other. Whether it is faster is for
 * tools/compare; here the messages must be right and the ranks where they belong.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm.h"
#include "page.h"
#include "ranks.h"

enum { CPUS = 2, RANKS = 4, BLOCKS = 2000, MESSAGES = 200, PATIENCE = 200, SKIPPED = 77 };

static bool is_away(const rcm_comm *comm) {
    const struct rcmi_place *place = &comm->place;
    return rcmi_place_visits(place) && place->other != place->home;
}

/* Both ways at once. */
static int swap(rcm_comm *comm, const void *out, void *in, size_t bytes) {
    const int peer = rcm_rank(comm) ^ 1;
    rcm_work *work = NULL;
    int errors = 0;
    CHECK(errors,
          rcm_isend(comm, out, bytes, RCM_UINT8, peer, 8, &work) == RCM_OK &&
              rcm_recv(comm, in, bytes, RCM_UINT8, peer, 8, NULL, NULL) == RCM_OK &&
              rcm_work_wait(work, -1) == RCM_OK,
          "%s", rcm_last_error());
    rcm_work_free(work);
    return errors;
}

/* On a visit, of which its status page tells. */
static bool is_on_visit(const rcm_comm *comm) {
    return is_away(comm) && rcmi_page_away_until(comm->page) != 0;
}

/* To and fro with the other one of this rank's pair. *went: set if this rank was away meanwhile. */
static int exchange(rcm_comm *comm, int from_block, int32_t *went) {
    const int peer = rcm_rank(comm) ^ 1, first = rcm_rank(comm) < peer;
    int errors = 0;
    for (int i = 0; i < MESSAGES && errors == 0; i++) {
        const int64_t right = (int64_t)from_block * MESSAGES + i;
        int64_t out = right << 8 | rcm_rank(comm), in = 0;
        rcm_status status = RCM_OK;
        if (first)
            status = rcm_send(comm, &out, 1, RCM_INT64, peer, 7, NULL, NULL);
        if (status == RCM_OK)
            status = rcm_recv(comm, &in, 1, RCM_INT64, peer, 7, NULL, NULL);
        if (status == RCM_OK && !first)
            status = rcm_send(comm, &out, 1, RCM_INT64, peer, 7, NULL, NULL);
        CHECK(errors, status == RCM_OK && in == (right << 8 | peer),
              "rank %d, message %d: %s, %lld", rcm_rank(comm), i, rcm_status_name(status),
              (long long)in);
        *went |= is_on_visit(comm);
    }
    return errors;
}

/* A visit ends where the CPU is in use by others, and does not begin soon after a large message: it
 * may take some attempts, of some milliseconds each, and on a loaded machine not last for many
 * messages. */
static int check_goes(rcm_comm *comm) {
    int32_t went = 0, theirs = 0;
    int errors = 0;
    for (int i = 0; i < BLOCKS && !went && !theirs && errors == 0; i++) {
        usleep(5000);
        errors += exchange(comm, i, &went);
        errors += swap(comm, &went, &theirs, sizeof went);
    }
    CHECK(errors, went || theirs, "ranks %d and %d never went apart", rcm_rank(comm),
          rcm_rank(comm) ^ 1);
    return errors;
}

/* A large message: the two are together again at once, but for a rank that makes room for one of
 * the other pair, which is not that far yet. */
static int check_returns(rcm_comm *comm) {
    enum { COUNT = 100000 };
    static uint8_t out[COUNT], in[COUNT];
    int errors = swap(comm, out, in, COUNT);
    CHECK(errors, (!is_away(comm) || comm->makes_room) && rcmi_page_away_until(comm->page) == 0,
          "rank %d is still on CPU %d, its home is %d", rcm_rank(comm), comm->place.other,
          comm->place.home);
    return errors;
}

/* Messages that fill a cache, while the other two only wait: ranks 0 and 1 go apart. */
static int check_large(rcm_comm *comm) {
    enum { COUNT = 1 << 20, TO_AND_FRO = 8 };
    static uint8_t out[COUNT], in[COUNT];
    const int rank = rcm_rank(comm), peer = rank ^ 1;
    int32_t went = 0, theirs = 0;
    int errors = 0;
    for (int i = 0; rank < 2 && i < BLOCKS && !went && !theirs && errors == 0; i++) {
        for (int k = 0; k < 2 * TO_AND_FRO && errors == 0; k++) {
            out[0] = (uint8_t)(i + k);
            const rcm_status status =
                (k ^ rank) & 1 ? rcm_recv(comm, in, COUNT, RCM_UINT8, peer, 9, NULL, NULL)
                               : rcm_send(comm, out, COUNT, RCM_UINT8, peer, 9, NULL, NULL);
            CHECK(errors, status == RCM_OK, "%s", rcm_last_error());
            CHECK(errors, !((k ^ rank) & 1) || in[0] == (uint8_t)(i + k), "%d instead of %d", in[0],
                  (uint8_t)(i + k));
            went |= is_on_visit(comm);
        }
        errors += swap(comm, &went, &theirs, sizeof went);
    }
    CHECK(errors, rank >= 2 || went || theirs, "ranks 0 and 1 never went apart");
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* Who made room sees that when it waits the next time. */
static int check_room(rcm_comm *comm) {
    int32_t makes_room = 1, any = 1;
    int errors = 0;
    for (int i = 0; i < PATIENCE && any && errors == 0; i++) {
        usleep(i < 10 ? 0 : 10000);
        makes_room = comm->makes_room;
        CHECK(errors,
              rcm_all_reduce(comm, &makes_room, &any, 1, RCM_INT32, RCM_MAX, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
    }
    CHECK(errors, !any, "rank %d still %s", rcm_rank(comm),
          makes_room ? "makes room" : "sees another one that makes room");
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    if (comm->place.home < 0 || comm->match.world_rank != (rcm_rank(comm) + 2) % RANKS) {
        fprintf(stderr, "rank %d: home %d, match %d\n", rcm_rank(comm), comm->place.home,
                comm->match.world_rank);
        return 1;
    }
    for (int i = 0; i < 3 && errors == 0; i++)
        errors += check_goes(comm) + check_returns(comm) + check_room(comm);
    for (int i = 0; i < 3 && errors == 0; i++)
        errors += check_large(comm) + check_returns(comm) + check_room(comm);
    return errors;
}

/* So that it is the same test on larger machines. */
static bool take_cpus(void) {
    cpu_set_t mine, two;
    CPU_ZERO(&two);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        return false;
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < CPUS; cpu++)
        if (CPU_ISSET(cpu, &mine))
            CPU_SET(cpu, &two);
    return CPU_COUNT(&two) == CPUS && sched_setaffinity(0, sizeof two, &two) == 0;
}

int main(void) {
    const struct ranks ranks = {.n = RANKS, .transport = "shm"};
    if (!take_cpus()) {
        puts("it needs two CPUs");
        return SKIPPED;
    }
    return ranks_run(&ranks, check, NULL) != 0;
}
