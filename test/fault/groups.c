/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of a rank in several communicators:
 *     groups shm|tcp
 * Rank 2 of five dies while all work in groups: each communicator with it names it, those without
 * it continue. It stops: the deadline of one group names it, and ends only that group. It dies
 * instead of creating a communicator, as a member and as the lowest member. Rank 3 aborts a group
 * while the others create another one.
 */
#include "ringcomm.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS = 5,
    VICTIM = 2,
    GROUPS = 4,
    ROUNDS = 20,
    WITHIN_S = 15, /* for a busy machine; far before the deadlines */
    LATE_MS = 500
};

/* Bit masks of ranks. The last group is without the victim. */
static const unsigned masks[GROUPS] = {0x1f, 0x0e, 0x14, 0x1b};

static const char *name;

static int fail(int rank, const char *what) {
    fprintf(stderr, "%s, rank %d: %s: %s\n", name, rank, what, rcm_last_error());
    return 1;
}

static rcm_status group_make(rcm_comm *comm, unsigned mask, int64_t timeout_ms,
                             rcm_comm **ret_group) {
    struct rcm_call call = RCM_CALL_INIT;
    int ranks[RANKS], n = 0;
    for (int r = 0; r < RANKS; r++)
        if (mask >> r & 1)
            ranks[n++] = r;
    call.timeout_ms = timeout_ms;
    return rcm_comm_subset(comm, ranks, n, 0, &call, ret_group);
}

static rcm_status sum(rcm_comm *group) {
    int one = 1, all = 0;
    const rcm_status status = rcm_all_reduce(group, &one, &all, 1, RCM_INT32, RCM_SUM, NULL, NULL);
    return status == RCM_OK && all != rcm_size(group) ? RCM_ERR_INTERNAL : status;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whether the group has failed in time, with that rank as the origin. */
static bool names_victim(const rcm_comm *comm, const rcm_comm *group, double since) {
    struct rcm_error error = RCM_ERROR_INIT;
    while (rcm_comm_error(group, &error) == RCM_OK && now_s() - since < WITHIN_S)
        usleep(1000);
    return error.status == RCM_ERR_PEER && rcm_comm_translate(group, error.origin, comm) == VICTIM;
}

/* ---- At work -------------------------------------------------------------------------------- */

static rcm_status groups_make(rcm_comm *comm, rcm_comm *groups[GROUPS]) {
    rcm_status status = RCM_OK;
    for (int i = 0; i < GROUPS && status == RCM_OK; i++)
        if (masks[i] >> rcm_rank(comm) & 1)
            status = group_make(comm, masks[i], 0, &groups[i]);
    return status;
}

/* Operations in the groups with the victim, which dies afterwards. */
static rcm_status groups_work(rcm_comm *groups[GROUPS]) {
    rcm_status status = RCM_OK;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < GROUPS - 1 && status == RCM_OK; i++)
            if (groups[i])
                status = sum(groups[i]);
    return status;
}

/* The idle groups with the victim fail, too, without an operation. */
static int killed_judge(rcm_comm *comm, rcm_comm *groups[GROUPS], int rank) {
    const double since = now_s();
    for (int i = 0; i < GROUPS - 1; i++)
        if (groups[i] && !names_victim(comm, groups[i], since))
            return fail(rank, rcm_comm_name(groups[i]));
    if (!names_victim(comm, comm, since))
        return fail(rank, "the world");
    if (groups[GROUPS - 1] && sum(groups[GROUPS - 1]) != RCM_OK)
        return fail(rank, "the group without it");
    return 0;
}

static int at_work(rcm_comm *comm, int rank) {
    rcm_comm *groups[GROUPS] = {NULL};
    if (groups_make(comm, groups) != RCM_OK)
        return fail(rank, "groups");
    const rcm_status worked = groups_work(groups);
    if (worked != RCM_OK && worked != RCM_ERR_PEER)
        return fail(rank, "work");
    if (rank == VICTIM)
        raise(SIGKILL);
    if (killed_judge(comm, groups, rank) != 0)
        return 1;
    for (int i = 0; i < GROUPS; i++)
        if (groups[i] && rcm_destroy(groups[i]) != (i < GROUPS - 1 ? RCM_ERR_PEER : RCM_OK))
            return fail(rank, "destroy");
    return rcm_destroy(comm) == RCM_ERR_PEER ? 0 : fail(rank, "destroy");
}

/* ---- Stopped ------------------------------------------------------------------------------- */

