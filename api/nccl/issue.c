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
#include "nccl_driver.h"
#include "nccl_group.h"
#include "stream_order.h"

/* The operations of one communicator. */
struct issue {
    struct operation *first, *end;
    struct order *order;
};

static bool is_message(const struct operation *o) {
    return o->kind == OPERATION_SEND || o->kind == OPERATION_RECV;
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* Is it the first operation on its stream? */
static bool has_new_stream(const struct issue *issue, const struct operation *o) {
    const struct operation *before = issue->first;
    while (before->stream != o->stream)
        before++;
    return before == o;
}

/* The stream of the operation must not be captured. */
static ncclResult_t stream_check(const struct operation *o) {
    int captures = 0;
    const int code = driver.cuStreamIsCapturing(o->stream, &captures);
    if (code == DRIVER_CAPTURE_IMPLICIT || (code == 0 && captures != 0))
        return face_fail(ncclInvalidUsage,
                         "%s: the stream is being captured: operations cannot be part of a CUDA "
                         "graph",
                         o->name);
    return driver_result("cuStreamIsCapturing", code);
}

/* The first stream waits for the operation's one. */
static ncclResult_t stream_join(const struct issue *issue, const struct operation *o) {
    void *event;
    ncclResult_t result = DRIVER(cuEventCreate, &event, DRIVER_EVENT_DISABLE_TIMING);
    if (result != ncclSuccess)
        return result;
    result = DRIVER(cuEventRecord, event, o->stream);
    if (result == ncclSuccess)
        result = DRIVER(cuStreamWaitEvent, issue->first->stream, event, 0);
    (void)driver.cuEventDestroy(event);
    return result;
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

static ncclResult_t collective_issue(const struct issue *issue, const struct operation *o) {
    const struct rcm_call call = {.size = sizeof call, .stream = issue->first->stream};
    const size_t bytes = o->count * rcm_dtype_size(o->dtype);
    struct part *part = part_new(issue->order, 0);
    rcm_op op;
    ncclResult_t result =
        part ? operator_prepare(o, call.stream, &op, &part->scalar) : ncclSystemError;
    if (result != ncclSuccess) {
        free(part);
        return result;
    }
    const bool created = part->scalar != NULL;
    result = part_issued(part, collective_call(o, op, &call, &part->work), o->name);
    if (created)
        (void)!rcm_op_free(op);
    /* The root of a broadcast that is not in place copies on the stream. */
    if (result == ncclSuccess && o->kind == RCM_BROADCAST && o->comm->rank == o->root &&
        o->send != o->recv && bytes > 0)
        result = DRIVER(cuMemcpyAsync, o->recv, o->send, bytes, issue->first->stream);
    return result;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static struct rcm_transfer transfer_of(struct part *part, const struct operation *o) {
    struct rcm_transfer transfer = {.kind = RCM_TRANSFER_SEND,
                                    .peer = o->root,
                                    .buffer = (void *)o->send,
                                    .count = o->count,
                                    .dtype = o->dtype};
    if (o->kind == OPERATION_RECV) {
        struct received *received = &part->received[part->nreceived++];
        *received = (struct received){RCM_MESSAGE_INIT, o->count * rcm_dtype_size(o->dtype)};
        transfer.kind = RCM_TRANSFER_RECV;
        transfer.buffer = o->recv;
        transfer.message = &received->message;
    }
    return transfer;
}

static ncclResult_t messages_issue(const struct issue *issue, size_t most) {
    const struct rcm_call call = {.size = sizeof call, .stream = issue->first->stream};
    struct rcm_transfer *transfers = calloc(most, sizeof *transfers);
    struct part *part = transfers ? part_new(issue->order, most) : NULL;
    const char *name = NULL;
    size_t n = 0;
    if (!part) {
        free(transfers);
        return face_fail(ncclSystemError, "no memory for %zu messages", most);
    }
    for (const struct operation *o = issue->first; o < issue->end; o++)
        if (is_message(o)) {
            name = n == 0 ? o->name : "ncclGroupEnd";
            transfers[n++] = transfer_of(part, o);
        }
    const rcm_status status = rcm_batch(issue->first->comm->rcm, transfers, n, &call, &part->work);
    free(transfers);
    return part_issued(part, status, name);
}

/* ---- A group --------------------------------------------------------------------------------- */

static ncclResult_t issue_check(struct issue *issue) {
    ncclResult_t result = ncclSuccess;
    for (const struct operation *o = issue->first; o < issue->end && result == ncclSuccess; o++)
        if (has_new_stream(issue, o))
            result = stream_check(o);
    return result;
}

static ncclResult_t issue_all(struct issue *issue) {
    ncclResult_t result = ncclSuccess;
    size_t messages = 0;
    for (const struct operation *o = issue->first; o < issue->end && result == ncclSuccess; o++)
        if (o != issue->first && has_new_stream(issue, o))
            result = stream_join(issue, o);
    if (result == ncclSuccess)
        result = order_begin(issue->first->comm, &issue->order);
    for (const struct operation *o = issue->first; o < issue->end && result == ncclSuccess; o++)
        if (is_message(o))
            messages++;
        else
            result = collective_issue(issue, o);
    return result == ncclSuccess && messages > 0 ? messages_issue(issue, messages) : result;
}

/* Also after an error: what was issued is awaited. */
static ncclResult_t issue_follow(struct issue *issue) {
    ncclResult_t result = ncclSuccess;
    for (const struct operation *o = issue->first; o < issue->end && result == ncclSuccess; o++)
        if (issue->order && has_new_stream(issue, o))
            result = order_follow(issue->order, o->stream);
    return result;
}

static ncclResult_t in_context(struct issue *issue, ncclResult_t (*each)(struct issue *)) {
    int visit;
    ncclResult_t result = driver_enter(issue->first->comm->device, &visit);
    if (result != ncclSuccess)
        return result;
    result = each(issue);
    driver_leave(visit);
    return result;
}

/* Brings the operations of each communicator together, in the order of their calls. */
static int by_communicator(const void *a, const void *b) {
    const struct operation *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

/* Enters the communicators: they may have been aborted since the calls of a group. */
ncclResult_t operations_issue(struct operation *operations, size_t n) {
    struct issue *issues = calloc(n, sizeof *issues), *issue = issues, *end;
    ncclResult_t result = ncclSuccess;
    if (!issues)
        return face_fail(ncclSystemError, "no memory for a group of %zu operations", n);
    qsort(operations, n, sizeof *operations, by_communicator);
    for (struct operation *o = operations; o < operations + n && result == ncclSuccess;) {
        issue->first = o;
        while (o < operations + n && o->id == issue->first->id)
            o++;
        issue->end = o;
        result = comm_enter(issue->first->comm, issue->first->id, issue->first->name);
        issue += result == ncclSuccess;
    }
    end = issue;
    for (issue = issues; issue < end && result == ncclSuccess; issue++)
        result = in_context(issue, issue_check);
    for (issue = issues; issue < end && result == ncclSuccess; issue++)
        result = in_context(issue, issue_all);
    for (issue = issues; issue < end; issue++) {
        const ncclResult_t followed = in_context(issue, issue_follow);
        result = result == ncclSuccess ? followed : result;
        if (issue->order)
            order_end(issue->order); /* in any case: Abort waits for the order */
        comm_exit(issue->first->comm);
    }
    free(issues);
    return result;
}
