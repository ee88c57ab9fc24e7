/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints, rendezvous by get: within a machine the receiver copies large messages from the
 * sender's memory, where permitted: one copy instead of two. Each pass copies one piece, so that
 * all else progresses meanwhile. A sender with its own CPU copies pieces too, in the thread that
 * waits for the send or in the library's.
 *
 * Not here: the threshold (protocol.h), and access to other processes' memory (the transport's
 * get).
 */
#include "endpoint_internal.h"

#define NOWHERE 1 /* source of an empty message, which is taken at once */

static size_t get_bytes(const struct rcmi_transfer *t) {
    return t->total < t->mem.len ? t->total : t->mem.len;
}

bool rcmi_endpoint_begin_get(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t from) {
    t->from = t->total == 0 ? NOWHERE : 0;
    if (t->total > 0 && from != 0 && rcmi_transfer_is_touched(t) && !e->ungettable &&
        shares_slots(e->main.rx))
        t->from = get_bytes(t) > 0 ? from : 0;
    if (t->from)
        rcmi_transfers_append(&e->getting, t);
    return t->from != 0;
}

/* The get is not possible: the message comes in slots, from the beginning. */
static void get_give_up(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    e->ungettable = true;
    t->from = 0;
    t->done = 0;
    rcmi_transfers_remove(&e->getting, t);
    rcmi_transfers_append(&e->main.owed, t);
}

/* All bytes were copied. The receive completes only after its sender was notified, because the
 * program may not drive the endpoint after that. RCM_AGAIN: the notification cannot be sent yet. */
static rcm_status get_end(struct rcmi_endpoint *e, struct rcmi_transfer *t, bool *moved) {
    const rcm_status status = rcmi_endpoint_put(e, meta_of(KIND_ACK, t->id), NULL, 0);
    if (status != RCM_OK)
        return status;
    t->done = t->total;
    rcmi_channel_received_beside(e->main.rx, get_bytes(t));
    rcmi_transfers_remove(&e->getting, t);
    rcmi_receive_end(e, t);
    *moved = true;
    return RCM_OK;
}

/* Copies a piece. RCM_AGAIN: more pieces follow. */
static rcm_status get_piece(struct rcmi_endpoint *e, struct rcmi_transfer *t, bool *moved) {
    const struct rcmi_mem dest = rcmi_mem_part(&t->mem, 0, get_bytes(t));
    const rcm_status status =
        rcmi_channel_get(e->main.rx, &dest, t->from, !e->messaging->oversubscribed, moved);
    if (status == RCM_ERR_UNSUPPORTED) {
        get_give_up(e, t);
        return RCM_AGAIN;
    }
    if (status == RCM_OK)
        t->done = get_bytes(t);
    return status;
}

/* Completes those with all bytes, and any number of empty ones, and continues with the next one. */
rcm_status rcmi_endpoint_get(struct rcmi_endpoint *e, bool *moved) {
    rcm_status status = RCM_OK;
    struct rcmi_transfer *t;
    bool got = false;
    while (status == RCM_OK && (t = e->getting.head)) {
        if (t->done < get_bytes(t)) {
            status = got ? RCM_AGAIN : get_piece(e, t, moved);
            got = true;
        }
        if (status == RCM_OK)
            status = get_end(e, t, moved);
    }
    return status == RCM_AGAIN ? RCM_OK : status;
}
