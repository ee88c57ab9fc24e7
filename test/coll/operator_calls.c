/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls inside an operator's function: queries are allowed. Calls that issue an operation, wait or
 * end something are rejected, for every communicator. */
#include "operators.h"
#include <stdio.h>
#include <string.h>

enum { TAG = 31 };

struct inside {
    rcm_comm *comm, *other;
    rcm_work *pending, *complete;
    void *memory;
    bool once; /* set when the calls were made */
    int errors, rank;
};

static void refused(struct inside *t, const char *what, rcm_status status) {
    CHECK(t->errors, status == RCM_ERR_INVALID && strstr(rcm_last_error(), "operator's function"),
          "%s in an operator: %s, %s", what, rcm_status_name(status), rcm_last_error());
}

static void call_collectives(struct inside *t, rcm_comm *comm) {
    float x = 1, y[RANKS_MAX];
    rcm_work *work = NULL;
    rcm_op sum = RCM_SUM;
    struct rcm_call call = RCM_CALL_INIT;
    const struct rcm_part part = {&x, y, 1, RCM_FLOAT32};
    call.timeout_ms = 500;
    refused(t, "all_reduce", rcm_all_reduce(comm, &x, y, 1, RCM_FLOAT32, sum, &call, NULL));
    refused(t, "all_reduce, asynchronous",
            rcm_all_reduce(comm, &x, y, 1, RCM_FLOAT32, sum, NULL, &work));
    refused(t, "broadcast", rcm_broadcast(comm, &x, 1, RCM_FLOAT32, 0, NULL, NULL));
    refused(t, "all_gather", rcm_all_gather(comm, &x, y, 1, RCM_FLOAT32, NULL, NULL));
    refused(t, "barrier", rcm_barrier(comm, NULL, NULL));
    refused(t, "monitored", rcm_monitored_barrier(comm, 0, NULL, NULL));
    refused(t, "coalesced", rcm_coalesced(comm, RCM_ALL_REDUCE, &part, 1, sum, 0, NULL, NULL));
    refused(t, "prepare", rcm_comm_prepare(comm, RCM_ALL_REDUCE, 4, 0, NULL));
}

static void call_messages(struct inside *t, rcm_comm *comm) {
    const int peer = (rcm_rank(comm) + 1) % rcm_size(comm);
    char byte = 0;
    rcm_work *work = NULL;
    struct rcm_message message = RCM_MESSAGE_INIT;
    const struct rcm_transfer transfer = {.kind = RCM_TRANSFER_SEND,
                                          .peer = peer,
                                          .buffer = &byte,
                                          .count = 1,
                                          .tag = TAG,
                                          .dtype = RCM_UINT8};
    refused(t, "send", rcm_send(comm, &byte, 1, RCM_UINT8, peer, TAG, NULL, NULL));
    refused(t, "recv", rcm_recv(comm, &byte, 1, RCM_UINT8, peer, TAG, NULL, NULL));
    refused(t, "irecv", rcm_irecv(comm, &byte, 1, RCM_UINT8, peer, TAG, &work));
    refused(t, "probe", rcm_probe(comm, peer, TAG, NULL, &message));
    refused(t, "iprobe", rcm_iprobe(comm, peer, TAG, &message));
    refused(t, "batch", rcm_batch(comm, &transfer, 1, NULL, NULL));
    refused(t, "sendrecv",
            rcm_sendrecv(comm, &byte, 1, peer, TAG, &byte, 1, peer, TAG, RCM_UINT8, NULL, NULL));
}

static void call_groups(struct inside *t, rcm_comm *comm) {
    rcm_comm *made = NULL;
    const int ranks[] = {rcm_rank(comm)};
    refused(t, "subset", rcm_comm_subset(comm, ranks, 1, 0, NULL, &made));
    refused(t, "split", rcm_comm_split(comm, 0, 0, NULL, &made));
    refused(t, "split_hosts", rcm_comm_split_hosts(comm, NULL, &made));
    refused(t, "duplicate", rcm_comm_duplicate(comm, NULL, &made));
    refused(t, "shrink", rcm_comm_shrink(comm, NULL, &made));
    refused(t, "destroy", rcm_destroy(comm));
    refused(t, "leave", rcm_leave(comm));
}

