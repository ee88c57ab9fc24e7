/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints, the sending side: eager messages, RTS, and the answers that a receiver owes. The
 * protocol is in endpoint.h. */
#include <string.h>
#include "endpoint_internal.h"

/* Whether the receiver copies a message of this size by get. */
static bool endpoint_is_got(const struct rcmi_endpoint *e, size_t total) {
    return shares_slots(e->main.tx) && rcmi_range_has(e->main.tx->protocol->get, total);
}

/* Whether a message of this size is short enough to be sent eagerly. */
static bool endpoint_is_short(const struct rcmi_endpoint *e, uint64_t tag, size_t total) {
    if (!shares_slots(e->main.tx))
        return total <= (tag <= UINT32_MAX ? EAGER_BARE : EAGER_MAX);
    return rcmi_range_has(e->main.tx->protocol->eager, total) && !endpoint_is_got(e, total);
}

/* Bytes before an eager message in its slot. A tag that fits is stored in place of an id. Then the
 * payload begins at the slot's begin: on its own cache line, or in the queue's header. */
static size_t eager_head(uint64_t tag) {
    return tag <= UINT32_MAX ? 0 : sizeof(struct header);
}

static uint64_t eager_meta(uint64_t tag, uint8_t dtype, size_t total) {
    return eager_head(tag) ? meta_of(KIND_EAGER | dtype, 0)
                           : meta_of_bare(dtype, (uint32_t)tag, total);
}

bool rcmi_endpoint_may_be_eager(const struct rcmi_endpoint *e, uint64_t tag, size_t total) {
    /* Acquire pairs with the release store of the loop thread, which wrote slot_bytes before. */
    const bool ready = atomic_load_explicit(&e->main.tx->state, memory_order_acquire) == RCM_OK;
    const size_t slot = ready ? e->main.tx->slot_bytes : 0;
    return endpoint_is_short(e, tag, total) && total + eager_head(tag) <= slot &&
           e->eager_out + eager_charge(total) <= e->messaging->budget;
}

rcm_status rcmi_endpoint_put_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t tag,
                                   uint8_t dtype, const struct rcmi_mem *mem) {
    const struct header header = {.tag = tag, .total = mem->len};
    const struct rcmi_piece piece = {.meta = eager_meta(tag, dtype, mem->len),
                                     .head = &header,
                                     .head_len = eager_head(tag),
                                     .bytes = mem->bytes,
                                     .len = mem->len};
    const rcm_status status = rcmi_flow_put(e, &e->main, t, &piece);
    if (status == RCM_OK)
        e->eager_out += eager_charge(mem->len);
    return status;
}

/* Sends a message eagerly, directly from its memory. */
static rcm_status endpoint_put_bare(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const rcm_status status = rcmi_channel_send_zero_copy(
        e->main.tx, &t->mem, meta_of_bare(t->dtype, (uint32_t)t->tag, t->total), false);
    if (status != RCM_OK)
        return status;
    e->eager_out += eager_charge(t->total);
    t->zero_copy = rcmi_channel_sent(e->main.tx);
    rcmi_transfers_remove(&e->outgoing, t);
    rcmi_flow_sent(&e->main, t);
    return RCM_OK;
}

/* The eager message was sent. */
static void endpoint_issued_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcmi_transfers_remove(&e->outgoing, t);
    if (!eager_waits(e, t->total)) {
        e->messaging->completed(t, RCM_OK);
        return;
    }
    t->last = rcmi_channel_sent(e->main.tx);
    rcmi_flow_sent(&e->main, t);
}

/* Sends a message eagerly; RCM_AGAIN: it is being copied, or no slot is free. */
static rcm_status endpoint_issue_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (rcmi_transfer_is_touched(t) && travels_bare(e, t->tag, t->total))
        status = endpoint_put_bare(e, t);
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    status = rcmi_endpoint_put_eager(e, t, t->tag, t->dtype, &t->mem);
    if (status == RCM_OK)
        endpoint_issued_eager(e, t);
    return status;
}

struct rcmi_flow *rcmi_endpoint_own_flow(struct rcmi_endpoint *e, const struct rcmi_transfer *t) {
    struct rcmi_flow *flow = &e->flows[t->mem.kind];
    const struct rcmi_transport *transport = e->main.tx ? e->main.tx->transport : NULL;
    if (flow == &e->main || (transport && (!transport->same_host || transport->loops_back)))
        return NULL;
    return flow;
}

static rcm_status endpoint_issue_rts(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const struct rts rts = {.header = {.tag = t->tag, .total = t->total},
                            .from = endpoint_is_got(e, t->total) && rcmi_transfer_is_touched(t)
                                        ? (uint64_t)(uintptr_t)t->mem.bytes
                                        : 0,
                            .device = rcmi_endpoint_own_flow(e, t) != NULL};
    if (e->announced.n >= e->messaging->rts_max)
        return RCM_AGAIN;
    const rcm_status status =
        rcmi_endpoint_put(e, meta_of(KIND_RTS | t->dtype, e->next_id), &rts, sizeof(rts));
    if (status != RCM_OK)
        return status;
    t->id = e->next_id++;
    t->stage = STAGE_RTS;
    rcmi_transfers_remove(&e->outgoing, t);
    rcmi_keyed_add(&e->announced, id_key(t->id), &t->item);
    return RCM_OK;
}

/* Waits for the channel, because only a ready channel determines what may be eager. Otherwise, if
 * the channel became ready in between, a small message might become a rendezvous and wait for its
 * receiver. */
