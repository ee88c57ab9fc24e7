/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: the public functions of sends and receives, with the only check of their
 * arguments, and the fast path.
 *
 * The fast path: the caller of a blocking send or receive of a small message completes it at once,
 * without a work. Conditions: nothing else of the communicator is unfinished, and the channel is
 * ready.
 *
 * Not here: other functions (probe.c, batch.c); works of messages (transfer.c); matching (p2p/);
 * protocols (api/p2p/endpoint.h).
 */
#include "comm.h"
#include "drive.h"
#include "message.h"
#include "p2p.h"
#include "transfer.h"

enum { LOOKS_MAX = 2048 };

/* ---- The fast path --------------------------------------------------------------------------- */

static rcm_status send_now(rcm_comm *comm, const struct rcmi_message_call *m, size_t bytes) {
    const struct rcmi_mem mem = rcmi_mem_host(m->buffer, bytes);
    if (m->synchronous || !rcmi_comm_take(comm))
        return RCM_AGAIN;
    const rcm_status status = rcmi_endpoint_send_now(rcmi_p2p_endpoint(comm->p2p, m->peer), m->tag,
                                                     rcmi_dtype_code(m->dtype), &mem);
    rcmi_comm_give(comm);
    return status;
}

/* Polls for a while, if the message arrives without actions of this rank. *ret_began: as in struct
 * rcmi_pause. */
static rcm_status receive_soon(rcm_comm *comm, struct rcmi_endpoint *endpoint,
                               const struct rcmi_message_call *m, const struct rcmi_mem *mem,
                               struct rcm_message *ret_message, int64_t *ret_began) {
    const uint8_t dtype = rcmi_dtype_code(m->dtype);
    rcm_status status = rcmi_endpoint_receive_now(endpoint, m->tag, dtype, mem, ret_message);
    if (status != RCM_PENDING || !rcmi_endpoint_shares_memory(endpoint))
        return status == RCM_PENDING ? RCM_AGAIN : status;
    const struct rcmi_pause budget = rcmi_comm_budget(comm);
    struct rcmi_pause pause = budget;
    pause.slow = false; /* only memory is checked */
    rcmi_comm_drives_here(comm);
    for (int looks = 0; looks < LOOKS_MAX && status == RCM_PENDING; looks++) {
        if (!rcmi_caller_pauses(&budget, &pause) ||
            (pause.spins == RCMI_SPINS_BEFORE_CPU && rcmi_comm_shares_cpu(comm, m->peer)))
            break;
        status = rcmi_endpoint_receive_now(endpoint, m->tag, dtype, mem, ret_message);
    }
    *ret_began = pause.began;
    return status == RCM_PENDING ? RCM_AGAIN : status;
}

static rcm_status receive_now(rcm_comm *comm, const struct rcmi_message_call *m, size_t capacity,
                              int64_t *ret_began) {
    const struct rcmi_mem mem = rcmi_mem_host(m->buffer, capacity);
    struct rcm_message came = {.size = sizeof came, .source = m->peer};
    if (m->peer == RCM_ANY_SOURCE || m->matched || !rcmi_comm_take(comm))
        return RCM_AGAIN;
    struct rcmi_endpoint *endpoint = rcmi_p2p_endpoint_for_receive(comm->p2p, m->peer);
    const rcm_status status =
        endpoint ? receive_soon(comm, endpoint, m, &mem, m->message ? &came : NULL, ret_began)
                 : RCM_AGAIN;
    rcmi_comm_give(comm);
    if (status == RCM_OK && m->message)
        rcmi_message_out(&came, m->message);
    return status;
}

static bool message_now(rcm_comm *comm, const struct rcmi_message_call *m, size_t bytes,
                        int64_t *ret_began) {
    if (m->kind == RCMI_WORK_SEND)
        return send_now(comm, m, bytes) == RCM_OK;
    return m->kind == RCMI_WORK_RECV && receive_now(comm, m, bytes, ret_began) == RCM_OK;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static inline rcm_status check_peer(const rcm_comm *comm, const struct rcmi_message_call *m) {
    const bool sends = m->kind == RCMI_WORK_SEND;
    if (m->peer >= 0 && m->peer < comm->size)
        return RCM_OK;
    if (!sends && m->peer == RCM_ANY_SOURCE)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INVALID, 0, "%s %d is not a rank of 0..%d%s", sends ? "dst" : "src",
                     m->peer, comm->size - 1, sends ? "" : ", nor RCM_ANY_SOURCE");
}

