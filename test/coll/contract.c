/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guarantees of ringcomm.h that are easy to break and that no test of data (matrix.c, p2p.c) or of
 * rank death (test/fault) covers, one per case:
 *
 *     contract CASE TRANSPORTS RANKS
 */
#include "../fault/cpu_starvation.h"
#include "ranks.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Shared by all processes of the test. In most cases: how many survivors named the killed rank. In
 * check_sent: the last tag that was sent. */
static _Atomic int *named;

static void *array(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory)
        abort();
    return memory;
}

static rcm_status sum(rcm_comm *comm, size_t count, rcm_work **ret_work) {
    static float in[4], out[4];
    return rcm_all_reduce(comm, in, out, count, RCM_FLOAT32, RCM_SUM, NULL, ret_work);
}

/* ---- Different calls: RCM_ERR_MISMATCH ------------------------------------------------------- */

static int expect_mismatch(rcm_comm *comm, rcm_status status) {
    int errors = 0;
    if (status == RCM_OK)
        status = rcm_destroy(comm);
    else
        (void)!rcm_destroy(comm);
    CHECK(errors, status == RCM_ERR_MISMATCH, "%s: %s", rcm_status_name(status), rcm_last_error());
    return errors;
}

/* Rank 1 skips one all_reduce. */
static int check_skipped(rcm_comm *comm, void *arg) {
    (void)arg;
    return expect_mismatch(comm, rcm_rank(comm) == 1 ? RCM_OK : sum(comm, 4, NULL));
}

