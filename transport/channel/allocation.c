/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a node allocates for its user, and that same-host peers can map. A transport provides
 * it. Without such a transport it is plain memory, which works except that peers cannot map it.
 * Registration with the backends, and the table of allocated memory, are in registration.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "channel.h"
#include "log.h"
#include "memory_check.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* At a node's end: time for peers to release all memory, and for a driver to free it. The driver
 * continues afterwards. */
enum { MEMORY_END_MS = 5000 };

/* Allocates the pages at once, if the kernel supports that. */
static rcm_status plain_take(size_t bytes, void **ret_memory) {
    const rcm_status status = rcmi_memory_check(bytes);
    if (status != RCM_OK)
        return status;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return rcmi_fail(RCM_ERR_NOMEM, errno, "no %zu bytes of memory", bytes);
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a hint */
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL && errno != EINTR) {
        const int error = errno;
        munmap(memory, bytes);
        return rcmi_fail(RCM_ERR_RESOURCE, error, "no %zu bytes of memory", bytes);
    }
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

/* Frees a block that is not in the table. On errors except RCM_ERR_TIMEOUT its memory stays. */
static rcm_status block_give(struct rcmi_node *node, struct rcmi_registration *block,
                             rcmi_deadline deadline) {
    rcmi_registration_end(node, block, deadline);
    rcm_status status = RCM_OK;
    if (block->device && !block->stays)
        status = rcmi_device_memory_give(block->device, block->mem.bytes, deadline);
    else if (block->device)
        rcmi_log(RCMI_LOG_DEBUG, "device memory at %p stays allocated", block->mem.bytes);
    else if (block->domain)
        block->domain->transport->memory_give(block->domain->data, block->mem.bytes);
    else
        munmap(block->mem.bytes, block->mem.len);
    return status;
}

/* Frees a block for the last time: an error is only logged. */
static void block_end(struct rcmi_node *node, struct rcmi_registration *block,
                      rcmi_deadline deadline) {
    if (block_give(node, block, deadline) != RCM_OK)
        rcmi_log(RCMI_LOG_WARN, "device memory was not freed: %s", rcm_last_error());
    free(block);
}

/* device NULL: host memory. */
static rcm_status block_new(struct rcmi_node *node, struct rcmi_device *device, size_t bytes,
                            rcmi_deadline deadline, struct rcmi_registration **ret_block) {
    const struct rcmi_mem_row *row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    struct rcmi_registration *block = calloc(1, sizeof *block);
    if (!block)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a block of memory");
    block->mem.len = bytes;
    block->mem.kind = device ? RCMI_MEM_DEVICE : RCMI_MEM_HOST;
    block->mem.device = device ? row->number(device) : 0;
    block->device = device;
    block->is_block = true;
    const rcm_status status =
        device ? rcmi_device_memory_take(device, bytes, deadline, &block->mem.bytes)
               : block_take(node, block);
    if (status == RCM_OK)
        *ret_block = block;
    else
        free(block);
    return status;
}

rcm_status rcmi_node_memory_alloc(struct rcmi_node *node, struct rcmi_device *device, size_t bytes,
                                  rcmi_deadline deadline, void **ret_memory) {
    struct rcmi_registration *block = NULL;
    rcm_status status = block_new(node, device, bytes, deadline, &block);
    if (status != RCM_OK)
        return status;
    void *memory = block->mem.bytes;
    status = rcmi_registration_begin(node, block);
    if (status == RCM_OK)
        status = rcmi_registration_add(node, block);
    if (status != RCM_OK) {
        block_end(node, block, deadline);
        return status;
    }
    *ret_memory = memory;
    return RCM_OK;
}

rcm_status rcmi_node_memory_free(struct rcmi_node *node, void *memory, rcmi_deadline deadline) {
    struct rcmi_registration *block = rcmi_registration_take_block(node, memory);
    if (!block)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%p is not the start of memory that was allocated",
                         memory);
    const rcm_status status = block_give(node, block, deadline);
    /* A block that stays can be freed later, although the backends no longer have it. */
    if (status == RCM_OK || status == RCM_ERR_TIMEOUT ||
        rcmi_registration_add(node, block) != RCM_OK)
        free(block);
    return status;
}

void rcmi_memory_end(struct rcmi_node *node) {
    const rcmi_deadline deadline = rcmi_deadline_in(MEMORY_END_MS);
    struct rcmi_registration *registration;
    while ((registration = rcmi_registration_take_any(node))) {
        if (registration->is_block) {
            block_end(node, registration, deadline);
            continue;
        }
        rcmi_registration_end(node, registration, deadline);
        free(registration);
    }
    free(node->registrations.entries);
    node->registrations = (struct rcmi_registrations){.n = 0};
}