static inline rcm_status message_check(const rcm_comm *comm, const struct rcmi_message_call *m) {
    const size_t size = rcm_dtype_size(m->dtype);
    if (size == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is no type", (int)m->dtype);
    if (m->count > SIZE_MAX / 2 / size)
        return rcmi_fail(RCM_ERR_INVALID, 0, "count %zu of %s is more than memory can hold",
                         m->count, rcm_dtype_name(m->dtype));
    if (m->count > 0 && !m->buffer)
        return rcmi_fail(RCM_ERR_INVALID, 0, "buffer is NULL and count is %zu", m->count);
    if (m->kind == RCMI_WORK_SEND && m->tag == RCM_ANY_TAG)
        return rcmi_fail(RCM_ERR_INVALID, 0, "tag RCM_ANY_TAG is for receives only");
    return check_peer(comm, m);
}

rcm_status rcmi_message_check(const rcm_comm *comm, const struct rcmi_message_call *m) {
    const rcm_status status = message_check(comm, m);
    return status == RCM_OK && m->message ? rcmi_message_out_check("message", m->message) : status;
}

/* ---- Issuing --------------------------------------------------------------------------------- */

static rcm_status transfer_of(const rcm_comm *comm, const struct rcmi_message_call *m,
                              const struct rcm_call *call, struct rcmi_transfer *ret_transfer) {
    const size_t bytes = m->count * rcm_dtype_size(m->dtype);
    *ret_transfer = (struct rcmi_transfer){.peer = m->peer,
                                           .tag = m->tag,
                                           .total = bytes,
                                           .dtype = rcmi_dtype_code(m->dtype),
                                           .synchronous = m->synchronous,
                                           .awaits_left = call && call->flags & RCM_AWAIT_LEFT,
                                           .message = m->matched};
    return rcmi_node_mem(comm->engine->node, m->buffer, bytes, &ret_transfer->mem);
}

static void message_fill(const struct rcmi_message_call *m, const struct rcmi_transfer *transfer,
                         struct rcm_work *work) {
    work->message_to = m->message;
    work->transfer = *transfer;
}

/* Makes a work that is started later. */
static rcm_status message_persist(rcm_comm *comm, const struct rcmi_message_call *m,
                                  const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_template template = {.kind = m->kind,
                                     .timeout_ms = call->timeout_ms,
                                     .message = m->message,
                                     .stream = rcmi_stream_of(call, rcm_comm_timeout(comm))};
    struct rcm_work *work = NULL;
    if (!ret_work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "call->flags has RCM_PERSISTENT and ret_work is NULL");
    rcm_status status = transfer_of(comm, m, call, &template.transfer);
    if (status == RCM_OK)
        status = rcmi_work_new_persistent(comm, template.kind, &work);
    if (status == RCM_OK)
        status = rcmi_work_add_template(work, &template);
    if (status == RCM_OK)
        *ret_work = work;
    else
        rcm_work_free(work);
    return rcmi_comm_decline(comm, status);
}

rcm_status rcmi_message_start(rcm_comm *comm, const struct rcmi_template *template,
                              struct rcm_work *whole) {
    struct rcm_work *work;
    const rcm_status status = rcmi_work_new(comm, template->kind, false, NULL, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(comm, status);
    work->message_to = template->message;
    work->transfer = template->transfer;
    if (template->timeout_ms)
        work->timeout_ms = template->timeout_ms;
    rcmi_work_part(work, whole);
    rcmi_comm_submit(comm, work);
    return RCM_OK;
}

/* The fast path is for host memory. */
static inline bool message_is_host(rcm_comm *comm, const struct rcmi_message_call *m) {
    struct rcmi_mem mem;
    return !rcmi_mem_any_special() || !rcmi_mem_kind_row(RCMI_MEM_DEVICE) ||
           (rcmi_node_mem(comm->engine->node, m->buffer, m->count * rcm_dtype_size(m->dtype),
                          &mem) == RCM_OK &&
            mem.kind == RCMI_MEM_HOST);
}

/* Whether the fast path completed it. */
static inline bool message_short_way(rcm_comm *comm, const struct rcmi_message_call *m,
                                     int64_t *ret_began, rcm_work **ret_work) {
    if (!message_is_host(comm, m) ||
        !message_now(comm, m, m->count * rcm_dtype_size(m->dtype), ret_began))
        return false;
    if (ret_work)
        *ret_work = NULL;
    return true;
}

static rcm_status message_long_way(rcm_comm *comm, const struct rcmi_message_call *m,
                                   const struct rcm_call *call, int64_t began,
                                   rcm_work **ret_work) {
    const struct rcmi_stream stream = rcmi_stream_of(call, rcm_comm_timeout(comm));
    struct rcmi_transfer transfer;
    struct rcmi_operation *fence = NULL;
    struct rcm_work *work;
    rcm_status status = transfer_of(comm, m, call, &transfer);
    if (status == RCM_OK)
        status = rcmi_stream_follow(&comm->engine->device, stream, &transfer.mem, &fence);
    if (status == RCM_OK)
        status = rcmi_work_new(comm, m->kind, ret_work == NULL, call, &work);
    if (status != RCM_OK) {
        rcmi_stream_drop(fence);
        return rcmi_comm_decline(comm, status);
    }
    transfer.after = work->fence = fence;
    work->spin_began = began;
    message_fill(m, &transfer, work);
    return rcmi_work_issue(comm, work, rcmi_call_waits(call, ret_work), ret_work);
}

/* Issues a checked message, with a converted call. */
static inline rcm_status message_issue(rcm_comm *comm, const struct rcmi_message_call *m,
                                       const struct rcm_call *call, rcm_work **ret_work) {
    const int64_t wait_ms = rcmi_call_waits(call, ret_work);
    if (rcmi_call_persists(call))
        return message_persist(comm, m, call, ret_work);
    const rcm_status status = rcmi_work_may_wait(wait_ms);
    if (status != RCM_OK)
        return status;
    int64_t began = 0;
    if (wait_ms != 0 && !(call && call->stream) && message_short_way(comm, m, &began, ret_work))
        return RCM_OK;
    return message_long_way(comm, m, call, began, ret_work);
}

static inline rcm_status message_take(rcm_comm *comm, struct rcmi_message_call m,
                                      const struct rcm_call *call, rcm_work **ret_work) {
    struct rcm_call room;
    rcm_status status = rcmi_comm_usable(comm);
    if (status != RCM_OK)
        return rcmi_comm_refuse(comm, m.kind, status, call, ret_work);
    status = message_check(comm, &m);
    if (status == RCM_OK)
        status = rcmi_call_in(&call, &room);
    if (status == RCM_OK && call && call->message && m.kind == RCMI_WORK_RECV) {
        m.message = call->message;
        status = rcmi_message_out_check("call->message", m.message);
    }
    return status == RCM_OK ? message_issue(comm, &m, call, ret_work) : status;
}

static inline rcm_status message_call(rcm_comm *comm, struct rcmi_message_call m,
                                      const struct rcm_call *call, rcm_work **ret_work) {
    return rcmi_call_out(comm, call, message_take(comm, m, call, ret_work));
}

rcm_status rcmi_message_call(rcm_comm *comm, const struct rcmi_message_call *m,
                             const struct rcm_call *call, rcm_work **ret_work) {
    return message_call(comm, *m, call, ret_work);
}

rcm_status rcmi_message_follow(rcm_comm *comm, const void *buffer, size_t bytes,
                               struct rcmi_stream stream, struct rcmi_operation **ret_fence) {
    struct rcmi_mem mem;
    const rcm_status status = rcmi_node_mem(comm->engine->node, buffer, bytes, &mem);
    return status == RCM_OK ? rcmi_stream_follow(&comm->engine->device, stream, &mem, ret_fence)
                            : status;
}

rcm_status rcmi_message_submit(rcm_comm *comm, const struct rcmi_message_call *m,
                               const struct rcm_call *call, struct rcm_work *whole) {
    struct rcmi_transfer transfer;
    struct rcm_work *work;
    rcm_status status = transfer_of(comm, m, call, &transfer);
    if (status == RCM_OK)
        status = rcmi_work_new(comm, m->kind, false, call, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(comm, status);
    message_fill(m, &transfer, work);
    rcmi_work_part(work, whole);
    rcmi_comm_submit(comm, work);
    return RCM_OK;
}

/* ---- Public functions ------------------------------------------------------------------------ */

/* A send only reads its buffer. */
#define SENDS                                                                                      \
    .kind = RCMI_WORK_SEND, .buffer = (void *)buffer, .count = count, .dtype = dtype, .peer = dst, \
    .tag = tag

rcm_status rcm_send(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype, int dst,
                    uint64_t tag, const struct rcm_call *call, rcm_work **ret_work) {
    const struct rcmi_message_call m = {SENDS};
    return message_call(comm, m, call, ret_work);
}

rcm_status rcm_ssend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype, int dst,
                     uint64_t tag, const struct rcm_call *call, rcm_work **ret_work) {
    const struct rcmi_message_call m = {SENDS, .synchronous = true};
    return rcmi_message_call(comm, &m, call, ret_work);
}

rcm_status rcm_recv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype, int src,
                    uint64_t tag, const struct rcm_call *call, rcm_work **ret_work) {
    const struct rcmi_message_call m = {.kind = RCMI_WORK_RECV,
                                        .buffer = buffer,
                                        .count = count,
                                        .dtype = dtype,
                                        .peer = src,
                                        .tag = tag};
    return message_call(comm, m, call, ret_work);
}

static rcm_status check_ret_work(rcm_work **ret_work) {
    return ret_work ? RCM_OK : rcmi_fail(RCM_ERR_INVALID, 0, "ret_work is NULL");
}

rcm_status rcm_isend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype, int dst,
                     uint64_t tag, rcm_work **ret_work) {
    const rcm_status status = check_ret_work(ret_work);
    return status == RCM_OK ? rcm_send(comm, buffer, count, dtype, dst, tag, NULL, ret_work)
                            : status;
}

rcm_status rcm_issend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype, int dst,
                      uint64_t tag, rcm_work **ret_work) {
    const rcm_status status = check_ret_work(ret_work);
    return status == RCM_OK ? rcm_ssend(comm, buffer, count, dtype, dst, tag, NULL, ret_work)
                            : status;
}

rcm_status rcm_irecv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype, int src,
                     uint64_t tag, rcm_work **ret_work) {
    const rcm_status status = check_ret_work(ret_work);
    return status == RCM_OK ? rcm_recv(comm, buffer, count, dtype, src, tag, NULL, ret_work)
                            : status;
}
