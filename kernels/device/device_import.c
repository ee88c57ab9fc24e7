/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One allocation of another process, or of this one, in use by a device of this process. Jobs
 * of the device open and close it, and list all open ones (device_share.h).
 */
#include "device_import.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device_internal.h"
#include "fd.h"

static struct rcmi_import *import_of(struct rcmi_device_job *job) {
    return (struct rcmi_import *)((char *)job - offsetof(struct rcmi_import, job));
}

static struct import_mapping *mapping_of(struct rcmi_device_job *job) {
    return (struct import_mapping *)((char *)job - offsetof(struct import_mapping, job));
}

/* ---- Checks for operations ------------------------------------------------------------------- */

static bool is_usable(const struct import_mapping *mapping) {
    return mapping->lies_here || !atomic_load_explicit(&mapping->revoked, memory_order_relaxed);
}

/* Several ranks that are threads may have it open at one address. It is usable as long as one of
 * them may read it. */
rcmi_cuda_code device_import_look(struct rcmi_device *d, const void *memory, bool *ret_imported) {
    const uintptr_t at = (uintptr_t)memory;
    bool usable = false;
    *ret_imported = false;
    pthread_mutex_lock(&d->imports_lock);
    for (const struct import_mapping *m = d->imports; m && !usable; m = m->next) {
        if (at - (uintptr_t)m->base >= m->handle.bytes)
            continue;
        *ret_imported = true;
        usable = is_usable(m);
    }
    pthread_mutex_unlock(&d->imports_lock);
    return *ret_imported && !usable ? DEVICE_CODE_REVOKED : RCMI_CUDA_SUCCESS;
}

/* ---- Memory of this process ------------------------------------------------------------------ */

/* Is it still the allocation with that number? *ret_ordinal: of its device. */
static rcm_status local_check(const struct rcmi_device *d, const struct rcmi_device_handle *handle,
                              int *ret_ordinal) {
    enum rcmi_cuda_pointer_attribute names[] = {RCMI_CUDA_POINTER_BUFFER_ID,
                                                RCMI_CUDA_POINTER_DEVICE_ORDINAL};
    uint64_t buffer = 0, bytes = 0;
    rcmi_cuda_address base = 0;
    void *values[] = {&buffer, ret_ordinal};
    rcmi_cuda_code code = d->cuda->cuPointerGetAttributes(2, names, values, handle->base);
    if (code == RCMI_CUDA_SUCCESS)
        code = d->cuda->cuMemGetAddressRange(&base, &bytes, handle->base);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuPointerGetAttributes");
    if (buffer != handle->buffer || base != handle->base || bytes != handle->bytes)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "allocation %llu of %llu bytes at %#llx does not exist",
                         (unsigned long long)handle->buffer, (unsigned long long)handle->bytes,
                         (unsigned long long)handle->base);
    return RCM_OK;
}

/* The contexts of both devices must exist. */
static rcmi_cuda_code peer_enable(const struct rcmi_device *d, int ordinal) {
    struct rcmi_cuda_context *context;
    rcmi_cuda_code code = d->cuda->cuDevicePrimaryCtxRetain(&context, ordinal);
    if (code != RCMI_CUDA_SUCCESS)
        return code;
    code = d->cuda->cuCtxEnablePeerAccess(context, 0);
    (void)d->cuda->cuDevicePrimaryCtxRelease(ordinal);
    return code == RCMI_CUDA_PEER_ENABLED ? RCMI_CUDA_SUCCESS : code;
}

static rcm_status peer_reach(const struct rcmi_device *d, int ordinal, uint32_t kind) {
    int can = 0;
    if (ordinal == d->facts.ordinal)
        return RCM_OK;
    if (kind == RCMI_HANDLE_DESCRIPTOR)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "access to mapped memory of device %d is set by the program "
                         "(cuMemSetAccess)",
                         ordinal);
    rcmi_cuda_code code = d->cuda->cuDeviceCanAccessPeer(&can, d->facts.ordinal, ordinal);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuDeviceCanAccessPeer");
    if (!can)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "%s has no access to memory of device %d: no path between the two, or "
                         "disabled",
                         d->facts.label, ordinal);
    code = peer_enable(d, ordinal);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuCtxEnablePeerAccess");
}

static rcm_status open_local(struct rcmi_device *d, struct import_mapping *mapping) {
    int ordinal = -1;
    rcm_status status = local_check(d, &mapping->handle, &ordinal);
    if (status == RCM_OK)
        status = peer_reach(d, ordinal, mapping->handle.kind);
    mapping->base = (char *)(uintptr_t)mapping->handle.base;
    mapping->lies_here = true;
    return status;
}

/* ---- Memory of others ------------------------------------------------------------------------ */

/* Does the allocation have the announced size? The opened block may contain more than the
 * allocation. */
static rcm_status ipc_check(const struct rcmi_device *d, rcmi_cuda_address at, uint64_t bytes) {
    rcmi_cuda_address base = 0;
    uint64_t all = 0;
    const rcmi_cuda_code code = d->cuda->cuMemGetAddressRange(&base, &all, at);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuMemGetAddressRange");
    if (at - base <= all && bytes <= all - (at - base))
        return RCM_OK;
    return rcmi_fail(
        RCM_ERR_PROTOCOL, 0,
        "an allocation was announced with %llu bytes, but its handle leads to byte %llu "
        "of %llu",
        (unsigned long long)bytes, (unsigned long long)(at - base), (unsigned long long)all);
}

