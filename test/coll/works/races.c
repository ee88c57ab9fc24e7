/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rare races between the threads of a communicator. This file replaces the functions that the
 * library calls at those moments, and waits there for the other thread or acts in its place. Also
 * what a communicator caches for later calls.
 *
 *     races wake|any|failed|again|kept|fork|leave|lost|reason
 */
#include "../ranks.h"
#include "clock.h"
#include "deadline.h"
#include "diagnosis.h"
#include "drive.h"
#include "exec.h"
#include "notice.h"
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

rcmi_deadline __real_rcmi_comm_check_deadlines(rcm_comm *comm);
void __real_rcmi_node_sleep_until(struct rcmi_node *node, struct rcmi_sleep *sleep,
                                  rcmi_deadline deadline);
void __real_rcmi_node_sleep_begin(struct rcmi_node *node, struct rcmi_sleep *sleep);
void __real_rcmi_node_ring(struct rcmi_node *node);
void __real_rcmi_call_log_add(struct rcmi_call_log *log, const struct rcmi_call_entry *entry);
rcm_status __real_rcmi_run_start(struct rcmi_exec *exec, const struct rcmi_bind *bind,
                                 struct rcmi_run **ret_run);
bool __real_rcmi_notice_close(struct rcm_work *work, struct rcmi_notices *notices);
rcmi_deadline __wrap_rcmi_comm_check_deadlines(rcm_comm *comm);
void __wrap_rcmi_node_sleep_until(struct rcmi_node *node, struct rcmi_sleep *sleep,
                                  rcmi_deadline deadline);
void __wrap_rcmi_node_sleep_begin(struct rcmi_node *node, struct rcmi_sleep *sleep);
void __wrap_rcmi_node_ring(struct rcmi_node *node);
void __wrap_rcmi_call_log_add(struct rcmi_call_log *log, const struct rcmi_call_entry *entry);
rcm_status __wrap_rcmi_run_start(struct rcmi_exec *exec, const struct rcmi_bind *bind,
                                 struct rcmi_run **ret_run);
bool __wrap_rcmi_notice_close(struct rcm_work *work, struct rcmi_notices *notices);

static pthread_t user; /* the thread that calls the library */

/* ---- A thread begins to wait while the loop thread makes progress ---------------------------- */

enum { PATIENCE_MS = 10000, LATE_NS = 300000000 };

static _Atomic bool hold;         /* holds the loop thread, once, at the end of a pass */
static _Atomic bool held, asleep; /* it is held; the user's thread is about to sleep or has slept */
static _Atomic int64_t slept_ns;  /* duration of the next sleep */
static _Atomic int rings, rings_slept; /* so far; after that sleep */

static void await(const _Atomic bool *flag) {
    for (int i = 0; i < PATIENCE_MS && !atomic_load(flag); i++)
        usleep(1000);
}

rcmi_deadline __wrap_rcmi_comm_check_deadlines(rcm_comm *comm) {
    if (!pthread_equal(pthread_self(), user) && atomic_exchange(&hold, false)) {
        atomic_store(&held, true);
        await(&asleep);
        atomic_store(&rings, 0);
    }
    return __real_rcmi_comm_check_deadlines(comm);
}

void __wrap_rcmi_node_ring(struct rcmi_node *node) {
    atomic_fetch_add(&rings, 1);
    __real_rcmi_node_ring(node);
}

void __wrap_rcmi_node_sleep_until(struct rcmi_node *node, struct rcmi_sleep *sleep,
                                  rcmi_deadline deadline) {
    const bool first = atomic_load(&held) && pthread_equal(pthread_self(), user) &&
                       !atomic_exchange(&asleep, true);
    const int64_t began = rcmi_now_ns();
    __real_rcmi_node_sleep_until(node, sleep, deadline);
    if (!first)
        return;
    atomic_store(&slept_ns, rcmi_now_ns() - began);
    atomic_store(&rings_slept, atomic_load(&rings));
}

/* The loop thread wakes it when it stops, because the loop thread left completions for the next
 * pass. */
