/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints, the sending side: eager messages, RTS, pieces of data, and the answers that a receiver
 * owes. The protocol is in endpoint.h. */
#include <string.h>
#include "kernels.h"
#include "endpoint_internal.h"

/* Copies user memory to where the channel wants the message, behind a head. */
static rcm_status endpoint_put_copy(struct rcmi_endpoint *e, uint64_t meta, const void *head,
                                    size_t head_len, const struct rcmi_mem *mem) {
    const size_t len = mem->len;
    struct rcmi_reserved reserved;
    const rcm_status status = rcmi_channel_reserve(e->tx, head_len + len, &reserved);
    if (status != RCM_OK)
        return status;
    if (head_len)
        memcpy(reserved.bytes, head, head_len);
    if (len)
        rcmi_copy_by(reserved.stores, (char *)reserved.bytes + head_len, mem->bytes, len);
    rcmi_channel_commit(e->tx, head_len + len, meta);
    return RCM_OK;
}

/* Is a message of so many bytes got by its receiver? */
static bool endpoint_is_got(const struct rcmi_endpoint *e, size_t total) {
    return shares_slots(e->tx) && rcmi_range_has(e->messaging->protocol->get, total);
}

/* Is a message of so many bytes short enough to go out eagerly? */
static bool endpoint_is_short(const struct rcmi_endpoint *e, uint64_t tag, size_t total) {
    if (!shares_slots(e->tx))
        return total <= (tag <= UINT32_MAX ? EAGER_BARE : EAGER_MAX);
    return rcmi_range_has(e->messaging->protocol->eager, total) && !endpoint_is_got(e, total);
}

/* What stands before an eager message in its slot. A tag that fits goes where an id would be; then
 * the payload begins where the slot does: on a line of its own, or in the queue's header. */
static size_t eager_head(uint64_t tag) {
    return tag <= UINT32_MAX ? 0 : sizeof(struct header);
}

static uint64_t eager_meta(uint64_t tag, size_t total) {
    return eager_head(tag) ? meta_of(KIND_EAGER, 0) : meta_of_bare((uint32_t)tag, total);
}

bool rcmi_endpoint_may_be_eager(const struct rcmi_endpoint *e, uint64_t tag, size_t total) {
    /* Acquire pairs with the release store of the loop thread, which wrote slot_bytes before. */
    const bool ready = atomic_load_explicit(&e->tx->state, memory_order_acquire) == RCM_OK;
    const size_t slot = ready ? e->tx->slot_bytes : 0;
    return endpoint_is_short(e, tag, total) && total + eager_head(tag) <= slot &&
           e->eager_out + eager_charge(total) <= e->messaging->budget;
}

rcm_status rcmi_endpoint_put_eager(struct rcmi_endpoint *e, uint64_t tag,
                                   const struct rcmi_mem *mem) {
    const size_t total = mem->len;
    const struct header header = {.tag = tag, .total = total};
    const size_t head = eager_head(tag);
    const rcm_status status = endpoint_put_copy(e, eager_meta(tag, total), &header, head, mem);
    if (status == RCM_OK)
        e->eager_out += eager_charge(total);
    return status;
}

/* Sends a message eagerly, from where it lies. */
static rcm_status endpoint_put_bare(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const rcm_status status = rcmi_channel_send_zero_copy(
        e->tx, &t->mem, meta_of_bare((uint32_t)t->tag, t->total), false);
    if (status != RCM_OK)
        return status;
    e->eager_out += eager_charge(t->total);
    t->zero_copy = rcmi_channel_sent(e->tx);
    t->stage = STAGE_DRAIN;
    rcmi_transfers_remove(&e->outgoing, t);
    rcmi_transfers_append(&e->draining, t);
    return RCM_OK;
}

/* It went out. */
static void endpoint_issued_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcmi_transfers_remove(&e->outgoing, t);
    if (!eager_waits(e, t->total)) {
        e->messaging->completed(t, RCM_OK);
        return;
    }
    t->stage = STAGE_DRAIN;
    t->last = rcmi_channel_sent(e->tx);
    rcmi_transfers_append(&e->draining, t);
}

/* Begins to, where its copy finishes later. */
static rcm_status endpoint_copy_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const struct header header = {.tag = t->tag, .total = t->total};
    const struct rcmi_piece piece = {
        .head = &header, .head_len = eager_head(t->tag), .mem = t->mem};
    return rcmi_endpoint_copy_out(e, t, eager_meta(t->tag, t->total), &piece);
}

