/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of the device, which peers read in place. Several registrations may share one
 * allocation. Once the last one is unregistered, all peers close the allocation before it may be
 * freed.
 */
#include <stdlib.h>
#include "cuda_ipc.h"
#include "log.h"

static struct ipc_channel *ipc_of(struct rcmi_channel *channel) {
    return (struct ipc_channel *)channel;
}

/* Memory that cannot be exported is copied to slots instead. Logged once. */
static rcm_status do_without(const struct rcmi_mem *mem) {
    static atomic_flag logged = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&logged))
        rcmi_log(RCMI_LOG_WARN,
                 "registered device memory is copied before ranks of this host read it: %s (%zu "
                 "bytes; logged once)",
                 rcm_last_error(), mem->len);
    return RCM_OK;
}

/* ---- Allocations ----------------------------------------------------------------------------- */

/* The shared allocation with that number; NULL if none is registered. Under the arena's lock. */
static struct ipc_shared *shared_find(const struct ipc_domain *domain, uint64_t buffer) {
    struct ipc_shared *shared = domain->shared;
    while (shared && shared->export.handle.buffer != buffer)
        shared = shared->next;
    return shared;
}

static rcm_status shared_add(struct ipc_domain *domain, const struct rcmi_export *export,
                             struct ipc_shared **ret_shared) {
    struct ipc_shared *shared = rcmi_zalloc(sizeof *shared);
    if (!shared)
        return RCM_ERR_NOMEM;
    if (export->fd >= 0 && domain->descriptors == IPC_DESCRIPTORS) {
        free(shared);
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "%d allocations of cuMemCreate are registered already, and each needs a "
                         "descriptor",
                         IPC_DESCRIPTORS);
    }
    ipc_export_begin(domain, &export->handle);
    domain->descriptors += export->fd >= 0;
    *shared = (struct ipc_shared){.next = domain->shared, .export = *export, .uses = 1};
    domain->shared = shared;
    *ret_shared = shared;
    return RCM_OK;
}

/* Takes ownership of the export if its allocation is new. */
static rcm_status shared_use(struct ipc_domain *domain, struct rcmi_export *export,
                             struct ipc_shared **ret_shared) {
    struct ipc_shared *shared = shared_find(domain, export->handle.buffer);
    if (!shared) {
        const rcm_status status = shared_add(domain, export, ret_shared);
        if (status == RCM_OK)
            export->fd = -1;
        return status;
    }
    if (shared->uses == 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "peers are closing its allocation");
    shared->uses++;
    *ret_shared = shared;
    return RCM_OK;
}

/* Returns true for the last use. */
static bool shared_leave(struct ipc_domain *domain, struct ipc_shared *shared) {
    pthread_mutex_lock(&domain->arena->lock);
    const bool last = --shared->uses == 0;
    pthread_mutex_unlock(&domain->arena->lock);
    return last;
}

static void shared_end(struct ipc_domain *domain, struct ipc_shared *shared) {
    struct ipc_shared **at = &domain->shared;
    pthread_mutex_lock(&domain->arena->lock);
    while (*at != shared)
        at = &(*at)->next;
    *at = shared->next;
    domain->descriptors -= shared->export.fd >= 0;
    pthread_mutex_unlock(&domain->arena->lock);
    rcmi_export_drop(&shared->export);
    free(shared);
}

/* ---- Registrations --------------------------------------------------------------------------- */

static rcm_status memory_share(struct ipc_domain *domain, const struct rcmi_mem *mem,
                               struct ipc_shared **ret_shared) {
    struct rcmi_export export;
    rcm_status status =
        rcmi_export_make(rcmi_node_device(domain->node), mem->bytes, mem->len, &export);
    if (status != RCM_OK)
        return status;
    pthread_mutex_lock(&domain->arena->lock);
    status = shared_use(domain, &export, ret_shared);
    pthread_mutex_unlock(&domain->arena->lock);
    rcmi_export_drop(&export);
    return status;
}

rcm_status ipc_memory_register(void *arg, const struct rcmi_mem *mem, void **ret_own) {
    struct ipc_domain *domain = arg;
    const struct rcmi_device *device = rcmi_node_device(domain->node);
    if (!device || mem->kind != RCMI_MEM_DEVICE ||
        rcmi_device_facts(device)->ordinal != mem->device)
        return RCM_OK;
    struct ipc_registered *registered = rcmi_zalloc(sizeof *registered);
    if (!registered)
        return RCM_ERR_NOMEM;
    registered->domain = domain;
    if (memory_share(domain, mem, &registered->shared) != RCM_OK) {
        free(registered);
        return do_without(mem);
    }
    registered->at =
        (size_t)((uintptr_t)mem->bytes - (uintptr_t)registered->shared->export.handle.base);
    *ret_own = registered;
    return RCM_OK;
}

static bool shared_reclaim(struct ipc_domain *domain, struct ipc_shared *shared,
                           rcmi_deadline deadline) {
    const struct rcmi_device_handle *handle = &shared->export.handle;
    const bool back = ipc_reclaim(domain, handle->buffer, deadline);
    if (!back)
        rcmi_log(RCMI_LOG_INFO,
                 "a rank that has ended or does not answer may have device memory at %#llx open",
                 (unsigned long long)handle->base);
    shared_end(domain, shared);
    return back;
}

bool ipc_memory_unregister(void *arg, void *own, rcmi_deadline deadline) {
    struct ipc_domain *domain = arg;
    struct ipc_registered *registered = own;
    if (!registered)
        return true;
    struct ipc_shared *shared = registered->shared;
    free(registered);
    return !shared_leave(domain, shared) || shared_reclaim(domain, shared, deadline);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Do all readers have the allocation open? Announces it to those that were not informed yet. */
static bool readers_have_open(const struct ipc_channel *ipc, const struct rcmi_export *export) {
    bool all = true;
    for (int r = 0; r < ipc->base.nreaders; r++)
        all = ipc_exported_is_open(ipc->readers[r].link->peer, export) && all;
    return all;
}

rcm_status ipc_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                              uint64_t meta, bool may_get) {
    struct ipc_channel *ipc = ipc_of(channel);
    size_t at = 0;
    const struct ipc_registered *registered = rcmi_registration_of(mem, channel->transport, &at);
    if (!registered || mem->len > (may_get ? RCMI_GET_MAX : channel->slot_bytes))
        return RCM_ERR_UNSUPPORTED; /* no sentence: the caller copies instead */
    const struct rcmi_export *export = &registered->shared->export;
    if (export->fd >= 0 && !readers_have_open(ipc, export))
        return RCM_ERR_UNSUPPORTED;
    const rcm_status status = ipc_room(ipc);
    if (status == RCM_OK)
        ipc_publish(ipc, &export->handle, registered->at + at, mem->len, meta);
    return status;
}

bool ipc_completed(struct rcmi_channel *channel, uint64_t number) {
    struct ipc_channel *ipc = ipc_of(channel);
    if (number > ipc->completed && rcmi_fifo_taken(&ipc->fifo.writer, number))
        ipc->completed = number;
    return number <= ipc->completed;
}
