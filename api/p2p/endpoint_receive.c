/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints, the receiving side: arriving messages, and the destination of their bytes. The
 * protocol is in endpoint.h. */
#include <stdlib.h>
#include <string.h>
#include "endpoint_internal.h"

static void receive_begin(struct rcmi_transfer *t, const struct rcmi_arrival *arrival) {
    t->tag = arrival->tag;
    t->total = arrival->total;
    t->came = arrival->dtype;
    t->rendezvous = arrival->rendezvous;
    t->done = 0;
}

/* All bytes have arrived, or as many as fit the receive. */
static void receive_eager_end(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    e->eager_in += eager_charge(t->total);
    rcmi_receive_end(e, t);
}

/* RCM_AGAIN: the message is being copied. */
static rcm_status receive_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                const struct rcmi_arrival *arrival) {
    receive_begin(t, arrival);
    if (rcmi_copy_room(t, t->total) > 0 && !rcmi_copy_is_over(t))
        return rcmi_endpoint_copy_aside(e, t, arrival->bytes);
    const rcm_status status = rcmi_flow_take(e, &e->main, t, arrival->bytes, arrival->total);
    if (status == RCM_OK)
        receive_eager_end(e, t);
    return status;
}

static rcm_status receive_rts(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                              const struct rcmi_arrival *arrival) {
    struct rcmi_flow *own = arrival->device ? rcmi_endpoint_own_flow(e, t) : NULL;
    receive_begin(t, arrival);
    t->id = arrival->id;
    t->flow = own ? own : &e->main;
    return !own && rcmi_endpoint_begin_get(e, t, arrival->from) ? RCM_OK
                                                                : rcmi_endpoint_flows(e, t);
}

static rcm_status endpoint_receive(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                   const struct rcmi_arrival *arrival) {
    t->peer = e->peer;
    return arrival->rendezvous ? receive_rts(e, t, arrival) : receive_eager(e, t, arrival);
}

/* An eager message that is stored in `memory`. */
static rcm_status receive_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                               const struct rcmi_arrival *arrival, void *memory) {
    t->peer = e->peer;
    receive_begin(t, arrival);
    return rcmi_endpoint_copy_kept(e, t, arrival->bytes, memory);
}

rcm_status rcmi_endpoint_receive(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                 const struct rcmi_arrival *arrival, void *memory) {
    e->rts_kept -= arrival->rendezvous;
    if (!arrival->rendezvous && !rcmi_transfer_is_touched(t) &&
        rcmi_copy_room(t, arrival->total) > 0)
        return receive_kept(e, t, arrival, memory);
    const rcm_status status = endpoint_receive(e, t, arrival);
    free(memory);
    return status;
}

/* Gives an arrived message to its receive, or stores it. A correct sender never exceeds its limits,
 * and never sends under RCM_ANY_TAG. */
static rcm_status endpoint_match(struct rcmi_endpoint *e, const struct rcmi_arrival *arrival) {
    const struct rcmi_messaging *messaging = e->messaging;
    if (arrival->tag == RCM_ANY_TAG)
        return rcmi_endpoint_protocol_error(e, "a message under RCM_ANY_TAG", arrival->total);
    struct rcmi_transfer *t = messaging->match(messaging->arg, e->peer, arrival->tag);
    if (t)
        return endpoint_receive(e, t, arrival);
    e->rts_kept += arrival->rendezvous;
    if (e->rts_kept > messaging->rts_max)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, e->peer,
                                "rank %d sent %zu RTS that were not answered, %zu are allowed",
                                e->peer, e->rts_kept, messaging->rts_max);
    if (e->eager_due > messaging->budget)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, e->peer,
                                "rank %d sent %zu bytes of eager messages, %zu are allowed",
                                e->peer, e->eager_due, messaging->budget);
    return messaging->keep(messaging->arg, arrival);
}

/* EAGER and BARE. */
static rcm_status handle_eager(struct rcmi_endpoint *e, const struct rcmi_slot *slot) {
    struct header header;
    const char *bytes;
    if (!eager_open(slot, &header, &bytes))
        return rcmi_endpoint_protocol_error(e, "a message whose length does not match its header",
                                            slot->len);
    e->eager_due += eager_charge(header.total);
    const struct rcmi_arrival arrival = {.peer = e->peer,
                                         .tag = header.tag,
                                         .total = header.total,
                                         .dtype = dtype_of(slot->meta),
                                         .bytes = bytes};
    return endpoint_match(e, &arrival);
}

