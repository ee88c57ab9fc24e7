/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works: waiting for several, callbacks, descriptors, the completion queue, calls that return while
 * they wait, error records, persistent operations. All cases run in one set of ranks:
 *
 *     works TRANSPORT processes|threads RANKS
 */
#include "works.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 200, FEW = 8, TAG = 100, GO = 1 };

static double clock_seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_ms(int ms) {
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static bool readable(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1 && p.revents == POLLIN;
}

/* A sum of all ranks. */
static rcm_status sum(rcm_comm *comm, int32_t *value, const struct rcm_call *call,
                      rcm_work **ret_work) {
    return rcm_all_reduce(comm, value, value, 1, RCM_INT32, RCM_SUM, call, ret_work);
}

static rcm_status send_byte(rcm_comm *comm, int to, uint64_t tag) {
    char byte = 0;
    return rcm_send(comm, &byte, 1, RCM_UINT8, to, tag, NULL, NULL);
}

static rcm_status recv_byte(rcm_comm *comm, int from, uint64_t tag) {
    char byte;
    return rcm_recv(comm, &byte, 1, RCM_UINT8, from, tag, NULL, NULL);
}

static void free_all(rcm_work **works, size_t n) {
    for (size_t i = 0; i < n; i++) {
        rcm_work_free(works[i]);
        works[i] = NULL;
    }
}

/* ---- Waiting for all or any ------------------------------------------------------------------ */

static int check_all(rcm_comm *comm) {
    rcm_work *works[MANY + 2] = {NULL};
    int32_t values[MANY];
    int errors = 0;
    for (int i = 0; i < MANY; i++) {
        values[i] = i;
        CHECK_OK(errors, sum(comm, &values[i], NULL, &works[i + 1]));
    }
    CHECK_OK(errors, rcm_work_wait_all(works, MANY + 2, -1));
    CHECK_OK(errors, rcm_work_wait_all(works, MANY + 2, 0));
    for (int i = 0; i < MANY; i++)
        CHECK(errors, values[i] == i * rcm_size(comm), "sum %d is %d", i, values[i]);
    free_all(works, MANY + 2);
    CHECK_OK(errors, rcm_work_wait_all(works, MANY + 2, -1)); /* all NULL */
    CHECK_OK(errors, rcm_work_wait_all(NULL, 0, -1));
    CHECK_REFUSED(errors, rcm_work_wait_all(NULL, 3, -1), "works is NULL and n is 3");
    return errors;
}

/* One message is longer than its buffer. All works are complete, and the wait returns that
 * error. */
static int check_all_failed(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    rcm_work *works[3] = {NULL};
    char in[3], out[8] = {0};
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_OK(errors, rcm_irecv(comm, &in[i], 1, RCM_UINT8, from, TAG + i, &works[i]));
        CHECK(errors, rcm_work_error(works[i], &error) == RCM_PENDING,
              "an error of a pending work");
    }
    CHECK(errors, rcm_work_wait_all(works, 3, 0) == RCM_PENDING, "%s", rcm_last_error());
    CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
    for (uint64_t i = 0; i < 3; i++)
        CHECK_OK(errors, rcm_send(comm, out, i == 1 ? 8 : 1, RCM_UINT8, to, TAG + i, NULL, NULL));
    CHECK(errors, rcm_work_wait_all(works, 3, -1) == RCM_ERR_TRUNCATED && error_has("is 8 bytes"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_work_status(works[2]) == RCM_OK, "the last work is not complete");
    CHECK(errors, rcm_work_error(works[1], &error) == RCM_ERR_TRUNCATED, "%s", rcm_last_error());
    CHECK(errors,
          error.status == RCM_ERR_TRUNCATED && error.origin == from && error.sequence == 0 &&
              strcmp(error.operation, "recv") == 0 && strstr(error.text, "is 8 bytes"),
          "error: %d of %d in %s: %s", error.status, error.origin, error.operation, error.text);
    CHECK(errors, rcm_work_error(works[0], &error) == RCM_OK && error.text[0] == '\0', "%s",
          error.text);
    free_all(works, 3);
    return errors;
}

/* Each wait finds the work whose message arrives next. A waiting thread uses no CPU. */
static int check_any(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    rcm_work *works[FEW + 1] = {NULL};
    char in[FEW], out = 0;
    size_t index = 77;
    int errors = 0;
    for (int i = 0; i < FEW; i++)
        CHECK_OK(errors, rcm_irecv(comm, &in[i], 1, RCM_UINT8, from, TAG + (uint64_t)i, &works[i]));
    CHECK(errors, rcm_work_test_any(works, FEW + 1, &index) == RCM_PENDING && index == 77, "%s",
          rcm_last_error());
    CHECK(errors, rcm_work_wait_any(works, FEW + 1, 10, &index) == RCM_PENDING && index == 77, "%s",
          rcm_last_error());
    for (int i = 0; i < FEW; i++) {
        const size_t next = (size_t)(i * 3 % FEW);
        rcm_work *sent;
        CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
        CHECK_OK(errors, rcm_isend(comm, &out, 1, RCM_UINT8, to, TAG + next, &sent));
        if (i % 2)
            CHECK_OK(errors, rcm_work_wait_any(works, FEW + 1, -1, &index));
        while (i % 2 == 0 && rcm_work_test_any(works, FEW + 1, &index) == RCM_PENDING)
            ;
        CHECK(errors, index == next, "%zu came, not %zu", index, next);
        CHECK_OK(errors, rcm_work_wait(sent, -1));
        rcm_work_free(sent);
        rcm_work_free(works[next]);
        works[next] = NULL;
    }
    CHECK(errors, rcm_work_wait_any(works, FEW + 1, -1, &index) == RCM_OK && index == FEW + 1,
          "of none %zu", index);
    CHECK(errors, rcm_work_test_any(works, 0, &index) == RCM_OK && index == 0, "of 0 %zu", index);
    CHECK_REFUSED(errors, rcm_work_wait_any(works, 1, -1, NULL), "ret_index is NULL");
    CHECK_REFUSED(errors, rcm_work_test_any(NULL, 2, &index), "works is NULL and n is 2");
    return errors;
}

/* Works of two worlds of this process. */
static int check_any_worlds(rcm_comm *comm, rcm_comm *second) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    rcm_work *works[2] = {NULL};
    rcm_comm *const comms[2] = {comm, second};
    char in[2];
    size_t index = 77;
    int errors = 0;
    for (int i = 0; i < 2; i++)
        CHECK_OK(errors, rcm_irecv(comms[i], &in[i], 1, RCM_UINT8, from, TAG, &works[i]));
    const double cpu = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    CHECK(errors, rcm_work_wait_any(works, 2, 200, &index) == RCM_PENDING, "%s", rcm_last_error());
    CHECK(errors, clock_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu < 0.1, "a wait of 0.2 s took %g s",
          clock_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu);
    for (int i = 1; i >= 0; i--) {
        CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
        CHECK_OK(errors, send_byte(comms[i], to, TAG));
        CHECK_OK(errors, rcm_work_wait_any(works, 2, -1, &index));
        CHECK(errors, index == (size_t)i, "%zu came, not %d", index, i);
        rcm_work_free(works[i]);
        works[i] = NULL;
    }
    return errors;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

struct called {
    pthread_t caller;
    _Atomic int calls;
    int order[2];
    _Atomic int ok;
    rcm_work *pending;
    rcm_comm *comm;
    int32_t value;
    rcm_work *issued;
};

static void call_back(void *arg, rcm_status status) {
    struct called *called = arg;
    atomic_fetch_add(&called->ok,
                     status == RCM_OK && !pthread_equal(called->caller, pthread_self()));
    atomic_fetch_add(&called->calls, 1);
}

static void call_second(void *arg, rcm_status status) {
    struct called *called = arg;
    called->order[1] = atomic_load(&called->calls);
    call_back(arg, status);
}

static void call_at_once(void *arg, rcm_status status) {
    struct called *called = arg;
    called->ok = status == RCM_OK && pthread_equal(called->caller, pthread_self());
    atomic_fetch_add(&called->calls, 1);
}

/* Calls of several operations that would wait are rejected, and issue none of them. */
static bool refuses_several(struct called *called) {
    const uint64_t before = rcm_comm_sequence(called->comm);
    const struct rcm_part part = {&called->value, &called->value, 1, RCM_INT32};
    const struct rcm_transfer to_self = {.kind = RCM_TRANSFER_SEND,
                                         .peer = rcm_rank(called->comm),
                                         .buffer = &called->value,
                                         .count = 1,
                                         .tag = TAG + 2,
                                         .dtype = RCM_INT32};
    return rcm_coalesced(called->comm, RCM_ALL_REDUCE, &part, 1, RCM_SUM, 0, NULL, NULL) ==
               RCM_ERR_INVALID &&
           error_has("may not wait") && rcm_comm_sequence(called->comm) == before &&
           rcm_batch(called->comm, &to_self, 1, NULL, NULL) == RCM_ERR_INVALID &&
           error_has("may not wait");
}

/* What a callback may and may not do. */
static void call_deep(void *arg, rcm_status status) {
    struct called *called = arg;
    size_t index;
    called->ok = status == RCM_OK && rcm_work_wait(called->pending, 0) == RCM_PENDING &&
                 rcm_work_wait(called->pending, -1) == RCM_ERR_INVALID &&
                 error_has("may not wait") &&
                 rcm_work_wait_any(&called->pending, 1, 5, &index) == RCM_ERR_INVALID &&
                 rcm_destroy(called->comm) == RCM_ERR_INVALID && error_has("rcm_destroy") &&
                 refuses_several(called) &&
                 sum(called->comm, &called->value, NULL, &called->issued) == RCM_OK;
    atomic_fetch_add(&called->calls, 1);
}

static void await_calls(const struct called *called, int calls) {
    for (int i = 0; i < 20000 && atomic_load(&called->calls) < calls; i++)
        sleep_ms(1);
}

static int check_callbacks(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    struct called called = {.caller = pthread_self()}, again = {.caller = pthread_self()};
    rcm_work *work;
    char byte;
    int errors = 0;
    CHECK_OK(errors, rcm_irecv(comm, &byte, 1, RCM_UINT8, from, TAG, &work));
    CHECK_OK(errors, rcm_work_on_complete(work, call_back, &called));
    CHECK_OK(errors, rcm_work_on_complete(work, call_second, &called));
    CHECK(errors, atomic_load(&called.calls) == 0, "called before it was complete");
    CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
    CHECK_OK(errors, send_byte(comm, to, TAG));
    await_calls(&called, 2);
    CHECK(errors, atomic_load(&called.ok) == 2 && called.order[1] == 1, "%d of %d calls are right",
          atomic_load(&called.ok), atomic_load(&called.calls));
    CHECK_OK(errors, rcm_work_wait(work, -1));
    CHECK_OK(errors, rcm_work_on_complete(work, call_at_once, &again));
    CHECK(errors, atomic_load(&again.calls) == 1 && again.ok == 1, "%d calls at once",
          atomic_load(&again.calls));
    CHECK_REFUSED(errors, rcm_work_on_complete(work, NULL, NULL), "fn is NULL");
    CHECK_REFUSED(errors, rcm_work_on_complete(NULL, call_back, NULL), "work is NULL");
    rcm_work_free(work);
    return errors;
}

static int check_callback_issues(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    struct called called = {.comm = comm, .value = 1};
    rcm_work *work;
    char bytes[2];
    int errors = 0;
    CHECK_OK(errors, rcm_irecv(comm, &bytes[0], 1, RCM_UINT8, from, TAG, &work));
    CHECK_OK(errors, rcm_irecv(comm, &bytes[1], 1, RCM_UINT8, from, TAG + 1, &called.pending));
    CHECK_OK(errors, rcm_work_on_complete(work, call_deep, &called));
    CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
    /* In the barrier a rank issues operations itself, so its callback may not. */
    CHECK_OK(errors, send_byte(comm, from, TAG + 3));
    CHECK_OK(errors, recv_byte(comm, to, TAG + 3));
    CHECK_OK(errors, send_byte(comm, to, TAG));
    await_calls(&called, 1);
    CHECK(errors, called.ok, "rank %d: in a callback: %s", me, rcm_last_error());
    CHECK_OK(errors, rcm_work_wait(called.issued, -1));
    CHECK(errors, called.value == n, "the callback's sum is %d", called.value);
    CHECK(errors, rcm_iprobe(comm, me, TAG + 2, NULL) == RCM_PENDING, "a refused batch was sent");
    CHECK_OK(errors, send_byte(comm, to, TAG + 1));
    CHECK_OK(errors, rcm_work_wait(called.pending, -1));
    rcm_work_free(called.pending);
    rcm_work_free(called.issued);
    rcm_work_free(work);
    return errors;
}

/* Detached works: each callback reports that its buffers are free. */
static int check_detach(rcm_comm *comm) {
    struct called called = {.caller = pthread_self()};
    int32_t values[MANY];
    int errors = 0;
    for (int i = 0; i < MANY; i++) {
        rcm_work *work;
        values[i] = i;
        CHECK_OK(errors, sum(comm, &values[i], NULL, &work));
        CHECK_OK(errors, rcm_work_detach(work, i % 2 ? call_back : call_second, &called));
    }
    await_calls(&called, MANY);
    CHECK(errors, atomic_load(&called.calls) == MANY, "%d of %d works were reported",
          atomic_load(&called.calls), MANY);
    for (int i = 0; i < MANY; i++)
        CHECK(errors, values[i] == i * rcm_size(comm), "sum %d is %d", i, values[i]);
    CHECK_REFUSED(errors, rcm_work_detach(NULL, call_back, NULL), "work is NULL");
    return errors;
}

/* ---- Descriptors and the completion queue ---------------------------------------------------- */

static int check_fd(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    rcm_work *work;
    char byte;
    int errors = 0, fd = -1, same = -1, late = -1;
    CHECK_OK(errors, rcm_irecv(comm, &byte, 1, RCM_UINT8, from, TAG, &work));
    CHECK_OK(errors, rcm_work_fd(work, &fd));
    CHECK_OK(errors, rcm_work_fd(work, &same));
    CHECK(errors, fd >= 0 && fd == same, "descriptors %d and %d", fd, same);
    CHECK(errors, fcntl(fd, F_GETFD) == FD_CLOEXEC, "descriptor %d is not closed by exec", fd);
    CHECK(errors, !readable(fd, 10), "readable before it is complete");
    CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
    CHECK_OK(errors, send_byte(comm, to, TAG));
    CHECK(errors, readable(fd, 20000) && readable(fd, 0), "not readable");
    CHECK(errors, rcm_work_status(work) == RCM_OK, "readable and not complete");
    rcm_work_free(work);
    CHECK(errors, fcntl(fd, F_GETFD) < 0 && errno == EBADF, "descriptor %d outlives its work", fd);
    CHECK_OK(errors, rcm_barrier(comm, NULL, &work));
    CHECK_OK(errors, rcm_work_wait(work, -1));
    CHECK_OK(errors, rcm_work_fd(work, &late));
    CHECK(errors, readable(late, 0), "not readable although complete");
    CHECK_REFUSED(errors, rcm_work_fd(work, NULL), "ret_fd is NULL");
    CHECK_REFUSED(errors, rcm_work_fd(NULL, &fd), "work is NULL");
    rcm_work_free(work);
    return errors;
}

/* Takes works from the queue until n have come. Each must be one of `works`, once. */
static int drain_queue(rcm_comm *comm, int fd, rcm_work **works, int n) {
    int errors = 0, came = 0;
    while (came < n && errors == 0) {
        rcm_work *work = NULL;
        CHECK(errors, readable(fd, 20000), "%d of %d came", came, n);
        while (errors == 0 && rcm_comm_next_completion(comm, &work) == RCM_OK) {
            int i = 0;
            while (i < n && works[i] != work)
                i++;
            CHECK(errors, i < n, "an unknown work was reported");
            CHECK(errors, rcm_work_status(work) == RCM_OK, "%s", rcm_last_error());
            rcm_work_free(work);
            if (i < n)
                works[i] = NULL;
            came++;
        }
    }
    return errors;
}

static int check_queue(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    rcm_work *works[MANY + 2] = {NULL}, *none = NULL, *freed;
    int32_t values[MANY] = {0};
    char in, out = 0;
    int errors = 0, fd = -1, same = -1;
    CHECK_REFUSED(errors, rcm_comm_next_completion(comm, &none), "has no completion queue");
    CHECK_OK(errors, rcm_comm_completions(comm, &fd));
    CHECK_OK(errors, rcm_comm_completions(comm, &same));
    CHECK(errors, fd == same && !readable(fd, 0), "descriptors %d and %d", fd, same);
    CHECK(errors, rcm_comm_next_completion(comm, &none) == RCM_AGAIN && !none, "one came");
    for (int i = 0; i < MANY; i++)
        CHECK_OK(errors, sum(comm, &values[i], NULL, &works[i]));
    CHECK_OK(errors, rcm_irecv(comm, &in, 1, RCM_UINT8, from, TAG, &works[MANY]));
    CHECK_OK(errors, rcm_isend(comm, &out, 1, RCM_UINT8, to, TAG, &works[MANY + 1]));
    errors += drain_queue(comm, fd, works, MANY + 2);
    for (int i = 0; i < 2; i++) { /* freed before and after it is complete */
        CHECK_OK(errors, rcm_barrier(comm, NULL, &freed));
        if (i == 1)
            CHECK(errors, readable(fd, 20000), "a barrier was not reported");
        rcm_work_free(freed);
    }
    CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
    sleep_ms(20);
    CHECK(errors, !readable(fd, 0) && rcm_comm_next_completion(comm, &none) == RCM_AGAIN,
          "a freed work was reported");
    CHECK_REFUSED(errors, rcm_comm_completions(comm, NULL), "ret_fd is NULL");
    CHECK_REFUSED(errors, rcm_comm_completions(NULL, &fd), "comm is NULL");
    CHECK_REFUSED(errors, rcm_comm_next_completion(comm, NULL), "ret_work is NULL");
    CHECK_OK(errors, rcm_barrier(comm, NULL, &works[0])); /* stays in the queue */
    rcm_work_free(works[0]);
    return errors;
}

/* ---- Calls that return while they wait ------------------------------------------------------- */

/* Rank 1 calls after rank 0's call has returned once. */
static int wait_interrupted(rcm_comm *comm, int32_t *value) {
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    int errors = 0;
    call.wait_ms = 20;
    if (rcm_rank(comm) == 1)
        CHECK_OK(errors, recv_byte(comm, 0, GO));
    if (rcm_rank(comm) != 0) {
        CHECK_OK(errors, sum(comm, value, NULL, NULL));
        return errors;
    }
    CHECK(errors, sum(comm, value, &call, &work) == RCM_PENDING && work, "%s", rcm_last_error());
    CHECK(errors, rcm_work_wait(work, 0) == RCM_PENDING, "complete without rank 1");
    CHECK_OK(errors, send_byte(comm, 1, GO));
    CHECK_OK(errors, rcm_work_wait(work, -1));
    rcm_work_free(work);
    return errors;
}

static int check_wait_ms(rcm_comm *comm) {
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    int32_t value = 1;
    const int n = rcm_size(comm);
    int errors = wait_interrupted(comm, &value);
    CHECK(errors, value == n, "the sum is %d", value);
    call.wait_ms = -1;
    for (int i = 0; i < FEW; i++) {
        work = (rcm_work *)&call; /* must be set to NULL */
        CHECK_OK(errors, sum(comm, &value, &call, &work));
        CHECK(errors, !work, "a call that waited returned a work");
    }
    return errors;
}

/* The same for messages, and for several collectives in one call. */
static int check_wait_ms_others(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    int32_t values[2] = {1, 2};
    const struct rcm_part parts[2] = {{&values[0], &values[0], 1, RCM_INT32},
                                      {&values[1], &values[1], 1, RCM_INT32}};
    char byte;
    int errors = 0;
    call.wait_ms = 10;
    CHECK(errors,
          rcm_recv(comm, &byte, 1, RCM_UINT8, from, TAG, &call, &work) == RCM_PENDING && work, "%s",
          rcm_last_error());
    CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
    CHECK_OK(errors, send_byte(comm, to, TAG));
    CHECK_OK(errors, rcm_work_wait(work, -1));
    rcm_work_free(work);
    call.wait_ms = -1;
    work = (rcm_work *)&call;
    CHECK_OK(errors, rcm_coalesced(comm, RCM_ALL_REDUCE, parts, 2, RCM_SUM, 0, &call, &work));
    CHECK(errors, !work && values[0] == n && values[1] == 2 * n, "%d and %d", values[0], values[1]);
    return errors;
}

/* ---- Sequence numbers ------------------------------------------------------------------------ */

static int check_sequence(rcm_comm *comm) {
    const uint64_t before = rcm_comm_sequence(comm);
    const int32_t mine = (int32_t)before;
    int32_t most;
    rcm_work *works[2];
    char byte;
    int errors = 0;
    CHECK_OK(errors, rcm_all_reduce(comm, &mine, &most, 1, RCM_INT32, RCM_MAX, NULL, NULL));
    CHECK(errors, most == mine && before > 0, "%d collectives here, %d elsewhere", mine, most);
    CHECK_OK(errors, rcm_barrier(comm, NULL, &works[0]));
    CHECK_OK(errors, rcm_irecv(comm, &byte, 1, RCM_UINT8, rcm_rank(comm), TAG, &works[1]));
    CHECK_OK(errors, send_byte(comm, rcm_rank(comm), TAG));
    CHECK(errors, rcm_work_sequence(works[0]) == before + 2 && rcm_work_sequence(works[1]) == 0,
          "numbers %d, %d", (int)rcm_work_sequence(works[0]), (int)rcm_work_sequence(works[1]));
    CHECK(errors, rcm_comm_sequence(comm) == before + 2 && rcm_work_sequence(NULL) == 0, "numbers");
    CHECK_OK(errors, rcm_work_wait_all(works, 2, -1));
    free_all(works, 2);
    return errors;
}

/* A persistent work enters the queue once per run. */
static int check_queue_again(rcm_comm *comm) {
    struct rcm_call call = RCM_CALL_INIT;
    int32_t value = 1;
    rcm_work *work = NULL, *came = NULL;
    int errors = 0, fd = -1;
    CHECK_OK(errors, rcm_comm_completions(comm, &fd));
    while (rcm_comm_next_completion(comm, &came) == RCM_OK) /* of earlier cases, freed by now */
        CHECK(errors, false, "a freed work was reported");
    call.flags = RCM_PERSISTENT;
    CHECK_OK(errors, sum(comm, &value, &call, &work));
    for (int run = 0; run < FEW; run++) {
        CHECK_OK(errors, rcm_work_start(work));
        if (run % 2)
            CHECK_OK(errors, rcm_work_wait(work, -1));
        if (run % 4 == 1) /* not taken out */
            continue;
        CHECK(errors, readable(fd, 20000), "run %d was not reported", run);
        CHECK(errors, rcm_comm_next_completion(comm, &came) == RCM_OK && came == work, "%s",
              rcm_last_error());
        CHECK(errors, rcm_comm_next_completion(comm, &came) == RCM_AGAIN,
              "run %d was reported twice", run);
    }
    rcm_work_free(work);
    return errors;
}

/* ---- End of the communicator ----------------------------------------------------------------- */

static void call_end(void *arg, rcm_status status) {
    struct called *called = arg;
    atomic_fetch_add(&called->ok, status == RCM_ERR_ABORTED);
    atomic_fetch_add(&called->calls, 1);
}

/* All notifications come also if the communicator fails, at the latest in rcm_destroy. */
static int check_abort(rcm_comm *comm) {
    const int n = rcm_size(comm), me = rcm_rank(comm);
    struct called called = {.calls = 0};
    struct rcm_error error = RCM_ERROR_INIT;
    rcm_work *works[4] = {NULL};
    char byte[2];
    size_t index = 77;
    int errors = 0, fd = -1;
    CHECK_OK(errors, rcm_irecv(comm, &byte[0], 1, RCM_UINT8, (me + 1) % n, TAG, &works[0]));
    CHECK_OK(errors, rcm_irecv(comm, &byte[1], 1, RCM_UINT8, (me + 1) % n, TAG, &works[2]));
    CHECK_OK(errors, rcm_work_on_complete(works[0], call_end, &called));
    CHECK_OK(errors, rcm_work_fd(works[0], &fd));
    CHECK_OK(errors, rcm_work_detach(works[2], call_end, &called));
    works[2] = NULL;
    if (me != 0)
        CHECK_OK(errors, send_byte(comm, 0, GO));
    for (int r = 1; me == 0 && r < n; r++)
        CHECK_OK(errors, recv_byte(comm, r, GO));
    if (me == 0)
        CHECK_OK(errors, rcm_abort(comm, "for once"));
    CHECK(errors, rcm_work_wait_any(works, 4, -1, &index) == RCM_ERR_ABORTED && index == 0, "%s",
          rcm_last_error());
    CHECK(errors, readable(fd, 20000), "not readable after an abort");
    CHECK(errors,
          rcm_work_error(works[0], &error) == RCM_ERR_ABORTED && error.origin == 0 &&
              strstr(error.text, "for once") && strcmp(error.operation, "recv") == 0,
          "%s of %d: %s", error.operation, error.origin, error.text);
    CHECK(errors, rcm_destroy(comm) == RCM_ERR_ABORTED, "%s", rcm_last_error());
    CHECK(errors, called.calls == 2 && called.ok == 2, "%d calls", atomic_load(&called.calls));
    CHECK(errors, rcm_work_error(works[0], &error) == RCM_ERR_ABORTED, "after rcm_destroy: %s",
          rcm_last_error());
    rcm_work_free(works[0]);
    return errors;
}

struct chain {
    rcm_comm *comm;
    int32_t value;
    _Atomic int left;
    _Atomic int failed;
};

static void chain_next(void *arg, rcm_status status) {
    struct chain *chain = arg;
    rcm_work *work;
    if (status != RCM_OK)
        atomic_fetch_add(&chain->failed, 1);
    if (atomic_fetch_sub(&chain->left, 1) <= 1)
        return;
    if (sum(chain->comm, &chain->value, NULL, &work) != RCM_OK ||
        rcm_work_detach(work, chain_next, chain) != RCM_OK)
        atomic_fetch_add(&chain->failed, 1);
}

static int check_one_chain(rcm_comm *comm) {
    struct chain chain = {.value = 1, .left = FEW};
    rcm_work *work;
    int errors = 0;
    int32_t expected = 1;
    CHECK_OK(errors, rcm_comm_duplicate(comm, NULL, &chain.comm));
    CHECK_OK(errors, sum(chain.comm, &chain.value, NULL, &work));
    CHECK_OK(errors, rcm_work_detach(work, chain_next, &chain));
    CHECK_OK(errors, rcm_destroy(chain.comm));
    for (int i = 0; i < FEW; i++)
        expected *= rcm_size(comm);
    CHECK(errors, atomic_load(&chain.left) == 0 && atomic_load(&chain.failed) == 0,
          "%d are missing, %d failed", atomic_load(&chain.left), atomic_load(&chain.failed));
    CHECK(errors, chain.value == expected, "%d, not %d", chain.value, expected);
    return errors;
}

/* rcm_destroy also waits for operations that callbacks issue meanwhile and that complete at
 * once. */
static int check_chain(rcm_comm *comm) {
    int errors = 0;
    for (int i = 0; i < FEW && errors == 0; i++)
        errors += check_one_chain(comm);
    return errors;
}

static int rank_run(rcm_comm *comm, void *arg) {
    const bool threads = *(const bool *)arg;
    rcm_comm *second = NULL;
    int errors = check_all(comm) + check_all_failed(comm) + check_any(comm);
    if (!threads) { /* threads share a store that only one world may use */
        CHECK_OK(errors, rcm_init(NULL, &second));
        errors += errors ? 0 : check_any_worlds(comm, second);
        CHECK_OK(errors, rcm_destroy(second));
    }
    errors += check_callbacks(comm) + check_callback_issues(comm) + check_detach(comm);
    errors += check_fd(comm) + check_wait_ms(comm) + check_wait_ms_others(comm);
    errors += check_sequence(comm) + check_persistent(comm) + check_queue(comm);
    errors += check_chain(comm) + check_queue_again(comm) + check_persistent(comm);
    return errors + check_abort(comm);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: works TRANSPORT processes|threads RANKS\n");
        return 2;
    }
    bool threads = strcmp(argv[2], "threads") == 0;
    const struct ranks ranks = {
        .n = atoi(argv[3]), .transport = argv[1], .threads = threads, .keep = true};
    return ranks_run(&ranks, rank_run, &threads) != 0;
}
