/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is checked of a collective's arguments before anything is sent: which buffers a rank has,
 * how long they are and what in place means follows from the collective's row
 * (algorithms/collectives.h).
 */
#include "request.h"
#include <string.h>
#include "collectives.h"

rcm_status rcmi_check_vector(size_t count, rcm_dtype dtype, uint32_t blocks) {
    const size_t size = rcm_dtype_size(dtype);
    if (size == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is no type", (int)dtype);
    if (count > SIZE_MAX / 2 / size / blocks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "count %zu of %s is more than memory can hold", count,
                         rcm_dtype_name(dtype));
    return RCM_OK;
}

rcm_status rcmi_check_op(rcm_op op) {
    if (strcmp(rcm_op_name(op), "?") == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "op %d is no operator", (int)op);
    return RCM_OK;
}

rcm_status rcmi_check_root(int size, int root) {
    if (root < 0 || root >= size)
        return rcmi_fail(RCM_ERR_INVALID, 0, "root %d is not a rank of 0..%d", root, size - 1);
    return RCM_OK;
}

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

static rcm_status check_buffers(const struct rcmi_request *r,
                                const struct rcmi_collective *collective, int rank, int size) {
    const struct rcmi_blocks in = rcmi_collective_in(collective, size, rank, r->root);
    const struct rcmi_blocks out = rcmi_collective_out(collective, size, rank, r->root);
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

rcm_status rcmi_request_check_values(const struct rcmi_request *r, int size) {
    const struct rcmi_collective *collective = rcmi_collective_at((int)r->collective);
    rcm_status status = rcmi_check_vector(0, r->dtype, 1);
    if (status == RCM_OK && collective->reduces)
        status = rcmi_check_op(r->op);
    if (status == RCM_OK && rcmi_collective_is_rooted(collective))
        status = rcmi_check_root(size, r->root);
    return status;
}

rcm_status rcmi_request_check(const struct rcmi_request *r, int rank, int size) {
    const struct rcmi_collective *collective = rcmi_collective_at((int)r->collective);
    rcm_status status =
        rcmi_check_vector(r->count, r->dtype, rcmi_collective_larger(collective, size));
    if (status == RCM_OK)
        status = rcmi_request_check_values(r, size);
    return status == RCM_OK ? check_buffers(r, collective, rank, size) : status;
}