/* Sends a message eagerly; RCM_AGAIN: no slot is free. */
static rcm_status endpoint_issue_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (transfer_is_later(t))
        return endpoint_copy_eager(e, t);
    if (travels_bare(e, t->tag, t->total))
        status = endpoint_put_bare(e, t);
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    status = rcmi_endpoint_put_eager(e, t->tag, &t->mem);
    if (status == RCM_OK)
        endpoint_issued_eager(e, t);
    return status;
}

static rcm_status endpoint_issue_rts(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const struct rts rts = {.header = {.tag = t->tag, .total = t->total},
                            .from = endpoint_is_got(e, t->total) && !transfer_is_later(t)
                                        ? (uint64_t)(uintptr_t)t->mem.bytes
                                        : 0,
                            .device = rcmi_endpoint_device_may(e, t)};
    if (e->announced.n >= e->messaging->rts_max)
        return RCM_AGAIN;
    const rcm_status status =
        rcmi_endpoint_put(e, meta_of(KIND_RTS, e->next_id), &rts, sizeof(rts));
    if (status != RCM_OK)
        return status;
    t->id = e->next_id++;
    t->stage = STAGE_RTS;
    rcmi_transfers_remove(&e->outgoing, t);
    rcmi_keyed_add(&e->announced, id_key(t->id), &t->item);
    return RCM_OK;
}

/* Only once the channel is ready it is known what may go out eagerly: else a small message might
 * become a rendezvous, because the channel became ready in between, and wait for its receiver. */
static rcm_status endpoint_issue(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const rcm_status state = rcmi_channel_state(e->tx);
    if (state != RCM_OK)
        return state;
    return !t->synchronous && rcmi_endpoint_may_be_eager(e, t->tag, t->total)
               ? endpoint_issue_eager(e, t)
               : endpoint_issue_rts(e, t);
}

/* Sends the next piece of a message that the receiver is ready for. */
static rcm_status endpoint_send_data(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const size_t len = piece_bytes(e, e->tx, t->total, t->done);
    const uint64_t meta = meta_of(KIND_DATA, t->id);
    rcm_status status = RCM_ERR_UNSUPPORTED;
    const struct rcmi_mem piece = rcmi_mem_part(&t->mem, t->done, len);
    if (transfer_is_later(t))
        return rcmi_endpoint_copy_out(e, t, meta, &(struct rcmi_piece){.mem = piece});
    if (len >= e->messaging->zero_copy_min)
        status = rcmi_channel_send_zero_copy(e->tx, &piece, meta, false);
    if (status == RCM_OK)
        t->zero_copy = rcmi_channel_sent(e->tx);
    if (status == RCM_ERR_UNSUPPORTED)
        status = endpoint_put_copy(e, meta, NULL, 0, &piece);
    if (status == RCM_OK)
        t->done += len;
    return status;
}

static void endpoint_begin_data(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    t->stage = STAGE_DATA;
    rcmi_transfers_append(t->by_device ? &e->device.sending : &e->sending, t);
}

rcm_status rcmi_endpoint_send_answered(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const rcm_status status = transfer_is_later(t) ? rcmi_copy_ready(e, t) : RCM_OK;
    if (status == RCM_OK)
        endpoint_begin_data(e, t);
    else
        rcmi_transfers_append(&e->answered, t);
    return status == RCM_AGAIN ? RCM_OK : status;
}

/* Those that are ready by now. */
static rcm_status endpoint_pump_answered(struct rcmi_endpoint *e) {
    for (struct rcmi_transfer *t = e->answered.head, *next; t; t = next) {
        next = t->next;
        const rcm_status status = rcmi_copy_ready(e, t);
        if (status == RCM_AGAIN)
            continue;
        if (status != RCM_OK)
            return status;
        rcmi_transfers_remove(&e->answered, t);
        endpoint_begin_data(e, t);
    }
    return RCM_OK;
}

static void endpoint_sent(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcmi_transfers_remove(&e->sending, t);
    t->stage = STAGE_DRAIN;
    t->last = e->messaging->oversubscribed ? rcmi_channel_sent(e->tx) : 0;
    rcmi_transfers_append(&e->draining, t);
}

static rcm_status endpoint_pump_data(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_transfer *t;
    while ((t = e->sending.head)) {
        while (t->done < t->total) {
            const rcm_status status = endpoint_send_data(e, t);
            if (status != RCM_OK)
                return status;
            *moved = true;
        }
        endpoint_sent(e, t);
    }
    return RCM_OK;
}

