/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of this process that others may open: see device_share.h. */
#include <string.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>
#include "clock.h"
#include "device_internal.h"
#include "device_share.h"
#include "fd.h"

/* ---- The process ----------------------------------------------------------------------------- */

static uint64_t process;

static void process_draw(void) {
    if (getrandom(&process, sizeof process, 0) != (ssize_t)sizeof process || process == 0)
        process = (uint64_t)rcmi_now_ns() << 20 ^ (uint64_t)getpid();
}

uint64_t rcmi_device_process(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, process_draw);
    return process;
}

/* ---- Exportable memory ----------------------------------------------------------------------- */

/* The driver's description of the allocation that contains an address. */
struct allocation {
    uint64_t buffer, handle_types;
    unsigned legacy;
    void *pool;
    rcmi_cuda_address base;
    size_t bytes;
};

static rcmi_cuda_code allocation_query(const struct rcmi_cuda *cuda, const void *memory,
                                       struct allocation *ret) {
    enum rcmi_cuda_pointer_attribute names[] = {
        RCMI_CUDA_POINTER_BUFFER_ID, RCMI_CUDA_POINTER_LEGACY_IPC, RCMI_CUDA_POINTER_HANDLE_TYPES,
        RCMI_CUDA_POINTER_MEMPOOL};
    const rcmi_cuda_address at = (rcmi_cuda_address)(uintptr_t)memory;
    *ret = (struct allocation){.buffer = 0};
    void *values[] = {&ret->buffer, &ret->legacy, &ret->handle_types, &ret->pool};
    const rcmi_cuda_code code = cuda->cuPointerGetAttributes(4, names, values, at);
    return code == RCMI_CUDA_SUCCESS ? cuda->cuMemGetAddressRange(&ret->base, &ret->bytes, at)
                                     : code;
}

static rcm_status refuse(const void *memory, const char *why) {
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "other processes cannot open the device memory at %p: %s", memory, why);
}

static rcm_status allocation_check(const struct allocation *a, const void *memory, size_t bytes) {
    const uint64_t at = (uint64_t)(uintptr_t)memory - a->base;
    if (at > a->bytes || bytes > a->bytes - at)
        return refuse(memory, "it spans several allocations");
    if (a->pool)
        return refuse(memory, "it belongs to a memory pool (cuMemAllocAsync)");
    if (!a->legacy && !(a->handle_types & RCMI_CUDA_HANDLE_DESCRIPTOR))
        return refuse(memory, "it was allocated without a shareable handle type "
                              "(cuMemCreate, requestedHandleTypes)");
    return a->buffer != 0 ? RCM_OK : refuse(memory, "the driver has no number for it");
}

/* ---- Handles, in the context ----------------------------------------------------------------- */

static rcm_status ipc_make(const struct rcmi_device *d, struct rcmi_export *export) {
    struct rcmi_cuda_ipc ipc;
    const rcmi_cuda_code code = d->cuda->cuIpcGetMemHandle(&ipc, export->handle.base);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuIpcGetMemHandle");
    memcpy(export->handle.how, ipc.bytes, sizeof export->handle.how);
    return RCM_OK;
}

static rcm_status descriptor_make(const struct rcmi_device *d, struct rcmi_export *export) {
    rcmi_cuda_allocation allocation;
    int fd = -1;
    rcmi_cuda_code code =
        d->cuda->cuMemRetainAllocationHandle(&allocation, (void *)(uintptr_t) export->handle.base);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuMemRetainAllocationHandle");
    code = d->cuda->cuMemExportToShareableHandle(&fd, allocation, RCMI_CUDA_HANDLE_DESCRIPTOR, 0);
    (void)d->cuda->cuMemRelease(allocation);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuMemExportToShareableHandle");
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* CUDA does not guarantee it */
    rcmi_fd_own(fd);
    export->fd = fd;
    return RCM_OK;
}

