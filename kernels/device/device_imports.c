/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cache of the open allocations of one process (device_share.h). The least recently used unused
 * one is evicted for another. States of an entry:
 *
 *      FREE -> OPENING -> OPEN -> CLOSING -> FREE
 *                 '-> FAILED -------------> FREE
 *
 * Entries are found and used without a lock. All changes, except those of jobs, are made under the
 * lock. An entry that is given up is free at once: closing its mapping may wait for a stream of the
 * program, which may wait for the operation that needs the entry.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device_import.h"
#include "device_internal.h"
#include "fd.h"

rcm_status rcmi_imports_create(struct rcmi_device *device, const struct rcmi_exporter *exporter,
                               void (*changed)(void *arg), void *arg,
                               struct rcmi_imports **ret_imports) {
    struct rcmi_imports *imports = calloc(1, sizeof *imports);
    if (!imports)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for what another process shares");
    imports->device = device;
    imports->exporter = *exporter;
    imports->changed = changed;
    imports->arg = arg;
    pthread_mutex_init(&imports->lock, NULL);
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++) {
        imports->entries[i].of = imports;
        imports->entries[i].fd = -1;
    }
    *ret_imports = imports;
    return RCM_OK;
}

void rcmi_imports_free(struct rcmi_imports *imports) {
    if (!imports)
        return;
    while (atomic_load_explicit(&imports->calling, memory_order_acquire) > 0)
        sched_yield(); /* `changed` does not block */
    pthread_mutex_destroy(&imports->lock);
    free(imports);
}

/* ---- Eviction -------------------------------------------------------------------------------- */

/* The caller holds the lock, here and in the following functions. */
static void entry_forget(struct rcmi_import *import) {
    import->mapping = NULL;
    atomic_store_explicit(&import->buffer, 0, memory_order_relaxed);
    atomic_store(&import->state, IMPORT_FREE);
}

static void failed_forget(struct rcmi_import *import) {
    free(import->mapping);
    entry_forget(import);
}

/* Called by the closer and by the last user. */
static void close_if_unused(struct rcmi_import *import) {
    struct rcmi_imports *imports = import->of;
    struct import_mapping *mapping = import->mapping;
    if (atomic_load(&import->state) != IMPORT_CLOSING || atomic_load(&import->users) > 0)
        return;
    mapping->next_closing = imports->closing;
    imports->closing = mapping;
    mapping_close(mapping); /* first: rcmi_imports_quiet checks entries, then jobs */
    entry_forget(import);
}

/* A failed entry, else the least recently used unused one. NULL: all are in use. */
static struct rcmi_import *entry_to_give_up(struct rcmi_imports *imports) {
    struct rcmi_import *oldest = NULL;
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++) {
        struct rcmi_import *import = &imports->entries[i];
        const int state = atomic_load(&import->state);
        if (state == IMPORT_FAILED)
            return import;
        if (state == IMPORT_OPEN && atomic_load(&import->users) == 0 &&
            (!oldest || atomic_load_explicit(&import->used, memory_order_relaxed) <
                            atomic_load_explicit(&oldest->used, memory_order_relaxed)))
            oldest = import;
    }
    return oldest;
}

static struct rcmi_import *entry_free(struct rcmi_imports *imports) {
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++)
        if (atomic_load(&imports->entries[i].state) == IMPORT_FREE)
            return &imports->entries[i];
    return NULL;
}

static void entry_give_up(struct rcmi_import *import) {
    if (atomic_load(&import->state) == IMPORT_FAILED) {
        failed_forget(import);
        return;
    }
    atomic_store(&import->state, IMPORT_CLOSING);
    close_if_unused(import); /* it may have found a user meanwhile */
}

/* Gives up entries until one is free. If all are in use, the next one put back is given up. */
static void make_room(struct rcmi_imports *imports) {
    struct rcmi_import *import;
    atomic_store(&imports->wanted, true);
    while (!entry_free(imports) && (import = entry_to_give_up(imports)) != NULL)
        entry_give_up(import);
    if (entry_free(imports))
        atomic_store(&imports->wanted, false);
}

/* Takes the lock. */
static void put_last(struct rcmi_import *import) {
    pthread_mutex_lock(&import->of->lock);
    close_if_unused(import);
    if (atomic_load(&import->of->wanted))
        make_room(import->of);
    pthread_mutex_unlock(&import->of->lock);
}

/* ---- Users ----------------------------------------------------------------------------------- */

void rcmi_import_put(struct rcmi_import *import) {
    if (atomic_fetch_sub(&import->users, 1) != 1)
        return;
    if (atomic_load(&import->state) == IMPORT_CLOSING || atomic_load(&import->of->wanted))
        put_last(import);
}

