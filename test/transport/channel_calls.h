/* SPDX-License-Identifier: BSD-3-Clause */
/* Short forms of a channel's data operations, for most tests. */
#ifndef TEST_TRANSPORT_CHANNEL_CALLS_H
#define TEST_TRANSPORT_CHANNEL_CALLS_H

#include "transport.h"

/* Reserves memory for the next message: of that length, or its slot. */
static inline rcm_status reserve_bytes(struct rcmi_channel *channel, size_t len, void **ret_bytes) {
    struct rcmi_reserved reserved = {.bytes = NULL};
    const rcm_status status = rcmi_channel_reserve(channel, len, &reserved);
    if (status == RCM_OK)
        *ret_bytes = reserved.bytes;
    return status;
}
static inline rcm_status reserve_slot(struct rcmi_channel *channel, void **ret_slot) {
    return reserve_bytes(channel, 0, ret_slot);
}
/* Posts cap bytes at place for the next message; 0: withdraws. */
static inline void post_like(struct rcmi_channel *channel, void *place, size_t cap, uint64_t meta,
                             uint64_t mask) {
    struct rcmi_posted posted = {.meta = meta, .mask = mask};
    if (rcmi_node_mem(channel->node, place, cap, &posted.mem) == RCM_OK)
        (void)rcmi_channel_post_receive(channel, cap ? &posted : NULL);
}
static inline void post(struct rcmi_channel *channel, void *place, size_t cap) {
    post_like(channel, place, cap, 0, 0);
}

static inline rcm_status zero_copy(struct rcmi_channel *channel, const void *bytes, size_t len,
                                   uint64_t meta, bool may_get) {
    struct rcmi_mem mem;
    const rcm_status status = rcmi_node_mem(channel->node, bytes, len, &mem);
    return status == RCM_OK ? rcmi_channel_send_zero_copy(channel, &mem, meta, may_get) : status;
}
static inline rcm_status get(struct rcmi_channel *channel, void *place, uint64_t remote, size_t len,
                             bool helped, bool *moved) {
    const struct rcmi_mem mem = rcmi_mem_host(place, len);
    return rcmi_channel_get(channel, &mem, remote, helped, moved);
}

#endif
