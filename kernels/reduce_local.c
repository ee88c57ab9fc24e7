/* SPDX-License-Identifier: BSD-3-Clause */
/* The public face of the kernels: a reduction on this rank alone, which needs no communicator. */
#include "error.h"
#include "kernels.h"

static rcm_status check_type(size_t count, rcm_dtype dtype, rcm_op op) {
    const size_t size = rcm_dtype_size(dtype);
    if (size == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is no type", (int)dtype);
    if (!rcmi_reduce_kernel(dtype, op))
        return rcmi_fail(RCM_ERR_INVALID, 0, "op %d is no operator", (int)op);
    if (count > SIZE_MAX / 2 / size)
        return rcmi_fail(RCM_ERR_INVALID, 0, "count %zu of %s is more than memory can hold", count,
                         rcm_dtype_name(dtype));
    return RCM_OK;
}

static rcm_status check_buffers(const void *in, const void *inout, size_t count, size_t bytes) {
    const uintptr_t a = (uintptr_t)in, b = (uintptr_t)inout;
    if (!in || !inout)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL and count is %zu", in ? "inout" : "in",
                         count);
    if (a < b + bytes && b < a + bytes)
        return rcmi_fail(RCM_ERR_INVALID, 0, "in %p and inout %p overlap (%zu bytes each)", in,
                         inout, bytes);
    return RCM_OK;
}

rcm_status rcm_reduce_local(const void *in, void *inout, size_t count, rcm_dtype dtype, rcm_op op) {
    const void *const srcs[] = {in, inout};
    rcm_status status = check_type(count, dtype, op);
    if (status != RCM_OK || count == 0)
        return status;
    status = check_buffers(in, inout, count, count * rcm_dtype_size(dtype));
    if (status == RCM_OK)
        rcmi_reduce_kernel(dtype, op)(inout, srcs, 2, count);
    return status;
}