static void call_works(struct inside *t) {
    size_t index;
    refused(t, "wait", rcm_work_wait(t->pending, -1));
    refused(t, "wait_all", rcm_work_wait_all(&t->pending, 1, -1));
    refused(t, "wait_any", rcm_work_wait_any(&t->pending, 1, 100, &index));
    refused(t, "cancel", rcm_work_cancel(t->pending));
    refused(t, "mem_free", rcm_mem_free(t->comm, t->memory));
    CHECK(t->errors, rcm_work_test(t->pending) == RCM_PENDING, "test of a pending work");
    CHECK(t->errors, rcm_work_wait(t->pending, 0) == RCM_PENDING, "wait of 0 ms");
    CHECK(t->errors, rcm_work_wait(t->complete, -1) == RCM_OK, "wait of a complete work");
}

static void call_questions(struct inside *t, const rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    float x[2] = {1, 2}, y[2] = {3, 4};
    CHECK(t->errors,
          rcm_rank(comm) == t->rank && rcm_size(comm) > 0 && rcm_world_rank(comm, 0) == 0 &&
              rcm_comm_name(comm)[0] && rcm_comm_error(comm, &error) == RCM_OK,
          "a query in an operator: %s", rcm_last_error());
    CHECK(t->errors, rcm_reduce_local(x, y, 2, RCM_FLOAT32, RCM_SUM) == RCM_OK && y[1] == 6,
          "rcm_reduce_local in an operator: %s", rcm_last_error());
}

static void nosy(const void *in, void *inout, size_t count, rcm_dtype dtype, void *context) {
    struct inside *t = context;
    (void)dtype;
    for (size_t i = 0; i < count; i++)
        ((int32_t *)inout)[i] += ((const int32_t *)in)[i];
    if (t->once)
        return;
    t->once = true;
    call_collectives(t, t->comm);
    call_collectives(t, t->other);
    call_messages(t, t->comm);
    call_messages(t, t->other);
    call_groups(t, t->comm);
    call_groups(t, t->other);
    call_works(t);
    call_questions(t, t->comm);
    call_questions(t, t->other);
}

/* The operator runs in rcm_reduce_local, which makes no progress, in a blocking call, and in an
 * asynchronous one that the library's thread or the waiting thread executes. */
static int check_from(rcm_comm *comm, struct inside *t, int how) {
    int32_t x[2] = {1, 2}, y[2] = {3, 4};
    rcm_op op = 0;
    rcm_work *work = NULL;
    int errors = 0;
    t->once = false;
    CHECK(errors, rcm_op_create(nosy, t, RCM_OP_COMMUTATIVE, "nosy", RCM_INT32, &op) == RCM_OK,
          "%s", rcm_last_error());
    rcm_status status =
        how == 0 ? rcm_reduce_local(x, y, 2, RCM_INT32, op)
                 : rcm_all_reduce(comm, x, y, 2, RCM_INT32, op, NULL, how == 1 ? NULL : &work);
    if (work)
        status = rcm_work_wait(work, -1);
    CHECK(errors, status == RCM_OK && y[0] == (how ? rcm_size(comm) : 4), "%d: %s, %d", how,
          rcm_last_error(), (int)y[0]);
    rcm_work_free(work);
    CHECK(errors, rcm_op_free(op) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

int operators_check_calls(rcm_comm *comm) {
    struct inside t = {.comm = comm, .rank = rcm_rank(comm)};
    char bytes[2] = {0};
    int errors = 0;
    if (rcm_size(comm) < 2)
        return 0;
    CHECK(errors,
          rcm_comm_duplicate(comm, NULL, &t.other) == RCM_OK &&
              rcm_mem_alloc(comm, 4096, &t.memory) == RCM_OK &&
              rcm_irecv(comm, bytes, 1, RCM_UINT8, t.rank, TAG + 1, &t.pending) == RCM_OK &&
              rcm_barrier(comm, NULL, &t.complete) == RCM_OK &&
              rcm_work_wait(t.complete, -1) == RCM_OK,
          "%s", rcm_last_error());
    for (int how = 0; how < 3 && errors == 0; how++)
        errors += check_from(comm, &t, how);
    CHECK(errors, rcm_work_cancel(t.pending) == RCM_OK, "%s", rcm_last_error());
    rcm_work_free(t.pending);
    rcm_work_free(t.complete);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_mem_free(comm, t.memory) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_destroy(t.other) == RCM_OK, "%s", rcm_last_error());
    return errors + t.errors;
}
