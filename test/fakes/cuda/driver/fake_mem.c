/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the emulated driver. Device memory is a memfd mapped twice. The address that the API
 * returns is reserved without access, so a host that dereferences a device pointer gets SIGSEGV, as
 * with a GPU. The driver and kernels use the second mapping, WINDOW bytes higher. IPC handles name
 * the owner's memfd, which is opened through /proc/PID/fd.
 */
#include "fake_count.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_MEMS     4096
#define POISON_LIMIT (64u << 20)

static struct mem mems[MAX_MEMS];
static int nmems;
static struct { uint64_t lo, size; } holes[MAX_MEMS];
static int nholes;
static uint64_t base, top;
static uint64_t next_id = 1;
static _Atomic uint64_t generation = 1;
pthread_rwlock_t fake_mem_lock = PTHREAD_RWLOCK_INITIALIZER;
#define lock fake_mem_lock

uint64_t fake_round_up(uint64_t v, uint64_t to) {
    return (v + to - 1) / to * to;
}

/* ---- the table ------------------------------------------------------------------------------ */

struct mem *fake_mem_at(uint64_t addr) {
    for (int i = 0; i < nmems; i++)
        if (mems[i].size && addr >= mems[i].lo && addr - mems[i].lo < mems[i].size)
            return &mems[i];
    return NULL;
}

bool fake_find(uint64_t addr, struct mem *out) {
    pthread_rwlock_rdlock(&lock);
    struct mem *m = fake_mem_at(addr);
    if (m)
        *out = *m;
    pthread_rwlock_unlock(&lock);
    return m != NULL;
}

struct mem *fake_mem_any(bool (*matches)(const struct mem *, const void *), const void *arg) {
    for (int i = 0; i < nmems; i++)
        if (mems[i].size && matches(&mems[i], arg))
            return &mems[i];
    return NULL;
}

struct mem *fake_mem_add(const struct mem *m) {
    int i = 0;
    while (i < nmems && mems[i].size)
        i++;
    if (i == MAX_MEMS)
        return NULL;
    nmems += i == nmems;
    mems[i] = *m;
    mems[i].id = next_id++;
    return &mems[i];
}

void fake_mem_changed(void) {
    atomic_fetch_add(&generation, 1);
}

void fake_mem_remove(struct mem *m) {
    m->size = 0;
    fake_mem_changed();
}

/* The length of [addr, end) within the memory that contains addr; out: that memory. 0: there is
 * none. */
static uint64_t piece(uint64_t addr, uint64_t end, struct mem *out) {
    if (!fake_find(addr, out))
        return 0;
    uint64_t to = out->lo + out->size;
    return (end < to ? end : to) - addr;
}

bool fake_each_piece(uint64_t addr, uint64_t size,
                     bool (*fits)(const struct mem *, uint64_t size, const void *),
                     const void *arg) {
    uint64_t end = addr + size, n;
    struct mem m;
    for (uint64_t at = addr; at < end; at += n) {
        n = piece(at, end, &m);
        if (!n || !fits(&m, n, arg) || (n < size && !fake_vmm_is_one_range(&m, addr, size)))
            return false;
    }
    return true;
}

static bool fits_any(const struct mem *m, uint64_t size, const void *arg) {
    (void)m, (void)size, (void)arg;
    return true;
}

void *fake_host_ptr(uint64_t addr, size_t size, bool *known) {
    struct mem m;
    bool found = fake_find(addr, &m);
    if (known)
        *known = found;
    if (!found)
        return (void *)(uintptr_t)addr;
    return fake_each_piece(addr, size, fits_any, NULL)
               ? (void *)(uintptr_t)(addr + (uint64_t)m.shift)
               : NULL;
}

bool fake_is_device(uint64_t addr, size_t size) {
    return fake_each_piece(addr, size, fits_any, NULL);
}

/* ---- address space -------------------------------------------------------------------------- */

