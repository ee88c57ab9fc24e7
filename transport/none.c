/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots of the rows of transports that have no memory to share, heed no invitations, cannot fetch,
 * carry no wish, or do not know what has become of a message. */
#include "transport.h"

rcm_status rcmi_no_memory_take(void *domain, size_t bytes, void **ret_memory) {
    (void)domain;
    (void)bytes;
    (void)ret_memory;
    return RCM_ERR_UNSUPPORTED; /* no sentence: plain memory will do */
}

void rcmi_no_memory_give(void *domain, void *memory) {
    (void)domain;
    (void)memory;
}

bool rcmi_always_taken(struct rcmi_channel *channel, uint64_t number) {
    (void)channel;
    (void)number;
    return true;
}

void *rcmi_no_direct(struct rcmi_channel *channel, size_t len) {
    (void)channel;
    (void)len;
    return NULL;
}

void rcmi_no_invite(struct rcmi_channel *channel, uint32_t ahead, void *place, size_t cap) {
    (void)channel;
    (void)ahead;
    (void)place;
    (void)cap;
}

rcm_status rcmi_no_fetch(struct rcmi_channel *channel, void *place, uint64_t from, size_t len,
                         bool helped, bool *moved) {
    (void)channel;
    (void)place;
    (void)from;
    (void)len;
    (void)helped;
    (void)moved;
    return RCM_ERR_UNSUPPORTED; /* no sentence: slots will do */
}

bool rcmi_no_assist(struct rcmi_channel *channel) {
    (void)channel;
    return false;
}

void rcmi_no_wish(struct rcmi_channel *channel, uint64_t word) {
    (void)channel;
    (void)word;
}

uint64_t rcmi_none_wished(struct rcmi_channel *channel) {
    (void)channel;
    return 0;
}
