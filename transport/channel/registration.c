/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations: memory that is used repeatedly, either allocated by the node (allocation.c) or
 * registered by its user, and the state of each backend for it. The table is sorted by address.
 * Registrations may overlap. Therefore a buffer is searched among those that begin before it, and
 * each entry stores the largest end of the entries up to it. Memory is registered only by calls:
 * there are no hooks into memory allocation.
 *
 * Not here: where memory comes from (allocation.c), whether it is in use (api/calls/memory.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "channel.h"

#define REGISTRATIONS_MAX 65536

static uintptr_t mem_begin(const struct rcmi_mem *mem) {
    return (uintptr_t)mem->bytes;
}

static uintptr_t mem_end(const struct rcmi_mem *mem) {
    return mem_begin(mem) + mem->len;
}

/* ---- Backends -------------------------------------------------------------------------------- */

void rcmi_registration_end(struct rcmi_node *node, struct rcmi_registration *registration,
                           rcmi_deadline deadline) {
    const rcmi_deadline patience = rcmi_deadline_in(node->peer_timeout_ms);
    const rcmi_deadline until = deadline < patience ? deadline : patience;
    while (registration->ndomains > 0) {
        const int i = --registration->ndomains;
        const struct rcmi_domain *domain = registration->backends[i].domain;
        if (!domain->transport->memory_unregister(domain->data, registration->backends[i].own,
                                                  until))
            registration->stays = true;
    }
}

/* A backend without resources for allocated memory continues without it. */
static bool backend_does_without(const struct rcmi_registration *registration,
                                 const struct rcmi_domain *domain, rcm_status status) {
    if (!registration->is_block || status != RCM_ERR_RESOURCE)
        return false;
    rcmi_log(RCMI_LOG_WARN, "%s does not use memory of rcm_mem_alloc: %s", domain->transport->name,
             rcm_last_error());
    return true;
}

/* ---- Detection of freed memory --------------------------------------------------------------- */

/* Sets the identity, 0 if it is not needed. A user's device memory always has one, because it may
 * be registered again. */
static rcm_status identity_get(const struct rcmi_node *node, struct rcmi_registration *r) {
    const bool wanted = node->checks_memory || (!r->is_block && r->mem.kind == RCMI_MEM_DEVICE);
    return wanted ? rcmi_mem_identity(&r->mem, &r->identity) : RCM_OK;
}

static rcm_status was_freed(const struct rcmi_registration *r, const void *memory,
                            const char *since) {
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "%s at %p is not what %s: the %zu bytes from %p on %s. Call %s before that",
                     rcmi_mem_kind_name(r->mem.kind), memory,
                     r->is_block ? "rcm_mem_alloc returned" : "was registered", r->mem.len,
                     r->mem.bytes, since, r->is_block ? "rcm_mem_free" : "rcm_mem_deregister");
}

/* kind: of the memory at that address now. */
static rcm_status registration_check(const struct rcmi_registration *r, const void *memory,
                                     enum rcmi_mem_kind kind) {
    uint64_t identity;
    if (kind != r->mem.kind)
        return was_freed(r, memory, "were freed");
    const rcm_status status = rcmi_mem_identity(&r->mem, &identity);
    if (status != RCM_OK || identity == r->identity)
        return status;
    return was_freed(r, memory,
                     kind == RCMI_MEM_HOST ? "are not all mapped any more"
                     : identity == 0       ? "were freed"
                                           : "were freed, and others allocated there");
}

rcm_status rcmi_node_check_registered(const struct rcmi_node *node, const struct rcmi_mem *mem) {
    const struct rcmi_registration *r = mem->registration;
    return node->checks_memory || mem->kind != r->mem.kind
               ? registration_check(r, mem->bytes, mem->kind)
               : RCM_OK;
}

/* ---- Registering with backends --------------------------------------------------------------- */

