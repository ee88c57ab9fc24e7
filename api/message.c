/* SPDX-License-Identifier: BSD-3-Clause */
/* The front doors of point to point: arguments are checked here, once. What follows is in
 * transfer.c. */
#include "comm.h"

static bool transfer_now(rcm_comm *comm, enum rcmi_work_kind kind, void *buffer, size_t bytes,
                         int peer, uint64_t tag) {
    const rcm_status status = kind == RCMI_WORK_SEND
                                  ? rcmi_send_now(comm, peer, tag, buffer, bytes)
                                  : rcmi_receive_now(comm, peer, tag, buffer, bytes);
    return status == RCM_OK;
}

static rcm_status transfer_issue(rcm_comm *comm, enum rcmi_work_kind kind, void *buffer,
                                 size_t count, rcm_dtype dtype, int peer, uint64_t tag,
                                 const struct rcm_call *call, rcm_work **ret_work) {
    const char *side = kind == RCMI_WORK_SEND ? "dst" : "src";
    const size_t size = rcm_dtype_size(dtype);
    rcm_status status = rcmi_comm_usable(comm);
    if (status != RCM_OK)
        return status;
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
    if (status == RCM_OK && !ret_work && transfer_now(comm, kind, buffer, count * size, peer, tag))
        return RCM_OK;
    if (status == RCM_OK)
        status = rcmi_work_new(comm, kind, ret_work == NULL, call, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(comm, status);
    work->transfer =
        (struct rcmi_transfer){.peer = peer,
                               .tag = tag,
                               .mem = rcmi_node_mem(comm->engine->node, buffer, count * size),
                               .total = count * size};
    return rcmi_work_issue(comm, work, ret_work);
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
