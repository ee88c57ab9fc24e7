/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: the front doors, where arguments are checked, once, and the short way.
 *
 * The short way: a blocking send or receive of a small message, done by its caller at once and
 * without a work, where nothing else of the communicator is unfinished and the channel is ready.
 *
 * Not here: works of messages (transfer.c); matching (p2p/); waiting for long. A receiver looks for
 * some microseconds or yields a few times, and only where the message comes without its doing
 * anything for it; then the long way begins, with its deadlines, reports and sleep.
 */
#include "comm.h"
#include "drive.h"
#include "message.h"
#include "p2p.h"

enum { LOOKS_MAX = 2048 };

/* ---- The short way -------------------------------------------------------------------------- */

static rcm_status send_now(rcm_comm *comm, int peer, uint64_t tag, const void *buffer,
                           size_t bytes) {
    const struct rcmi_mem mem = rcmi_mem_host(buffer, bytes);
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    const rcm_status status = rcmi_endpoint_send_now(rcmi_p2p_endpoint(comm->p2p, peer), tag, &mem);
    rcmi_comm_give(comm);
    return status;
}

/* Looks for a while, if the message comes by itself. */
static rcm_status receive_soon(rcm_comm *comm, struct rcmi_endpoint *endpoint, uint64_t tag,
                               const struct rcmi_mem *mem) {
    rcm_status status = rcmi_endpoint_receive_now(endpoint, tag, mem);
    if (status != RCM_PENDING || !rcmi_endpoint_shares_memory(endpoint))
        return status == RCM_PENDING ? RCM_AGAIN : status;
    struct rcmi_pause pause = comm->engine->budget;
    for (int looks = 0; looks < LOOKS_MAX && status == RCM_PENDING; looks++) {
        if (!rcmi_caller_pauses(&comm->engine->budget, &pause))
            break;
        status = rcmi_endpoint_receive_now(endpoint, tag, mem);
    }
    return status == RCM_PENDING ? RCM_AGAIN : status;
}

static rcm_status receive_now(rcm_comm *comm, int peer, uint64_t tag, void *buffer,
                              size_t capacity) {
    const struct rcmi_mem mem = rcmi_mem_host(buffer, capacity);
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    struct rcmi_endpoint *endpoint = rcmi_p2p_endpoint_for_receive(comm->p2p, peer);
    const rcm_status status = endpoint ? receive_soon(comm, endpoint, tag, &mem) : RCM_AGAIN;
    rcmi_comm_give(comm);
    return status;
}

/* ---- The front doors ------------------------------------------------------------------------ */

static bool transfer_now(rcm_comm *comm, enum rcmi_work_kind kind, void *buffer, size_t bytes,
                         int peer, uint64_t tag) {
    const rcm_status status = kind == RCMI_WORK_SEND ? send_now(comm, peer, tag, buffer, bytes)
                                                     : receive_now(comm, peer, tag, buffer, bytes);
    return status == RCM_OK;
}

static struct rcmi_transfer transfer_make(rcm_comm *comm, void *buffer, size_t bytes, int peer,
                                          uint64_t tag) {
    return (struct rcmi_transfer){.peer = peer,
                                  .tag = tag,
                                  .mem = rcmi_node_mem(comm->engine->node, buffer, bytes),
                                  .total = bytes};
}

/* The call makes a work that is started later. */
static rcm_status transfer_persist(rcm_comm *comm, const struct rcmi_template *template,
                                   rcm_work **ret_work) {
    struct rcm_work *work = NULL;
    if (!ret_work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "call->flags has RCM_PERSISTENT and ret_work is NULL");
    rcm_status status = rcmi_work_new_persistent(comm, template->kind, &work);
    if (status == RCM_OK)
        status = rcmi_work_add_template(work, template);
    if (status == RCM_OK)
        *ret_work = work;
    else
        rcm_work_free(work);
    return rcmi_comm_decline(comm, status);
}