/* The deadline ends the group with the short one; the others work once the victim continues. */
static int stopped(rcm_comm *comm, int rank) {
    rcm_comm *group = NULL, *other = NULL;
    if (group_make(comm, 0x1f, 0, &group) != RCM_OK ||
        group_make(comm, 0x1f, 0, &other) != RCM_OK ||
        rcm_comm_set_timeout(group, LATE_MS) != RCM_OK || sum(group) != RCM_OK ||
        sum(other) != RCM_OK)
        return fail(rank, "work");
    int32_t pid = rank == VICTIM ? getpid() : 0;
    if (rcm_broadcast(other, &pid, 1, RCM_INT32, VICTIM, NULL, NULL) != RCM_OK ||
        sum(other) != RCM_OK)
        return fail(rank, "its number");
    if (rank == VICTIM) {
        raise(SIGSTOP);
    } else {
        const rcm_status status = rcm_barrier(group, NULL, NULL);
        if (status != RCM_ERR_TIMEOUT || !strstr(rcm_last_error(), "rank 2 (") ||
            !strstr(rcm_last_error(), "communicator of ranks 0-4"))
            return fail(rank, "the barrier");
        usleep(LATE_MS * 500);
        kill(pid, SIGCONT);
    }
    if (sum(other) != RCM_OK || sum(comm) != RCM_OK)
        return fail(rank, "the others");
    (void)!rcm_destroy(group);
    return rcm_destroy(other) == RCM_OK && rcm_destroy(comm) == RCM_OK ? 0 : fail(rank, "destroy");
}

/* ---- Creation ------------------------------------------------------------------------------ */

static int in_creation(rcm_comm *comm, int rank, unsigned mask) {
    rcm_comm *group = NULL;
    if (sum(comm) != RCM_OK)
        return fail(rank, "work");
    if (rank == VICTIM) {
        usleep(100000);
        raise(SIGKILL);
    }
    const double since = now_s();
    if (mask >> rank & 1) {
        const rcm_status status = group_make(comm, mask, 20000, &group);
        if (status != RCM_ERR_PEER || !strstr(rcm_last_error(), "rank 2 (") ||
            now_s() - since > WITHIN_S)
            return fail(rank, "rcm_comm_subset");
    }
    return names_victim(comm, comm, since) && rcm_destroy(comm) == RCM_ERR_PEER
               ? 0
               : fail(rank, "the world");
}

static int member_dies(rcm_comm *comm, int rank) {
    return in_creation(comm, rank, 0x17);
}

static int leader_dies(rcm_comm *comm, int rank) {
    return in_creation(comm, rank, 0x1c);
}

/* ---- Aborted ------------------------------------------------------------------------------- */

static int aborted(rcm_comm *comm, int rank) {
    rcm_comm *group = NULL, *inner = NULL, *other = NULL;
    if (group_make(comm, 0x1f, 0, &group) != RCM_OK || sum(group) != RCM_OK)
        return fail(rank, "work");
    if (rank == 3) {
        usleep(100000);
        if (rcm_abort(group, "rank 3 aborts") != RCM_OK)
            return fail(rank, "abort");
    } else if (group_make(group, 0x1f, 20000, &inner) != RCM_ERR_ABORTED) {
        return fail(rank, "a part of the aborted group");
    }
    if (group_make(comm, 0x1f, 0, &other) != RCM_OK || sum(other) != RCM_OK || sum(comm) != RCM_OK)
        return fail(rank, "the others");
    return rcm_destroy(group) == RCM_ERR_ABORTED && rcm_destroy(other) == RCM_OK &&
                   rcm_destroy(comm) == RCM_OK
               ? 0
               : fail(rank, "destroy");
}

/* ---- All ----------------------------------------------------------------------------------- */

static const struct scene {
    const char *name;
    bool dies;
    int (*run)(rcm_comm *comm, int rank);
} scenes[] = {{"at work", true, at_work},
              {"stopped", false, stopped},
              {"a member dies", true, member_dies},
              {"the leader dies", true, leader_dies},
              {"aborted", false, aborted}};

static const struct scene *scene;

static int rank_run(int rank, void *arg) {
    _Atomic int *right = arg;
    rcm_comm *comm;
    const int errors =
        rcm_init(NULL, &comm) == RCM_OK ? scene->run(comm, rank) : fail(rank, "init");
    if (errors == 0)
        atomic_fetch_add(right, 1);
    return errors;
}

/* The killed rank is the first that failed, so the others' verdicts are counted. */
static int scene_run(_Atomic int *right) {
    int failed = -1, status = 0;
    atomic_store(right, 0);
    const rcm_status ended = rcm_spawn(RANKS, rank_run, right, 90000, &failed, &status);
    const bool killed = failed == VICTIM && status == 128 + SIGKILL;
    if ((scene->dies ? killed : ended == RCM_OK) && atomic_load(right) == RANKS - scene->dies)
        return 0;
    fprintf(stderr, "FAIL %s: rank %d ends with %d, %d are right: %s\n", name, failed, status,
            atomic_load(right), rcm_last_error());
    return 1;
}

int main(int argc, char **argv) {
    int errors = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: groups shm|tcp\n");
        return 2;
    }
    _Atomic int *right =
        mmap(NULL, sizeof *right, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (right == MAP_FAILED)
        return 2;
    setenv("RINGCOMM_TRANSPORT", argv[1], 1);
    setenv("RINGCOMM_TIMEOUT", "30", 1);
    setenv("RINGCOMM_LOG", "error", 0);
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        scene = &scenes[i];
        name = scene->name;
        errors += scene_run(right);
    }
    return errors != 0;
}
