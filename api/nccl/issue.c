/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Issues the operations of a group. For each communicator:
 *
 *      streams of the group ---> first stream ---> collectives in the order of calls, one batch of
 *                                                  all messages ---> all streams wait
 *
 * As NCCL documents, the group begins after all of its streams, and all of them wait for its end.
 * Nothing waits on a stream before all operations of all communicators are issued.
 */
#include <stdlib.h>
#include <string.h>
#include "nccl_driver.h"
#include "nccl_group.h"
#include "nccl_operators.h"
#include "stream_order.h"

/* The operations of one communicator. */
struct issue {
    struct operation *first; /* one of `all` */
    struct operation *all;
    size_t n;
    struct order *order;
    struct driver_visit visit;
};

static bool is_of(const struct issue *issue, const struct operation *o) {
    return o->comm == issue->first->comm;
}

static bool is_message(const struct operation *o) {
    return o->kind == OPERATION_SEND || o->kind == OPERATION_RECV;
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* Is it the first operation of its communicator and stream? */
static bool has_new_stream(const struct issue *issue, const struct operation *o) {
    for (const struct operation *before = issue->first; before < o; before++)
        if (is_of(issue, before) && before->stream == o->stream)
            return false;
    return is_of(issue, o);
}

static ncclResult_t stream_check(const struct issue *issue, const struct operation *o) {
    const struct driver *d = issue->visit.driver;
    int captures = 0;
    const int code = d->cuStreamIsCapturing(o->stream, &captures);
    if (code == DRIVER_CAPTURE_IMPLICIT || (code == 0 && captures != 0))
        return face_fail(ncclInvalidUsage,
                         "%s: the stream is being captured: operations cannot be part of a CUDA "
                         "graph",
                         o->name);
    return driver_result(d, "cuStreamIsCapturing", code);
}

static ncclResult_t stream_join(const struct issue *issue, cudaStream_t stream) {
    const struct driver *d = issue->visit.driver;
    void *event;
    int code = d->cuEventCreate(&event, DRIVER_EVENT_DISABLE_TIMING);
    if (code != 0)
        return driver_result(d, "cuEventCreate", code);
    code = d->cuEventRecord(event, stream);
    if (code == 0)
        code = d->cuStreamWaitEvent(issue->first->stream, event, 0);
    (void)d->cuEventDestroy(event);
    return driver_result(d, "cuStreamWaitEvent", code);
}

/* Calls `each` for every stream of the communicator; first_too: also for the first one. */
static ncclResult_t streams_do(const struct issue *issue, bool first_too,
                               ncclResult_t (*each)(const struct issue *, cudaStream_t)) {
    ncclResult_t result = ncclSuccess;
    for (const struct operation *o = issue->first + !first_too;
         o < issue->all + issue->n && result == ncclSuccess; o++)
        if (has_new_stream(issue, o))
            result = each(issue, o->stream);
    return result;
}

static ncclResult_t stream_follow(const struct issue *issue, cudaStream_t stream) {
    return order_follow(issue->order, issue->visit.driver, stream);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static rcm_status collective_call(const struct operation *o, rcm_op op, const struct rcm_call *call,
                                  rcm_work **ret_work) {
    rcm_comm *rcm = o->comm->rcm;
    switch (o->kind) {
    case RCM_ALL_REDUCE:
        return rcm_all_reduce(rcm, o->send, o->recv, o->count, o->dtype, op, call, ret_work);
    case RCM_REDUCE:
        return rcm_reduce(rcm, o->send, o->recv, o->count, o->dtype, op, o->root, call, ret_work);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(rcm, o->send, o->recv, o->count, o->dtype, op, call, ret_work);
    case RCM_BROADCAST:
        return rcm_broadcast(rcm, o->comm->rank == o->root ? (void *)o->send : o->recv, o->count,
                             o->dtype, o->root, call, ret_work);
    case RCM_ALL_GATHER:
        return rcm_all_gather(rcm, o->send, o->recv, o->count, o->dtype, call, ret_work);
    case RCM_ALL_TO_ALL:
        return rcm_all_to_all(rcm, o->send, o->recv, o->count, o->dtype, call, ret_work);
    case RCM_GATHER:
        return rcm_gather(rcm, o->send, o->recv, o->count, o->dtype, o->root, call, ret_work);
    default:
        return rcm_scatter(rcm, o->send, o->recv, o->count, o->dtype, o->root, call, ret_work);
    }
}

/* The root of a broadcast that is not in place copies on the stream. */
static ncclResult_t broadcast_copy(const struct issue *issue, const struct operation *o) {
    const size_t bytes = o->count * rcm_dtype_size(o->dtype);
    if (o->kind != RCM_BROADCAST || o->comm->rank != o->root || o->send == o->recv || bytes == 0)
        return ncclSuccess;
    return driver_result(issue->visit.driver, "cuMemcpyAsync",
                         issue->visit.driver->cuMemcpyAsync((uint64_t)(uintptr_t)o->recv,
                                                            (uint64_t)(uintptr_t)o->send, bytes,
                                                            issue->first->stream));
}

static ncclResult_t collective_issue(const struct issue *issue, const struct operation *o) {
    const struct rcm_call call = {.size = sizeof call, .stream = issue->first->stream};
    const struct operand operand = {o->op, o->dtype, &o->scalar, issue->first->stream};
    struct slot *scalar = NULL;
    rcm_work *work;
    rcm_op op = 0;
    ncclResult_t result =
        operator_prepare(issue->visit.driver, o->comm->device, &operand, &op, &scalar);
    if (result != ncclSuccess)
        return result;
    result = face_result(collective_call(o, op, &call, &work), o->name);
    if (scalar)
        (void)!rcm_op_free(op);
    if (result != ncclSuccess)
        return result;
    result = order_add(issue->order, work, scalar, NULL, 0);
    return result == ncclSuccess ? broadcast_copy(issue, o) : result;
}

/* ---- Messages -------------------------------------------------------------------------------- */

struct messages {
    struct rcm_transfer *transfers;
    struct expected *expected;
    size_t n, nexpected;
};

static void message_add(struct messages *messages, const struct operation *o) {
    const bool sends = o->kind == OPERATION_SEND;
    struct rcm_transfer *transfer = &messages->transfers[messages->n++];
    *transfer = (struct rcm_transfer){.kind = sends ? RCM_TRANSFER_SEND : RCM_TRANSFER_RECV,
                                      .peer = o->root,
                                      .buffer = sends ? (void *)o->send : o->recv,
                                      .count = o->count,
                                      .dtype = o->dtype};
    if (sends)
        return;
    struct expected *expected = &messages->expected[messages->nexpected++];
    *expected = (struct expected){
        .peer = o->root, .bytes = o->count * rcm_dtype_size(o->dtype), .message = RCM_MESSAGE_INIT};
    transfer->message = &expected->message;
}

static ncclResult_t messages_issue(const struct issue *issue, size_t n) {
    const struct rcm_call call = {.size = sizeof call, .stream = issue->first->stream};
    struct messages messages = {calloc(n, sizeof *messages.transfers),
                                calloc(n, sizeof *messages.expected), 0, 0};
    ncclResult_t result;
    rcm_work *work = NULL;
    if (messages.transfers && messages.expected) {
        for (struct operation *o = issue->first; o < issue->all + issue->n; o++)
            if (is_of(issue, o) && is_message(o))
                message_add(&messages, o);
        result = face_result(
            rcm_batch(issue->first->comm->rcm, messages.transfers, messages.n, &call, &work),
            n == 1 ? issue->first->name : "ncclGroupEnd");
    } else {
        result = face_fail(ncclSystemError, "no memory for %zu messages", n);
    }
    free(messages.transfers);
    if (result == ncclSuccess)
        return order_add(issue->order, work, NULL, messages.expected, messages.nexpected);
    free(messages.expected);
    return result;
}

/* ---- A group --------------------------------------------------------------------------------- */

static ncclResult_t issue_all(const struct issue *issue) {
    ncclResult_t result = ncclSuccess;
    size_t messages = 0;
    for (struct operation *o = issue->first; o < issue->all + issue->n; o++) {
        if (!is_of(issue, o))
            continue;
        o->issued = true;
        messages += is_message(o);
        if (result == ncclSuccess && !is_message(o))
            result = collective_issue(issue, o);
    }
    return result == ncclSuccess && messages > 0 ? messages_issue(issue, messages) : result;
}

/* Begins the operations of the communicator of `first`. */
static ncclResult_t issue_begin(struct issue *issue) {
    ncclResult_t result = ncclSuccess;
    for (struct operation *o = issue->first; o < issue->all + issue->n && result == ncclSuccess;
         o++)
        if (has_new_stream(issue, o))
            result = stream_check(issue, o);
    if (result == ncclSuccess)
        result = streams_do(issue, false, stream_join);
    if (result == ncclSuccess)
        result = order_begin(issue->first->comm, &issue->order);
    return result == ncclSuccess ? issue_all(issue) : result;
}

static ncclResult_t issue_follow(struct issue *issue) {
    return streams_do(issue, true, stream_follow);
}

static ncclResult_t each_visit(struct issue *issue, ncclResult_t (*each)(struct issue *)) {
    ncclResult_t result = driver_enter(issue->first->comm->device, &issue->visit);
    if (result != ncclSuccess)
        return result;
    result = each(issue);
    driver_leave(&issue->visit);
    return result;
}

/* Also after an error: what was issued is awaited. */
static ncclResult_t issue_end(struct issue *issue) {
    if (!issue->order)
        return ncclSuccess;
    const ncclResult_t result = each_visit(issue, issue_follow);
    order_end(issue->order); /* also if the context cannot be entered: Abort waits for the order */
    return result;
}

ncclResult_t operations_issue(struct operation *operations, size_t n) {
    struct issue *issues = calloc(n, sizeof *issues);
    ncclResult_t result = ncclSuccess;
    size_t nissues = 0;
    if (!issues)
        return face_fail(ncclSystemError, "no memory for a group of %zu operations", n);
    for (size_t i = 0; i < n && result == ncclSuccess; i++) {
        if (operations[i].issued)
            continue;
        issues[nissues] = (struct issue){.first = &operations[i], .all = operations, .n = n};
        result = each_visit(&issues[nissues++], issue_begin);
    }
    for (size_t i = 0; i < nissues; i++) {
        const ncclResult_t ended = issue_end(&issues[i]);
        result = result == ncclSuccess ? ended : result;
    }
    free(issues);
    return result;
}
