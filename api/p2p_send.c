/* SPDX-License-Identifier: BSD-3-Clause */
/* Point to point, the sending side: eager messages, RTS, pieces of data, and the answers that a
 * receiver owes. The protocol is in p2p.c. */
#include <stdlib.h>
#include <string.h>
#include "kernels.h"
#include "p2p_internal.h"

/* Sends a message of `len` bytes, as small as a header. */
rcm_status rcmi_pair_put(struct pair *pair, uint64_t meta, const void *bytes, size_t len) {
    struct rcmi_reserved reserved;
    rcm_status status = rcmi_channel_reserve(pair->tx, len, &reserved);
    if (status != RCM_OK)
        return status;
    if (len)
        memcpy(reserved.bytes, bytes, len);
    rcmi_channel_commit(pair->tx, len, meta);
    return RCM_OK;
}

/* Copies user memory to where the channel wants the message, behind a head. */
static rcm_status pair_put_copy(struct pair *pair, uint64_t meta, const void *head, size_t head_len,
                                const struct rcmi_mem *mem) {
    const size_t len = mem->len;
    struct rcmi_reserved reserved;
    const rcm_status status = rcmi_channel_reserve(pair->tx, head_len + len, &reserved);
    if (status != RCM_OK)
        return status;
    if (head_len)
        memcpy(reserved.bytes, head, head_len);
    if (len)
        rcmi_copy_by(reserved.stores, (char *)reserved.bytes + head_len, mem->bytes, len);
    rcmi_channel_commit(pair->tx, head_len + len, meta);
    return RCM_OK;
}

/* Is a message of so many bytes got by its receiver? */
static bool pair_is_got(const struct rcmi_p2p *p2p, const struct pair *pair, size_t total) {
    return shares_slots(pair->tx) && rcmi_range_has(p2p->protocol->get, total);
}

/* Is a message of so many bytes short enough to go out eagerly? */
static bool pair_is_short(const struct rcmi_p2p *p2p, const struct pair *pair, uint64_t tag,
                          size_t total) {
    if (!shares_slots(pair->tx))
        return total <= (tag <= UINT32_MAX ? EAGER_BARE : EAGER_MAX);
    return rcmi_range_has(p2p->protocol->eager, total) && !pair_is_got(p2p, pair, total);
}

/* What stands before an eager message in its slot. A tag that fits goes where an id would be; then
 * the payload begins where the slot does: on a line of its own, or in the ring's header. */
static size_t eager_head(uint64_t tag) {
    return tag <= UINT32_MAX ? 0 : sizeof(struct header);
}

bool rcmi_pair_may_be_eager(const struct rcmi_p2p *p2p, const struct pair *pair, uint64_t tag,
                            size_t total) {
    /* Acquire pairs with the release store of the loop thread, which wrote slot_bytes before. */
    const bool ready = atomic_load_explicit(&pair->tx->state, memory_order_acquire) == RCM_OK;
    const size_t slot = ready ? pair->tx->slot_bytes : 0;
    return pair_is_short(p2p, pair, tag, total) && total + eager_head(tag) <= slot &&
           pair->eager_out + eager_charge(total) <= p2p->budget;
}

rcm_status rcmi_pair_put_eager(struct pair *pair, uint64_t tag, const struct rcmi_mem *mem) {
    const size_t total = mem->len;
    const struct header header = {.tag = tag, .total = total};
    const size_t head = eager_head(tag);
    const rcm_status status =
        pair_put_copy(pair, head ? meta_of(KIND_EAGER, 0) : meta_of_bare((uint32_t)tag, total),
                      &header, head, mem);
    if (status == RCM_OK)
        pair->eager_out += eager_charge(total);
    return status;
}

/* Sends a message eagerly, from where it lies. */
static rcm_status pair_put_bare(struct pair *pair, struct rcm_work *work) {
    struct rcmi_transfer *t = &work->transfer;
    const rcm_status status = rcmi_channel_send_zero_copy(
        pair->tx, &t->mem, meta_of_bare((uint32_t)t->tag, t->total), false);
    if (status != RCM_OK)
        return status;
    pair->eager_out += eager_charge(t->total);
    t->zero_copy = rcmi_channel_sent(pair->tx);
    t->stage = STAGE_DRAIN;
    list_remove(&pair->outgoing, &pair->outgoing.head);
    list_append(&pair->sending, work);
    return RCM_OK;
}

/* Only once the channel is ready it is known what may go out eagerly: else a small message might
 * become a rendezvous, because the channel became ready in between, and wait for its receiver. */