static int check_wake(rcm_comm *comm, void *arg) {
    float in = 0, out = 7;
    rcm_work *work = NULL;
    int errors = 0;
    (void)arg;
    user = pthread_self();
    atomic_store(&hold, true);
    CHECK(errors, rcm_irecv(comm, &in, 1, RCM_FLOAT32, 0, 5, &work) == RCM_OK, "%s",
          rcm_last_error());
    await(&held);
    CHECK(errors, atomic_load(&held), "the loop thread makes no progress");
    CHECK(errors, rcm_work_wait(work, 900) == RCM_PENDING, "%s", rcm_last_error());
    CHECK(errors, atomic_load(&asleep), "the thread did not sleep");
    CHECK(errors, atomic_load(&slept_ns) < LATE_NS || atomic_load(&rings_slept) > 0,
          "the thread slept for %.0f ms without a wake-up", (double)atomic_load(&slept_ns) / 1e6);
    CHECK(errors, rcm_send(comm, &out, 1, RCM_FLOAT32, 0, 5, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_work_wait(work, -1) == RCM_OK && in == out, "%s", rcm_last_error());
    rcm_work_free(work);
    return errors;
}

static int wake_run(void) {
    const struct ranks ranks = {.n = 1, .transport = "shm"};
    return ranks_run(&ranks, check_wake, NULL);
}

/* ---- One of several works completes when a thread is about to sleep -------------------------- */

enum { ANY_WAIT_MS = 3000 };

static rcm_comm *completes; /* a receive of it completes when the next sleep begins; NULL: none */

void __wrap_rcmi_node_sleep_begin(struct rcmi_node *node, struct rcmi_sleep *sleep) {
    rcm_comm *comm = pthread_equal(pthread_self(), user) ? completes : NULL;
    static const float sent = 7;
    if (comm) {
        completes = NULL;
        (void)!rcm_send(comm, &sent, 1, RCM_FLOAT32, 0, 5, NULL, NULL);
    }
    __real_rcmi_node_sleep_begin(node, sleep);
}

/* The completion that it found just before sleeping is not lost. */
static int check_any(rcm_comm *comm, void *arg) {
    float in = 0;
    rcm_work *work = NULL;
    size_t index = 7;
    int errors = 0;
    (void)arg;
    user = pthread_self();
    CHECK(errors, rcm_irecv(comm, &in, 1, RCM_FLOAT32, 0, 5, &work) == RCM_OK, "%s",
          rcm_last_error());
    completes = comm;
    const int64_t began = rcmi_now_ns();
    CHECK(errors, rcm_work_wait_any(&work, 1, ANY_WAIT_MS, &index) == RCM_OK && index == 0, "%s",
          rcm_last_error());
    const int64_t took = rcmi_now_ns() - began;
    CHECK(errors, took < ANY_WAIT_MS * INT64_C(900000), "the wait took %.0f ms",
          (double)took / 1e6);
    CHECK(errors, !completes && in == 7, "the thread did not sleep, or received %g", (double)in);
    rcm_work_free(work);
    return errors;
}

static int any_run(void) {
    const struct ranks ranks = {.n = 1, .transport = "shm"};
    return ranks_run(&ranks, check_any, NULL);
}

/* ---- A communicator fails during a call ------------------------------------------------------ */

static rcm_comm *fails;      /* at the next call; NULL: none */
static bool failed, started; /* it has failed; a run started all the same */

/* The call has checked the communicator but not started its run. Another thread that waited closes
 * the channels. */
void __wrap_rcmi_call_log_add(struct rcmi_call_log *log, const struct rcmi_call_entry *entry) {
    rcm_comm *comm = fails;
    __real_rcmi_call_log_add(log, entry);
    fails = NULL;
    if (!comm)
        return;
    (void)!rcm_abort(comm, "in between");
    rcmi_comm_kick(comm);
    failed = true;
}

rcm_status __wrap_rcmi_run_start(struct rcmi_exec *exec, const struct rcmi_bind *bind,
                                 struct rcmi_run **ret_run) {
    if (!failed)
        return __real_rcmi_run_start(exec, bind, ret_run);
    started = true; /* its channels are closed */
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "a run starts on closed channels");
}

