/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paper binding (compiled, not run): a receive from any source, against transport.h. What it needs
 * is there: `wanted` tells which peers have opened a channel to us without our asking, peek looks
 * without taking, the meta word carries the kind of message, release takes. Matching does not look
 * at the source.
 */
#include "transport.h"

struct any_receive {
    struct rcmi_channel **from; /* opened when `wanted` named them */
    int *peer;
    int n, next; /* where to look first: no peer starves */
    uint64_t tag;
    void *buffer;
    size_t capacity;
};

rcm_status any_receive_try(struct any_receive *receive, int *ret_peer, size_t *ret_len);

/* RCM_OK with the sender, RCM_AGAIN, or an error. */
rcm_status any_receive_try(struct any_receive *receive, int *ret_peer, size_t *ret_len) {
    for (int k = 0; k < receive->n; k++) {
        const int i = (receive->next + k) % receive->n;
        struct rcmi_slot slot;
        rcm_status status = rcmi_channel_peek(receive->from[i], &slot);
        if (status == RCM_AGAIN)
            continue;
        if (status != RCM_OK)
            return status;
        if (slot.meta != receive->tag)
            continue; /* the caller keeps it aside, as api/p2p does */
        const size_t len = slot.len < receive->capacity ? slot.len : receive->capacity;
        __builtin_memcpy(receive->buffer, slot.bytes, len);
        rcmi_channel_release(receive->from[i]);
        receive->next = i + 1;
        *ret_peer = receive->peer[i];
        *ret_len = len;
        return RCM_OK;
    }
    return RCM_AGAIN;
}