/* What was sent later is not through before. */
static void endpoint_pump_drain(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_transfer *t;
    while ((t = e->draining.head) && rcmi_channel_completed(e->tx, t->zero_copy) &&
           rcmi_channel_taken(e->tx, t->last)) {
        rcmi_transfers_remove(&e->draining, t);
        e->messaging->completed(t, RCM_OK);
        *moved = true;
    }
}

static bool endpoint_waits(const struct rcmi_endpoint *e) {
    return e->answered.head || e->sending.head || e->draining.head || e->announced.n > 0;
}

static rcm_status endpoint_pump_sends(struct rcmi_endpoint *e, bool *moved) {
    rcm_status status = endpoint_pump_answered(e);
    if (status == RCM_OK)
        status = endpoint_pump_data(e, moved);
    endpoint_pump_drain(e, moved);
    /* Of a channel that failed nothing completes. */
    const bool waits = endpoint_waits(e);
    return status == RCM_OK && waits ? rcmi_channel_state(e->tx) : status;
}

static rcm_status endpoint_pump_cts(struct rcmi_endpoint *e, bool *moved) {
    while (e->owed) {
        const rcm_status status = rcmi_endpoint_put(e, meta_of(KIND_CTS, e->owed->id), NULL, 0);
        if (status != RCM_OK)
            return status;
        e->owed = e->owed->next;
        *moved = true;
    }
    return RCM_OK;
}

static rcm_status endpoint_pump_credit(struct rcmi_endpoint *e) {
    if (e->eager_in < e->messaging->budget / 4)
        return RCM_OK;
    const uint64_t bytes = e->eager_in;
    rcm_status status = rcmi_endpoint_put(e, meta_of(KIND_CREDIT, 0), &bytes, sizeof(bytes));
    if (status != RCM_OK && status != RCM_AGAIN && rcmi_channel_peer_left(e->tx))
        status = RCM_OK; /* it needs none */
    if (status == RCM_OK) {
        e->eager_in = 0;
        e->eager_due -= bytes;
    }
    return status;
}

static rcm_status endpoint_open_tx(struct rcmi_endpoint *e) {
    return e->tx ? RCM_OK
                 : e->messaging->open(e->messaging->open_arg, e->peer, RCMI_MEM_HOST, true, &e->tx);
}

/* A copy that finishes later holds the slot that is next: all else waits until that is sent. */
static rcm_status endpoint_pump_copy(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_transfer *t;
    const rcm_status status = rcmi_endpoint_copied_out(e, &t);
    if (status != RCM_OK)
        return status;
    *moved = true;
    if (t->stage == STAGE_NEW) {
        e->eager_out += eager_charge(t->total);
        endpoint_issued_eager(e, t);
    } else {
        t->done += t->copy->len;
    }
    return RCM_OK;
}

static rcm_status endpoint_pump_outgoing(struct rcmi_endpoint *e, bool *moved) {
    while (e->outgoing.head) {
        const rcm_status status = endpoint_issue(e, e->outgoing.head);
        if (status != RCM_OK)
            return status;
        *moved = true;
    }
    return RCM_OK;
}

/* Everything this rank has to tell the other, as far as slots allow. */
rcm_status rcmi_endpoint_pump(struct rcmi_endpoint *e, bool *moved) {
    const bool waits = endpoint_waits(e);
    if (!e->outgoing.head && !waits && !e->owed && !e->device.owed.head && !e->getting.head &&
        e->eager_in < e->messaging->budget / 4)
        return RCM_OK;
    rcm_status status = endpoint_open_tx(e);
    if (e->copy_out)
        status = endpoint_pump_copy(e, moved);
    if (status == RCM_OK && e->getting.head)
        status = rcmi_endpoint_get(e, moved);
    if (status == RCM_OK && waits && rcmi_channel_help(e->tx))
        *moved = true;
    if (status == RCM_OK)
        status = endpoint_pump_cts(e, moved);
    if (status == RCM_OK)
        status = rcmi_endpoint_device_answer(e, moved);
    if (status == RCM_OK)
        status = endpoint_pump_credit(e);
    if (status == RCM_OK) {
        status = endpoint_pump_outgoing(e, moved);
        /* Data do not wait for what the first of these waits for: its stream, or answers. */
        if (status == RCM_OK || (status == RCM_AGAIN && !e->copy_out))
            status = endpoint_pump_sends(e, moved);
    }
    return status == RCM_AGAIN ? RCM_OK : status;
}