static rcm_status handle_rts(struct rcmi_endpoint *e, uint32_t id, const struct rcmi_slot *slot) {
    struct rts rts;
    if (slot->len != sizeof(rts))
        return rcmi_endpoint_protocol_error(e, "an RTS of wrong length", slot->len);
    memcpy(&rts, slot->bytes, sizeof(rts));
    if (rts.device > 1 || (rts.device && rts.header.total == 0))
        return rcmi_endpoint_protocol_error(e, "a damaged RTS", rts.device);
    const struct rcmi_arrival arrival = {.peer = e->peer,
                                         .tag = rts.header.tag,
                                         .total = rts.header.total,
                                         .dtype = dtype_of(slot->meta),
                                         .rendezvous = true,
                                         .id = id,
                                         .from = rts.from,
                                         .device = rts.device == 1};
    return endpoint_match(e, &arrival);
}

/* Takes the send whose RTS of this id was not answered yet; NULL: there is none. */
static struct rcmi_transfer *endpoint_answered(struct rcmi_endpoint *e, uint32_t id) {
    struct rcmi_keyed_item *item = rcmi_keyed_find(&e->announced, id_key(id));
    if (!item)
        return NULL;
    rcmi_keyed_remove(&e->announced, item);
    return rcmi_transfer_of(item);
}

/* The peer requests the data of a message by that flow. */
static rcm_status handle_cts(struct rcmi_endpoint *e, struct rcmi_flow *flow, uint32_t id) {
    struct rcmi_transfer *t = endpoint_answered(e, id);
    if (!t)
        return rcmi_endpoint_protocol_error(e, "a CTS for an unknown message", id);
    t->flow = flow;
    const rcm_status status = rcmi_endpoint_flows(e, t);
    if (flow != &e->main && flow != rcmi_endpoint_own_flow(e, t))
        return rcmi_endpoint_protocol_error(e, "a device CTS for a message in host memory", id);
    return status;
}

/* The receiver has copied the message by get. */
static rcm_status handle_ack(struct rcmi_endpoint *e, uint32_t id) {
    struct rcmi_transfer *t = endpoint_answered(e, id);
    if (!t)
        return rcmi_endpoint_protocol_error(e, "an ACK for an unknown message", id);
    t->done = t->total;
    rcmi_channel_sent_beside(e->main.tx, t->total);
    e->messaging->completed(t, RCM_OK);
    return RCM_OK;
}

static rcm_status handle_credit(struct rcmi_endpoint *e, const struct rcmi_slot *slot) {
    uint64_t bytes;
    if (slot->len != sizeof(bytes))
        return rcmi_endpoint_protocol_error(e, "a credit of wrong length", slot->len);
    memcpy(&bytes, slot->bytes, sizeof(bytes));
    if (bytes > e->eager_out)
        return rcmi_endpoint_protocol_error(e, "more credit than was used", bytes);
    e->eager_out -= bytes;
    return RCM_OK;
}

static rcm_status handle_slot(struct rcmi_endpoint *e, const struct rcmi_slot *slot) {
    if (!slot->bytes)
        return rcmi_endpoint_protocol_error(e, "a get request on a message channel", slot->len);
    const enum kind kind = kind_of(slot->meta);
    const uint32_t id = (uint32_t)slot->meta;
    if (!meta_holds(slot->meta, slot->len))
        return rcmi_endpoint_protocol_error(e, "a message with a damaged header", slot->meta);
    switch (kind) {
    case KIND_EAGER:
    case KIND_BARE:
        return handle_eager(e, slot);
    case KIND_RTS:
        return handle_rts(e, id, slot);
    case KIND_CTS:
        return handle_cts(e, &e->main, id);
    case KIND_DATA:
        return rcmi_flow_data(e, &e->main, slot);
    case KIND_CREDIT:
        return handle_credit(e, slot);
    case KIND_ACK:
        return handle_ack(e, id);
    case KIND_DEVICE_CTS:
        return handle_cts(e, &e->flows[RCMI_MEM_DEVICE], id);
    default:
        return rcmi_endpoint_protocol_error(e, "a message of unknown kind", slot->meta >> 56);
    }
}

/* The receive whose data most likely come next: the one whose pieces are arriving, or the first
 * that waits for a message that may come bare; else NULL. */