static rcm_status pair_issue(struct rcmi_p2p *p2p, struct pair *pair, struct rcm_work *work) {
    struct rcmi_transfer *t = &work->transfer;
    const rcm_status state = rcmi_channel_state(pair->tx);
    if (state != RCM_OK)
        return state;
    const struct rts rts = {
        .header = {.tag = t->tag, .total = t->total},
        .from = pair_is_got(p2p, pair, t->total) ? (uint64_t)(uintptr_t)t->mem.bytes : 0};
    if (rcmi_pair_may_be_eager(p2p, pair, t->tag, t->total)) {
        rcm_status status = RCM_ERR_UNSUPPORTED;
        if (travels_bare(pair, t->tag, t->total))
            status = pair_put_bare(pair, work);
        if (status != RCM_ERR_UNSUPPORTED)
            return status;
        status = rcmi_pair_put_eager(pair, t->tag, &t->mem);
        if (status != RCM_OK)
            return status;
        list_remove(&pair->outgoing, &pair->outgoing.head);
        if (eager_waits(p2p, pair, t->total)) {
            t->stage = STAGE_DRAIN;
            t->last = rcmi_channel_sent(pair->tx);
            list_append(&pair->sending, work);
        } else {
            rcmi_work_complete(work, RCM_OK);
        }
        return RCM_OK;
    }
    rcm_status status = rcmi_pair_put(pair, meta_of(KIND_RTS, pair->next_id), &rts, sizeof(rts));
    if (status != RCM_OK)
        return status;
    t->id = pair->next_id++;
    t->stage = STAGE_RTS;
    list_remove(&pair->outgoing, &pair->outgoing.head);
    list_append(&pair->sending, work);
    return RCM_OK;
}

/* Sends the next piece of a message that the receiver is ready for. */
static rcm_status pair_send_data(struct pair *pair, struct rcmi_transfer *t) {
    const size_t len = piece_bytes(pair->tx, t->total, t->done);
    const uint64_t meta = meta_of(KIND_DATA, t->id);
    rcm_status status = RCM_ERR_UNSUPPORTED;
    const struct rcmi_mem piece = rcmi_mem_part(&t->mem, t->done, len);
    if (len >= ZERO_COPY_MIN)
        status = rcmi_channel_send_zero_copy(pair->tx, &piece, meta, false);
    if (status == RCM_OK)
        t->zero_copy = rcmi_channel_sent(pair->tx);
    if (status == RCM_ERR_UNSUPPORTED)
        status = pair_put_copy(pair, meta, NULL, 0, &piece);
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
            rcm_status status = pair_send_data(pair, t);
            if (status != RCM_OK)
                return status;
            *moved = true;
        }
        if (t->stage == STAGE_DATA) {
            t->stage = STAGE_DRAIN;
            t->last = oversubscribed(p2p) ? rcmi_channel_sent(pair->tx) : 0;
        }
        if (t->stage == STAGE_DRAIN && rcmi_channel_completed(pair->tx, t->zero_copy) &&
            rcmi_channel_taken(pair->tx, t->last)) {
            list_remove(&pair->sending, at);
            rcmi_work_complete(work, RCM_OK);
            *moved = true;
        } else {
            at = &work->next;
        }
    }
    return RCM_OK;
}

static rcm_status pair_pump_cts(struct pair *pair, bool *moved) {
    while (pair->cts) {
        struct cts *cts = pair->cts;
        rcm_status status = rcmi_pair_put(pair, meta_of(KIND_CTS, cts->id), NULL, 0);
        if (status != RCM_OK)
            return status;
        pair->cts = cts->next;
        if (!pair->cts)
            pair->cts_end = &pair->cts;
        free(cts);
        *moved = true;
    }
    return RCM_OK;
}

static rcm_status pair_pump_credit(const struct rcmi_p2p *p2p, struct pair *pair) {
    if (pair->eager_in < p2p->budget / 4)
        return RCM_OK;
    const uint64_t bytes = pair->eager_in;
    rcm_status status = rcmi_pair_put(pair, meta_of(KIND_CREDIT, 0), &bytes, sizeof(bytes));
    if (status == RCM_OK) {
        pair->eager_in = 0;
        pair->eager_due -= bytes;
    }
    return status;
}

/* Everything this rank has to tell the other, as far as slots allow. */
rcm_status rcmi_pair_pump(struct rcmi_p2p *p2p, int peer, bool *moved) {
    struct pair *pair = &p2p->pairs[peer];
    if (!pair->outgoing.head && !pair->sending.head && !pair->cts && !pair->getting &&
        pair->eager_in < p2p->budget / 4)
        return RCM_OK;
    rcm_status status = rcmi_pair_open_tx(p2p, peer);
    if (status == RCM_OK && pair->getting)
        status = rcmi_pair_get(p2p, peer, moved);
    if (status == RCM_OK && pair->sending.head && rcmi_channel_help(pair->tx))
        *moved = true;
    if (status == RCM_OK)
        status = pair_pump_cts(pair, moved);
    if (status == RCM_OK)
        status = pair_pump_credit(p2p, pair);
    while (status == RCM_OK && pair->outgoing.head) {
        status = pair_issue(p2p, pair, pair->outgoing.head);
        if (status == RCM_OK)
            *moved = true;
    }
    if (status == RCM_OK)
        status = pair_pump_sends(p2p, pair, moved);
    return status == RCM_AGAIN ? RCM_OK : status;
}