/* False: the driver rejected it. */
static bool close_ipc(const struct rcmi_device *d, const struct import_mapping *mapping) {
    return d->cuda->cuIpcCloseMemHandle((rcmi_cuda_address)(uintptr_t)mapping->base) ==
           RCMI_CUDA_SUCCESS;
}

static void note_unclosed(const struct import_mapping *mapping) {
    atomic_store_explicit(&mapping->of->unclosed, true, memory_order_relaxed);
}

static rcm_status open_ipc(struct rcmi_device *d, struct import_mapping *mapping) {
    struct rcmi_cuda_ipc ipc;
    rcmi_cuda_address base = 0;
    memcpy(ipc.bytes, mapping->handle.how, sizeof ipc.bytes);
    const rcmi_cuda_code code =
        d->cuda->cuIpcOpenMemHandle(&base, ipc, RCMI_CUDA_IPC_LAZY_PEER_ACCESS);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuIpcOpenMemHandle");
    mapping->base = (char *)(uintptr_t)base;
    const rcm_status status = ipc_check(d, base, mapping->handle.bytes);
    if (status != RCM_OK && !close_ipc(d, mapping))
        note_unclosed(mapping);
    return status;
}

static rcm_status open_other(struct rcmi_device *d, struct import_mapping *mapping, int fd) {
    mapping->lies_here = false;
    return mapping->handle.kind == RCMI_HANDLE_IPC
               ? open_ipc(d, mapping)
               : device_map(d, fd, mapping->handle.bytes, &mapping->base);
}

/* False: the driver rejected it. */
static bool close_other(const struct rcmi_device *d, const struct import_mapping *mapping) {
    return mapping->handle.kind == RCMI_HANDLE_IPC
               ? close_ipc(d, mapping)
               : device_unmap(d, mapping->base, mapping->handle.bytes);
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* When `changed` is called, the job no longer counts as in progress. The imports are freed only
 * after the call. */
static void job_ended(struct rcmi_imports *imports) {
    atomic_fetch_add_explicit(&imports->calling, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&imports->under_way, 1, memory_order_release);
    imports->changed(imports->arg);
    atomic_fetch_sub_explicit(&imports->calling, 1, memory_order_release);
}

static void list_add(struct rcmi_device *d, struct import_mapping *mapping) {
    pthread_mutex_lock(&d->imports_lock);
    mapping->next = d->imports;
    d->imports = mapping;
    pthread_mutex_unlock(&d->imports_lock);
}

static void list_take(struct rcmi_device *d, const struct import_mapping *mapping) {
    struct import_mapping **at = &d->imports;
    pthread_mutex_lock(&d->imports_lock);
    while (*at != mapping)
        at = &(*at)->next;
    *at = mapping->next;
    pthread_mutex_unlock(&d->imports_lock);
}

static void open_run(struct rcmi_device *d, struct rcmi_device_job *job) {
    struct rcmi_import *import = import_of(job);
    struct import_mapping *mapping = import->mapping;
    const bool local = import->of->exporter.process == rcmi_device_process();
    const rcm_status status = local ? open_local(d, mapping) : open_other(d, mapping, import->fd);
    rcmi_fd_close(&import->fd);
    if (status == RCM_OK)
        list_add(d, mapping);
    else
        import->why = *rcmi_last_error();
    atomic_store(&import->state, status == RCM_OK ? IMPORT_OPEN : IMPORT_FAILED);
    job_ended(import->of);
}

void import_open(struct rcmi_import *import) {
    atomic_fetch_add_explicit(&import->of->under_way, 1, memory_order_relaxed);
    import->job.run = open_run;
    rcmi_device_do(import->of->device, &import->job);
}

static void closing_take(struct rcmi_imports *imports, const struct import_mapping *mapping) {
    struct import_mapping **at = &imports->closing;
    pthread_mutex_lock(&imports->lock);
    while (*at != mapping)
        at = &(*at)->next_closing;
    *at = mapping->next_closing;
    pthread_mutex_unlock(&imports->lock);
}

static void close_run(struct rcmi_device *d, struct rcmi_device_job *job) {
    struct import_mapping *mapping = mapping_of(job);
    struct rcmi_imports *imports = mapping->of;
    list_take(d, mapping);
    if (!mapping->lies_here && !close_other(d, mapping))
        note_unclosed(mapping);
    closing_take(imports, mapping);
    free(mapping);
    job_ended(imports);
}

static void entry_is_free_run(struct rcmi_device *d, struct rcmi_device_job *job) {
    const struct rcmi_imports *imports = mapping_of(job)->of;
    imports->changed(imports->arg);
    job->run = close_run;
    job->releases = true;
    rcmi_device_do(d, job);
}

void mapping_close(struct import_mapping *mapping) {
    atomic_fetch_add_explicit(&mapping->of->under_way, 1, memory_order_relaxed);
    mapping->job.run = entry_is_free_run;
    rcmi_device_do(mapping->of->device, &mapping->job);
}
