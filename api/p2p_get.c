/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point, rendezvous by get: large messages within a machine that the receiver copies out
 * of the sender's memory, where it may: one copy instead of two. A piece for each pass, so that
 * everything else goes on meanwhile; and the sender, if it has a CPU of its own, copies pieces as
 * well: the thread that waits for the send, or the library's.
 *
 * Not here: which messages (transport/protocol.h); how memory of others is read and written (the
 * transport's get).
 */
#include "p2p_internal.h"

#define NOWHERE 1 /* where a message of no bytes lies, which is taken at once */

static size_t get_bytes(const struct rcmi_transfer *t) {
    return t->total < t->mem.len ? t->total : t->mem.len;
}

bool rcmi_pair_begin_get(struct pair *pair, struct rcmi_transfer *t, uint64_t from) {
    t->from = t->total == 0 ? NOWHERE : 0;
    if (t->total > 0 && from != 0 && !pair->ungettable && shares_slots(pair->rx))
        t->from = get_bytes(t) > 0 ? from : 0;
    pair->getting += t->from != 0;
    return t->from != 0;
}

/* It cannot be got after all: it comes in slots, from the beginning. */
static rcm_status get_give_up(struct pair *pair, int peer, struct rcmi_transfer *t) {
    pair->ungettable = true;
    t->from = 0;
    t->done = 0;
    pair->getting--;
    return rcmi_pair_owe_cts(pair, peer, t->id);
}

/* All bytes are there. The receive ends once its sender has been told, since after that perhaps
 * nobody drives any more. */
static rcm_status get_end(struct pair *pair, struct rcm_work **at, bool *moved) {
    struct rcm_work *work = *at;
    const rcm_status status = rcmi_pair_put(pair, meta_of(KIND_ACK, work->transfer.id), NULL, 0);
    if (status != RCM_OK)
        return status == RCM_AGAIN ? RCM_OK : status;
    work->transfer.done = work->transfer.total;
    pair->getting--;
    list_remove(&pair->receiving, at);
    rcmi_receive_end(work);
    *moved = true;
    return RCM_OK;
}

/* A piece of the first one that is got. */
rcm_status rcmi_pair_get(const struct rcmi_p2p *p2p, int peer, bool *moved) {
    struct pair *pair = &p2p->pairs[peer];
    struct rcm_work **at = &pair->receiving.head;
    while (*at && !(*at)->transfer.from)
        at = &(*at)->next;
    if (!*at)
        return RCM_OK;
    struct rcmi_transfer *t = &(*at)->transfer;
    if (t->done == get_bytes(t))
        return get_end(pair, at, moved);
    const struct rcmi_mem place = rcmi_mem_part(&t->mem, 0, get_bytes(t));
    const rcm_status status =
        rcmi_channel_get(pair->rx, &place, t->from, !oversubscribed(p2p), moved);
    if (status == RCM_AGAIN)
        return RCM_OK;
    if (status == RCM_ERR_UNSUPPORTED)
        return get_give_up(pair, peer, t);
    if (status != RCM_OK)
        return status;
    t->done = get_bytes(t);
    return get_end(pair, at, moved);
}
