/* SPDX-License-Identifier: BSD-3-Clause */
/* Which allocations contain memory. Allocations of cuMemCreate may be mapped contiguously. */
#include "cuda.h"
#include "device_internal.h"

/* The rest of an allocation from an address on. */
struct extent {
    uint64_t buffer; /* unique in the process; 0: no allocation */
    rcmi_cuda_address end;
};

static rcmi_cuda_code extent_query(const struct rcmi_cuda *cuda, rcmi_cuda_address at,
                                   struct extent *ret) {
    enum rcmi_cuda_pointer_attribute names[] = {
        RCMI_CUDA_POINTER_BUFFER_ID, RCMI_CUDA_POINTER_RANGE_START, RCMI_CUDA_POINTER_RANGE_BYTES};
    rcmi_cuda_address start = 0;
    size_t bytes = 0;
    *ret = (struct extent){.buffer = 0};
    void *values[] = {&ret->buffer, &start, &bytes};
    const rcmi_cuda_code code = cuda->cuPointerGetAttributes(3, names, values, at);
    ret->end = start + bytes;
    if (code == RCMI_CUDA_INVALID_VALUE || ret->end <= at)
        ret->buffer = 0;
    return code == RCMI_CUDA_INVALID_VALUE ? RCMI_CUDA_SUCCESS : code;
}

rcm_status device_identify(const void *memory, size_t bytes, uint64_t *ret_identity) {
    const struct rcmi_cuda *cuda = rcmi_cuda_there();
    rcmi_cuda_address at = (rcmi_cuda_address)(uintptr_t)memory;
    const rcmi_cuda_address end = at + bytes;
    uint64_t identity = 0;
    *ret_identity = 0;
    while (cuda && at < end) {
        struct extent extent;
        const rcmi_cuda_code code = extent_query(cuda, at, &extent);
        if (code != RCMI_CUDA_SUCCESS)
            return rcmi_cuda_fail(code, "cuPointerGetAttributes");
        if (extent.buffer == 0)
            return RCM_OK;
        identity = identity * UINT64_C(0x9e3779b97f4a7c15) + extent.buffer;
        at = extent.end;
    }
    *ret_identity = identity;
    return RCM_OK;
}
