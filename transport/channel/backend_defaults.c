/* SPDX-License-Identifier: BSD-3-Clause */
/* Default functions for backends without their own connections, shared memory, posted receives or
 * get, or that do not track messages. */
#include "backend.h"

rcm_status rcmi_ready_at_once(void *link) {
    (void)link;
    return RCM_OK;
}

bool rcmi_always_flushed(void *link) {
    (void)link;
    return true;
}

rcm_status rcmi_no_memory_take(void *domain, size_t bytes, void **ret_memory) {
    (void)domain;
    (void)bytes;
    (void)ret_memory;
    return RCM_ERR_UNSUPPORTED; /* no sentence: the caller uses plain memory */
}

void rcmi_no_memory_give(void *domain, void *memory) {
    (void)domain;
    (void)memory;
}

rcm_status rcmi_no_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own) {
    (void)domain;
    (void)mem;
    (void)ret_own;
    return RCM_OK;
}

bool rcmi_no_memory_unregister(void *domain, void *own, rcmi_deadline deadline) {
    (void)deadline;
    (void)domain;
    (void)own;
    return true;
}

bool rcmi_always_taken(struct rcmi_channel *channel, int reader, uint64_t number) {
    (void)channel;
    (void)reader;
    (void)number;
    return true;
}

bool rcmi_no_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted) {
    (void)channel;
    (void)posted;
    return false;
}

rcm_status rcmi_no_get(struct rcmi_channel *channel, const struct rcmi_mem *dest, uint64_t remote,
                       bool helped, bool *moved) {
    (void)channel;
    (void)dest;
    (void)remote;
    (void)helped;
    (void)moved;
    return RCM_ERR_UNSUPPORTED; /* no sentence: the caller uses slots */
}

bool rcmi_no_help(struct rcmi_channel *channel) {
    (void)channel;
    return false;
}
