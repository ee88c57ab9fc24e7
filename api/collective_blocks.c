/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The front doors of the collectives that move blocks, and of rcm_reduce: which buffers a rank has,
 * how long they are and what in place means follows from the collective's row
 * (algorithms/collectives.h). Not here: rcm_all_reduce, rcm_broadcast, rcm_barrier, and what
 * becomes of a call (collective.c).
 */
#include "collectives.h"
#include "request.h"

/* A buffer of this rank. */
struct span {
    const void *bytes;
    size_t len;
};

/* In place, the smaller buffer is the rank's block of the larger one. */
static rcm_status check_overlap(const struct span *send, const struct span *recv,
                                intptr_t distance) {
    const uintptr_t a = (uintptr_t)send->bytes, b = (uintptr_t)recv->bytes;
    if (send->len == 0 || recv->len == 0 || (intptr_t)(a - b) == distance)
        return RCM_OK;
    if (a < b + recv->len && b < a + send->len)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "send %p (%zu bytes) and recv %p (%zu bytes) overlap, and not as in place",
                         send->bytes, send->len, recv->bytes, recv->len);
    return RCM_OK;
}

static rcm_status check_buffers(const rcm_comm *comm, const struct rcmi_request *r,
                                const struct rcmi_collective *collective) {
    const struct rcmi_blocks in = rcmi_collective_in(collective, comm->size, comm->rank, r->root);
    const struct rcmi_blocks out = rcmi_collective_out(collective, comm->size, comm->rank, r->root);
    const size_t block = r->count * rcm_dtype_size(r->dtype);
    const struct span send = {r->in, in.n * block}, recv = {r->out, out.n * block};
    rcm_status status = rcmi_check_buffer("send", r->in, in.n * r->count);
    if (status == RCM_OK)
        status = rcmi_check_buffer("recv", r->out, out.n * r->count);
    if (status == RCM_OK)
        status =
            check_overlap(&send, &recv, ((intptr_t)in.at - (intptr_t)out.at) * (intptr_t)block);
    return status;
}

static rcm_status request_check(const rcm_comm *comm, const struct rcmi_request *r) {
    const struct rcmi_collective *collective = rcmi_collective_at((int)r->collective);
    rcm_status status =
        rcmi_check_vector(r->count, r->dtype, rcmi_collective_larger(collective, comm->size));
    if (status == RCM_OK && collective->reduces)
        status = rcmi_check_op(r->op);
    if (status == RCM_OK && rcmi_collective_is_rooted(collective))
        status = rcmi_check_root(comm, r->root);
    return status == RCM_OK ? check_buffers(comm, r, collective) : status;
}

static rcm_status request_call(rcm_comm *comm, struct rcmi_request *request, rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    if (status == RCM_OK)
        status = request_check(comm, request);
    return status == RCM_OK ? rcmi_request_issue(comm, request, ret_work) : status;
}

rcm_status rcm_reduce(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      rcm_op op, int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_REDUCE,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op,
                                   .root = root,
                                   .call = call};
    return request_call(comm, &request, ret_work);
}

rcm_status rcm_scatter(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                       int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_SCATTER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .root = root,
                                   .call = call};
    return request_call(comm, &request, ret_work);
}

rcm_status rcm_gather(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_GATHER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .root = root,
                                   .call = call};
    return request_call(comm, &request, ret_work);
}

rcm_status rcm_all_gather(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_ALL_GATHER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .call = call};
    return request_call(comm, &request, ret_work);
}

rcm_status rcm_reduce_scatter(rcm_comm *comm, const void *send, void *recv, size_t count,
                              rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                              rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_REDUCE_SCATTER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op,
                                   .call = call};
    return request_call(comm, &request, ret_work);
}

rcm_status rcm_all_to_all(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_ALL_TO_ALL,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .call = call};
    return request_call(comm, &request, ret_work);
}
