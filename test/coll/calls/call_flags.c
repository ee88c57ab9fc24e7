/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flags of a call that limit its duration, RCM_TRY_NOW and RCM_EXACT_TIMEOUT, and RCM_MATCH_ASYNC.
 *
 *     call_flags TRANSPORT RANKS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "../works/works.h"

enum { TAG = 5, GO = 6, MANY = 40 };

static const struct rcm_call now = {.size = sizeof now, .flags = RCM_TRY_NOW};
static rcm_work *const unset = (rcm_work *)&now; /* must be overwritten */

/* ---- RCM_TRY_NOW ----------------------------------------------------------------------------- */

/* Checks what a call with RCM_TRY_NOW returned, counts it if it was complete at once, and finishes
 * it. */
static int settle(const char *what, rcm_status status, rcm_work **at, int *at_once) {
    rcm_work *work = *at;
    int errors = 0;
    CHECK(errors, status == RCM_OK ? !work : status == RCM_PENDING && work && work != unset,
          "%s: %s, %s", what, rcm_status_name(status), rcm_last_error());
    *at_once += status == RCM_OK;
    if (errors == 0 && work)
        CHECK_OK(errors, rcm_work_wait(work, -1));
    if (errors == 0)
        rcm_work_free(work);
    return errors;
}

/* A communicator of one rank: all is complete at once. */
static int check_alone(rcm_comm *world) {
    const int me = rcm_rank(world);
    int32_t value = 3;
    char in = 0, out = 1;
    rcm_comm *alone = NULL;
    rcm_work *work = unset;
    int errors = 0, at_once = 0;
    CHECK_OK(errors, rcm_comm_subset(world, &me, 1, (uint64_t)me, NULL, &alone));
    if (errors)
        return errors;
    errors += settle("all_reduce",
                     rcm_all_reduce(alone, &value, &value, 1, RCM_INT32, RCM_SUM, &now, &work),
                     &work, &at_once);
    work = unset;
    errors += settle("barrier", rcm_barrier(alone, &now, &work), &work, &at_once);
    CHECK(errors, at_once == 2, "with one rank, %d of 2 collectives were complete at once",
          at_once);
    work = unset;
    errors +=
        settle("send", rcm_send(alone, &out, 1, RCM_UINT8, 0, TAG, &now, &work), &work, &at_once);
    work = unset;
    errors +=
        settle("recv", rcm_recv(alone, &in, 1, RCM_UINT8, 0, TAG, &now, &work), &work, &at_once);
    CHECK(errors, in == 1 && value == 3, "%d, %d", in, value);
    CHECK_OK(errors, rcm_destroy(alone));
    return errors;
}

/* A call that needs another rank returns a work, which makes progress without further calls. */
static int check_later(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    int32_t value = 1, parts_of[2] = {1, 2};
    const struct rcm_part parts[] = {{&parts_of[0], &parts_of[0], 1, RCM_INT32},
                                     {&parts_of[1], &parts_of[1], 1, RCM_INT32}};
    char in = 0, two = 0;
    rcm_work *work = unset;
    int errors = 0, at_once = 0;
    CHECK(errors,
          rcm_recv(comm, &in, 1, RCM_UINT8, from, TAG, &now, &work) == RCM_PENDING && work != unset,
          "%s", rcm_last_error());
    if (me != 0) { /* rank 0 has called nothing so far */
        rcm_work *sum = unset;
        CHECK(errors,
              rcm_all_reduce(comm, &value, &value, 1, RCM_INT32, RCM_SUM, &now, &sum) ==
                  RCM_PENDING,
              "%s", rcm_last_error());
        CHECK_OK(errors, rcm_send(comm, &two, 1, RCM_UINT8, 0, GO, NULL, NULL));
        CHECK_OK(errors, rcm_work_wait(sum, -1));
        rcm_work_free(sum);
    }
    for (int r = 1; me == 0 && r < n; r++)
        CHECK_OK(errors, rcm_recv(comm, &two, 1, RCM_UINT8, r, GO, NULL, NULL));
    if (me == 0)
        CHECK_OK(errors, rcm_all_reduce(comm, &value, &value, 1, RCM_INT32, RCM_SUM, NULL, NULL));
    CHECK(errors, value == n, "the sum is %d", value);
    CHECK_OK(errors, rcm_send(comm, &two, 1, RCM_UINT8, to, TAG, NULL, NULL));
    CHECK_OK(errors, rcm_work_wait(work, -1));
    rcm_work_free(work);
    work = unset;
    errors +=
        settle("coalesced", rcm_coalesced(comm, RCM_ALL_REDUCE, parts, 2, RCM_SUM, 0, &now, &work),
               &work, &at_once);
    CHECK(errors, parts_of[0] == n && parts_of[1] == 2 * n, "%d, %d", parts_of[0], parts_of[1]);
    work = unset;
    errors += settle(
        "sendrecv", rcm_sendrecv(comm, &two, 1, to, TAG, &in, 1, from, TAG, RCM_UINT8, &now, &work),
        &work, &at_once);
    return errors;
}

