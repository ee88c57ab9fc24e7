/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: several sends and receives as one work, also of several communicators. All are
 * checked before the first is issued, and none waits for another, so their order does not matter.
 * The work is complete when all are.
 */
#include "drive.h"
#include "failure.h"
#include "message.h"
#include "transfer.h"

struct batch {
    rcm_comm *comm;
    const struct rcm_transfer *transfers;
    size_t n;
};

static rcm_comm *comm_of(const struct batch *batch, const struct rcm_transfer *t) {
    return t->comm ? t->comm : batch->comm;
}

static struct rcmi_message_call message_of(const struct rcm_transfer *t) {
    const bool receives = t->kind == RCM_TRANSFER_RECV;
    return (struct rcmi_message_call){.kind = receives ? RCMI_WORK_RECV : RCMI_WORK_SEND,
                                      .buffer = t->buffer,
                                      .count = t->count,
                                      .dtype = t->dtype,
                                      .peer = t->peer,
                                      .tag = t->tag,
                                      .synchronous = t->kind == RCM_TRANSFER_SSEND,
                                      .message = receives ? t->message : NULL};
}

static rcm_status transfer_check(const struct batch *batch, const struct rcm_transfer *t) {
    const struct rcmi_message_call m = message_of(t);
    rcm_status status = rcmi_comm_why_not(comm_of(batch, t));
    if (status == RCMI_ABSENT)
        return RCM_OK;
    if (status == RCM_OK && (t->kind < RCM_TRANSFER_SEND || t->kind > RCM_TRANSFER_RECV))
        status = rcmi_fail(RCM_ERR_INVALID, 0, "kind %d is not a kind of transfer", (int)t->kind);
    return status == RCM_OK ? rcmi_message_check(comm_of(batch, t), &m) : status;
}

static rcm_status batch_check(const struct batch *batch) {
    if (batch->n > 0 && !batch->transfers)
        return rcmi_fail(RCM_ERR_INVALID, 0, "transfers is NULL and n is %zu", batch->n);
    for (size_t i = 0; i < batch->n; i++)
        if (transfer_check(batch, &batch->transfers[i]) != RCM_OK)
            return rcmi_fail_context("transfers[%zu]", i);
    return RCM_OK;
}

static rcm_status batch_call_in(const struct rcm_call **call, struct rcm_call *room) {
    const rcm_status status = rcmi_call_in(call, room);
    if (status != RCM_OK || !rcmi_call_persists(*call))
        return status;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "call->flags has RCM_PERSISTENT, which is for single sends and receives");
}

/* If one cannot be issued, its communicator has failed; the others continue. */
static rcm_status batch_submit(const struct batch *batch, const struct rcm_call *call,
                               struct rcm_work *whole) {
    rcm_comm *last = batch->comm;
    rcm_status status = RCM_OK;
    rcmi_work_whole(whole);
    for (size_t i = 0; i < batch->n && status == RCM_OK; i++) {
        const struct rcmi_message_call m = message_of(&batch->transfers[i]);
        rcm_comm *comm = comm_of(batch, &batch->transfers[i]);
        if (rcm_rank(comm) < 0) /* no member */
            continue;
        if (comm != last)
            rcmi_comm_kick(last);
        last = comm;
        status = rcmi_message_submit(comm, &m, call, whole);
    }
    rcmi_comm_kick(last);
    rcmi_work_part_done(whole, status);
    return status;
}

/* Makes one fence for all messages in device memory. */
static rcm_status batch_follow(const struct batch *batch, struct rcmi_stream stream,
                               struct rcmi_operation **ret_fence) {
    rcm_status status = RCM_OK;
    if (!rcmi_mem_any_special())
        return RCM_OK;
    for (size_t i = 0; i < batch->n && status == RCM_OK; i++) {
        const struct rcm_transfer *t = &batch->transfers[i];
        if (rcm_rank(comm_of(batch, t)) >= 0)
            status = rcmi_message_follow(comm_of(batch, t), t->buffer,
                                         t->count * rcm_dtype_size(t->dtype), stream, ret_fence);
        if (status != RCM_OK)
            return rcmi_fail_context("transfers[%zu]", i);
    }
    return RCM_OK;
}