/* On rank 0 no run starts, and the call returns the reason. A call of rank 1 returns it too. */
static int check_failed(rcm_comm *comm, void *arg) {
    enum { CALLS = 4 };
    float in[4] = {1, 2, 3, 4}, out[4];
    rcm_status status = RCM_OK;
    int errors = 0, done = 0;
    (void)arg;
    for (; done < CALLS && status == RCM_OK; done++) {
        fails = rcm_rank(comm) == 0 && done + 1 == CALLS ? comm : NULL;
        status = rcm_all_reduce(comm, in, out, 4, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    }
    CHECK(errors, status == RCM_ERR_ABORTED && strstr(rcm_last_error(), "in between"), "%s: %s",
          rcm_status_name(status), rcm_last_error());
    CHECK(errors, done == CALLS || rcm_rank(comm) > 0, "call %d failed", done);
    CHECK(errors, !started, "a run started on closed channels");
    CHECK(errors, rcm_destroy(comm) == RCM_ERR_ABORTED, "%s", rcm_last_error());
    return errors;
}

static int failed_run(const char *transport) {
    const struct ranks ranks = {.n = 2, .transport = transport, .keep = true};
    setenv("RINGCOMM_LOG", "error", 0);
    return ranks_run(&ranks, check_failed, NULL);
}

/* ---- A work is started again while the loop thread completes it ------------------------------ */

enum { AGAIN_RUNS = 4, CLOSE_US = 30000 };

static _Atomic bool closes_late; /* delays the loop thread after the work's status is final */
static _Atomic int closed_late;

bool __wrap_rcmi_notice_close(struct rcm_work *work, struct rcmi_notices *notices) {
    if (atomic_load(&closes_late) && !pthread_equal(pthread_self(), user)) {
        atomic_fetch_add(&closed_late, 1);
        usleep(CLOSE_US);
    }
    return __real_rcmi_notice_close(work, notices);
}

static void call_again(void *arg, rcm_status status) {
    atomic_fetch_add((_Atomic int *)arg, status == RCM_OK ? 1 : 1000);
}

/* Rank 1's messages come one by one. */
static int again_peer(rcm_comm *comm) {
    char byte = 0;
    int errors = 0;
    for (int run = 0; run < AGAIN_RUNS; run++)
        CHECK(errors,
              rcm_recv(comm, &byte, 1, RCM_UINT8, 0, 6, NULL, NULL) == RCM_OK &&
                  rcm_send(comm, &byte, 1, RCM_UINT8, 0, 5, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
    return errors;
}

/* Each callback belongs to its own run. */
static int check_again(rcm_comm *comm, void *arg) {
    struct rcm_call call = RCM_CALL_INIT;
    _Atomic int calls = 0;
    rcm_work *work = NULL;
    char byte = 0;
    int errors = 0;
    (void)arg;
    if (rcm_rank(comm) > 0)
        return again_peer(comm);
    user = pthread_self();
    call.flags = RCM_PERSISTENT;
    CHECK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, 1, 5, &call, &work) == RCM_OK, "%s",
          rcm_last_error());
    atomic_store(&closes_late, true);
    for (int run = 0; run < AGAIN_RUNS && errors == 0; run++) {
        CHECK(errors,
              rcm_work_start(work) == RCM_OK &&
                  rcm_work_on_complete(work, call_again, &calls) == RCM_OK &&
                  rcm_send(comm, &byte, 1, RCM_UINT8, 1, 6, NULL, NULL) == RCM_OK,
              "run %d: %s", run, rcm_last_error());
        for (int i = 0; i < PATIENCE_MS && rcm_work_status(work) == RCM_PENDING; i++)
            usleep(1000);
    }
    atomic_store(&closes_late, false);
    CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
    for (int i = 0; i < PATIENCE_MS && atomic_load(&calls) < AGAIN_RUNS; i++)
        usleep(1000);
    CHECK(errors, atomic_load(&calls) == AGAIN_RUNS, "%d calls", atomic_load(&calls));
    CHECK(errors, atomic_load(&closed_late) > 0, "the loop thread completed no work");
    rcm_work_free(work);
    return errors;
}

static int again_run(void) {
    const struct ranks ranks = {.n = 2, .transport = "shm"};
    return ranks_run(&ranks, check_again, NULL);
}

/* ---- Memory cached for later calls ----------------------------------------------------------- */

enum { KEPT_FLOATS = 1 << 20, KEPT_MOST = 22 << 20 };

static size_t heap_bytes(void) {
    const struct mallinfo2 heap = mallinfo2(); /* zero under a sanitizer */
    return heap.uordblks + heap.hblkhd;
}

static rcm_status kept_call(rcm_comm *comm, int i, const struct rcm_call *call, const float *in,
                            float *out) {
    const int roots = rcm_size(comm);
    if (i < roots)
        return rcm_reduce(comm, in, out, KEPT_FLOATS, RCM_FLOAT32, RCM_SUM, i, call, NULL);
    if (i == roots)
        return rcm_scan(comm, in, out, KEPT_FLOATS, RCM_FLOAT32, RCM_SUM, call, NULL);
    return rcm_exscan(comm, in, out, KEPT_FLOATS, RCM_FLOAT32, RCM_SUM, call, NULL);
}

/* The scratch of large sums by many plans does not add up. */
static int check_kept(rcm_comm *comm, void *arg) {
    static const char *const algorithms[] = {"binomial", "chain", "recursive_doubling"};
    float *in = calloc(KEPT_FLOATS, sizeof *in), *out = calloc(KEPT_FLOATS, sizeof *out);
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0, done = 0;
    (void)arg;
    if (!in || !out)
        abort();
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    const size_t before = heap_bytes();
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++)
        for (int i = 0; i < rcm_size(comm) + 2; i++) {
            call.algorithm = algorithms[a];
            done += kept_call(comm, i, &call, in, out) == RCM_OK;
        }
    const size_t more = heap_bytes() - before;
    CHECK(errors, done > rcm_size(comm), "only %d calls", done);
    CHECK(errors, more < KEPT_MOST, "rank %d caches %zu bytes", rcm_rank(comm), more);
    free(in);
    free(out);
    return errors;
}