static rcm_status handle_make(const struct rcmi_device *d, const void *memory, size_t bytes,
                              struct rcmi_export *export) {
    struct allocation a;
    const rcmi_cuda_code code = allocation_query(d->cuda, memory, &a);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuPointerGetAttributes");
    const rcm_status status = allocation_check(&a, memory, bytes);
    if (status != RCM_OK)
        return status;
    export->handle =
        (struct rcmi_device_handle){.buffer = a.buffer,
                                    .bytes = a.bytes,
                                    .base = a.base,
                                    .kind = a.legacy ? RCMI_HANDLE_IPC : RCMI_HANDLE_DESCRIPTOR};
    return a.legacy ? ipc_make(d, export) : descriptor_make(d, export);
}

rcm_status rcmi_export_make(struct rcmi_device *d, const void *memory, size_t bytes,
                            struct rcmi_export *ret_export) {
    struct rcmi_cuda_visit visit;
    *ret_export = (struct rcmi_export){.device = d, .fd = -1};
    const rcmi_cuda_code code = rcmi_cuda_enter(d->cuda, d->context, &visit);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuCtxPushCurrent");
    const rcm_status status = handle_make(d, memory, bytes, ret_export);
    rcmi_cuda_leave(&visit);
    return status;
}

void rcmi_export_drop(struct rcmi_export *export) {
    rcmi_fd_close(&export->fd);
}

/* ---- Exports with their own memory ----------------------------------------------------------- */

static struct rcmi_export *export_of(struct rcmi_device_job *job) {
    return (struct rcmi_export *)((char *)job - offsetof(struct rcmi_export, job));
}

/* Does not touch the export after calling `changed`. */
static void export_change(struct rcmi_export *export, rcm_status status) {
    void (*const changed)(void *arg) = export->changed;
    void *const arg = export->arg;
    if (status != RCM_OK)
        export->why = *rcmi_last_error();
    atomic_store_explicit(&export->state, status, memory_order_release);
    changed(arg);
}

static rcm_status export_fill(struct rcmi_device *d, struct rcmi_export *export) {
    rcmi_cuda_code code =
        d->cuda->cuMemcpyHtoDAsync(export->handle.base, export->first, export->first_len, d->side);
    if (code == RCMI_CUDA_SUCCESS)
        code = d->cuda->cuStreamSynchronize(d->side);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuMemcpyHtoDAsync");
}

static void alloc_run(struct rcmi_device *d, struct rcmi_device_job *job) {
    struct rcmi_export *export = export_of(job);
    void *memory = NULL;
    const size_t bytes = export->handle.bytes;
    rcm_status status = device_memory_alloc(d, bytes, &memory);
    if (status == RCM_OK)
        status = handle_make(d, memory, bytes, export);
    if (status == RCM_OK)
        status = export_fill(d, export);
    if (status != RCM_OK) {
        const struct rcmi_error why = *rcmi_last_error();
        device_memory_free(d, memory);
        *rcmi_last_error() = why;
        export->handle.base = 0;
    }
    export_change(export, status);
}

void rcmi_export_alloc(struct rcmi_device *d, size_t bytes, const void *first, size_t first_len,
                       void (*changed)(void *arg), void *arg, struct rcmi_export *export) {
    *export = (struct rcmi_export){.device = d,
                                   .fd = -1,
                                   .handle.bytes = bytes,
                                   .job.run = alloc_run,
                                   .first = first,
                                   .first_len = first_len,
                                   .changed = changed,
                                   .arg = arg};
    atomic_store_explicit(&export->state, RCM_AGAIN, memory_order_relaxed);
    rcmi_device_do(d, &export->job);
}

rcm_status rcmi_export_look(const struct rcmi_export *export) {
    /* Pairs with the release store in export_change. */
    const rcm_status status =
        (rcm_status)atomic_load_explicit(&export->state, memory_order_acquire);
    if (status < RCM_OK)
        *rcmi_last_error() = export->why;
    return status;
}

static void free_run(struct rcmi_device *d, struct rcmi_device_job *job) {
    struct rcmi_export *export = export_of(job);
    device_memory_free(d, (void *)(uintptr_t) export->handle.base);
    (void)rcmi_fail(RCM_ERR_CANCELED, 0, "the memory was freed");
    export_change(export, RCM_ERR_CANCELED);
}

void rcmi_export_end(struct rcmi_export *export) {
    export->job.run = free_run;
    export->job.releases = true;
    rcmi_device_do(export->device, &export->job);
}
