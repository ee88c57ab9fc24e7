/* SPDX-License-Identifier: BSD-3-Clause */
/* rcm_reduce_local: a reduction on this rank alone, without a communicator. */
#include "entry.h"
#include "error.h"
#include "kernels.h"
#include "mem_kind.h"
#include "operator.h"

static rcm_status check_type(size_t count, rcm_dtype dtype, rcm_op op) {
    const rcm_status status = rcm_op_defined(op, dtype);
    if (status == RCM_OK && (op == RCM_AVG || rcmi_op_scales(op)))
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s has no meaning on a single rank", rcm_op_name(op));
    if (status == RCM_OK && count > SIZE_MAX / 2 / rcm_dtype_size(dtype))
        return rcmi_fail(RCM_ERR_INVALID, 0, "count %zu of %s is more than memory can hold", count,
                         rcm_dtype_name(dtype));
    return status;
}

static rcm_status check_host(const char *name, const void *buffer) {
    enum rcmi_mem_kind kind;
    int device;
    const rcm_status status = rcmi_mem_kind_of(buffer, &kind, &device);
    if (status != RCM_OK || rcmi_mem_kind_row(kind)->at_once)
        return status;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s %p is %s: the CPU reduces host memory only", name,
                     buffer, rcmi_mem_kind_name(kind));
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

static rcm_status reduce_created(void *inout, const void *const *srcs, size_t count,
                                 rcm_dtype dtype, rcm_op op) {
    struct rcmi_kernels kernels;
    const rcm_status status = rcmi_operator_hold(op);
    if (status != RCM_OK)
        return status;
    rcmi_kernels_of(dtype, op, 1, &kernels);
    kernels.sums[0].by.reduce(inout, srcs, 2, count, &kernels.sums[0].context);
    rcmi_operator_drop(op);
    return RCM_OK;
}

rcm_status rcm_reduce_local(const void *in, void *inout, size_t count, rcm_dtype dtype, rcm_op op) {
    RCMI_ENTRY;
    const void *const srcs[] = {in, inout};
    rcm_status status = check_type(count, dtype, op);
    if (status != RCM_OK || count == 0)
        return status;
    status = check_buffers(in, inout, count, count * rcm_dtype_size(dtype));
    if (status == RCM_OK)
        status = check_host("in", in);
    if (status == RCM_OK)
        status = check_host("inout", inout);
    if (status == RCM_OK && rcmi_op_is_created(op))
        return reduce_created(inout, srcs, count, dtype, op);
    if (status == RCM_OK)
        rcmi_reduction_find(dtype, op)->reduce(inout, srcs, 2, count, NULL);
    return status;
}
