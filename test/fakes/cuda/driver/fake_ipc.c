/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPC handles of device memory. A handle names the owner's memfd, which is opened through
 * /proc/PID/fd. A handle of a small allocation opens the whole block that contains it.
 */
#include "fake_count.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct wire_handle {
    uint32_t magic;
    pid_t pid, shown_pid; /* whose /proc has the descriptor; the pid seen by the driver */
    int fd, physical;
    uint64_t size, inode;
    uint32_t offset, mig;
};
#define WIRE_MAGIC 0x50494348u
_Static_assert(sizeof(struct wire_handle) <= sizeof(CUipcMemHandle), "fits");

/* Pointers returned by cuIpcOpenMemHandle. Only these may be closed, as often as they were
 * opened. */
#define MAX_OPEN 4096
static struct {
    uint64_t addr;
    int refs;
} openings[MAX_OPEN];

/* The pid in a handle. Processes in two PID namespaces may have the same pid. */
static pid_t handle_pid(void) {
    return fake_settings()->pid ? fake_settings()->pid : getpid();
}

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr addr) {
    ENTER(true);
    struct mem m;
    struct stat st;
    if (!out || !fake_find(addr, &m) || m.kind != MEM_DEVICE || m.pool || m.lo != addr ||
        fstat(m.fd, &st) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct wire_handle h = {.magic = WIRE_MAGIC,
                            .pid = getpid(),
                            .shown_pid = handle_pid(),
                            .fd = m.fd,
                            .physical = fake_settings()->physical[m.device],
                            .size = m.block ? GRANULE : m.size,
                            .inode = st.st_ino,
                            .mig = fake_settings()->mig};
    if (m.block && fake_settings()->suballoc == 1)
        h.offset = (uint32_t)(addr - fake_block_start(&m));
    fake_count_export();
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

static bool imported_before(const struct mem *m, const void *arg) {
    const struct wire_handle *h = arg;
    return m->kind == MEM_IMPORTED && m->owner == h->pid && m->owner_inode == h->inode;
}

static void sign_in(struct mem *m) {
    for (int i = 0; i < 64; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&m->trailer->importer[i], &none, getpid()))
            return;
    }
}

static void sign_out(struct mem *m) {
    for (int i = 0; i < 64; i++) {
        int self = getpid();
        if (atomic_compare_exchange_strong(&m->trailer->importer[i], &self, 0))
            return;
    }
}

/* The owner may have freed the memory or ended. The inode shows whether the descriptor is still the
 * same. */
static CUresult import(const struct wire_handle *h, struct mem *m) {
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h->pid, h->fd);
    m->fd = open(path, O_RDWR | O_CLOEXEC);
    if (m->fd < 0)
        return CUDA_ERROR_MAP_FAILED;
    if (fstat(m->fd, &st) < 0 || st.st_ino != h->inode) {
        close(m->fd);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return fake_map_device(m) ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
}

static bool count_opening(uint64_t addr, int by) {
    int empty = -1;
    for (int i = 0; i < MAX_OPEN; i++) {
        if (openings[i].refs && openings[i].addr == addr) {
            openings[i].refs += by;
            return true;
        }
        if (!openings[i].refs && empty < 0)
            empty = i;
    }
    if (by < 0 || empty < 0)
        return false;
    openings[empty].addr = addr;
    openings[empty].refs = by;
    return true;
}

/* For a device that is not visible here, the context's own device. */
static int ordinal_of(int physical, CUcontext ctx) {
    int i = fake_ordinal_of(physical);
    return i < 0 ? ctx->device : i;
}

/* Memory of another device needs peer access. Opening the handle enables it. */
static CUresult reach(const struct wire_handle *h, CUcontext ctx) {
    int own = fake_settings()->physical[ctx->device];
    if (fake_settings()->absent && fake_ordinal_of(h->physical) < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (h->physical == own)
        return h->mig == fake_settings()->mig ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (h->mig || !fake_peer_possible(h->physical, own))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    atomic_fetch_or(&ctx->peers, 1u << ordinal_of(h->physical, ctx));
    return CUDA_SUCCESS;
}

/* FAKECUDA_ACS: reads return 0xff, and writes are lost. */
static void lose_traffic(const struct mem *m) {
    void *at = mmap((void *)(uintptr_t)(m->lo + WINDOW), m->mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at != MAP_FAILED)
        memset(at, 0xff, m->mapped);
}

static CUresult open_locked(const struct wire_handle *h, CUcontext ctx, CUdeviceptr *out) {
    struct mem *m = fake_mem_any(imported_before, h);
    struct mem fresh = {.kind = MEM_IMPORTED,
                        .size = h->size,
                        .device = ordinal_of(h->physical, ctx),
                        .ctx = ctx,
                        .owner = h->pid,
                        .owner_inode = h->inode};
    if (!m) {
        CUresult r = import(h, &fresh);
        if (r)
            return r;
        if (fake_settings()->acs && h->physical != fake_settings()->physical[ctx->device])
            lose_traffic(&fresh);
        m = fake_mem_add(&fresh);
        if (!m)
            return CUDA_ERROR_MAP_FAILED;
        sign_in(m);
        m->owner_fd = fake_watch(h->pid);
        fake_count_import(1);
    }
    m->refs++;
    *out = m->lo + h->offset;
    return count_opening(*out, 1) ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    struct wire_handle h;
    memcpy(&h, &handle, sizeof h);
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || h.magic != WIRE_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.shown_pid == handle_pid())
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = reach(&h, fake_current());
    if (r)
        return r;
    pthread_rwlock_wrlock(&fake_mem_lock);
    r = open_locked(&h, fake_current(), out);
    pthread_rwlock_unlock(&fake_mem_lock);
    return r;
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr addr) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    fake_sync_context(fake_current());
    pthread_rwlock_wrlock(&fake_mem_lock);
    struct mem *m = fake_mem_at(addr);
    bool ok = m && m->kind == MEM_IMPORTED && count_opening(addr, -1);
    if (ok && --m->refs == 0) {
        sign_out(m);
        close(m->owner_fd);
        fake_count_import(-1);
        fake_unmap_device(m);
        fake_mem_remove(m);
    }
    pthread_rwlock_unlock(&fake_mem_lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
