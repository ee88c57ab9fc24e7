/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_comm_shrink without deaths: shrink_live_rank CASE shm|tcp threads|processes RANKS
 *
 *   late       a rank does not call it: the others' error names it, and the next call succeeds
 *   stopped    rank 1 is stopped for longer than the deadline; it gets an error when it continues
 *   stopped0   the same for rank 0, which would lead
 *   isolated   a rank loses its links to all others: they continue without it, and it gets an error
 *   cut        two ranks lose their link: one of them gets an error, the rest continues
 *   healthy    no fault: all ranks continue
 *   leaver     a rank destroys its communicator after an abort: for the others it is dead
 */
#include "../coll/ranks.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct board {
    const char *what;
    _Atomic int here;   /* ranks that have started */
    _Atomic int tried;  /* ranks that have failed to shrink */
    _Atomic int left;   /* ranks that are left out */
    _Atomic int pid[8]; /* of the ranks */
};

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void wait_until(_Atomic int *counter, int least) {
    const int64_t end = now_ms() + 30000;
    while (atomic_load(counter) < least && now_ms() < end)
        usleep(1000);
}

static rcm_status shrink(rcm_comm *comm, int64_t timeout_ms, rcm_comm **ret_comm) {
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = timeout_ms;
    return rcm_comm_shrink(comm, &call, ret_comm);
}

/* Checks that all reductions of comm are right, its end, and the end of the old one. */
static int work_and_end(rcm_comm *comm, rcm_comm *old, int size) {
    int errors = 0;
    CHECK(errors, rcm_size(comm) == size, "%d ranks, not %d", rcm_size(comm), size);
    for (int i = 0; errors == 0 && i < 20; i++) {
        int64_t sum = 0, mine = rcm_world_rank(comm, rcm_rank(comm)) + i;
        for (int r = 0; r < rcm_size(comm); r++)
            sum += rcm_world_rank(comm, r) + i;
        const rcm_status status =
            rcm_all_reduce(comm, &mine, &mine, 1, RCM_INT64, RCM_SUM, NULL, NULL);
        CHECK(errors, status == RCM_OK && mine == sum, "all_reduce: %s", rcm_last_error());
    }
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "destroy: %s", rcm_last_error());
    if (old)
        CHECK(errors, rcm_destroy(old) != RCM_OK, "rcm_destroy of the old communicator succeeds");
    return errors;
}

/* Shrinks to `size` ranks and continues. */
static int go_on(rcm_comm *comm, int size) {
    rcm_comm *rest;
    int errors = 0;
    CHECK(errors, shrink(comm, 20000, &rest) == RCM_OK, "rank %d: shrink: %s", rcm_rank(comm),
          rcm_last_error());
    if (errors > 0) {
        (void)!rcm_destroy(comm);
        return errors;
    }
    return work_and_end(rest, comm, size);
}

