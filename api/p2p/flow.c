/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of large messages: see flow.h. */
#include "endpoint_internal.h"

/* Types with the same class match; class 0 matches all. */
static uint8_t dtype_class(uint8_t code) {
    switch ((rcm_dtype)code) {
    case RCM_UINT16:
        return RCM_INT16;
    case RCM_UINT32:
    case RCM_INT32_INT32:
        return RCM_INT32;
    case RCM_UINT64:
        return RCM_INT64;
    default:
        return rcm_dtype_size((rcm_dtype)code) == 1 ? 0 : code;
    }
}

bool rcmi_dtypes_differ(uint8_t message, uint8_t receive, size_t bytes) {
    const uint8_t a = dtype_class(message), b = dtype_class(receive);
    return b != 0 && (a != 0 ? a != b : bytes % rcm_dtype_size((rcm_dtype)receive) != 0);
}

void rcmi_flow_init(struct rcmi_flow *flow, enum rcmi_mem_kind kind) {
    flow->kind = kind;
    flow->gets = kind != RCMI_MEM_HOST;
    rcmi_transfers_init(&flow->owed);
    rcmi_transfers_init(&flow->receiving);
    rcmi_transfers_init(&flow->sending);
    rcmi_transfers_init(&flow->draining);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

rcm_status rcmi_flow_filled(const struct rcmi_endpoint *e, struct rcmi_flow *flow) {
    const struct rcmi_transfer *t = flow->filling;
    const rcm_status status = rcmi_copy_look(e, t);
    if (status != RCM_OK)
        return status;
    rcmi_channel_commit(flow->tx, t->copy->head_len + t->copy->len, t->copy->meta);
    flow->filling = NULL;
    return RCM_OK;
}

rcm_status rcmi_flow_emptied(const struct rcmi_endpoint *e, struct rcmi_flow *flow) {
    struct rcmi_transfer *t = flow->emptying;
    const rcm_status status = rcmi_copy_look(e, t);
    if (status != RCM_OK)
        return status;
    t->done += t->copy->len;
    flow->emptying = NULL;
    return RCM_OK;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

void rcmi_flow_data_end(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                        struct rcmi_transfer *t) {
    if (t->done < t->total)
        return;
    rcmi_transfers_remove(&flow->receiving, t);
    rcmi_receive_end(e, t);
}

static bool piece_is_right(const struct rcmi_endpoint *e, const struct rcmi_flow *flow,
                           const struct rcmi_transfer *t, size_t len) {
    if (flow->gets)
        return len > 0 && len <= t->total - t->done;
    return len == piece_bytes(e, flow->rx, t);
}

rcm_status rcmi_flow_data(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                          const struct rcmi_slot *slot) {
    const uint32_t id = (uint32_t)slot->meta;
    struct rcmi_transfer *t = flow->receiving.head;
    while (t && t->id != id)
        t = t->next;
    if (!t)
        return rcmi_endpoint_protocol_error(e, "data of a message without CTS", id);
    if (!piece_is_right(e, flow, t, slot->len))
        return rcmi_endpoint_protocol_error(e, "a piece whose size does not match its RTS",
                                            slot->len);
    const rcm_status status = rcmi_flow_take(e, flow, t, slot->bytes, slot->len);
    if (status == RCM_OK)
        rcmi_flow_data_end(e, flow, t);
    return status;
}

/* Takes the next slot. */
static rcm_status flow_drain_slot(const struct rcmi_endpoint *e, struct rcmi_flow *flow) {
    struct rcmi_slot slot;
    rcm_status status = rcmi_channel_peek(flow->rx, &slot);
    if (status != RCM_OK)
        return status;
    if (!slot.bytes || slot.meta != meta_of(KIND_DATA, (uint32_t)slot.meta))
        return rcmi_endpoint_protocol_error(e, "a message other than data on a data channel",
                                            slot.meta);
    status = rcmi_flow_data(e, flow, &slot);
    if (status == RCM_OK)
        rcmi_channel_release(flow->rx);
    return status;
}

/* Takes the slot that was emptied. */
static rcm_status flow_drain_copy(const struct rcmi_endpoint *e, struct rcmi_flow *flow) {
    struct rcmi_transfer *t = flow->emptying;
    const rcm_status status = rcmi_flow_emptied(e, flow);
    if (status != RCM_OK)
        return status;
    rcmi_channel_release(flow->rx);
    rcmi_flow_data_end(e, flow, t);
    return RCM_OK;
}

rcm_status rcmi_flow_drain(struct rcmi_endpoint *e, struct rcmi_flow *flow, bool *moved) {
    while (flow->receiving.head) {
        const rcm_status status =
            flow->emptying ? flow_drain_copy(e, flow) : flow_drain_slot(e, flow);
        if (status != RCM_OK)
            return status == RCM_AGAIN ? RCM_OK : status;
        *moved = true;
    }
    return RCM_OK;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Sends the next piece of a message, directly from its memory. */
static rcm_status flow_send_zero_copy(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                                      struct rcmi_transfer *t) {
    const size_t left = t->total - t->done;
    const size_t most = flow->gets ? RCMI_GET_MAX : piece_bytes(e, flow->tx, t);
    const struct rcmi_mem piece = rcmi_mem_part(&t->mem, t->done, left < most ? left : most);
    if (!flow->gets && piece.len < e->messaging->zero_copy_min)
        return RCM_ERR_UNSUPPORTED;
    const rcm_status status =
        rcmi_channel_send_zero_copy(flow->tx, &piece, meta_of(KIND_DATA, t->id), flow->gets);
    if (status != RCM_OK)
        return status;
    t->zero_copy = rcmi_channel_sent(flow->tx);
    t->done += piece.len;
    return RCM_OK;
}

/* How many of the remaining bytes the next slot carries. */
static size_t flow_slot_bytes(const struct rcmi_endpoint *e, const struct rcmi_flow *flow,
                              const struct rcmi_transfer *t) {
    const size_t left = t->total - t->done, slot = flow->tx->slot_bytes;
    return !flow->gets ? piece_bytes(e, flow->tx, t) : left < slot ? left : slot;
}

static rcm_status flow_send_piece(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                                  struct rcmi_transfer *t) {
    rcm_status status = rcmi_channel_state(flow->tx);
    if (status == RCM_OK)
        status = flow_send_zero_copy(e, flow, t);
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    const size_t len = flow_slot_bytes(e, flow, t);
    const struct rcmi_piece piece = {
        .meta = meta_of(KIND_DATA, t->id), .bytes = (char *)t->mem.bytes + t->done, .len = len};
    status = rcmi_flow_put(e, flow, t, &piece);
    if (status == RCM_OK)
        t->done += len;
    return status;
}

static rcm_status flow_pump_copy(const struct rcmi_endpoint *e, struct rcmi_flow *flow) {
    struct rcmi_transfer *t = flow->filling;
    const rcm_status status = rcmi_flow_filled(e, flow);
    if (status == RCM_OK)
        t->done += t->copy->len;
    return status;
}

/* Whether a send completes only when its reader has taken it. The reader may need this CPU. The own
 * rank is its reader itself: its receive is complete when the send is. */
static bool flow_awaits_reader(const struct rcmi_endpoint *e) {
    return e->messaging->oversubscribed || e->peer == e->messaging->rank;
}

static rcm_status flow_pump_data(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                                 bool *moved) {
    struct rcmi_transfer *t;
    while ((t = flow->sending.head)) {
        while (t->done < t->total) {
            const rcm_status status =
                flow->filling ? flow_pump_copy(e, flow) : flow_send_piece(e, flow, t);
            if (status != RCM_OK)
                return status;
            *moved = true;
        }
        rcmi_transfers_remove(&flow->sending, t);
        t->last = flow_awaits_reader(e) ? rcmi_channel_sent(flow->tx) : 0;
        rcmi_flow_sent(flow, t);
    }
    return RCM_OK;
}

/* In order: later messages complete later. */
static void flow_pump_drain(const struct rcmi_endpoint *e, struct rcmi_flow *flow, bool *moved) {
    struct rcmi_transfer *t;
    while ((t = flow->draining.head) && rcmi_channel_completed(flow->tx, t->zero_copy) &&
           rcmi_channel_taken(flow->tx, t->last)) {
        rcmi_transfers_remove(&flow->draining, t);
        e->messaging->completed(t, RCM_OK);
        *moved = true;
    }
}

rcm_status rcmi_flow_pump(struct rcmi_endpoint *e, struct rcmi_flow *flow, bool *moved) {
    if (!flow->sending.head && !flow->draining.head)
        return RCM_OK;
    rcm_status status = rcmi_flow_open(e, flow, true);
    if (status == RCM_OK)
        status = flow_pump_data(e, flow, moved);
    if (status == RCM_OK || status == RCM_AGAIN)
        flow_pump_drain(e, flow, moved);
    /* On a failed channel nothing completes. */
    if (status == RCM_OK && flow->draining.head)
        status = tx_state(flow->tx);
    return status == RCM_AGAIN ? RCM_OK : status;
}