static bool is_of(const struct rcmi_import *import, uint64_t buffer) {
    return atomic_load_explicit(&import->buffer, memory_order_relaxed) == buffer;
}

static struct rcmi_import *entry_find(struct rcmi_imports *imports, uint64_t buffer) {
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++)
        if (is_of(&imports->entries[i], buffer))
            return &imports->entries[i];
    return NULL;
}

/* NULL: it is not open. */
static struct rcmi_import *use_open(struct rcmi_imports *imports, uint64_t buffer) {
    struct rcmi_import *import = entry_find(imports, buffer);
    if (!import)
        return NULL;
    atomic_fetch_add(&import->users, 1);
    if (atomic_load(&import->state) == IMPORT_OPEN && is_of(import, buffer)) {
        const uint64_t now = atomic_fetch_add_explicit(&imports->clock, 1, memory_order_relaxed);
        atomic_store_explicit(&import->used, now, memory_order_relaxed);
        return import;
    }
    rcmi_import_put(import);
    return NULL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* The caller holds the lock, here and in the following functions.
 * fd: -1, or owned by the import from here on. */
static rcm_status entry_open(struct rcmi_import *import, const struct rcmi_device_handle *handle,
                             int fd) {
    struct import_mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping) {
        rcmi_fd_close(&fd);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for what another process shares");
    }
    *mapping = (struct import_mapping){.of = import->of, .handle = *handle};
    mapping->since = atomic_fetch_add_explicit(&import->of->clock, 1, memory_order_relaxed);
    import->mapping = mapping;
    import->fd = fd;
    atomic_store_explicit(&import->buffer, handle->buffer, memory_order_relaxed);
    atomic_store(&import->state, IMPORT_OPENING);
    import_open(import);
    return RCM_AGAIN;
}

/* Reports the failure once and frees the entry, so that the next call tries again. */
static rcm_status entry_failed(struct rcmi_import *import) {
    *rcmi_last_error() = import->why;
    failed_forget(import);
    return rcmi_last_error()->status;
}

static rcm_status open_new(struct rcmi_imports *imports, const struct rcmi_device_handle *handle) {
    struct rcmi_import *import = entry_free(imports);
    if (!import) {
        make_room(imports);
        import = entry_free(imports);
    }
    if (!import)
        return RCM_AGAIN;
    /* Other callers that need an entry retry when one is free. */
    atomic_store(&imports->wanted, false);
    return entry_open(import, handle, -1);
}

static rcm_status open_locked(struct rcmi_imports *imports,
                              const struct rcmi_device_handle *handle) {
    struct rcmi_import *import = entry_find(imports, handle->buffer);
    if (atomic_load_explicit(&imports->revoked, memory_order_relaxed))
        return rcmi_fail(RCM_ERR_PEER, 0, "its process has ended");
    if (!import && handle->kind == RCMI_HANDLE_DESCRIPTOR)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the descriptor of allocation %llu has not arrived",
                         (unsigned long long)handle->buffer);
    if (!import)
        return open_new(imports, handle);
    return atomic_load(&import->state) == IMPORT_FAILED ? entry_failed(import) : RCM_AGAIN;
}

static rcm_status handle_check(const struct rcmi_device_handle *handle, uint64_t at, size_t len) {
    const bool is_known = handle->kind == RCMI_HANDLE_IPC || handle->kind == RCMI_HANDLE_DESCRIPTOR;
    if (handle->buffer != 0 && is_known && len <= handle->bytes && at <= handle->bytes - len)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                     "%zu bytes at byte %llu of the %llu bytes of allocation %llu (kind %u) were "
                     "announced, which is impossible",
                     len, (unsigned long long)at, (unsigned long long)handle->bytes,
                     (unsigned long long)handle->buffer, handle->kind);
}

/* The size is the one at the time of opening. */
static rcm_status use(struct rcmi_import *import, uint64_t at, size_t len,
                      struct rcmi_import **ret_import, const void **ret_bytes) {
    const rcm_status status = handle_check(&import->mapping->handle, at, len);
    if (status != RCM_OK) {
        rcmi_import_put(import);
        return status;
    }
    *ret_import = import;
    *ret_bytes = import->mapping->base + at;
    return RCM_OK;
}

rcm_status rcmi_imports_get(struct rcmi_imports *imports, const struct rcmi_device_handle *handle,
                            uint64_t at, size_t len, struct rcmi_import **ret_import,
                            const void **ret_bytes) {
    rcm_status status = handle_check(handle, at, len);
    if (status != RCM_OK)
        return status;
    struct rcmi_import *import = use_open(imports, handle->buffer);
    if (import)
        return use(import, at, len, ret_import, ret_bytes);
    pthread_mutex_lock(&imports->lock);
    status = open_locked(imports, handle);
    pthread_mutex_unlock(&imports->lock);
    return status;
}