/* Shrinking fails, in time, with an error that names the rank. */
static int fail_to_shrink(rcm_comm *comm, int64_t timeout_ms, rcm_status expected,
                          const char *named) {
    rcm_comm *rest;
    int errors = 0;
    const int64_t began = now_ms();
    const rcm_status status = shrink(comm, timeout_ms, &rest);
    CHECK(errors, status == expected && strstr(rcm_last_error(), named),
          "rank %d: shrink: %s (%s), not %s with \"%s\"", rcm_rank(comm), rcm_status_name(status),
          status == RCM_OK ? "" : rcm_last_error(), rcm_status_name(expected), named);
    CHECK(errors, now_ms() - began < timeout_ms + 10000, "that took %d ms",
          (int)(now_ms() - began));
    if (status == RCM_OK)
        (void)!rcm_destroy(rest);
    return errors;
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static int late(rcm_comm *comm, struct board *board) {
    int errors = 0;
    if (rcm_rank(comm) != 1) {
        errors += fail_to_shrink(comm, 700, RCM_ERR_TIMEOUT, "rank 1 (");
    } else {
        wait_until(&board->tried, rcm_size(comm) - 1);
        errors += fail_to_shrink(comm, 700, RCM_ERR_TIMEOUT, "this rank");
    }
    atomic_fetch_add(&board->tried, 1);
    wait_until(&board->tried, rcm_size(comm));
    return errors + go_on(comm, rcm_size(comm));
}

/* The stopped rank shrinks when the others have given up. It may lead, and may read that they
 * joined before it reads that they gave up: then it gets a communicator, which they end. */
static int shrink_alone(rcm_comm *comm) {
    rcm_comm *rest;
    int errors = 0;
    rcm_status status = shrink(comm, 700, &rest);
    if (status != RCM_OK) {
        CHECK(errors, status == RCM_ERR_TIMEOUT, "the stopped rank: %s", rcm_last_error());
        return errors;
    }
    status = rcm_barrier(rest, NULL, NULL);
    CHECK(errors, status == RCM_ERR_TIMEOUT && strstr(rcm_last_error(), "had given up"),
          "the stopped rank's communicator: %s", rcm_last_error());
    (void)!rcm_destroy(rest);
    return errors;
}

static int stopped(rcm_comm *comm, struct board *board) {
    const int victim = strcmp(board->what, "stopped0") == 0 ? 0 : 1;
    const int helper = rcm_size(comm) - 1;
    char named[32];
    int errors = 0;
    snprintf(named, sizeof(named), "rank %d (", victim);
    if (rcm_rank(comm) == victim) {
        const int64_t began = now_ms();
        while (now_ms() - began < 300 || atomic_load(&board->tried) == 0)
            usleep(1000); /* it is stopped in here */
        errors += shrink_alone(comm);
        atomic_fetch_add(&board->tried, 1);
    } else {
        if (rcm_rank(comm) == helper)
            kill(atomic_load(&board->pid[victim]), SIGSTOP);
        errors += fail_to_shrink(comm, 1500, RCM_ERR_TIMEOUT, named);
        atomic_fetch_add(&board->tried, 1);
        wait_until(&board->tried, helper);
        if (rcm_rank(comm) == helper)
            kill(atomic_load(&board->pid[victim]), SIGCONT);
        wait_until(&board->tried, helper + 1);
    }
    return errors + (rcm_destroy(comm) == RCM_OK);
}

/* Works until the fault of the chaos transport. */
static int until_failure(rcm_comm *comm) {
    int errors = 0;
    rcm_status status = RCM_OK;
    for (int i = 0; status == RCM_OK && i < 100000; i++) {
        float one = 1, sum;
        status = rcm_all_reduce(comm, &one, &sum, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    }
    CHECK(errors, status == RCM_ERR_PEER, "the fault gave %s", rcm_status_name(status));
    return errors;
}

static int isolated(rcm_comm *comm, struct board *board) {
    const int excluded = rcm_size(comm) - 1; /* see main */
    int errors = until_failure(comm);
    rcm_comm *rest;
    if (rcm_rank(comm) != excluded) {
        CHECK(errors, shrink(comm, 20000, &rest) == RCM_OK, "shrink: %s", rcm_last_error());
        wait_until(&board->tried, 1); /* if they were gone, it could not find them */
        return errors > 0 ? errors : work_and_end(rest, comm, excluded);
    }
    errors += fail_to_shrink(comm, 20000, RCM_ERR_PEER, "continues without");
    atomic_fetch_add(&board->tried, 1);
    return errors + (rcm_destroy(comm) == RCM_OK);
}

static int cut(rcm_comm *comm, struct board *board) {
    const int size = rcm_size(comm);
    int errors = until_failure(comm);
    rcm_comm *rest;
    const rcm_status status = shrink(comm, 20000, &rest);
    if (status == RCM_OK)
        return errors + work_and_end(rest, comm, size - 1);
    CHECK(errors, status == RCM_ERR_PEER && atomic_fetch_add(&board->left, 1) == 0,
          "rank %d: shrink: %s", rcm_rank(comm), rcm_last_error());
    return errors + (rcm_destroy(comm) == RCM_OK);
}

static int healthy(rcm_comm *comm, struct board *board) {
    (void)board;
    return go_on(comm, rcm_size(comm));
}

static int leaver(rcm_comm *comm, struct board *board) {
    (void)board;
    if (rcm_rank(comm) != 0)
        return go_on(comm, rcm_size(comm) - 1);
    (void)!rcm_barrier(comm, NULL, NULL); /* the others end it */
    return rcm_destroy(comm) == RCM_OK;
}

static int rank_run(rcm_comm *comm, void *arg) {
    static const struct {
        const char *name;
        int (*run)(rcm_comm *comm, struct board *board);
    } cases[] = {{"late", late},         {"stopped", stopped}, {"stopped0", stopped},
                 {"isolated", isolated}, {"cut", cut},         {"healthy", healthy},
                 {"leaver", leaver}};
    struct board *board = arg;
    int errors = 0;
    atomic_store(&board->pid[rcm_rank(comm)], (int)getpid());
    atomic_fetch_add(&board->here, 1); /* a rank that is left out may end a barrier of comm */
    wait_until(&board->here, rcm_size(comm));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(board->what, cases[i].name) == 0)
            return errors + cases[i].run(comm, board);
    return 1;
}

int main(int argc, char **argv) {
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char transport[32], chaos[64];
    if (argc != 5 || board == MAP_FAILED || atoi(argv[4]) < 1 || atoi(argv[4]) > 8) {
        fprintf(stderr, "usage: shrink_live_rank CASE shm|tcp threads|processes RANKS\n");
        return 2;
    }
    struct ranks ranks = {.n = atoi(argv[4]),
                          .threads = strcmp(argv[3], "threads") == 0,
                          .transport = transport,
                          .keep = true};
    board->what = argv[1];
    const bool isolate = strcmp(argv[1], "isolated") == 0, one = strcmp(argv[1], "cut") == 0;
    snprintf(transport, sizeof(transport), "%s%s", isolate || one ? "chaos:" : "", argv[2]);
    snprintf(chaos, sizeof(chaos), "seed=5,rank=%d,after=20,fault=%s",
             isolate ? ranks.n - 1 : ranks.n - 2, isolate ? "isolate" : "cut");
    setenv("RINGCOMM_CHAOS", chaos, 1);
    setenv("RINGCOMM_LOG", "error", 0);
    if (!isolate && !one)
        unsetenv("RINGCOMM_CHAOS");
    return ranks_run(&ranks, rank_run, board) ? 1 : 0;
}