rcm_status rcmi_registration_begin(struct rcmi_node *node, struct rcmi_registration *registration) {
    const rcm_status known =
        registration->is_block ? identity_get(node, registration) : RCM_OK; /* else already set */
    if (known != RCM_OK)
        return known;
    for (int i = 0; i < node->ndomains; i++) {
        const struct rcmi_domain *domain = &node->domains[i];
        if (domain->transport->kind != registration->mem.kind)
            continue; /* the backend cannot access this kind */
        void **own = &registration->backends[registration->ndomains].own;
        const rcm_status status =
            domain->transport->memory_register(domain->data, &registration->mem, own);
        if (status != RCM_OK && !backend_does_without(registration, domain, status)) {
            rcmi_registration_end(node, registration, RCMI_NEVER);
            return status;
        }
        registration->backends[registration->ndomains++].domain = domain;
    }
    return RCM_OK;
}

void *rcmi_registration_of(const struct rcmi_mem *mem, const struct rcmi_transport *transport,
                           size_t *ret_at) {
    const struct rcmi_registration *registration = mem->registration;
    if (!registration)
        return NULL;
    *ret_at = (size_t)(mem_begin(mem) - mem_begin(&registration->mem));
    for (int i = 0; i < registration->ndomains; i++)
        if (registration->backends[i].domain->transport == transport)
            return registration->backends[i].own;
    return NULL;
}

bool rcmi_channel_may_zero_copy(const struct rcmi_channel *channel, const struct rcmi_mem *mem) {
    size_t at;
    return rcmi_channel_state(channel) == RCM_OK && rcmi_channel_kind(channel) == mem->kind &&
           (rcmi_mem_kind_row(mem->kind)->at_once ||
            rcmi_registration_of(mem, channel->transport, &at) != NULL);
}

/* ---- The table; under node->lock ------------------------------------------------------------- */

