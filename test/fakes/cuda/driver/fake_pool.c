/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the devices' default pools: stream-ordered, and not shareable with other processes. */
#include "fake_table.h"

/* The default pool of a device. It has no state. */
struct CUmemPoolHandle_st {
    int device;
};
static struct CUmemPoolHandle_st pools[MAX_DEVICES];

CUmemoryPool fake_pool_of(const struct mem *m) {
    return m->pool ? &pools[m->device] : NULL;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice d) {
    ENTER(false);
    if (!out || fake_bad_device(d))
        return CUDA_ERROR_INVALID_VALUE;
    *out = &pools[d];
    return CUDA_SUCCESS;
}

/* The memory is usable at once, earlier than the stream order requires. */
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream) {
    ENTER(true);
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_capturing(stream))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct mem m = {
        .kind = MEM_DEVICE, .size = size, .device = fake_current()->device, .pool = true};
    *out = fake_alloc_device(&m);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr addr, CUstream stream) {
    ENTER(true);
    struct mem m;
    if (!fake_find(addr, &m) || m.kind != MEM_DEVICE || m.lo != addr)
        return CUDA_ERROR_INVALID_VALUE;
    struct op *op = fake_op(OP_FREE);
    op->to_address = addr;
    return fake_submit(stream, op);
}
