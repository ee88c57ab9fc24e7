/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of pointers. */
#include "fake_table.h"

#define PUT(type, v) (*(type *)data = (type)(v))

static CUresult attribute(void *data, CUpointer_attribute a, const struct mem *m, uint64_t addr) {
    bool host = m->kind == MEM_HOST || m->kind == MEM_REGISTERED || m->kind == MEM_MANAGED;
    switch (a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return PUT(CUcontext, m->ctx), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return PUT(unsigned, m->kind == MEM_HOST || m->kind == MEM_REGISTERED
                                 ? CU_MEMORYTYPE_HOST
                                 : CU_MEMORYTYPE_DEVICE),
               CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return PUT(CUdeviceptr, addr), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host)
            return CUDA_ERROR_INVALID_VALUE;
        return PUT(void *, (uintptr_t)addr), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return PUT(unsigned long long, m->id), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return PUT(unsigned, m->kind == MEM_MANAGED), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return PUT(int, m->device), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return PUT(int, m->kind == MEM_DEVICE && !m->pool), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return PUT(CUdeviceptr, fake_range_start(m)), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return PUT(size_t, fake_range_size(m)), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return PUT(unsigned, 1), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return PUT(unsigned long long,
                   fake_vmm_shareable(m) ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0),
               CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return PUT(CUmemoryPool, fake_pool_of(m)), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return PUT(unsigned, 0), CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute a, CUdeviceptr addr) {
    ENTER(false);
    struct mem m;
    if (!data || !fake_find(addr, &m))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute(data, a, &m, addr);
}

/* Unlike cuPointerGetAttribute, this call returns zeros and success for unknown addresses. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned n, CUpointer_attribute *a, void **data,
                                        CUdeviceptr addr) {
    ENTER(false);
    struct mem m, none = {.device = -2};
    bool known = fake_find(addr, &m);
    for (unsigned i = 0; i < n; i++) {
        if (!known && a[i] == CU_POINTER_ATTRIBUTE_CONTEXT)
            *(CUcontext *)data[i] = NULL;
        else if (!known && a[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
            *(unsigned *)data[i] = 0;
        else if (!known)
            attribute(data[i], a[i], &none, 0);
        else if (attribute(data[i], a[i], &m, addr) == CUDA_ERROR_INVALID_VALUE)
            *(void **)data[i] = NULL;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute a, CUdeviceptr addr) {
    ENTER(false);
    (void)value;
    return a == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && fake_is_device(addr, 1)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}