rcm_status rcmi_message_start(rcm_comm *comm, const struct rcmi_template *template,
                              struct rcm_work *whole) {
    const struct rcmi_transfer *t = &template->transfer;
    struct rcm_work *work;
    const rcm_status status = rcmi_work_new(comm, template->kind, false, NULL, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(comm, status);
    work->transfer = transfer_make(comm, t->mem.bytes, t->mem.len, t->peer, t->tag);
    if (template->timeout_ms)
        work->timeout_ms = template->timeout_ms;
    rcmi_work_part(work, whole);
    rcmi_comm_submit(comm, work);
    return RCM_OK;
}

static rcm_status transfer_issue(rcm_comm *comm, enum rcmi_work_kind kind, void *buffer,
                                 size_t count, rcm_dtype dtype, int peer, uint64_t tag,
                                 const struct rcm_call *call, rcm_work **ret_work) {
    const char *side = kind == RCMI_WORK_SEND ? "dst" : "src";
    const size_t size = rcm_dtype_size(dtype);
    rcm_status status = rcmi_comm_usable(comm);
    if (status != RCM_OK)
        return rcmi_comm_refuse(comm, kind, status, call, ret_work);
    if (size == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is no type", (int)dtype);
    if (count > SIZE_MAX / 2 / size)
        return rcmi_fail(RCM_ERR_INVALID, 0, "count %zu of %s is more than memory can hold", count,
                         rcm_dtype_name(dtype));
    if (count > 0 && !buffer)
        return rcmi_fail(RCM_ERR_INVALID, 0, "buffer is NULL and count is %zu", count);
    if (peer < 0 || peer >= comm->size)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s %d is not a rank of 0..%d", side, peer,
                         comm->size - 1);
    if (kind == RCMI_WORK_SEND && tag == RCM_ANY_TAG)
        return rcmi_fail(RCM_ERR_INVALID, 0, "tag RCM_ANY_TAG is for receives only");
    struct rcm_work *work;
    struct rcm_call room;
    status = rcmi_call_in(&call, &room);
    const bool host = !rcmi_mem_any_special() || rcmi_mem_kind_of(buffer) == RCMI_MEM_HOST;
    if (status == RCM_OK && rcmi_call_persists(call)) {
        const struct rcmi_template template = {
            .kind = kind,
            .timeout_ms = call->timeout_ms,
            .transfer = transfer_make(comm, buffer, count * size, peer, tag)};
        return transfer_persist(comm, &template, ret_work);
    }
    const int64_t wait_ms = status == RCM_OK ? rcmi_call_waits(call, ret_work) : 0;
    if (wait_ms != 0 && host && transfer_now(comm, kind, buffer, count * size, peer, tag)) {
        if (ret_work)
            *ret_work = NULL;
        return RCM_OK;
    }
    if (status == RCM_OK)
        status = rcmi_work_new(comm, kind, ret_work == NULL, call, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(comm, status);
    work->transfer = transfer_make(comm, buffer, count * size, peer, tag);
    return rcmi_work_issue(comm, work, wait_ms, ret_work);
}

rcm_status rcm_send(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype, int dst,
                    uint64_t tag, const struct rcm_call *call, rcm_work **ret_work) {
    /* A send only reads its buffer. */
    return transfer_issue(comm, RCMI_WORK_SEND, (void *)buffer, count, dtype, dst, tag, call,
                          ret_work);
}

rcm_status rcm_recv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype, int src,
                    uint64_t tag, const struct rcm_call *call, rcm_work **ret_work) {
    return transfer_issue(comm, RCMI_WORK_RECV, buffer, count, dtype, src, tag, call, ret_work);
}

rcm_status rcm_isend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype, int dst,
                     uint64_t tag, rcm_work **ret_work) {
    if (!ret_work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_work is NULL");
    return rcm_send(comm, buffer, count, dtype, dst, tag, NULL, ret_work);
}

rcm_status rcm_irecv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype, int src,
                     uint64_t tag, rcm_work **ret_work) {
    if (!ret_work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_work is NULL");
    return rcm_recv(comm, buffer, count, dtype, src, tag, NULL, ret_work);
}