/* Small messages to others are usually complete at once. Their contents must be right. */
static int check_messages(rcm_comm *comm) {
    const int me = rcm_rank(comm), n = rcm_size(comm), to = (me + 1) % n, from = (me + n - 1) % n;
    int errors = 0, sent = 0, received = 0;
    for (int i = 0; i < MANY && errors == 0; i++) {
        int32_t in = -1;
        const int32_t out = 100 * me + i;
        rcm_work *work = unset;
        errors +=
            settle("send", rcm_send(comm, &out, 1, RCM_INT32, to, TAG, &now, &work), &work, &sent);
        CHECK_OK(errors, rcm_barrier(comm, NULL, NULL));
        work = unset;
        errors += settle("recv", rcm_recv(comm, &in, 1, RCM_INT32, from, TAG, &now, &work), &work,
                         &received);
        CHECK(errors, in == 100 * from + i, "%d", in);
    }
    CHECK(errors, sent > 0 && received > 0, "of %d messages %d were sent at once, %d received",
          MANY, sent, received);
    return errors;
}

/* A call with RCM_TRY_NOW in a callback. The library's thread runs the callback, or this thread if
 * the barrier is already complete. */
struct called {
    rcm_comm *comm;
    char in;
    rcm_work *work;
    rcm_status status;
    _Atomic int done;
};

static void call_in_callback(void *arg, rcm_status status) {
    struct called *called = arg;
    (void)status;
    called->work = unset;
    called->status = rcm_recv(called->comm, &called->in, 1, RCM_UINT8, rcm_rank(called->comm), TAG,
                              &now, &called->work);
    called->done = 1;
}