static bool reserve_window(void) {
    if (base)
        return true;
    void *p = mmap(NULL, 2 * WINDOW + GRANULE, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    base = top = fake_round_up((uintptr_t)p, GRANULE);
    return true;
}

/* Uses the lowest hole that fits, so freed addresses are soon reused, as with the real driver. */
uint64_t fake_take_addresses(uint64_t size) {
    if (!reserve_window())
        return 0;
    for (int i = 0; i < nholes; i++)
        if (holes[i].size == size) {
            uint64_t lo = holes[i].lo;
            holes[i] = holes[--nholes];
            return lo;
        }
    if (top + size > base + WINDOW)
        return 0;
    top += size;
    return top - size;
}

void fake_close_window(uint64_t lo, uint64_t size) {
    mmap((void *)(uintptr_t)(lo + WINDOW), size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void fake_give_addresses(uint64_t lo, uint64_t size) {
    fake_close_window(lo, size);
    if (nholes < MAX_MEMS) {
        holes[nholes].lo = lo;
        holes[nholes++].size = size;
    }
}

#define MAX_RETIRED 64

void fake_retire_addresses(uint64_t lo, uint64_t size) {
    static struct { uint64_t lo, size; } retired[MAX_RETIRED];
    static unsigned next;
    const unsigned i = next++ % MAX_RETIRED;
    if (retired[i].size)
        fake_give_addresses(retired[i].lo, retired[i].size);
    fake_close_window(lo, size);
    retired[i].lo = lo;
    retired[i].size = size;
}

/* Maps the memfd of a mem whose size, fd and kind are set. */
bool fake_map_device(struct mem *m) {
    m->mapped = fake_round_up(m->size, PAGE);
    m->lo = fake_take_addresses(fake_round_up(m->size, GRANULE));
    if (!m->lo)
        return false;
    m->shift = (int64_t)WINDOW;
    void *p = mmap((void *)(uintptr_t)(m->lo + WINDOW), m->mapped, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, m->fd, 0);
    m->trailer = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, (off_t)m->mapped);
    return p != MAP_FAILED && m->trailer != MAP_FAILED;
}

/* Addresses of closed imports are not reused soon, so that a late use of one is detected. */
void fake_unmap_device(struct mem *m) {
    const uint64_t size = fake_round_up(m->size, GRANULE);
    if (m->kind == MEM_IMPORTED)
        fake_retire_addresses(m->lo, size);
    else
        fake_give_addresses(m->lo, size);
    munmap(m->trailer, PAGE);
    close(m->fd);
}

/* ---- device memory -------------------------------------------------------------------------- */

int fake_new_memory(size_t size, int device) {
    int fd = memfd_create("fake-gpu", MFD_CLOEXEC);
    off_t data = (off_t)fake_round_up(size, PAGE);
    struct trailer t = {.size = size, .physical = fake_settings()->physical[device]};
    if (fd >= 0 && (ftruncate(fd, data + (off_t)PAGE) < 0 ||
                    pwrite(fd, &t, sizeof t, data) != (ssize_t)sizeof t)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool place_locked(struct mem *m) {
    if (fake_block_fits(m->size))
        return fake_block_take(m);
    m->fd = fake_new_memory(m->size, m->device);
    return m->fd >= 0 && fake_map_device(m);
}

void fake_sync_alloc(void) {
    if (fake_settings()->sync_alloc)
        fake_sync_context(fake_current());
}

uint64_t fake_alloc_device(struct mem *m) {
    m->refs = 1;
    m->fd = -1;
    m->ctx = fake_current();
    pthread_rwlock_wrlock(&lock);
    bool ok = place_locked(m) && fake_mem_add(m);
    pthread_rwlock_unlock(&lock);
    if (!ok)
        return 0;
    if (m->size <= POISON_LIMIT)
        memset((void *)(uintptr_t)(m->lo + WINDOW), 0xa5, m->size);
    return m->lo;
}

static int living_importers(const struct mem *m) {
    int n = 0;
    for (int i = 0; i < 64; i++) {
        int pid = atomic_load(&m->trailer->importer[i]);
        n += pid != 0 && kill(pid, 0) == 0;
    }
    return n;
}

CUresult fake_free_device(uint64_t addr) {
    pthread_rwlock_wrlock(&lock);
    struct mem *m = fake_mem_at(addr);
    bool ok = m && m->lo == addr && m->kind == MEM_DEVICE;
    if (ok && m->block) {
        fake_block_give(m);
        fake_mem_remove(m);
    } else if (ok) {
        int n = living_importers(m);
        if (n) {
            fake_count_freed_imported();
            fake_log("cuMemFree of memory that %d process%s still import: undefined with a GPU", n,
                     n > 1 ? "es" : "");
        }
        fake_unmap_device(m);
        fake_mem_remove(m);
    }
    pthread_rwlock_unlock(&lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *out, size_t size) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    if (!out || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_sync_alloc();
    struct mem m = {.kind = MEM_DEVICE, .size = size, .device = fake_current()->device};
    uint64_t addr = fake_alloc_device(&m);
    if (!addr)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = addr;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr addr) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    if (!addr)
        return CUDA_SUCCESS;
    fake_sync_context(fake_current()); /* cuMemFree waits for the device */
    return fake_free_device(addr) ? fake_free_managed(addr) : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo(size_t *free_bytes, size_t *total) {
    ENTER(true);
    *free_bytes = WINDOW / 2;
    *total = WINDOW;
    return CUDA_SUCCESS;
}

/* FAKECUDA_SUBALLOC=2: the driver reports the block as the range of a small allocation */
static bool fake_range_is_block(const struct mem *m) {
    return m->block && fake_settings()->suballoc == 2;
}

uint64_t fake_range_start(const struct mem *m) {
    return fake_range_is_block(m) ? fake_block_start(m) : m->lo;
}

uint64_t fake_range_size(const struct mem *m) {
    return fake_range_is_block(m) ? GRANULE : m->size;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *lo, size_t *size, CUdeviceptr addr) {
    ENTER(true);
    struct mem m;
    if (!fake_find(addr, &m))
        return CUDA_ERROR_NOT_FOUND;
    if (lo)
        *lo = fake_range_start(&m);
    if (size)
        *size = fake_range_size(&m);
    return CUDA_SUCCESS;
}

void *fakecuda_view(uint64_t addr) {
    struct mem m;
    return (void *)(uintptr_t)(fake_find(addr, &m) ? addr + (uint64_t)m.shift : addr);
}

/* ---- accesses of kernels --------------------------------------------------------------------- */

static bool reaches(CUcontext ctx, const struct mem *m) {
    switch (m->kind) {
    case MEM_DEVICE:
    case MEM_IMPORTED:
        return fake_reaches(ctx, m->device);
    case MEM_MAPPED:
        return m->access >> ctx->device & 1;
    default:
        return true;
    }
}

static bool fits_reachable(const struct mem *m, uint64_t size, const void *ctx) {
    (void)size;
    return reaches((CUcontext)(uintptr_t)ctx, m);
}

bool fake_reachable(CUcontext ctx, uint64_t addr, uint64_t size) {
    struct mem m;
    return !fake_find(addr, &m) || fake_each_piece(addr, size, fits_reachable, ctx);
}

static bool env_find(uint64_t addr, int device, struct ptx_range *out) {
    CUcontext ctx = fake_running() ? fake_running() : fake_primary(device);
    struct mem m;
    if (!fake_find(addr, &m))
        return false;
    if (!reaches(ctx, &m)) {
        fake_log(
            "device %d has no access to memory of device %d at 0x%llx: cuCtxEnablePeerAccess or "
            "cuMemSetAccess is missing",
            ctx->device, m.device, (unsigned long long)addr);
        return false;
    }
    bool read_only = m.kind == MEM_MAPPED && (m.read_only >> ctx->device & 1);
    fake_count_access(&m);
    *out = (struct ptx_range){m.lo, m.lo + m.size, m.shift, read_only, fake_memory_kind(&m)};
    return true;
}

static uint64_t env_alloc(size_t size, size_t align, int device) {
    (void)align; /* allocations begin at 2 MiB */
    struct mem m = {.kind = MEM_DEVICE, .size = size, .device = device};
    return fake_alloc_device(&m);
}

static void env_free(uint64_t addr) {
    fake_free_device(addr);
}

const struct ptx_env fake_env = {env_find, &generation, env_alloc, env_free};
