/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory known to the driver: pinned, registered, managed. */
#include "fake_table.h"
#include <sys/mman.h>

static CUresult add_host(void *p, size_t size, enum mem_kind kind, unsigned flags) {
    struct mem m = {.kind = kind,
                    .lo = (uintptr_t)p,
                    .size = size,
                    .fd = -1,
                    .flags = flags,
                    .device = fake_current()->device,
                    .ctx = fake_current(),
                    .refs = 1};
    pthread_rwlock_wrlock(&fake_mem_lock);
    bool overlap = fake_mem_at(m.lo) || fake_mem_at(m.lo + size - 1);
    bool ok = !overlap && fake_mem_add(&m);
    pthread_rwlock_unlock(&fake_mem_lock);
    return overlap ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
           : ok    ? CUDA_SUCCESS
                   : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult drop_host(void *p, enum mem_kind kind, CUresult absent) {
    pthread_rwlock_wrlock(&fake_mem_lock);
    struct mem *m = fake_mem_at((uintptr_t)p);
    bool ok = m && m->lo == (uintptr_t)p && m->kind == kind;
    if (ok && kind != MEM_REGISTERED)
        munmap(p, fake_round_up(m->size, PAGE));
    if (ok)
        fake_mem_remove(m);
    pthread_rwlock_unlock(&fake_mem_lock);
    return ok ? CUDA_SUCCESS : absent;
}

CUresult fake_free_managed(uint64_t addr) {
    return drop_host((void *)(uintptr_t)addr, MEM_MANAGED, CUDA_ERROR_INVALID_VALUE);
}

static CUresult alloc_host(void **out, size_t size, enum mem_kind kind, unsigned flags) {
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    fake_sync_alloc();
    void *p = mmap(NULL, fake_round_up(size, PAGE), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = p;
    return add_host(p, size, kind, flags);
}

CUresult CUDAAPI cuMemHostAlloc(void **out, size_t size, unsigned flags) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return alloc_host(out, size, MEM_HOST, flags);
}

CUresult CUDAAPI cuMemAllocHost(void **out, size_t size) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return alloc_host(out, size, MEM_HOST, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    fake_sync_alloc();
    return drop_host(p, MEM_HOST, CUDA_ERROR_INVALID_VALUE);
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned flags) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    void *p;
    CUresult r = alloc_host(&p, size, MEM_MANAGED, flags);
    if (!r)
        *out = (uintptr_t)p;
    return r;
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t size, unsigned flags) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    fake_sync_alloc();
    return p && size ? add_host(p, size, MEM_REGISTERED, flags) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostUnregister(void *p) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    fake_sync_alloc();
    return drop_host(p, MEM_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned flags) {
    ENTER(true);
    struct mem m;
    if (flags || !fake_find((uintptr_t)p, &m) || m.kind < MEM_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned *flags, void *p) {
    ENTER(true);
    struct mem m;
    if (!fake_find((uintptr_t)p, &m) || m.kind < MEM_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = m.flags;
    return CUDA_SUCCESS;
}
