/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a node hands out to its user, so that same-host peers can read and write it where it
 * lies. Where it comes from is a transport's matter; without one that has any it is plain memory,
 * and good for everything but that. Every transport is told of it. Here is only the list of what
 * was handed out.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "internal.h"

/* A block, and what each row remembers of it. */
struct rcmi_registration {
    struct rcmi_registration *next;
    struct rcmi_mem mem;
    const struct rcmi_domain *domain; /* that made it; NULL: plain memory */
    int ndomains;                     /* that have heard of it */
    struct {
        const struct rcmi_domain *domain;
        void *own;
    } rows[RCMI_TRANSPORTS_MAX];
};

static rcm_status plain_take(size_t bytes, void **ret_memory) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return rcmi_fail(RCM_ERR_NOMEM, errno, "no %zu bytes of memory", bytes);
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a wish */
    *ret_memory = memory;
    return RCM_OK;
}

static rcm_status block_take(struct rcmi_node *node, struct rcmi_registration *block) {
    for (int i = 0; i < node->ndomains; i++) {
        block->domain = &node->domains[i];
        rcm_status status = block->domain->transport->memory_take(
            block->domain->data, block->mem.len, &block->mem.bytes);
        if (status != RCM_ERR_UNSUPPORTED)
            return status;
    }
    block->domain = NULL;
    return plain_take(block->mem.len, &block->mem.bytes);
}

/* Of a block that is in no list. */
static void block_give(struct rcmi_registration *block) {
    while (block->ndomains > 0) {
        const int i = --block->ndomains;
        block->rows[i].domain->transport->memory_unregister(block->rows[i].domain->data,
                                                            block->rows[i].own);
    }
    if (block->domain)
        block->domain->transport->memory_give(block->domain->data, block->mem.bytes);
    else
        munmap(block->mem.bytes, block->mem.len);
    free(block);
}

static rcm_status block_register(struct rcmi_node *node, struct rcmi_registration *block) {
    for (int i = 0; i < node->ndomains; i++) {
        const struct rcmi_domain *domain = &node->domains[i];
        const rcm_status status =
            domain->transport->memory_register(domain->data, &block->mem, &block->rows[i].own);
        if (status != RCM_OK)
            return status;
        block->rows[i].domain = domain;
        block->ndomains++;
    }
    return RCM_OK;
}

rcm_status rcmi_node_memory_alloc(struct rcmi_node *node, size_t bytes, void **ret_memory) {
    struct rcmi_registration *block = calloc(1, sizeof *block);
    if (!block)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a block of memory");
    block->mem.len = bytes;
    rcm_status status = block_take(node, block);
    if (status != RCM_OK) {
        free(block);
        return status;
    }
    status = block_register(node, block);
    if (status != RCM_OK) {
        block_give(block);
        return status;
    }
    pthread_mutex_lock(&node->lock);
    block->next = node->blocks;
    node->blocks = block;
    atomic_fetch_add_explicit(&rcmi_mem_specials, 1, memory_order_relaxed);
    pthread_mutex_unlock(&node->lock);
    *ret_memory = block->mem.bytes;
    return RCM_OK;
}

rcm_status rcmi_node_memory_free(struct rcmi_node *node, void *memory) {
    struct rcmi_registration **at = &node->blocks, *block;
    pthread_mutex_lock(&node->lock);
    while (*at && (*at)->mem.bytes != memory)
        at = &(*at)->next;
    block = *at;
    if (block)
        *at = block->next;
    pthread_mutex_unlock(&node->lock);
    if (!block)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%p is not the start of memory that was handed out",
                         memory);
    atomic_fetch_sub_explicit(&rcmi_mem_specials, 1, memory_order_relaxed);
    block_give(block);
    return RCM_OK;
}

size_t rcmi_node_memory_size(struct rcmi_node *node, const void *memory) {
    pthread_mutex_lock(&node->lock);
    const struct rcmi_registration *block = node->blocks;
    while (block && block->mem.bytes != memory)
        block = block->next;
    const size_t bytes = block ? block->mem.len : 0;
    pthread_mutex_unlock(&node->lock);
    return bytes;
}

const struct rcmi_registration *rcmi_node_registration(struct rcmi_node *node, const void *bytes,
                                                       size_t len) {
    const uintptr_t from = (uintptr_t)bytes;
    const struct rcmi_registration *found = NULL;
    pthread_mutex_lock(&node->lock);
    for (const struct rcmi_registration *block = node->blocks; block && !found;
         block = block->next) {
        const uintptr_t base = (uintptr_t)block->mem.bytes;
        if (from >= base && from - base < block->mem.len && len <= block->mem.len - (from - base))
            found = block;
    }
    pthread_mutex_unlock(&node->lock);
    return found;
}

void *rcmi_registration_of(const struct rcmi_mem *mem, const struct rcmi_transport *transport,
                           size_t *ret_at) {
    const struct rcmi_registration *block = mem->registration;
    if (!block)
        return NULL;
    *ret_at = (size_t)((const char *)mem->bytes - (const char *)block->mem.bytes);
    for (int i = 0; i < block->ndomains; i++)
        if (block->rows[i].domain->transport == transport)
            return block->rows[i].own;
    return NULL;
}

void rcmi_blocks_free(struct rcmi_node *node) {
    while (node->blocks) {
        struct rcmi_registration *block = node->blocks;
        node->blocks = block->next;
        atomic_fetch_sub_explicit(&rcmi_mem_specials, 1, memory_order_relaxed);
        block_give(block);
    }
}