static const struct rcmi_transfer *endpoint_next_receive(const struct rcmi_endpoint *e) {
    const struct rcmi_flow *flow = &e->main;
    const struct rcmi_transfer *t = flow->receiving.head ? flow->receiving.head : flow->owed.head;
    if (t || shares_slots(flow->rx))
        return t;
    t = e->messaging->next(e->messaging->arg, e->peer);
    if (!t || t->mem.len < e->messaging->bare_min)
        return NULL;
    return t->tag <= UINT32_MAX || t->tag == RCM_ANY_TAG ? t : NULL;
}

static bool post_bare(struct rcmi_endpoint *e, const struct rcmi_transfer *t) {
    const bool any = t->tag == RCM_ANY_TAG;
    const struct rcmi_posted bare = {
        .mem = t->mem,
        .meta = (uint64_t)KIND_BARE << 56 | (any ? 0 : (uint32_t)t->tag),
        .mask = (uint64_t)KIND_MESSAGES << 56 | (any ? 0 : UINT32_MAX),
    };
    return rcmi_channel_post_receive(e->main.rx, &bare);
}

static bool post_data(struct rcmi_endpoint *e, const struct rcmi_transfer *t) {
    const size_t end = t->total < t->mem.len ? t->total : t->mem.len;
    if (t->done >= end) /* the rest is discarded */
        return false;
    const size_t piece = piece_bytes(e, e->main.rx, t), left = end - t->done;
    const struct rcmi_posted data = {
        .mem = rcmi_mem_part(&t->mem, t->done, piece < left ? piece : left)};
    return rcmi_channel_post_receive(e->main.rx, &data);
}

/* Lets a socket receive the next message directly into its most likely buffer. If another message
 * comes before a piece of data, it lands there too and is taken from there. Then the piece, which
 * has the length of its destination, overwrites it. A bare message may be shorter than the buffer.
 * So only a bare one that the receive matches goes there, and nothing beyond its end is written. */
static void endpoint_post(struct rcmi_endpoint *e) {
    const struct rcmi_transfer *t = e->posted ? NULL : endpoint_next_receive(e);
    if (t && rcmi_transfer_is_touched(t))
        e->posted = t->rendezvous ? post_data(e, t) : post_bare(e, t);
}

/* An asynchronous copy holds the oldest slot: nothing behind it is read until the copy has
 * ended. */
static rcm_status endpoint_drain_copy(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_transfer *t = e->main.emptying;
    const rcm_status status = rcmi_flow_emptied(e, &e->main);
    if (status != RCM_OK)
        return status;
    *moved = true;
    rcmi_channel_release(e->main.rx);
    if (t->rendezvous)
        rcmi_flow_data_end(e, &e->main, t);
    else
        receive_eager_end(e, t);
    return RCM_OK;
}

/* No kept message waits for the stream of another one. */
static rcm_status endpoint_drain_kept(struct rcmi_endpoint *e, bool *moved) {
    for (struct rcmi_transfer *t = e->copying.head, *next; t; t = next) {
        next = t->next;
        const rcm_status status = rcmi_endpoint_copied_kept(e, t);
        if (status == RCM_AGAIN)
            continue;
        if (status != RCM_OK)
            return status;
        *moved = true;
        receive_eager_end(e, t);
    }
    return RCM_OK;
}

rcm_status rcmi_endpoint_drain(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_slot slot;
    rcm_status status = RCM_OK;
    if (!e->main.rx || e->left)
        return RCM_OK;
    if (e->copying.head)
        status = endpoint_drain_kept(e, moved);
    if (status == RCM_OK && e->main.emptying)
        status = endpoint_drain_copy(e, moved);
    if (status != RCM_OK)
        return status == RCM_AGAIN ? RCM_OK : status;
    while ((status = rcmi_channel_peek(e->main.rx, &slot)) == RCM_OK) {
        e->posted = false;
        status = handle_slot(e, &slot);
        if (status == RCM_AGAIN) /* released later */
            return RCM_OK;
        rcmi_channel_release(e->main.rx);
        *moved = true;
        if (status != RCM_OK)
            return status;
    }
    if (status == RCM_AGAIN && rcmi_channel_state(e->main.rx) == RCM_OK)
        endpoint_post(e);
    if (status == RCM_AGAIN)
        return RCM_OK;
    e->left = rcmi_channel_peer_left(e->main.rx);
    return e->left ? RCM_OK : status;
}