/* Counts so different that the ranks select different algorithms. */
static int check_counts(rcm_comm *comm, void *arg) {
    const size_t count = rcm_rank(comm) == 1 ? 1 : (size_t)1 << 22;
    float *data = array(count * sizeof(*data));
    (void)arg;
    const rcm_status status =
        rcm_all_reduce(comm, data, data, count, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    const int errors = expect_mismatch(comm, status);
    free(data);
    return errors;
}

/* Two ranks name different roots, so each waits for the other. */
static int check_roots(rcm_comm *comm, void *arg) {
    float data[100] = {0};
    (void)arg;
    return expect_mismatch(
        comm, rcm_broadcast(comm, data, 100, RCM_FLOAT32, rcm_rank(comm) == 1 ? 1 : 0, NULL, NULL));
}

/* ---- Timeouts during other operations -------------------------------------------------------- */

enum { WORKS = 100, COUNT = 1 << 20 };

/* True if a wait of 10 ms for a message that does not arrive ends while the works are
 * unfinished. */
static bool wait_passes(rcm_comm *comm, rcm_work *recv, const float *in, float *out) {
    rcm_work *works[WORKS] = {NULL};
    bool issued = true;
    for (int i = 0; i < WORKS; i++)
        issued = rcm_all_reduce(comm, in, out + (size_t)i * COUNT, COUNT, RCM_FLOAT32, RCM_MAX,
                                NULL, &works[i]) == RCM_OK &&
                 issued;
    const rcm_status status = rcm_work_wait(recv, 10);
    const bool passed =
        issued && status == RCM_PENDING && rcm_work_status(works[WORKS - 1]) == RCM_PENDING;
    for (int i = 0; i < WORKS; i++) {
        (void)!rcm_work_wait(works[i], -1);
        rcm_work_free(works[i]);
    }
    return passed;
}

/* A rank that loses its CPU for long enough finds all works complete, so it gets several tries. */
static int check_timeout(rcm_comm *comm, void *arg) {
    enum { TRIES = 20 };
    rcm_work *recv = NULL;
    float *in = array(COUNT * sizeof(*in)), *out = array(WORKS * COUNT * sizeof(*out));
    char byte = 0;
    const int n = rcm_size(comm), me = rcm_rank(comm);
    int32_t passed = 0, all = 0;
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_irecv(comm, &byte, 1, RCM_UINT8, (me + 1) % n, 5, &recv) == RCM_OK, "%s",
          rcm_last_error());
    for (int i = 0; i < TRIES && !all; i++) {
        passed = wait_passes(comm, recv, in, out) || passed;
        CHECK(errors,
              rcm_all_reduce(comm, &passed, &all, 1, RCM_INT32, RCM_MIN, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
    }
    CHECK(errors, passed, "rank %d: waits of 10 ms ended only after all other works", me);
    CHECK(errors,
          rcm_send(comm, &byte, 1, RCM_UINT8, (me + n - 1) % n, 5, NULL, NULL) == RCM_OK &&
              rcm_work_wait(recv, -1) == RCM_OK,
          "%s", rcm_last_error());
    rcm_work_free(recv);
    (void)!rcm_destroy(comm);
    free(in);
    free(out);
    return errors;
}

/* ---- Order and number of running collectives ------------------------------------------------- */

enum { FEW = 10, QUEUED = 1000 };

static bool wait_all(rcm_work **works, int n, rcm_status expected) {
    bool right = true;
    for (int i = 0; i < n; i++) {
        right = rcm_work_wait(works[i], -1) == expected && right;
        rcm_work_free(works[i]);
    }
    return right;
}

static bool all_done(rcm_work *const *works, int n) {
    int done = 0;
    for (int i = 0; i < n; i++)
        done += rcm_work_status(works[i]) == RCM_OK;
    return done == n;
}

/* Issues n sums of one element, whose only receiver is rank 0: out[i] = sum of all in[i]. */
static bool issue_sums(rcm_comm *comm, const int32_t *in, int32_t *out, int n, rcm_work **works) {
    bool issued = true;
    for (int i = 0; i < n; i++)
        issued = rcm_reduce(comm, &in[i], &out[i], 1, RCM_INT32, RCM_SUM, 0, NULL, &works[i]) ==
                     RCM_OK &&
                 issued;
    return issued;
}

/* Rank 0's broadcast follows n sums that rank 1 has not called yet. Returns true if it completes on
 * rank 0, which needs no other rank for a broadcast. */
static bool passes_sums(rcm_comm *comm, int n, int *errors) {
    const int me = rcm_rank(comm), ranks = rcm_size(comm);
    int32_t *in = array(QUEUED * sizeof(*in)), *out = array(QUEUED * sizeof(*out));
    rcm_work *works[QUEUED] = {NULL}, *broadcast = NULL;
    char byte = 0;
    bool passed = true;
    for (int i = 0; i < n; i++)
        in[i] = i + me;
    CHECK(*errors, rcm_broadcast(comm, &byte, 1, RCM_UINT8, 0, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error()); /* opens the channel */
    if (me == 1)
        CHECK(*errors, rcm_recv(comm, &byte, 1, RCM_UINT8, 0, 5, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    CHECK(*errors,
          issue_sums(comm, in, out, n, works) &&
              rcm_broadcast(comm, &byte, 1, RCM_UINT8, 0, NULL, &broadcast) == RCM_OK,
          "%s", rcm_last_error());
    if (me == 0) {
        passed = rcm_work_wait(broadcast, n == FEW ? 5000 : 300) == RCM_OK;
        CHECK(*errors, rcm_send(comm, &byte, 1, RCM_UINT8, 1, 5, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    }
    CHECK(*errors, wait_all(works, n, RCM_OK) && wait_all(&broadcast, 1, RCM_OK), "%s",
          rcm_last_error());
    for (int i = 0; i < n; i++)
        CHECK(*errors, me != 0 || out[i] == i * ranks + ranks * (ranks - 1) / 2, "sum %d is %d", i,
              out[i]);
    free(in);
    free(out);
    return passed;
}

/* A queued operation counts as in use, and ends with its communicator like a running one. */
static int check_queue_ends(rcm_comm *comm) {
    static int32_t in[QUEUED], out[QUEUED];
    rcm_work *works[QUEUED + 1] = {NULL};
    void *block = NULL;
    int errors = 0;
    CHECK(errors, rcm_mem_alloc(comm, 4, &block) == RCM_OK, "%s", rcm_last_error());
    if (rcm_rank(comm) == 0) {
        CHECK(errors,
              issue_sums(comm, in, out, QUEUED, works) &&
                  issue_sums(comm, block, block, 1, &works[QUEUED]),
              "%s", rcm_last_error());
        CHECK(errors, rcm_mem_free(comm, block) == RCM_ERR_INVALID,
              "memory of a queued operation was freed");
        CHECK(errors, rcm_abort(comm, "enough") == RCM_OK, "%s", rcm_last_error());
        CHECK(errors, wait_all(works, QUEUED + 1, RCM_ERR_ABORTED), "not all are aborted");
    } else {
        CHECK(errors, rcm_recv(comm, in, 1, RCM_INT32, 0, 5, NULL, NULL) == RCM_ERR_ABORTED, "%s",
              rcm_last_error());
    }
    return errors;
}

static int check_queue(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    CHECK(errors, passes_sums(comm, FEW, &errors), "a broadcast waited for %d sums", FEW);
    const bool passed = passes_sums(comm, QUEUED, &errors);
    CHECK(errors, rcm_rank(comm) != 0 || !passed, "%d collectives run at once", QUEUED + 1);
    errors += check_queue_ends(comm);
    (void)!rcm_destroy(comm);
    return errors;
}

/* A barrier after large operations completes after them. It does not wait for an open receive. */
static int drained(rcm_comm *comm, bool blocking) {
    enum { LARGE = 20 };
    const int peer = (rcm_rank(comm) + 1) % rcm_size(comm);
    const int from = (rcm_rank(comm) + rcm_size(comm) - 1) % rcm_size(comm);
    float *data = array(COUNT * sizeof(*data));
    rcm_work *works[LARGE] = {NULL}, *recv = NULL, *barrier = NULL;
    char in = 0, out = 0;
    int errors = 0;
    CHECK(errors, rcm_irecv(comm, &in, 1, RCM_UINT8, from, 5, &recv) == RCM_OK, "%s",
          rcm_last_error());
    for (int i = 0; i < LARGE; i++)
        CHECK(errors,
              rcm_all_reduce(comm, data, data, COUNT, RCM_FLOAT32, RCM_MAX, NULL, &works[i]) ==
                  RCM_OK,
              "%s", rcm_last_error());
    CHECK(errors, rcm_barrier(comm, NULL, blocking ? NULL : &barrier) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, blocking || rcm_work_wait(barrier, -1) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, all_done(works, LARGE),
          "rank %d left a barrier before earlier operations were done", rcm_rank(comm));
    CHECK(errors,
          rcm_send(comm, &out, 1, RCM_UINT8, peer, 5, NULL, NULL) == RCM_OK &&
              wait_all(&recv, 1, RCM_OK) && wait_all(works, LARGE, RCM_OK),
          "%s", rcm_last_error());
    rcm_work_free(barrier);
    free(data);
    return errors;
}

/* Rank 0's broadcast needs no other rank, but stays behind a barrier that cannot start. */
static int stays_behind(rcm_comm *comm) {
    static int32_t in, out;
    rcm_work *before = NULL, *barrier = NULL, *broadcast = NULL;
    char byte = 0;
    int errors = 0;
    CHECK(errors, rcm_broadcast(comm, &byte, 1, RCM_UINT8, 0, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error()); /* opens the channel */
    if (rcm_rank(comm) == 1)
        CHECK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, 0, 6, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    CHECK(errors,
          issue_sums(comm, &in, &out, 1, &before) && rcm_barrier(comm, NULL, &barrier) == RCM_OK &&
              rcm_broadcast(comm, &byte, 1, RCM_UINT8, 0, NULL, &broadcast) == RCM_OK,
          "%s", rcm_last_error());
    if (rcm_rank(comm) == 0) {
        CHECK(errors, rcm_work_wait(broadcast, 200) == RCM_PENDING,
              "the broadcast overtook a barrier");
        CHECK(errors, rcm_send(comm, &byte, 1, RCM_UINT8, 1, 6, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    }
    CHECK(errors,
          wait_all(&broadcast, 1, RCM_OK) && wait_all(&barrier, 1, RCM_OK) &&
              wait_all(&before, 1, RCM_OK),
          "%s", rcm_last_error());
    return errors;
}

static int check_drains(rcm_comm *comm, void *arg) {
    (void)arg;
    int errors = drained(comm, true) + drained(comm, false) + stays_behind(comm);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- Several threads ------------------------------------------------------------------------- */

static void *wait_for(void *work) {
    (void)!rcm_work_wait(work, -1);
    return NULL;
}

/* While threads wait, another thread prepares. Both open channels. */
static int check_prepare(rcm_comm *comm, void *arg) {
    static const char *const names[] = {"ring", "recursive_doubling", "dissemination"};
    static const enum rcm_collective of[] = {RCM_ALL_REDUCE, RCM_ALL_REDUCE, RCM_BARRIER};
    const int n = rcm_size(comm), me = rcm_rank(comm);
    rcm_work *recv = NULL, *send = NULL, *big = NULL;
    pthread_t thread;
    char in = 0, out = 0;
    int errors = 0;
    float *data = array((size_t)8 << 20);
    (void)arg;
    if (rcm_irecv(comm, &in, 1, RCM_UINT8, (me + 1) % n, 5, &recv) != RCM_OK ||
        pthread_create(&thread, NULL, wait_for, recv) != 0)
        return 1;
    CHECK(errors,
          rcm_all_reduce(comm, data, data, 2 << 20, RCM_FLOAT32, RCM_SUM, NULL, &big) == RCM_OK,
          "%s", rcm_last_error());
    for (int i = 0; errors == 0 && i < 3; i++)
        CHECK(errors, rcm_comm_prepare(comm, of[i], 100, 0, names[i]) == RCM_OK,
              "rank %d: prepare %s: %s", me, names[i], rcm_last_error());
    CHECK(errors, rcm_isend(comm, &out, 1, RCM_UINT8, (me + n - 1) % n, 5, &send) == RCM_OK, "%s",
          rcm_last_error());
    pthread_join(thread, NULL);
    rcm_work_free(recv);
    rcm_work_free(send);
    (void)!rcm_work_wait(big, -1);
    rcm_work_free(big);
    (void)!rcm_destroy(comm);
    free(data);
    return errors;
}

/* While a thread waits for a late message, asynchronous works still make progress, without gaps of
 * 0.5 s. Gaps in which other processes had the CPU do not count. */
static int check_stall(rcm_comm *comm, void *arg) {
    const int peer = (rcm_rank(comm) + 1) % rcm_size(comm);
    const int from = (rcm_rank(comm) + rcm_size(comm) - 1) % rcm_size(comm);
    rcm_work *recv = NULL, *send = NULL, *work = NULL;
    pthread_t thread;
    char in = 0, out = 0;
    double worst = 0;
    int64_t stolen = 0;
    int errors = 0;
    (void)arg;
    if (rcm_irecv(comm, &in, 1, RCM_UINT8, from, 5, &recv) != RCM_OK ||
        pthread_create(&thread, NULL, wait_for, recv) != 0)
        return 1;
    for (int i = 0; i < 30000 && worst < 0.4; i++) {
        if (i % 100 == 0)
            stolen = strain_stolen_ns();
        const double start = seconds();
        if (sum(comm, 4, &work) != RCM_OK)
            break;
        while (rcm_work_status(work) == RCM_PENDING)
            usleep(30);
        const double took = seconds() - start;
        rcm_work_free(work);
        if (took > worst && (took < 0.4 || (double)(strain_stolen_ns() - stolen) / 1e9 < took / 2))
            worst = took;
    }
    CHECK(errors, worst < 0.4, "rank %d: an operation of 16 bytes took %.0f ms", rcm_rank(comm),
          worst * 1e3);
    if (worst >= 0.4)
        (void)!rcm_abort(comm, "stalled");
    (void)!rcm_isend(comm, &out, 1, RCM_UINT8, peer, 5, &send);
    pthread_join(thread, NULL);
    rcm_work_free(recv);
    rcm_work_free(send);
    (void)!rcm_destroy(comm);
    return errors;
}

/* Two threads wait for one work, and the first to return destroys the communicator. For the address
 * sanitizer. */
static int check_leave(rcm_comm *comm, void *arg) {
    rcm_work *work = NULL;
    pthread_t thread;
    int errors = 0;
    (void)arg;
    if (sum(comm, 4, &work) != RCM_OK || pthread_create(&thread, NULL, wait_for, work) != 0)
        return 1;
    CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    pthread_join(thread, NULL);
    rcm_work_free(work);
    return errors;
}

/* ---- Data sent before leaving ---------------------------------------------------------------- */

enum { UNREAD = 3 << 17, SLOW_US = 700000 }; /* 3 slots of 128 KiB; longer than a rank stays */

static void add_slowly(const void *in, void *inout, size_t count, rcm_dtype dtype, void *context) {
    bool *slept = context;
    (void)dtype;
    if (!*slept)
        usleep(SLOW_US);
    *slept = true;
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)inout)[i] = (uint8_t)(((uint8_t *)inout)[i] + ((const uint8_t *)in)[i]);
}

/* Rank 0 is in its operator while the other ranks complete, leave and exit. */
static int check_unread(rcm_comm *comm, void *arg) {
    static uint8_t in[UNREAD], out[UNREAD];
    const uint8_t size = (uint8_t)rcm_size(comm);
    bool slept = rcm_rank(comm) != 0;
    int errors = 0, wrong = 0;
    rcm_op op;
    (void)arg;
    memset(in, 1, sizeof(in));
    if (rcm_op_create(add_slowly, &slept, RCM_OP_COMMUTATIVE, "slow", RCM_UINT8, &op) != RCM_OK)
        return 1;
    CHECK(errors, rcm_reduce(comm, in, out, UNREAD, RCM_UINT8, op, 0, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    for (size_t i = 0; i < UNREAD && rcm_rank(comm) == 0; i++)
        wrong += out[i] != size;
    CHECK(errors, wrong == 0, "%d bytes are wrong", wrong);
    CHECK(errors, rcm_leave(comm) == RCM_OK, "%s", rcm_last_error());
    (void)!rcm_op_free(op);
    return errors;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static int child_errors(rcm_work *work) {
    int errors = 0;
    const rcm_status test = rcm_work_test(work);
    const rcm_status wait = rcm_work_wait(work, 100);
    CHECK(errors, test == RCM_ERR_FORKED, "test in the child: %s", rcm_status_name(test));
    CHECK(errors, wait == RCM_ERR_FORKED, "wait in the child: %s", rcm_status_name(wait));
    return errors;
}

static int check_fork(rcm_comm *comm, void *arg) {
    rcm_work *work = NULL;
    int errors = 0, status = 0;
    (void)arg;
    if (rcm_rank(comm) != 0)
        usleep(500000);
    CHECK(errors, sum(comm, 4, &work) == RCM_OK, "%s", rcm_last_error());
    if (rcm_rank(comm) == 0) {
        const pid_t pid = fork();
        if (pid == 0)
            _exit(child_errors(work));
        waitpid(pid, &status, 0);
        CHECK(errors, status == 0, "the child failed");
    }
    rcm_work_free(work);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* A killed rank is named within 1 s, also if a process that it forked lives on. */
static int check_helper(rcm_comm *comm, void *arg) {
    int errors = 0;
    struct rcm_error error = RCM_ERROR_INIT;
    (void)arg;
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    if (rcm_rank(comm) == 1) {
        usleep(200000); /* until the others have left the barrier too */
        if (fork() == 0) {
            sleep(3);
            _exit(0);
        }
        raise(SIGKILL);
    }
    usleep(200000);
    const double start = seconds();
    (void)!rcm_monitored_barrier(comm, 0, NULL, NULL);
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors, error.status == RCM_ERR_PEER && error.origin == 1 && seconds() - start < 1,
          "rank %d: after %.1f s %s, origin %d", rcm_rank(comm), seconds() - start,
          rcm_status_name(error.status), error.origin);
    *named += errors == 0;
    (void)!rcm_destroy(comm);
    return errors;
}

/* ---- Missing ranks of a monitored barrier ---------------------------------------------------- */

static int missing_are(const rcm_comm *comm, int first, int second) {
    int ranks[2] = {-1, -1}, errors = 0;
    size_t count = 0;
    struct rcm_error error = RCM_ERROR_INIT;
    char words[64];
    (void)!rcm_comm_error(comm, &error);
    snprintf(words, sizeof(words), "ranks %d, %d are missing", first, second);
    CHECK(errors,
          rcm_comm_missing(comm, ranks, 2, &count) == RCM_OK && count == 2 && ranks[0] == first &&
              ranks[1] == second && error.status == RCM_ERR_TIMEOUT && strstr(error.text, words) &&
              strstr(error.text, "is stopped"),
          "rank %d: %zu are missing, %d and %d: %s", rcm_rank(comm), count, ranks[0], ranks[1],
          error.text);
    return errors;
}

/* Of the last two ranks, one is in no operation and the other is stopped. Both get the error
 * too. */
static int check_monitored(rcm_comm *comm, void *arg) {
    const int n = rcm_size(comm), me = rcm_rank(comm);
    int32_t pid = (int32_t)getpid();
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_broadcast(comm, &pid, 1, RCM_INT32, n - 1, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_monitored_barrier(comm, 0, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    if (me == n - 1)
        raise(SIGSTOP);
    for (int i = 0; me == n - 2 && i < 30000 && rcm_comm_error(comm, &error) == RCM_OK; i++)
        usleep(1000);
    if (me == 0)
        ranks_await_stopped(pid);
    CHECK(errors, rcm_monitored_barrier(comm, 0, NULL, NULL) == RCM_ERR_TIMEOUT, "%s",
          rcm_last_error());
    if (me == 0)
        kill(pid, SIGCONT);
    errors += missing_are(comm, n - 2, n - 1);
    (void)!rcm_destroy(comm);
    return errors;
}

/* ---- Error origin on all ranks --------------------------------------------------------------- */

/* The last rank exits before any link is up. The others call rcm_destroy at once, and all name
 * it. */
static int check_origin(rcm_comm *comm, void *arg) {
    const int last = rcm_size(comm) - 1;
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    (void)arg;
    if (rcm_rank(comm) == last)
        _exit(0);
    (void)!rcm_barrier(comm, NULL, NULL);
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors, error.origin == last, "rank %d names rank %d for what rank %d did: %s",
          rcm_rank(comm), error.origin, last, error.text);
    (void)!rcm_destroy(comm);
    return errors;
}

/* An abort before any link is up reaches a rank when its link comes up. */
static int check_abort(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    if (rcm_rank(comm) == 0) {
        CHECK(errors, rcm_abort(comm, "at once") == RCM_OK, "%s", rcm_last_error());
        sleep(2);
    } else {
        usleep(300000);
        const double start = seconds();
        const rcm_status status = rcm_barrier(comm, NULL, NULL);
        CHECK(errors, status == RCM_ERR_ABORTED && seconds() - start < 1,
              "rank %d: %s after %.1f s: %s", rcm_rank(comm), rcm_status_name(status),
              seconds() - start, rcm_last_error());
    }
    (void)!rcm_destroy(comm);
    return errors;
}

/* ---- Buffers of a complete work -------------------------------------------------------------- */

/* Rank 1 is stopped and has not read a message when rank 0 gives up and overwrites its buffer. Rank
 * 1 must not receive the new contents. */
static int check_given_up(rcm_comm *comm, void *arg) {
    enum { LEN = 1 << 20 };
    uint8_t *data = malloc(LEN);
    rcm_work *work = NULL;
    int32_t pid = (int32_t)getpid();
    int errors = 0;
    (void)arg;
    memset(data, 1, LEN);
    for (int i = 0; i < 10; i++) /* opens the channels, for every protocol */
        CHECK(errors,
              (rcm_rank(comm) == 0
                   ? rcm_send(comm, data, LEN, RCM_UINT8, 1, 3, NULL, NULL)
                   : rcm_recv(comm, data, LEN, RCM_UINT8, 0, 3, NULL, NULL)) == RCM_OK,
              "%s", rcm_last_error());
    CHECK(errors, rcm_broadcast(comm, &pid, 1, RCM_INT32, 1, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    if (rcm_rank(comm) == 1) {
        raise(SIGSTOP);
        const rcm_status status = rcm_recv(comm, data, LEN, RCM_UINT8, 0, 4, NULL, NULL);
        CHECK(errors, status == RCM_ERR_ABORTED, "%s, the first byte is %d",
              rcm_status_name(status), data[0]);
    } else {
        ranks_await_stopped(pid);
        (void)!rcm_isend(comm, data, LEN, RCM_UINT8, 1, 4, &work);
        usleep(100000);
        (void)!rcm_abort(comm, "enough");
        CHECK(errors, rcm_work_wait(work, -1) == RCM_ERR_ABORTED, "the send succeeded");
        memset(data, 2, LEN);
        kill(pid, SIGCONT);
    }
    rcm_work_free(work);
    (void)!rcm_destroy(comm);
    free(data);
    return errors;
}

/* A send completes although the receiver calls nothing after its receive. Rank 1 checks this
 * through shared memory, without the library. */
static int sent_and_known(rcm_comm *comm, uint8_t *data, size_t len, uint64_t tag) {
    int errors = 0;
    if (rcm_rank(comm) == 0) {
        CHECK(errors, rcm_send(comm, data, len, RCM_UINT8, 1, tag, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
        atomic_store(named, (int)tag);
    } else {
        CHECK(errors, rcm_recv(comm, data, len, RCM_UINT8, 0, tag, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
        for (int i = 0; i < 500 && atomic_load(named) != (int)tag; i++)
            usleep(10000);
        CHECK(errors, atomic_load(named) == (int)tag,
              "%zu bytes were received, but their send is incomplete", len);
    }
    return errors;
}

static int check_sent(rcm_comm *comm, void *arg) {
    /* 64 messages go eagerly and use up the budget to the last byte, so the message of 0 bytes goes
     * by rendezvous. */
    enum { LEN = 16320, MANY = 80 };
    static uint8_t data[100000];
    rcm_work *works[MANY] = {NULL};
    int errors = 0;
    (void)arg;
    errors += sent_and_known(comm, data, sizeof data, 1); /* the first call */
    for (int i = 0; i < MANY && rcm_rank(comm) == 0; i++)
        CHECK(errors, rcm_isend(comm, data, LEN, RCM_UINT8, 1, 2, &works[i]) == RCM_OK, "%s",
              rcm_last_error());
    errors += sent_and_known(comm, data, 0, 3);
    for (int i = 0; i < MANY; i++) {
        if (rcm_rank(comm) == 1)
            CHECK(errors, rcm_recv(comm, data, LEN, RCM_UINT8, 0, 2, NULL, NULL) == RCM_OK, "%s",
                  rcm_last_error());
        (void)!rcm_work_wait(works[i], -1);
        rcm_work_free(works[i]);
    }
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* Rank 1 stops, so rank 0's socket fills up. Rank 0 aborts, waits and unmaps its buffer. If the
 * library still sent from there, the kernel would return EFAULT, which the log shows. */
static int check_zero_copy(rcm_comm *comm, void *arg) {
    const size_t len = (size_t)64 << 20;
    rcm_work *work = NULL;
    int32_t pid = (int32_t)getpid();
    int errors = 0, fds[2];
    static char log[65536];
    void *data = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)arg;
    if (data == MAP_FAILED || pipe(fds) != 0)
        return 1;
    CHECK(errors, rcm_broadcast(comm, &pid, 1, RCM_INT32, 1, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_broadcast(comm, data, len, RCM_UINT8, 0, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error()); /* opens all channels */
    if (rcm_rank(comm) == 1) {
        (void)!rcm_broadcast(comm, data, len, RCM_UINT8, 0, NULL, &work);
        raise(SIGSTOP);
        usleep(300000);
    } else {
        const int old = dup(2);
        usleep(200000);
        (void)!rcm_broadcast(comm, data, len, RCM_UINT8, 0, NULL, &work);
        usleep(200000);
        (void)!rcm_abort(comm, "enough");
        (void)!rcm_work_wait(work, -1);
        munmap(data, len);
        dup2(fds[1], 2);
        kill(pid, SIGCONT);
        usleep(1000000); /* longer than rank 1 takes to leave */
        dup2(old, 2);
        if (write(fds[1], "\n", 1) != 1 || read(fds[0], log, sizeof(log) - 1) < 0)
            return 1;
        CHECK(errors, !strstr(log, "Bad address"), "sent from unmapped memory: %s", log);
    }
    rcm_work_free(work);
    (void)!rcm_destroy(comm);
    return errors;
}

/* ---- Another order of preference for transports ---------------------------------------------- */

static int check_order(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, sum(comm, 4, NULL) == RCM_OK, "%s", rcm_last_error());
    (void)!rcm_destroy(comm);
    return errors;
}

/* Zero elements at NULL. For the undefined behaviour sanitizer. */
static int check_zero(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_all_reduce(comm, NULL, NULL, 0, RCM_FLOAT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const struct kase {
    const char *name;
    int (*fn)(rcm_comm *comm, void *arg);
    int runs;
    bool threads;
    int64_t timeout_ms;
    const char *variable, *value;
} cases[] = {
    {"skipped", check_skipped, 1, false, 4000, NULL, NULL},
    {"counts", check_counts, 1, false, 4000, NULL, NULL},
    {"roots", check_roots, 1, false, 4000, NULL, NULL},
    {"timeout", check_timeout, 1, false, 60000, "RINGCOMM_SPIN_US", "2000"},
    {"queue", check_queue, 1, false, 60000, NULL, NULL},
    {"drains", check_drains, 1, false, 60000, NULL, NULL},
    {"prepare", check_prepare, 15, true, 8000, "RINGCOMM_SPIN_US", "0"},
    {"stall", check_stall, 1, false, 60000, "RINGCOMM_SPIN_US", "0"},
    {"leave", check_leave, 40, true, 8000, NULL, NULL},
    {"unread", check_unread, 1, false, 8000, NULL, NULL},
    {"fork", check_fork, 1, false, 8000, NULL, NULL},
    {"helper", check_helper, 1, false, 8000, NULL, NULL},
    {"monitored", check_monitored, 1, false, 1500, NULL, NULL},
    {"origin", check_origin, 15, false, 8000, NULL, NULL},
    {"abort", check_abort, 1, false, 8000, NULL, NULL},
    {"given-up", check_given_up, 5, false, 8000, "RINGCOMM_PROTOCOL", "get=always"},
    {"sent", check_sent, 5, false, 8000, "RINGCOMM_PROTOCOL", "get=always"},
    {"zero-copy", check_zero_copy, 1, false, 8000, "RINGCOMM_SLOTS", "256"},
    {"order", check_order, 1, false, 8000, NULL, NULL},
    {"zero", check_zero, 1, true, 8000, NULL, NULL},
};

static int case_run(const struct kase *kase, const char *transport, int n) {
    const struct ranks ranks = {.n = n,
                                .threads = kase->threads,
                                .transport = transport,
                                .timeout_ms = kase->timeout_ms,
                                .keep = true};
    int errors = 0;
    if (kase->fn == check_zero_copy)
        setenv("RINGCOMM_LOG", "debug", 1);
    if (kase->variable)
        setenv(kase->variable, kase->value, 1);
    for (int k = 0; k < kase->runs && errors == 0; k++)
        errors = ranks_run(&ranks, kase->fn, NULL);
    if (kase->fn == check_helper) /* one rank was killed on purpose */
        errors = *named != n - 1;
    return errors;
}

int main(int argc, char **argv) {
    void *shared =
        mmap(NULL, sizeof(*named), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc != 4 || shared == MAP_FAILED) {
        fprintf(stderr, "usage: contract CASE TRANSPORTS RANKS\n");
        return 2;
    }
    named = shared;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            return case_run(&cases[i], argv[2], atoi(argv[3])) != 0;
    return 2;
}