static int kept_run(void) {
    const struct ranks ranks = {.n = 16, .transport = "shm"};
    setenv("RINGCOMM_SLOT_BYTES", "1M", 1);
    return ranks_run(&ranks, check_kept, NULL);
}

/* ---- A fork while another thread leaves ------------------------------------------------------ */

struct rcmi_engine;
void __real_rcmi_engine_hurry(struct rcmi_engine *engine);
void __wrap_rcmi_engine_hurry(struct rcmi_engine *engine);

static bool forks; /* forks while exit leaves the communicator */
static rcm_comm
    *aborts_in_leave; /* is aborted by another rank's failure during the leave; NULL: none */

/* Initializes and leaves a communicator of its own. */
static void child_run(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm = NULL;
    rcm_store *store;
    forks = false;
    alarm(PATIENCE_MS / 1000);
    options.rank = 0;
    options.world_size = 1;
    if (rcm_store_open("hash:", 1000, &store) != RCM_OK)
        _exit(2);
    options.store = store;
    _exit(rcm_init(&options, &comm) == RCM_OK && rcm_leave(comm) == RCM_OK ? 0 : 3);
}

void __wrap_rcmi_engine_hurry(struct rcmi_engine *engine) {
    int status = 0;
    const pid_t child = forks ? fork() : 0;
    if (forks && child == 0)
        child_run();
    if (forks && (waitpid(child, &status, 0) != child || status != 0)) {
        fprintf(stderr, "the child ends with 0x%x\n", (unsigned)status);
        _exit(1);
    }
    if (aborts_in_leave)
        (void)!rcm_abort(aborts_in_leave, "it has left");
    __real_rcmi_engine_hurry(engine);
}

static int exit_with_fork(rcm_comm *comm, void *arg) {
    (void)comm;
    (void)arg;
    forks = true;
    exit(0);
}

static int fork_run(void) {
    const struct ranks ranks = {.n = 1, .transport = "shm", .keep = true};
    return ranks_run(&ranks, exit_with_fork, NULL);
}

