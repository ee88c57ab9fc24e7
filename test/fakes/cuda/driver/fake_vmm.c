/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual memory management: physical memory, reserved addresses, mappings, access rights, and
 * handles that are POSIX file descriptors. A mapping is an entry of the memory table without access
 * for any device until cuMemSetAccess.
 */
#include "fake_count.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define POISON_LIMIT (64u << 20)
#define MAX_RESERVED 256

struct vmm_handle {
    int fd, device;
    int refs; /* the caller's, and mappings */
    uint64_t size;
    bool shareable, imported;
    struct vmm_handle *next;
};

static struct vmm_handle *handles;
static struct { uint64_t lo, size; } reserved[MAX_RESERVED];

#define WRITE_LOCK pthread_rwlock_wrlock(&fake_mem_lock)
#define UNLOCK     pthread_rwlock_unlock(&fake_mem_lock)

/* ---- physical memory ------------------------------------------------------------------------- */

static struct vmm_handle *find_handle(CUmemGenericAllocationHandle handle) {
    struct vmm_handle *h = handles;
    while (h && (uintptr_t)h != handle)
        h = h->next;
    return h;
}

static struct vmm_handle *add_handle(const struct vmm_handle *like) {
    struct vmm_handle *h = calloc(1, sizeof *h);
    *h = *like;
    h->refs = 1;
    h->next = handles;
    return handles = h;
}

static void drop_handle(struct vmm_handle *h) {
    if (--h->refs)
        return;
    for (struct vmm_handle **p = &handles; *p; p = &(*p)->next)
        if (*p == h) {
            *p = h->next;
            break;
        }
    close(h->fd);
    fake_count_import(h->imported ? -1 : 0);
    free(h);
}

