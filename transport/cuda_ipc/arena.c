/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arena of a node: memory of its device that all its peers may open. It consists of chunks,
 * each one allocation, and hands out ranges for the slots of channels. The device's thread grows
 * it. It never shrinks, because a chunk is open at every peer that reads a channel in it. Peers
 * verify the device plane by the first bytes of a chunk (proof.c).
 */
#include <stdlib.h>
#include <time.h>
#include "cuda_ipc.h"
#include "log.h"

static size_t round_up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

void ipc_export_begin(struct ipc_domain *domain, const struct rcmi_device_handle *handle) {
    if (handle->buffer > atomic_load_explicit(&domain->newest, memory_order_relaxed))
        atomic_store_explicit(&domain->newest, handle->buffer, memory_order_relaxed);
}

rcm_status ipc_arena_make(struct ipc_domain *domain) {
    struct ipc_arena *arena = rcmi_zalloc(sizeof *arena);
    if (!arena)
        return RCM_ERR_NOMEM;
    pthread_mutex_init(&arena->lock, NULL);
    arena->domain = domain;
    domain->arena = arena;
    return RCM_OK;
}

void ipc_arena_notify(struct ipc_arena *arena, int rank) {
    pthread_mutex_lock(&arena->lock);
    if (arena->domain) {
        rcmi_node_ring(arena->domain->node);
        rcmi_node_link_changed(arena->domain->node, rank);
    }
    pthread_mutex_unlock(&arena->lock);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* A chunk was allocated or could not be: wakes links that come up and writers that wait for slots.
 * Under the lock. */
static void chunk_notify(struct ipc_domain *domain, struct ipc_chunk *chunk) {
    if (rcmi_export_look(&chunk->export) == RCM_OK) {
        ipc_export_begin(domain, &chunk->export.handle);
        rcmi_ranges_give(&chunk->free, IPC_PROOF, chunk->export.handle.bytes - IPC_PROOF);
    }
    rcmi_node_ring(domain->node);
    for (const struct ipc_peer *peer = domain->peers; peer; peer = peer->next)
        rcmi_node_link_changed(domain->node, peer->rank);
}

/* On the device's thread. After the unlock it does not touch the chunk any more. */
static void chunk_changed(void *arg) {
    struct ipc_chunk *chunk = arg;
    struct ipc_arena *arena = chunk->arena;
    pthread_mutex_lock(&arena->lock);
    chunk->settled = true;
    if (arena->domain)
        chunk_notify(arena->domain, chunk);
    pthread_mutex_unlock(&arena->lock);
}

/* Under the lock. */
static rcm_status arena_grow(struct ipc_domain *domain, size_t bytes) {
    struct ipc_chunk *chunk = rcmi_zalloc(sizeof *chunk);
    if (!chunk)
        return RCM_ERR_NOMEM;
    chunk->arena = domain->arena;
    chunk->next = domain->arena->chunks;
    domain->arena->chunks = chunk;
    rcmi_export_alloc(domain->device, bytes > IPC_CHUNK ? bytes : IPC_CHUNK, domain->arena->first,
                      IPC_PROOF, chunk_changed, chunk, &chunk->export);
    return RCM_AGAIN;
}

static struct ipc_chunk *arena_oldest(const struct ipc_arena *arena) {
    struct ipc_chunk *chunk = arena->chunks;
    while (chunk && chunk->next)
        chunk = chunk->next;
    return chunk;
}

rcm_status ipc_arena_begin(struct ipc_domain *domain, struct rcmi_device_handle *ret_handle) {
    struct ipc_arena *arena = domain->arena;
    pthread_mutex_lock(&arena->lock);
    const struct ipc_chunk *first = arena_oldest(arena);
    rcm_status status = first ? RCM_AGAIN : arena_grow(domain, IPC_CHUNK);
    if (first && first->settled)
        status = rcmi_export_look(&first->export);
    if (status == RCM_OK)
        *ret_handle = first->export.handle;
    pthread_mutex_unlock(&arena->lock);
    return status;
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* A chunk that could not be allocated reports its error once; the next call tries again. Under the
 * lock. */
static rcm_status arena_take(struct ipc_domain *domain, size_t len, struct ipc_chunk **ret_chunk,
                             size_t *ret_at) {
    struct ipc_chunk **at = &domain->arena->chunks;
    for (; *at; at = &(*at)->next) {
        struct ipc_chunk *chunk = *at;
        if (!chunk->settled)
            return RCM_AGAIN;
        const rcm_status status = rcmi_export_look(&chunk->export);
        if (status != RCM_OK) {
            *at = chunk->next;
            free(chunk);
            return status;
        }
        if (rcmi_ranges_take(&chunk->free, len, ret_at)) {
            *ret_chunk = chunk;
            return RCM_OK;
        }
    }
    return arena_grow(domain, len + IPC_PROOF);
}

rcm_status ipc_arena_take(struct ipc_domain *domain, size_t len, struct ipc_chunk **ret_chunk,
                          size_t *ret_at) {
    pthread_mutex_lock(&domain->arena->lock);
    const rcm_status status = arena_take(domain, round_up(len, IPC_ALIGN), ret_chunk, ret_at);
    pthread_mutex_unlock(&domain->arena->lock);
    return status;
}

void ipc_arena_give(struct ipc_domain *domain, struct ipc_chunk *chunk, size_t at, size_t len) {
    pthread_mutex_lock(&domain->arena->lock);
    rcmi_ranges_give(&chunk->free, at, round_up(len, IPC_ALIGN));
    pthread_mutex_unlock(&domain->arena->lock);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Waits for the device's thread. False: the driver did not return by the deadline, and the chunk
 * stays. */
static bool chunk_settles(struct ipc_arena *arena, const struct ipc_chunk *chunk,
                          rcmi_deadline deadline) {
    const struct timespec pause = {.tv_nsec = 100000};
    for (;;) {
        pthread_mutex_lock(&arena->lock);
        const bool settled = chunk->settled;
        pthread_mutex_unlock(&arena->lock);
        if (settled || rcmi_deadline_passed(deadline))
            return settled;
        (void)nanosleep(&pause, NULL);
    }
}

static bool chunk_end(struct ipc_arena *arena, struct ipc_chunk *chunk, bool keep,
                      rcmi_deadline deadline) {
    if (!chunk_settles(arena, chunk, deadline))
        return false;
    rcmi_ranges_clear(&chunk->free);
    if (!keep && rcmi_export_look(&chunk->export) == RCM_OK) {
        chunk->settled = false;
        rcmi_export_end(&chunk->export);
        if (!chunk_settles(arena, chunk, deadline))
            return false;
    }
    free(chunk);
    return true;
}

static void arena_leave_domain(struct ipc_arena *arena) {
    pthread_mutex_lock(&arena->lock);
    arena->domain = NULL;
    pthread_mutex_unlock(&arena->lock);
}

/* Keeps it in a list, so that leak checkers find what the device's thread may still use. */
static void arena_stay(struct ipc_arena *arena) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct ipc_arena *staying;
    pthread_mutex_lock(&lock);
    arena->next = staying;
    staying = arena;
    pthread_mutex_unlock(&lock);
}

/* Returns the chunks that stay. */
static struct ipc_chunk *chunks_end(struct ipc_arena *arena, bool keep, rcmi_deadline deadline) {
    struct ipc_chunk *stay = NULL;
    for (struct ipc_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        if (chunk_end(arena, chunk, keep, deadline))
            continue;
        chunk->next = stay;
        stay = chunk;
    }
    return stay;
}

void ipc_arena_end(struct ipc_domain *domain, bool keep, rcmi_deadline deadline) {
    struct ipc_arena *arena = domain->arena;
    domain->arena = NULL;
    arena_leave_domain(arena);
    arena->chunks = chunks_end(arena, keep, deadline);
    if (arena->chunks)
        rcmi_log(RCMI_LOG_WARN, "the CUDA driver does not release memory of %s: it stays allocated",
                 domain->self.label);
    if (arena->chunks || arena->stays) {
        arena_stay(arena);
        return;
    }
    pthread_mutex_destroy(&arena->lock);
    free(arena);
}