static int check_callback(rcm_comm *comm) {
    struct called called = {.comm = comm};
    char out = 4;
    rcm_work *work = NULL;
    int errors = 0;
    CHECK_OK(errors, rcm_send(comm, &out, 1, RCM_UINT8, rcm_rank(comm), TAG, NULL, NULL));
    CHECK_OK(errors, rcm_barrier(comm, NULL, &work));
    CHECK_OK(errors, rcm_work_on_complete(work, call_in_callback, &called));
    for (int i = 0; i < 10000 && !called.done; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(errors, called.done && called.status == RCM_OK && called.work != unset, "%s",
          rcm_status_name(called.status));
    if (errors == 0 && called.work)
        CHECK_OK(errors, rcm_work_wait(called.work, -1));
    CHECK(errors, called.in == 4, "%d", called.in);
    rcm_work_free(called.work);
    rcm_work_free(work);
    return errors;
}

/* The flag has no effect with another wait_ms or without ret_work. */
static int check_others(rcm_comm *comm) {
    struct rcm_call call = now;
    int32_t value = 1;
    rcm_work *work = unset;
    int errors = 0;
    CHECK_OK(errors, rcm_all_reduce(comm, &value, &value, 1, RCM_INT32, RCM_SUM, &call, NULL));
    call.wait_ms = -1;
    CHECK_OK(errors, rcm_all_reduce(comm, &value, &value, 1, RCM_INT32, RCM_SUM, &call, &work));
    CHECK(errors, !work && value == rcm_size(comm) * rcm_size(comm), "the sum is %d", value);
    return errors;
}

/* ---- RCM_EXACT_TIMEOUT ----------------------------------------------------------------------- */

static const struct rcm_call no_time = {.size = sizeof no_time, .flags = RCM_EXACT_TIMEOUT};

typedef rcm_status waits(rcm_comm *comm, char *byte);
static rcm_status wait_recv(rcm_comm *comm, char *byte) {
    return rcm_recv(comm, byte, 1, RCM_UINT8, rcm_rank(comm), TAG, &no_time, NULL);
}
static rcm_status wait_probe(rcm_comm *comm, char *byte) {
    (void)byte;
    return rcm_probe(comm, rcm_rank(comm), TAG, &no_time, NULL);
}
static rcm_status wait_work(rcm_comm *comm, char *byte) {
    rcm_work *work = NULL;
    rcm_status status = rcm_recv(comm, byte, 1, RCM_UINT8, rcm_rank(comm), TAG, &no_time, &work);
    if (status == RCM_OK)
        status = rcm_work_wait(work, 60000);
    rcm_work_free(work);
    return status;
}
static rcm_status wait_persistent(rcm_comm *comm, char *byte) {
    const struct rcm_call call = {.size = sizeof call, .flags = RCM_EXACT_TIMEOUT | RCM_PERSISTENT};
    rcm_work *work = NULL;
    rcm_status status = rcm_recv(comm, byte, 1, RCM_UINT8, rcm_rank(comm), TAG, &call, &work);
    if (status == RCM_OK)
        status = rcm_work_start(work);
    if (status == RCM_OK)
        status = rcm_work_wait(work, 60000);
    rcm_work_free(work);
    return status;
}

/* Nothing arrives, and the communicator's timeout is far away. */
static int check_no_time(rcm_comm *world, const char *name, waits *wait) {
    rcm_comm *comm = NULL;
    static char byte;
    int errors = 0;
    CHECK_OK(errors, rcm_comm_duplicate(world, NULL, &comm));
    if (errors)
        return errors;
    CHECK_OK(errors, rcm_comm_set_timeout(comm, 600000));
    const rcm_status status = wait(comm, &byte);
    CHECK(errors, status == RCM_ERR_TIMEOUT, "%s: %s: %s", name, rcm_status_name(status),
          rcm_last_error());
    (void)!rcm_destroy(comm);
    return errors;
}

/* A complete operation succeeds even with timeout 0. Without the flag, timeout 0 means the
 * communicator's timeout. */
static int check_in_time(rcm_comm *comm) {
    struct rcm_call call = RCM_CALL_INIT;
    char in = 0, out = 1;
    const int me = rcm_rank(comm);
    int errors = 0;
    CHECK_OK(errors, rcm_send(comm, &out, 1, RCM_UINT8, me, TAG, &no_time, NULL));
    CHECK_OK(errors, rcm_recv(comm, &in, 1, RCM_UINT8, me, TAG, &no_time, NULL));
    call.flags = RCM_EXACT_TIMEOUT;
    call.timeout_ms = 60000;
    CHECK_OK(errors, rcm_barrier(comm, &call, NULL));
    call.timeout_ms = -1;
    CHECK_OK(errors, rcm_barrier(comm, &call, NULL));
    call = (struct rcm_call)RCM_CALL_INIT;
    CHECK_OK(errors, rcm_barrier(comm, &call, NULL));
    call.flags = RCM_TRY_NOW; /* not an operation */
    CHECK_REFUSED(errors, rcm_comm_duplicate(comm, &call, &comm), "but this is no operation");
    return errors;
}

/* ---- RCM_MATCH_ASYNC ------------------------------------------------------------------------- */

/* Calls with the flag match in all forms; messages ignore it. Calls without it: test/fault/. */
static int check_match(rcm_comm *comm) {
    struct rcm_call call = {.size = sizeof call, .flags = RCM_MATCH_ASYNC};
    const int me = rcm_rank(comm), n = rcm_size(comm);
    int32_t one = 1, sum = 0, sums[2];
    const struct rcm_part parts[] = {{&one, &sums[0], 1, RCM_INT32},
                                     {&one, &sums[1], 1, RCM_INT32}};
    rcm_work *work = NULL;
    int errors = 0;
    CHECK_OK(errors, rcm_all_reduce(comm, &one, &sum, 1, RCM_INT32, RCM_SUM, &call, NULL));
    CHECK(errors, sum == n, "the sum is %d", sum);
    CHECK_OK(errors, rcm_coalesced(comm, RCM_ALL_REDUCE, parts, 2, RCM_SUM, 0, &call, NULL));
    CHECK(errors, sums[0] == n && sums[1] == n, "the sums are %d, %d", sums[0], sums[1]);
    call.flags |= RCM_PERSISTENT;
    CHECK_OK(errors, rcm_all_reduce(comm, &one, &sum, 1, RCM_INT32, RCM_SUM, &call, &work));
    for (int i = 0; i < 2 && errors == 0; i++) {
        CHECK_OK(errors, rcm_work_start(work));
        CHECK_OK(errors, rcm_work_wait(work, -1));
    }
    rcm_work_free(work);
    call.flags = RCM_MATCH_ASYNC;
    CHECK_OK(errors, rcm_send(comm, &one, 1, RCM_INT32, me, TAG, &call, NULL));
    CHECK_OK(errors, rcm_recv(comm, &sum, 1, RCM_INT32, me, TAG, NULL, NULL));
    return errors;
}

static int rank_run(rcm_comm *comm, void *arg) {
    (void)arg;
    int errors = check_alone(comm) + check_messages(comm) + check_others(comm) + check_match(comm);
    if (rcm_size(comm) > 1)
        errors += check_later(comm);
    errors += check_callback(comm) + check_in_time(comm);
    errors += check_no_time(comm, "recv", wait_recv) + check_no_time(comm, "probe", wait_probe);
    errors += check_no_time(comm, "work", wait_work);
    return errors + check_no_time(comm, "persistent", wait_persistent);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1], .timeout_ms = 30000};
    return ranks_run(&ranks, rank_run, NULL) != 0;
}