/* Issues a batch that was checked. */
static rcm_status batch_issue(const struct batch *batch, enum rcmi_work_kind kind,
                              const struct rcm_call *call, rcm_work **ret_work) {
    struct rcm_work *whole;
    rcm_status status = rcmi_work_may_wait(rcmi_call_waits(call, ret_work));
    struct rcmi_operation *fence = NULL;
    if (status == RCM_OK)
        status = batch_follow(batch, rcmi_stream_of(call, rcm_comm_timeout(batch->comm)), &fence);
    if (status == RCM_OK)
        status = rcmi_work_new(batch->comm, kind, false, call, &whole);
    if (status != RCM_OK) {
        rcmi_stream_drop(fence);
        return rcmi_comm_decline(batch->comm, status);
    }
    whole->fence = fence;
    status = batch_submit(batch, call, whole);
    return rcmi_work_issue_whole(whole, status, call, ret_work);
}

rcm_status rcm_batch(rcm_comm *comm, const struct rcm_transfer *transfers, size_t n,
                     const struct rcm_call *call, rcm_work **ret_work) {
    const struct batch batch = {comm, transfers, n};
    struct rcm_call room;
    rcm_status status = rcmi_comm_why_not(comm);
    if (status != RCM_OK)
        return rcmi_call_out(comm, call,
                             rcmi_comm_refuse(comm, RCMI_WORK_BATCH, status, call, ret_work));
    status = batch_check(&batch);
    if (status == RCM_OK)
        status = batch_call_in(&call, &room);
    status = status == RCM_OK ? batch_issue(&batch, RCMI_WORK_BATCH, call, ret_work) : status;
    return rcmi_call_out(comm, call, status);
}

/* Names the wrong argument of rcm_sendrecv. */
static rcm_status sendrecv_check(const struct batch *batch) {
    for (size_t i = 0; i < batch->n; i++)
        if (transfer_check(batch, &batch->transfers[i]) != RCM_OK)
            return rcmi_fail_context(i == 0 ? "send" : "recv");
    return RCM_OK;
}

rcm_status rcm_sendrecv(rcm_comm *comm, const void *send, size_t send_count, int dst,
                        uint64_t send_tag, void *recv, size_t recv_count, int src,
                        uint64_t recv_tag, rcm_dtype dtype, const struct rcm_call *call,
                        rcm_work **ret_work) {
    struct rcm_transfer transfers[] = {{.kind = RCM_TRANSFER_SEND,
                                        .peer = dst,
                                        .buffer = (void *)send,
                                        .count = send_count,
                                        .dtype = dtype,
                                        .tag = send_tag}, /* only read */
                                       {.kind = RCM_TRANSFER_RECV,
                                        .peer = src,
                                        .buffer = recv,
                                        .count = recv_count,
                                        .dtype = dtype,
                                        .tag = recv_tag}};
    const struct batch batch = {comm, transfers, 2};
    struct rcm_call room;
    rcm_status status = rcmi_comm_why_not(comm);
    if (status != RCM_OK)
        return rcmi_call_out(comm, call,
                             rcmi_comm_refuse(comm, RCMI_WORK_SENDRECV, status, call, ret_work));
    status = sendrecv_check(&batch);
    if (status == RCM_OK)
        status = batch_call_in(&call, &room);
    if (status == RCM_OK && call && call->message) {
        transfers[1].message = call->message;
        status = rcmi_message_out_check("call->message", call->message);
    }
    status = status == RCM_OK ? batch_issue(&batch, RCMI_WORK_SENDRECV, call, ret_work) : status;
    return rcmi_call_out(comm, call, status);
}