static rcm_status endpoint_issue(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const rcm_status state = rcmi_channel_state(e->main.tx);
    if (state != RCM_OK)
        return state;
    return !t->synchronous && rcmi_endpoint_may_be_eager(e, t->tag, t->total)
               ? endpoint_issue_eager(e, t)
               : endpoint_issue_rts(e, t);
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* A receive has no stage: it owes its CTS. */
static void endpoint_begin_data(struct rcmi_transfer *t) {
    struct rcmi_flow *flow = t->flow;
    rcmi_transfers_append(t->stage == STAGE_RTS ? &flow->sending : &flow->owed, t);
    t->stage = t->stage == STAGE_RTS ? STAGE_DATA : t->stage;
}

rcm_status rcmi_endpoint_flows(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const rcm_status status = rcmi_copy_ready(e, t);
    if (status == RCM_OK)
        endpoint_begin_data(t);
    else
        rcmi_transfers_append(&e->waiting, t);
    return status == RCM_AGAIN ? RCM_OK : status;
}

/* Begins those that are ready by now. */
static rcm_status endpoint_pump_waiting(struct rcmi_endpoint *e, bool *moved) {
    for (struct rcmi_transfer *t = e->waiting.head, *next; t; t = next) {
        next = t->next;
        const rcm_status status = rcmi_copy_ready(e, t);
        if (status == RCM_AGAIN)
            continue;
        if (status != RCM_OK)
            return status;
        rcmi_transfers_remove(&e->waiting, t);
        endpoint_begin_data(t);
        *moved = true;
    }
    return RCM_OK;
}

static bool endpoint_waits(const struct rcmi_endpoint *e) {
    return e->waiting.head || e->main.sending.head || e->main.draining.head || e->announced.n > 0;
}

static rcm_status flow_pump_cts(struct rcmi_endpoint *e, struct rcmi_flow *flow, enum kind cts,
                                bool *moved) {
    struct rcmi_transfer *t;
    while ((t = flow->owed.head)) {
        rcm_status status = rcmi_flow_open(e, flow, false);
        if (status == RCM_OK)
            status = rcmi_endpoint_put(e, meta_of(cts, t->id), NULL, 0);
        if (status != RCM_OK)
            return status;
        rcmi_transfers_remove(&flow->owed, t);
        rcmi_transfers_append(&flow->receiving, t);
        *moved = true;
    }
    return RCM_OK;
}

static rcm_status endpoint_pump_cts(struct rcmi_endpoint *e, bool *moved) {
    static const enum kind cts[RCMI_MEM_KINDS] = {KIND_CTS, KIND_DEVICE_CTS};
    rcm_status status = RCM_OK;
    for (int kind = 0; kind < RCMI_MEM_KINDS && status == RCM_OK; kind++)
        status = flow_pump_cts(e, &e->flows[kind], cts[kind], moved);
    return status;
}

static rcm_status endpoint_pump_credit(struct rcmi_endpoint *e) {
    if (e->eager_in < e->messaging->budget / 4)
        return RCM_OK;
    const uint64_t bytes = e->eager_in;
    rcm_status status = rcmi_endpoint_put(e, meta_of(KIND_CREDIT, 0), &bytes, sizeof(bytes));
    if (status != RCM_OK && status != RCM_AGAIN && rcmi_channel_peer_left(e->main.tx))
        status = RCM_OK; /* the peer needs no credit */
    if (status == RCM_OK) {
        e->eager_in = 0;
        e->eager_due -= bytes;
    }
    return status;
}

/* An asynchronous copy holds the next slot: all later messages wait until that is sent. */
static rcm_status endpoint_pump_copy(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_transfer *t = e->main.filling;
    const rcm_status status = rcmi_flow_filled(e, &e->main);
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

/* Answers and credits, after which the peer can continue. */
static rcm_status endpoint_pump_answers(struct rcmi_endpoint *e, bool *moved) {
    rcm_status status = endpoint_pump_waiting(e, moved);
    if (status == RCM_OK && e->main.filling)
        status = endpoint_pump_copy(e, moved);
    if (status == RCM_OK && e->getting.head)
        status = rcmi_endpoint_get(e, moved);
    if (status == RCM_OK && endpoint_waits(e) && rcmi_channel_help(e->main.tx))
        *moved = true;
    if (status == RCM_OK)
        status = endpoint_pump_cts(e, moved);
    return status == RCM_OK ? endpoint_pump_credit(e) : status;
}

/* Sends all pending messages, as far as slots allow. */
rcm_status rcmi_endpoint_pump(struct rcmi_endpoint *e, bool *moved) {
    const bool waits = endpoint_waits(e);
    if (!e->outgoing.head && !waits && !rcmi_endpoint_owes(e) && !e->getting.head &&
        e->eager_in < e->messaging->budget / 4)
        return RCM_OK;
    rcm_status status = rcmi_flow_open(e, &e->main, true);
    if (status == RCM_OK)
        status = endpoint_pump_answers(e, moved);
    if (status == RCM_OK) {
        status = endpoint_pump_outgoing(e, moved);
        /* Data do not wait for the first of these, which may wait for its stream or for answers. */
        if (status == RCM_OK || (status == RCM_AGAIN && !e->main.filling))
            status = rcmi_flow_pump(e, &e->main, moved);
        /* A failed channel brings no answers. */
        if (status == RCM_OK && endpoint_waits(e))
            status = tx_state(e->main.tx);
    }
    return status == RCM_AGAIN ? RCM_OK : status;
}
