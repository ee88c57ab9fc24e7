/* SPDX-License-Identifier: BSD-3-Clause */
/* Point to point, the sending side: announcements, pieces of data, and the answers that a receiver
 * owes. The protocol is in p2p.c. */
#include <stdlib.h>
#include <string.h>
#include "kernels.h"
#include "p2p_internal.h"

/* Sends a message of at most one slot, `len` bytes in two parts. cached: the body is written
 * through the cache. */
static rcm_status pair_put(struct pair *pair, uint64_t meta, const void *head, size_t head_len,
                           const void *body, size_t body_len, bool cached) {
    void *slot;
    rcm_status status = rcmi_channel_reserve(pair->tx, &slot);
    if (status != RCM_OK)
        return status;
    if (head_len)
        memcpy(slot, head, head_len);
    if (body_len)
        (cached ? rcmi_copy : rcmi_copy_streaming)((char *)slot + head_len, body, body_len);
    rcmi_channel_commit(pair->tx, head_len + body_len, meta);
    return RCM_OK;
}

/* Is the payload of a message of `total` bytes to be written through the cache? Past it where
 * another core reads the slots, which takes them from memory no slower, unless the receiver most
 * likely has its turn on this very core. */
static bool pair_caches(const struct rcmi_p2p *p2p, const struct pair *pair, size_t total) {
    return !shares_slots(pair->tx) || (p2p->comm->engine->crowd > 1 && total < CACHED_MAX);
}

static size_t pair_eager_max(const struct rcmi_p2p *p2p, const struct pair *pair) {
    if (!shares_slots(pair->tx))
        return EAGER_MAX;
    return p2p->comm->engine->crowd > 1 ? EAGER_CROWDED : EAGER_SHARED;
}

bool rcmi_pair_may_be_eager(const struct rcmi_p2p *p2p, const struct pair *pair, size_t total) {
    return total <= pair_eager_max(p2p, pair) &&
           total + sizeof(struct header) <= p2p->comm->slot_bytes &&
           pair->eager_out + eager_charge(total) <= p2p->budget;
}

rcm_status rcmi_pair_put_eager(const struct rcmi_p2p *p2p, struct pair *pair, uint64_t tag,
                               const void *bytes, size_t total) {
    const struct header header = {.tag = tag, .total = total};
    const rcm_status status = pair_put(pair, meta_of(KIND_EAGER, 0), &header, sizeof(header), bytes,
                                       total, pair_caches(p2p, pair, total));
    if (status == RCM_OK)
        pair->eager_out += eager_charge(total);
    return status;
}

static rcm_status pair_announce(struct rcmi_p2p *p2p, struct pair *pair, struct rcm_work *work) {
    struct rcmi_transfer *t = &work->transfer;
    const struct header header = {.tag = t->tag, .total = t->total};
    if (rcmi_pair_may_be_eager(p2p, pair, t->total)) {
        rcm_status status = rcmi_pair_put_eager(p2p, pair, t->tag, t->buffer, t->total);
        if (status != RCM_OK)
            return status;
        list_remove(&pair->outgoing, &pair->outgoing.head);
        rcmi_work_complete(work, RCM_OK);
        return RCM_OK;
    }
    rcm_status status = pair_put(pair, meta_of(KIND_ANNOUNCE, pair->next_id), &header,
                                 sizeof(header), NULL, 0, true);
    if (status != RCM_OK)
        return status;
    t->id = pair->next_id++;
    t->stage = STAGE_ANNOUNCED;
    list_remove(&pair->outgoing, &pair->outgoing.head);
    list_append(&pair->sending, work);
    return RCM_OK;
}

/* Sends the next piece of a message that the receiver is ready for. */
static rcm_status pair_send_data(const struct rcmi_p2p *p2p, struct pair *pair,
                                 struct rcmi_transfer *t) {
    const size_t len = piece_bytes(pair->tx, t->total, t->done);
    const uint64_t meta = meta_of(KIND_DATA, t->id);
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (len >= LEND_MIN)
        status = rcmi_channel_lend(pair->tx, t->buffer + t->done, len, meta);
    if (status == RCM_ERR_UNSUPPORTED)
        status = pair_put(pair, meta, NULL, 0, t->buffer + t->done, len,
                          pair_caches(p2p, pair, t->total));
    if (status == RCM_OK)
        t->done += len;
    return status;
}

static rcm_status pair_pump_sends(const struct rcmi_p2p *p2p, struct pair *pair, bool *moved) {
    struct rcm_work **at = &pair->sending.head;
    while (*at) {
        struct rcm_work *work = *at;
        struct rcmi_transfer *t = &work->transfer;
        while (t->stage == STAGE_DATA && t->done < t->total) {
            rcm_status status = pair_send_data(p2p, pair, t);
            if (status != RCM_OK)
                return status;
            *moved = true;
        }
        if (t->stage == STAGE_DATA)
            t->stage = STAGE_DRAIN;
        if (t->stage == STAGE_DRAIN && rcmi_channel_quiet(pair->tx)) {
            list_remove(&pair->sending, at);
            rcmi_work_complete(work, RCM_OK);
            *moved = true;
        } else {
            at = &work->next;
        }
    }
    return RCM_OK;
}

static rcm_status pair_pump_ready(struct pair *pair, bool *moved) {
    while (pair->ready) {
        struct ready *ready = pair->ready;
        rcm_status status = pair_put(pair, meta_of(KIND_READY, ready->id), NULL, 0, NULL, 0, true);
        if (status != RCM_OK)
            return status;
        pair->ready = ready->next;
        if (!pair->ready)
            pair->ready_end = &pair->ready;
        free(ready);
        *moved = true;
    }
    return RCM_OK;
}

static rcm_status pair_pump_credit(const struct rcmi_p2p *p2p, struct pair *pair) {
    if (pair->eager_in < p2p->budget / 4)
        return RCM_OK;
    const uint64_t bytes = pair->eager_in;
    rcm_status status =
        pair_put(pair, meta_of(KIND_CREDIT, 0), &bytes, sizeof(bytes), NULL, 0, true);
    if (status == RCM_OK) {
        pair->eager_in = 0;
        pair->eager_due -= bytes;
    }
    return status;
}

/* Everything this rank has to tell the other, as far as slots allow. */
rcm_status rcmi_pair_pump(struct rcmi_p2p *p2p, int peer, bool *moved) {
    struct pair *pair = &p2p->pairs[peer];
    if (!pair->outgoing.head && !pair->sending.head && !pair->ready &&
        pair->eager_in < p2p->budget / 4)
        return RCM_OK;
    rcm_status status = rcmi_pair_open_tx(p2p, peer);
    if (status == RCM_OK)
        status = pair_pump_ready(pair, moved);
    if (status == RCM_OK)
        status = pair_pump_credit(p2p, pair);
    while (status == RCM_OK && pair->outgoing.head) {
        status = pair_announce(p2p, pair, pair->outgoing.head);
        if (status == RCM_OK)
            *moved = true;
    }
    if (status == RCM_OK)
        status = pair_pump_sends(p2p, pair, moved);
    return status == RCM_AGAIN ? RCM_OK : status;
}