static int check_leave(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    aborts_in_leave = comm;
    CHECK(errors, rcm_leave(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

static int leave_run(void) {
    const struct ranks ranks = {.n = 1, .transport = "shm", .keep = true};
    return ranks_run(&ranks, check_leave, NULL);
}

/* ---- A link is lost, and its channels get the report late ------------------------------------ */

struct rcmi_link;
void __real_rcmi_channels_link_down(struct rcmi_link *link);
void __wrap_rcmi_channels_link_down(struct rcmi_link *link);

enum { DOWN_US = 1000, DOWN_MOST = 2000 };

static rcm_comm *down_late; /* the channels of this communicator get the report late; NULL: none */

void __wrap_rcmi_channels_link_down(struct rcmi_link *link) {
    struct rcm_error error = RCM_ERROR_INIT;
    for (int i = 0; down_late && i < DOWN_MOST && rcm_comm_error(down_late, &error) == RCM_OK; i++)
        usleep(DOWN_US);
    __real_rcmi_channels_link_down(link);
}

/* Rank 1 dies while rank 0 waits for it, later than sent messages can be in flight. */
static int check_lost(rcm_comm *comm, void *arg) {
    struct rcm_error error = RCM_ERROR_INIT;
    char byte = 0;
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    if (rcm_rank(comm) == 1) {
        usleep(LATE_NS / 1000);
        _exit(0);
    }
    down_late = comm;
    CHECK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, 1, 5, NULL, NULL) == RCM_ERR_PEER, "%s",
          rcm_last_error());
    CHECK(errors, rcm_comm_error(comm, &error) == RCM_ERR_PEER && error.origin == 1, "origin %d",
          error.origin);
    CHECK(errors, strstr(error.text, "lost rank 1") && !strstr(error.text, "left"), "%s",
          error.text);
    CHECK(errors, rcm_destroy(comm) == RCM_ERR_PEER, "%s", rcm_last_error());
    return errors;
}

static int lost_run(void) {
    const struct ranks ranks = {.n = 2, .transport = "shm", .keep = true};
    setenv("RINGCOMM_LOG", "error", 0);
    return ranks_run(&ranks, check_lost, NULL);
}

/* ---- A rank fails and exits while another one is slow to set up its link --------------------- */

struct rcmi_blob;
rcm_status __real_rcmi_setup_on_offer(struct rcmi_link *link, struct rcmi_blob *blob);
rcm_status __wrap_rcmi_setup_on_offer(struct rcmi_link *link, struct rcmi_blob *blob);

enum { SLOW_US = 700000 };

static bool slow_to_link;

rcm_status __wrap_rcmi_setup_on_offer(struct rcmi_link *link, struct rcmi_blob *blob) {
    if (slow_to_link)
        usleep(SLOW_US);
    return __real_rcmi_setup_on_offer(link, blob);
}

/* Rank 1 gets the reason, not that rank 0 is gone. */
static int check_reason(rcm_comm *comm, void *arg) {
    char byte = 0;
    rcm_work *work = NULL;
    int errors = 0;
    (void)arg;
    slow_to_link = rcm_rank(comm) == 1;
    if (rcm_rank(comm) == 0) {
        CHECK(errors, rcm_isend(comm, &byte, 1, RCM_UINT8, 1, 5, &work) == RCM_OK, "%s",
              rcm_last_error());
        usleep(SLOW_US / 10);
        CHECK(errors, rcm_abort(comm, "no more") == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(work);
    } else {
        CHECK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, 0, 6, NULL, NULL) == RCM_ERR_ABORTED,
              "%s", rcm_last_error());
        CHECK(errors, strstr(rcm_last_error(), "no more"), "%s", rcm_last_error());
    }
    CHECK(errors, rcm_destroy(comm) == RCM_ERR_ABORTED, "%s", rcm_last_error());
    return errors;
}

static int reason_run(void) {
    const struct ranks ranks = {.n = 2, .transport = "tcp", .keep = true};
    setenv("RINGCOMM_LOG", "error", 0);
    return ranks_run(&ranks, check_reason, NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "wake") == 0)
        return wake_run() != 0;
    if (strcmp(what, "any") == 0)
        return any_run() != 0;
    if (strcmp(what, "failed") == 0)
        return failed_run("shm") + failed_run("tcp") != 0;
    if (strcmp(what, "again") == 0)
        return again_run() != 0;
    if (strcmp(what, "kept") == 0)
        return kept_run() != 0;
    if (strcmp(what, "fork") == 0)
        return fork_run() != 0;
    if (strcmp(what, "leave") == 0)
        return leave_run() != 0;
    if (strcmp(what, "lost") == 0)
        return lost_run() != 0;
    if (strcmp(what, "reason") == 0)
        return reason_run() != 0;
    fprintf(stderr, "usage: races wake|any|failed|again|kept|fork|leave|lost|reason\n");
    return 2;
}