/* The number of registrations that begin at `from` or before. */
static size_t table_find(const struct rcmi_registrations *table, uintptr_t from) {
    size_t low = 0, high = table->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (mem_begin(&table->entries[middle].registration->mem) <= from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A registration with any byte of [from, to) for which `fits` is true; NULL. */
static struct rcmi_registration *
table_meet(const struct rcmi_registrations *table, uintptr_t from, uintptr_t to,
           bool (*fits)(const struct rcmi_registration *r, uintptr_t from, uintptr_t to)) {
    for (size_t i = table_find(table, to - 1); i > 0 && table->entries[i - 1].reach > from; i--)
        if (fits(table->entries[i - 1].registration, from, to))
            return table->entries[i - 1].registration;
    return NULL;
}

static bool fits_holds(const struct rcmi_registration *r, uintptr_t from, uintptr_t to) {
    return mem_begin(&r->mem) <= from && to <= mem_end(&r->mem);
}

static bool fits_same(const struct rcmi_registration *r, uintptr_t from, uintptr_t to) {
    return !r->is_block && mem_begin(&r->mem) == from && to == mem_end(&r->mem);
}

static bool fits_block(const struct rcmi_registration *r, uintptr_t from, uintptr_t to) {
    return r->is_block && mem_begin(&r->mem) < to && from < mem_end(&r->mem);
}

static bool fits_block_start(const struct rcmi_registration *r, uintptr_t from, uintptr_t to) {
    (void)to;
    return r->is_block && mem_begin(&r->mem) == from;
}

static void table_reach(struct rcmi_registrations *table, size_t first) {
    for (size_t i = first; i < table->n; i++) {
        const uintptr_t end = mem_end(&table->entries[i].registration->mem);
        const uintptr_t before = i > 0 ? table->entries[i - 1].reach : 0;
        table->entries[i].reach = end > before ? end : before;
    }
}

static rcm_status table_grow(struct rcmi_registrations *table) {
    const size_t cap = table->cap ? 2 * table->cap : 16;
    if (table->n < table->cap)
        return RCM_OK;
    void *entries = realloc(table->entries, cap * sizeof table->entries[0]);
    if (!entries)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for %zu registrations", cap);
    table->entries = entries;
    table->cap = cap;
    return RCM_OK;
}

static rcm_status table_add(struct rcmi_registrations *table,
                            struct rcmi_registration *registration) {
    const rcm_status status = table_grow(table);
    if (status != RCM_OK)
        return status;
    const size_t at = table_find(table, mem_begin(&registration->mem));
    memmove(&table->entries[at + 1], &table->entries[at],
            (table->n - at) * sizeof table->entries[0]);
    table->entries[at].registration = registration;
    table->n++;
    table_reach(table, at);
    atomic_fetch_add_explicit(&rcmi_mem_specials, 1, memory_order_relaxed);
    return RCM_OK;
}

static void table_remove(struct rcmi_registrations *table,
                         const struct rcmi_registration *registration) {
    size_t at = table_find(table, mem_begin(&registration->mem)) - 1;
    while (table->entries[at].registration != registration)
        at--;
    table->n--;
    memmove(&table->entries[at], &table->entries[at + 1],
            (table->n - at) * sizeof table->entries[0]);
    table_reach(table, at);
    atomic_fetch_sub_explicit(&rcmi_mem_specials, 1, memory_order_relaxed);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

rcm_status rcmi_registration_add(struct rcmi_node *node, struct rcmi_registration *registration) {
    pthread_mutex_lock(&node->lock);
    const rcm_status status = table_add(&node->registrations, registration);
    pthread_mutex_unlock(&node->lock);
    return status;
}

struct rcmi_registration *rcmi_registration_take_block(struct rcmi_node *node, const void *memory) {
    const uintptr_t from = (uintptr_t)memory;
    pthread_mutex_lock(&node->lock);
    struct rcmi_registration *block =
        table_meet(&node->registrations, from, from + 1, fits_block_start);
    if (block)
        table_remove(&node->registrations, block);
    pthread_mutex_unlock(&node->lock);
    return block;
}

struct rcmi_registration *rcmi_registration_take_any(struct rcmi_node *node) {
    pthread_mutex_lock(&node->lock);
    struct rcmi_registrations *table = &node->registrations;
    struct rcmi_registration *last =
        table->n > 0 ? table->entries[table->n - 1].registration : NULL;
    if (last)
        table_remove(table, last);
    pthread_mutex_unlock(&node->lock);
    return last;
}

size_t rcmi_node_memory_size(struct rcmi_node *node, const void *memory) {
    const uintptr_t from = (uintptr_t)memory;
    pthread_mutex_lock(&node->lock);
    const struct rcmi_registration *block =
        table_meet(&node->registrations, from, from + 1, fits_block_start);
    const size_t bytes = block ? block->mem.len : 0;
    pthread_mutex_unlock(&node->lock);
    return bytes;
}

/* ---- The user's own memory ------------------------------------------------------------------- */

/* Counts one more use of a registered range; RCM_AGAIN if it is not registered. */
static rcm_status registration_share(struct rcmi_node *node, const struct rcmi_registration *like) {
    struct rcmi_registration *same =
        table_meet(&node->registrations, mem_begin(&like->mem), mem_end(&like->mem), fits_same);
    if (!same)
        return RCM_AGAIN;
    if (same->identity != like->identity || same->mem.kind != like->mem.kind)
        return was_freed(same, like->mem.bytes, "were freed, and registered again");
    same->uses++;
    return RCM_OK;
}

/* Before backends get it. RCM_OK: it is registered already; RCM_AGAIN: not yet. */
static rcm_status registration_look(struct rcmi_node *node, const struct rcmi_registration *like) {
    const uintptr_t from = mem_begin(&like->mem), to = mem_end(&like->mem);
    pthread_mutex_lock(&node->lock);
    const bool meets_block = table_meet(&node->registrations, from, to, fits_block) != NULL;
    rcm_status status = meets_block ? RCM_ERR_INVALID : registration_share(node, like);
    if (status == RCM_AGAIN && node->registrations.n >= REGISTRATIONS_MAX)
        status = RCM_ERR_RESOURCE;
    pthread_mutex_unlock(&node->lock);
    if (meets_block)
        return rcmi_fail(status, 0,
                         "%zu bytes at %p overlap memory of rcm_mem_alloc, which is registered "
                         "already",
                         (size_t)(to - from), (void *)from);
    if (status == RCM_ERR_RESOURCE)
        return rcmi_fail(status, 0, "more than %d pieces of memory are registered",
                         REGISTRATIONS_MAX);
    return status;
}

/* Enters the registration, unless another thread has registered the same range meanwhile. */
static rcm_status registration_enter(struct rcmi_node *node, struct rcmi_registration *registration,
                                     bool *ret_shared) {
    pthread_mutex_lock(&node->lock);
    rcm_status status = registration_share(node, registration);
    *ret_shared = status == RCM_OK;
    if (status == RCM_AGAIN)
        status = table_add(&node->registrations, registration);
    pthread_mutex_unlock(&node->lock);
    return status;
}

/* Registers with all backends, and enters the registration. */
static rcm_status registration_make(struct rcmi_node *node, struct rcmi_registration *registration,
                                    bool *ret_shared) {
    rcm_status status = rcmi_registration_begin(node, registration);
    if (status == RCM_OK)
        status = registration_enter(node, registration, ret_shared);
    if (status != RCM_OK || *ret_shared)
        rcmi_registration_end(node, registration, RCMI_NEVER);
    return status;
}

rcm_status rcmi_node_memory_register(struct rcmi_node *node, void *memory, size_t bytes) {
    bool shared = false;
    struct rcmi_registration *registration = calloc(1, sizeof *registration);
    if (!registration)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a registration");
    registration->mem = rcmi_mem_host(memory, bytes);
    registration->uses = 1;
    rcm_status status =
        rcmi_mem_kind_of(memory, &registration->mem.kind, &registration->mem.device);
    if (status == RCM_OK)
        status = identity_get(node, registration);
    if (status == RCM_OK)
        status = registration_look(node, registration);
    if (status == RCM_AGAIN)
        status = registration_make(node, registration, &shared);
    else
        shared = true;
    if (status != RCM_OK || shared)
        free(registration);
    return status;
}

uint32_t rcmi_node_memory_uses(struct rcmi_node *node, const void *memory, size_t bytes) {
    const uintptr_t from = (uintptr_t)memory;
    pthread_mutex_lock(&node->lock);
    const struct rcmi_registration *same =
        table_meet(&node->registrations, from, from + bytes, fits_same);
    const uint32_t uses = same ? same->uses : 0;
    pthread_mutex_unlock(&node->lock);
    return uses;
}

rcm_status rcmi_node_memory_deregister(struct rcmi_node *node, const void *memory, size_t bytes) {
    const uintptr_t from = (uintptr_t)memory;
    pthread_mutex_lock(&node->lock);
    struct rcmi_registration *same =
        table_meet(&node->registrations, from, from + bytes, fits_same);
    const bool last = same && --same->uses == 0;
    if (last)
        table_remove(&node->registrations, same);
    pthread_mutex_unlock(&node->lock);
    if (!same)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%zu bytes at %p are not registered", bytes, memory);
    if (last) {
        rcmi_registration_end(node, same, RCMI_NEVER);
        free(same);
    }
    return RCM_OK;
}

const struct rcmi_registration *rcmi_node_registration(struct rcmi_node *node, const void *bytes,
                                                       size_t len) {
    const uintptr_t from = (uintptr_t)bytes;
    pthread_mutex_lock(&node->lock);
    const struct rcmi_registration *found =
        table_meet(&node->registrations, from, from + len, fits_holds);
    pthread_mutex_unlock(&node->lock);
    return found;
}
