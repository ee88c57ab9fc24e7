/* SPDX-License-Identifier: BSD-3-Clause */
/* Device, host and managed memory, memory of other processes, and attributes of pointers. */
#include "cudart.h"
#include <string.h>

/* An allocation of no bytes succeeds with a null pointer. */
static CUresult allocate(void **ret, size_t size) {
    *ret = NULL;
    return size ? cuMemAlloc((CUdeviceptr *)ret, size) : CUDA_SUCCESS;
}

static CUresult allocate_host(void **ret, size_t size, unsigned flags) {
    *ret = NULL;
    return size ? cuMemHostAlloc(ret, size, flags) : CUDA_SUCCESS;
}

static CUresult free_host(void *p) {
    return p ? cuMemFreeHost(p) : CUDA_SUCCESS;
}

static CUresult ipc_open(void **ret, cudaIpcMemHandle_t handle, unsigned flags) {
    CUipcMemHandle same;
    memcpy(&same, &handle, sizeof same);
    return cuIpcOpenMemHandle((CUdeviceptr *)ret, same, flags);
}

/* clang-format off */
API(cudaMalloc, (void **ret, size_t size), allocate(ret, size))
API(cudaMallocHost, (void **ret, size_t size), allocate_host(ret, size, 0))
API(cudaHostAlloc, (void **ret, size_t size, unsigned flags), allocate_host(ret, size, flags))
API(cudaFreeHost, (void *p), free_host(p))
API(cudaIpcOpenMemHandle, (void **ret, cudaIpcMemHandle_t handle, unsigned flags),
    ipc_open(ret, handle, flags))
/* clang-format on */

/* Memory unknown to the driver is the host's. */
static CUresult pointer(struct cudaPointerAttributes *ret, const void *p) {
    unsigned type = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *into[] = {&type, &managed, &device, &on_device, &on_host};
    CUresult r = cuPointerGetAttributes(5, wanted, into, ADDRESS(p));
    *ret = (struct cudaPointerAttributes){
        .type = managed                        ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                               : cudaMemoryTypeUnregistered,
        .device = device,
        .devicePointer = type ? (void *)(uintptr_t)on_device : NULL,
        .hostPointer = type ? on_host : (void *)(uintptr_t)p};
    return r;
}

API(cudaPointerGetAttributes, (struct cudaPointerAttributes * ret, const void *p), pointer(ret, p))