static CUresult check_prop(const CUmemAllocationProp *p) {
    if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (fake_bad_device(p->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    return p->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
               ? CUDA_ERROR_NOT_SUPPORTED
               : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *p,
                                               CUmemAllocationGranularity_flags option) {
    ENTER(false);
    (void)option;
    CUresult r = granularity ? check_prop(p) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *granularity = GRANULE;
    return r;
}

static void poison(int fd, size_t size) {
    void *p = size <= POISON_LIMIT ? mmap(NULL, size, PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (p == MAP_FAILED)
        return;
    memset(p, 0xa5, size);
    munmap(p, size);
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                             const CUmemAllocationProp *p, unsigned long long flags) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    CUresult r = check_prop(p);
    if (r)
        return r;
    if (!out || flags || !size || size % GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    fake_sync_alloc();
    int fd = fake_new_memory(size, p->location.id);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    poison(fd, size);
    WRITE_LOCK;
    *out = (uintptr_t)add_handle(&(struct vmm_handle){.fd = fd,
                                                      .device = p->location.id,
                                                      .size = size,
                                                      .shareable = p->requestedHandleTypes != 0});
    UNLOCK;
    return CUDA_SUCCESS;
}

/* The memory stays as long as it is mapped. */
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
    ENTER(false);
    WRITE_LOCK;
    struct vmm_handle *h = find_handle(handle);
    if (h)
        drop_handle(h);
    UNLOCK;
    return h ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *p,
                                                        CUmemGenericAllocationHandle handle) {
    ENTER(false);
    WRITE_LOCK;
    struct vmm_handle *h = find_handle(handle);
    if (h && p) {
        memset(p, 0, sizeof *p);
        p->type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        p->location.id = h->device;
        if (h->shareable)
            p->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    UNLOCK;
    return h && p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- file descriptors ------------------------------------------------------------------------ */

CUresult CUDAAPI cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags) {
    ENTER(false);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    WRITE_LOCK;
    struct vmm_handle *h = find_handle(handle);
    int fd = h && h->shareable ? fcntl(h->fd, F_DUPFD_CLOEXEC, 0) : -1;
    UNLOCK;
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_count_export();
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

/* The facts that the owner wrote behind the data. */
static bool read_trailer(int fd, struct trailer *t) {
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size > (off_t)PAGE &&
           pread(fd, t, sizeof *t, st.st_size - (off_t)PAGE) == (ssize_t)sizeof *t &&
           t->size == (uint64_t)st.st_size - PAGE;
}

/* The caller keeps its descriptor. */
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                                CUmemAllocationHandleType type) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    struct trailer t;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!out || !read_trailer((int)(intptr_t)os_handle, &t))
        return CUDA_ERROR_INVALID_VALUE;
    int device = fake_ordinal_of(t.physical);
    int fd = fcntl((int)(intptr_t)os_handle, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || device < 0) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    WRITE_LOCK;
    *out = (uintptr_t)add_handle(&(struct vmm_handle){
        .fd = fd, .device = device, .size = t.size, .shareable = true, .imported = true});
    UNLOCK;
    fake_count_import(1);
    return CUDA_SUCCESS;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int find_reserved(uint64_t lo, uint64_t size) {
    for (int i = 0; i < MAX_RESERVED; i++)
        if (reserved[i].size && lo >= reserved[i].lo && size <= reserved[i].size &&
            lo - reserved[i].lo <= reserved[i].size - size)
            return i;
    return -1;
}

static uint64_t reserve_locked(size_t size) {
    int i = 0;
    while (i < MAX_RESERVED && reserved[i].size)
        i++;
    uint64_t lo = i < MAX_RESERVED ? fake_take_addresses(size) : 0;
    if (lo) {
        reserved[i].lo = lo;
        reserved[i].size = size;
    }
    return lo;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment,
                                     CUdeviceptr wish, unsigned long long flags) {
    ENTER(false);
    (void)wish; /* a hint */
    if (!out || flags || !size || size % GRANULE || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment > GRANULE)
        return CUDA_ERROR_NOT_SUPPORTED;
    WRITE_LOCK;
    *out = reserve_locked(size);
    UNLOCK;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

struct span {
    uint64_t lo, size;
};

static bool overlaps(const struct mem *m, const void *arg) {
    const struct span *s = arg;
    return m->lo < s->lo + s->size && s->lo < m->lo + m->size;
}

static bool inside(const struct mem *m, const void *arg) {
    const struct span *s = arg;
    return m->kind == MEM_MAPPED && m->lo >= s->lo && m->lo + m->size <= s->lo + s->size;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr lo, size_t size) {
    ENTER(false);
    WRITE_LOCK;
    struct span s = {lo, size};
    int i = find_reserved(lo, size);
    bool ok =
        i >= 0 && reserved[i].lo == lo && reserved[i].size == size && !fake_mem_any(overlaps, &s);
    if (ok) {
        reserved[i].size = 0;
        fake_give_addresses(lo, size);
    }
    UNLOCK;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static CUresult map_locked(struct span s, struct vmm_handle *h) {
    if (!h || s.size != h->size || find_reserved(s.lo, s.size) < 0 || fake_mem_any(overlaps, &s))
        return CUDA_ERROR_INVALID_VALUE;
    struct mem m = {.kind = MEM_MAPPED,
                    .lo = s.lo,
                    .size = s.size,
                    .shift = (int64_t)WINDOW,
                    .mapped = s.size,
                    .fd = h->fd,
                    .device = h->device,
                    .refs = 1,
                    .handle = h};
    void *p = mmap((void *)(uintptr_t)(s.lo + WINDOW), s.size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, h->fd, 0);
    if (p == MAP_FAILED || !fake_mem_add(&m))
        return CUDA_ERROR_OUT_OF_MEMORY;
    h->refs++;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr lo, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
    ENTER(false);
    if (offset || flags || !size)
        return CUDA_ERROR_INVALID_VALUE;
    WRITE_LOCK;
    CUresult r = map_locked((struct span){lo, size}, find_handle(handle));
    UNLOCK;
    return r;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr lo, size_t size) {
    ENTER(false);
    struct span s = {lo, size};
    struct mem *m;
    bool any = false;
    WRITE_LOCK;
    while ((m = fake_mem_any(inside, &s))) {
        any = true;
        fake_close_window(m->lo, m->size);
        drop_handle(m->handle);
        fake_mem_remove(m);
    }
    UNLOCK;
    return any ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *addr) {
    ENTER(false);
    WRITE_LOCK;
    struct mem *m = fake_mem_at((uintptr_t)addr);
    bool ok = out && m && m->kind == MEM_MAPPED;
    if (ok) {
        m->handle->refs++;
        *out = (uintptr_t)m->handle;
    }
    UNLOCK;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- access ---------------------------------------------------------------------------------- */

static CUresult check_access(const struct mem *m, const CUmemAccessDesc *d) {
    const int *physical = fake_settings()->physical;
    if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (fake_bad_device(d->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    return d->location.id == m->device ||
                   fake_peer_possible(physical[d->location.id], physical[m->device])
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
}

static void set_bit(uint32_t *mask, int bit, bool on) {
    *mask = on ? *mask | 1u << bit : *mask & ~(1u << bit);
}

static CUresult allow(struct mem *m, const CUmemAccessDesc *d, size_t count) {
    for (size_t i = 0; i < count; i++) {
        CUresult r = check_access(m, &d[i]);
        if (r)
            return r;
        set_bit(&m->access, d[i].location.id, d[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
        set_bit(&m->read_only, d[i].location.id, d[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
    }
    fake_mem_changed();
    return CUDA_SUCCESS;
}

/* The range must consist of whole mappings. */
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr lo, size_t size, const CUmemAccessDesc *d,
                                size_t count) {
    ENTER(false);
    if (!d || !count || !size)
        return CUDA_ERROR_INVALID_VALUE;
    struct span s = {lo, size};
    CUresult r = CUDA_SUCCESS;
    WRITE_LOCK;
    for (uint64_t at = lo; !r && at < lo + size;) {
        struct mem *m = fake_mem_at(at);
        r = m && inside(m, &s) && m->lo == at ? allow(m, d, count) : CUDA_ERROR_INVALID_VALUE;
        at = r ? at : at + m->size;
    }
    UNLOCK;
    return r;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *where,
                                CUdeviceptr addr) {
    ENTER(false);
    struct mem m;
    if (!flags || !where || where->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        fake_bad_device(where->id) || !fake_find(addr, &m) || m.kind != MEM_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = !(m.access >> where->id & 1)   ? CU_MEM_ACCESS_FLAGS_PROT_NONE
             : m.read_only >> where->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                            : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

bool fake_vmm_shareable(const struct mem *m) {
    return m->kind == MEM_MAPPED && m->handle->shareable;
}

bool fake_vmm_imported(const struct mem *m) {
    return m->handle->imported;
}

bool fake_vmm_is_one_range(const struct mem *m, uint64_t lo, uint64_t size) {
    pthread_rwlock_rdlock(&fake_mem_lock);
    bool one = m->kind == MEM_MAPPED && find_reserved(lo, size) >= 0;
    UNLOCK;
    return one;
}