/* ---- Opening by descriptor ------------------------------------------------------------------- */

/* The caller holds the lock. */
static rcm_status open_by(struct rcmi_imports *imports, const struct rcmi_device_handle *handle,
                          int fd) {
    if (atomic_load_explicit(&imports->revoked, memory_order_relaxed))
        return rcmi_fail(RCM_ERR_PEER, 0, "its process has ended");
    if (entry_find(imports, handle->buffer))
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the descriptor of allocation %llu arrived twice",
                         (unsigned long long)handle->buffer);
    struct rcmi_import *import = entry_free(imports);
    if (import)
        return entry_open(import, handle, fd);
    return rcmi_fail(RCM_ERR_RESOURCE, 0, "%d allocations of one process are open already",
                     RCMI_IMPORTS_MAX);
}

rcm_status rcmi_imports_open(struct rcmi_imports *imports, const struct rcmi_device_handle *handle,
                             int fd) {
    rcm_status status = handle_check(handle, 0, 0);
    if (status == RCM_OK && handle->kind != RCMI_HANDLE_DESCRIPTOR)
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "a descriptor arrived with a handle of kind %u",
                           handle->kind);
    if (status == RCM_OK) {
        pthread_mutex_lock(&imports->lock);
        status = open_by(imports, handle, fd);
        pthread_mutex_unlock(&imports->lock);
    }
    if (status != RCM_AGAIN)
        rcmi_fd_close(&fd);
    return status;
}

/* ---- Closing --------------------------------------------------------------------------------- */

/* The caller holds the lock. */
static void entry_end(struct rcmi_import *import) {
    int open = IMPORT_OPEN;
    if (atomic_compare_exchange_strong(&import->state, &open, IMPORT_CLOSING))
        close_if_unused(import);
    else if (open == IMPORT_FAILED)
        failed_forget(import);
}

/* Likewise. Is it still open as it was before that time? */
static bool is_there(struct rcmi_imports *imports, uint64_t buffer, uint64_t time) {
    const struct rcmi_import *import = entry_find(imports, buffer);
    const struct import_mapping *mapping = imports->closing;
    while (mapping && (mapping->handle.buffer != buffer || mapping->since >= time))
        mapping = mapping->next_closing;
    return mapping || (import && import->mapping->since < time);
}

uint64_t rcmi_imports_time(struct rcmi_imports *imports) {
    pthread_mutex_lock(&imports->lock);
    const uint64_t now = atomic_load_explicit(&imports->clock, memory_order_relaxed);
    pthread_mutex_unlock(&imports->lock);
    return now;
}

rcm_status rcmi_imports_close(struct rcmi_imports *imports, uint64_t buffer, uint64_t time) {
    bool there = false;
    pthread_mutex_lock(&imports->lock);
    struct rcmi_import *import = buffer ? entry_find(imports, buffer) : NULL;
    if (import && import->mapping->since < time)
        entry_end(import);
    if (buffer)
        there = is_there(imports, buffer, time);
    pthread_mutex_unlock(&imports->lock);
    return there ? RCM_AGAIN : RCM_OK;
}

void rcmi_imports_revoke(struct rcmi_imports *imports) {
    pthread_mutex_lock(&imports->lock);
    atomic_store_explicit(&imports->revoked, true, memory_order_relaxed);
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++) {
        struct rcmi_import *import = &imports->entries[i];
        if (import->mapping)
            atomic_store_explicit(&import->mapping->revoked, true, memory_order_relaxed);
        entry_end(import);
    }
    /* Evicted ones may be at the same addresses. */
    for (struct import_mapping *m = imports->closing; m; m = m->next_closing)
        atomic_store_explicit(&m->revoked, true, memory_order_relaxed);
    pthread_mutex_unlock(&imports->lock);
}

bool rcmi_imports_unclosed(const struct rcmi_imports *imports) {
    return atomic_load_explicit(&imports->unclosed, memory_order_relaxed);
}

int rcmi_imports_count(const struct rcmi_imports *imports) {
    int n = 0;
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++)
        n += atomic_load(&imports->entries[i].state) != IMPORT_FREE;
    return n;
}

bool rcmi_imports_quiet(struct rcmi_imports *imports) {
    rcmi_imports_revoke(imports);
    return rcmi_imports_count(imports) == 0 &&
           atomic_load_explicit(&imports->under_way, memory_order_acquire) == 0;
}
