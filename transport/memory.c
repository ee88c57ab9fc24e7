/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a node hands out to its user, so that same-host peers can read and write it where it
 * lies. Where it comes from is a transport's matter; without one that has any it is plain memory,
 * and good for everything but that. Here is only the list of what was handed out.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "internal.h"

struct rcmi_block {
    struct rcmi_block *next;
    void *memory;
    size_t bytes;
    const struct rcmi_domain *domain; /* whose it is; NULL: plain */
};

static rcm_status plain_take(size_t bytes, void **ret_memory) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return rcmi_fail(RCM_ERR_NOMEM, errno, "no %zu bytes of memory", bytes);
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a wish */
    *ret_memory = memory;
    return RCM_OK;
}

static rcm_status block_take(struct rcmi_node *node, struct rcmi_block *block) {
    for (int i = 0; i < node->ndomains; i++) {
        block->domain = &node->domains[i];
        rcm_status status = block->domain->transport->memory_take(block->domain->data, block->bytes,
                                                                  &block->memory);
        if (status != RCM_ERR_UNSUPPORTED)
            return status;
    }
    block->domain = NULL;
    return plain_take(block->bytes, &block->memory);
}

static void block_give(struct rcmi_block *block) {
    if (block->domain)
        block->domain->transport->memory_give(block->domain->data, block->memory);
    else
        munmap(block->memory, block->bytes);
    free(block);
}

rcm_status rcmi_node_memory_alloc(struct rcmi_node *node, size_t bytes, void **ret_memory) {
    struct rcmi_block *block = calloc(1, sizeof *block);
    if (!block)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a block of memory");
    block->bytes = bytes;
    rcm_status status = block_take(node, block);
    if (status != RCM_OK) {
        free(block);
        return status;
    }
    pthread_mutex_lock(&node->lock);
    block->next = node->blocks;
    node->blocks = block;
    pthread_mutex_unlock(&node->lock);
    *ret_memory = block->memory;
    return RCM_OK;
}

rcm_status rcmi_node_memory_free(struct rcmi_node *node, void *memory) {
    struct rcmi_block **at = &node->blocks, *block;
    pthread_mutex_lock(&node->lock);
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    block = *at;
    if (block)
        *at = block->next;
    pthread_mutex_unlock(&node->lock);
    if (!block)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%p is not the start of memory that was handed out",
                         memory);
    block_give(block);
    return RCM_OK;
}

size_t rcmi_node_memory_size(struct rcmi_node *node, const void *memory) {
    pthread_mutex_lock(&node->lock);
    const struct rcmi_block *block = node->blocks;
    while (block && block->memory != memory)
        block = block->next;
    const size_t bytes = block ? block->bytes : 0;
    pthread_mutex_unlock(&node->lock);
    return bytes;
}

void rcmi_blocks_free(struct rcmi_node *node) {
    while (node->blocks) {
        struct rcmi_block *block = node->blocks;
        node->blocks = block->next;
        block_give(block);
    }
}
