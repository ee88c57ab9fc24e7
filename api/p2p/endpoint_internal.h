/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of endpoints; no other file includes it. The protocol is in endpoint.h.
 *
 *   endpoint.c          channels, creation and end, the fast path
 *   endpoint_send.c     eager messages and RTS, answers that are owed
 *   endpoint_receive.c  arriving messages
 *   endpoint_get.c      messages that the receiver copies from the sender's memory
 *   endpoint_copy.c     copies, also asynchronous ones
 *   flow.c              data of large messages
 */
#ifndef RCMI_ENDPOINT_INTERNAL_H
#define RCMI_ENDPOINT_INTERNAL_H

#include <string.h>
#include "endpoint.h"

#define EAGER_MAX  ((size_t)65536)  /* over sockets: a rendezvous costs more than the copies */
#define EAGER_BARE ((size_t)262144) /* the same without copies, see travels_bare */
/* With shared cores a sender that continued at once might keep the receiver from its core. From
 * this size on it waits until the message was taken. */
#define OVERSUBSCRIBED_WAITS ((size_t)16384)
#define EAGER_OVERHEAD       ((size_t)256)
#define RCMI_PIECES          4 /* minimum per message, if they are at least piece_min long */

/* The first byte of a meta word. In that of a message, the other six bits are the type of its
 * elements (rcmi_dtype_code). */
enum kind {
    KIND_CTS = 1,
    KIND_DATA,
    KIND_CREDIT,
    KIND_ACK,
    KIND_DEVICE_CTS,
    KIND_EAGER = 0x40,
    KIND_BARE = 0x80,
    KIND_RTS = 0xc0,
    KIND_MESSAGES = 0xc0, /* the bits that make a message of it */
};

static inline enum kind kind_of(uint64_t meta) {
    const uint64_t byte = meta >> 56;
    return (enum kind)(byte & KIND_MESSAGES ? byte & KIND_MESSAGES : byte);
}

/* Of a message. */
static inline uint8_t dtype_of(uint64_t meta) {
    return (uint8_t)(meta >> 56 & ~(uint64_t)KIND_MESSAGES);
}

/* State of a send; shown as progress. */
enum stage { STAGE_NEW, STAGE_RTS, STAGE_DATA, STAGE_DRAIN };

struct header {
    uint64_t tag, total;
};

/* Content of an RTS (request to send). */
struct rts {
    struct header header;
    uint64_t from;   /* address of the message in the sender's process; 0: unusable */
    uint64_t device; /* 1: device channel possible, and not empty; else 0 */
};

/* Key of an RTS in rcmi_endpoint.announced. */
static inline struct rcmi_key id_key(uint32_t id) {
    return (struct rcmi_key){{id, 0}};
}

/* The 24 bits between kind and id are a checksum of both, so that a damaged word is detected. */
static inline uint64_t meta_checked(uint64_t word) {
    return word | word * UINT64_C(0x9e3779b97f4a7c15) >> 40 << 32;
}
static inline uint64_t meta_of(unsigned byte, uint32_t id) {
    return meta_checked((uint64_t)byte << 56 | id);
}

/* A message without a header has no other record of its length, so the checksum includes it. */
static inline uint64_t meta_of_length(size_t len) {
    return (uint64_t)len * UINT64_C(0xd6e8feb86659fd93) >> 40 << 32;
}
static inline uint64_t meta_of_bare(uint8_t dtype, uint32_t tag, size_t len) {
    return meta_of(KIND_BARE | dtype, tag) ^ meta_of_length(len);
}

/* Whether the word of an arrived message of this length has the right checksum. */
static inline bool meta_holds(uint64_t meta, size_t len) {
    const uint64_t right = meta_checked(meta & ~(UINT64_C(0xffffff) << 32));
    return meta == (meta >> 62 == KIND_BARE >> 6 ? right ^ meta_of_length(len) : right);
}

/* The share of an eager message in the budget. An empty one also needs memory if kept: the matching
 * entry, and the overhead of malloc. */
static inline size_t eager_charge(size_t total) {
    return total + EAGER_OVERHEAD;
}

/* The state of a channel for unfinished sends. A peer that has left may have answered them before;
 * its answers are read first (deadline.c). */
static inline rcm_status tx_state(const struct rcmi_channel *tx) {
    const rcm_status status = rcmi_channel_state(tx);
    return status < 0 && rcmi_channel_peer_left(tx) ? RCM_OK : status;
}

/* Whether another core reads the slots where they are written. Unknown before the channel is
 * ready. */
static inline bool shares_slots(const struct rcmi_channel *channel) {
    /* Acquire pairs with the release store of the loop thread, which chose the transport before. */
    return atomic_load_explicit(&channel->state, memory_order_acquire) == RCM_OK &&
           channel->transport->shared_slots;
}

/* Whether an eager message is sent without its header, directly from buffer to buffer. It is if the
 * kernel copies anyhow; then the tag is the id. */
static inline bool travels_bare(const struct rcmi_endpoint *e, uint64_t tag, size_t total) {
    return total >= e->messaging->bare_min && tag <= UINT32_MAX && !shares_slots(e->main.tx);
}

/* Tag and payload of an eager message; false: it is none, or its length is wrong. */
static inline bool eager_open(const struct rcmi_slot *slot, struct header *ret_header,
                              const char **ret_bytes) {
    const bool bare = slot->meta >> 62 == KIND_BARE >> 6;
    const size_t head = bare ? 0 : sizeof(*ret_header);
    if ((!bare && slot->meta >> 62 != KIND_EAGER >> 6) || !meta_holds(slot->meta, slot->len) ||
        slot->len < head)
        return false;
    *ret_header = (struct header){.tag = (uint32_t)slot->meta, .total = slot->len};
    if (!bare)
        memcpy(ret_header, slot->bytes, sizeof(*ret_header));
    *ret_bytes = (const char *)slot->bytes + head;
    return ret_header->total == slot->len - head;
}

/* Whether an eager send of this size waits until it was taken. */
static inline bool eager_waits(const struct rcmi_endpoint *e, size_t total) {
    return total > OVERSUBSCRIBED_WAITS && e->messaging->oversubscribed && shares_slots(e->main.tx);
}

/* Length of the next piece of a message. Both ends have used the channel before, so it is ready and
 * its slots have their size. If the receiver copies from the slots that the sender writes, a
 * message has several pieces, so that one copies while the other writes the next. */
static inline size_t piece_bytes(const struct rcmi_endpoint *e, const struct rcmi_channel *channel,
                                 const struct rcmi_transfer *t) {
    const size_t total = t->total, done = t->done;
    const size_t least = e->messaging->piece_min;
    size_t piece = channel->slot_bytes;
    if (channel->transport->shared_slots && total / RCMI_PIECES < piece)
        piece = total / RCMI_PIECES < least ? least : total / RCMI_PIECES & ~(size_t)63;
    piece = piece < channel->slot_bytes ? piece : channel->slot_bytes;
    return total - done < piece ? total - done : piece;
}

/* Sends a message of `len` bytes, at most the size of a header. */
static inline rcm_status rcmi_endpoint_put(struct rcmi_endpoint *e, uint64_t meta,
                                           const void *bytes, size_t len) {
    struct rcmi_reserved reserved;
    rcm_status status = rcmi_channel_reserve(e->main.tx, len, &reserved);
    if (status != RCM_OK)
        return status;
    if (len)
        memcpy(reserved.bytes, bytes, len);
    rcmi_channel_commit(e->main.tx, len, meta);
    return RCM_OK;
}

/* All of a send was sent. */
static inline void rcmi_flow_sent(struct rcmi_flow *flow, struct rcmi_transfer *t) {
    t->stage = STAGE_DRAIN;
    rcmi_transfers_append(&flow->draining, t);
}

/* Opens one of the channels, if it is not open. */
static inline rcm_status rcmi_flow_open(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                                        bool writer) {
    struct rcmi_channel **channel = writer ? &flow->tx : &flow->rx;
    return *channel
               ? RCM_OK
               : e->messaging->open(e->messaging->open_arg, e->peer, flow->kind, writer, channel);
}

/* Whether there is a receive whose CTS was not sent. */
static inline bool rcmi_endpoint_owes(const struct rcmi_endpoint *e) {
    for (int kind = 0; kind < RCMI_MEM_KINDS; kind++)
        if (e->flows[kind].owed.head)
            return true;
    return false;
}

/* Sends a piece by a slot. RCM_AGAIN: the slot is being filled, see rcmi_flow_filled, or there is
 * no slot, or the transfer is not ready. t NULL: host memory, always ready. Inlined for short
 * messages. */
static inline rcm_status rcmi_flow_put(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                                       struct rcmi_transfer *t, const struct rcmi_piece *piece) {
    const size_t len = piece->head_len + piece->len;
    struct rcmi_reserved reserved;
    rcm_status status = t ? rcmi_copy_ready(e, t) : RCM_OK;
    if (status == RCM_OK)
        status = rcmi_channel_reserve(flow->tx, len, &reserved);
    if (status != RCM_OK)
        return status;
    char *to = reserved.bytes;
    if (piece->head_len)
        memcpy(to, piece->head, piece->head_len);
    if (piece->len > 0)
        status =
            rcmi_copy_begin(e, t, reserved.stores, to + piece->head_len, piece->bytes, piece->len);
    if (status == RCM_OK)
        rcmi_channel_commit(flow->tx, len, piece->meta);
    if (status == RCM_AGAIN) {
        t->copy->meta = piece->meta;
        t->copy->head_len = piece->head_len;
        t->copy->len = piece->len;
        flow->filling = t;
    }
    return status;
}

/* Takes len bytes of a message from the oldest slot, as far as they fit its receive. RCM_AGAIN: the
 * slot is being emptied, see rcmi_flow_emptied. Long messages use non-temporal stores: they would
 * not stay in a cache, and temporal stores first read the lines. */
static inline rcm_status rcmi_flow_take(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                                        struct rcmi_transfer *t, const char *bytes, size_t len) {
    const bool non_temporal = rcmi_range_has(flow->rx->protocol->copy_non_temporal, t->total);
    const size_t room = rcmi_copy_room(t, len);
    char *to = room > 0 ? (char *)t->mem.bytes + t->done : NULL;
    rcm_status status = RCM_OK;
    if (room > 0 && bytes != to)
        status = rcmi_copy_begin(e, t, non_temporal ? RCMI_NON_TEMPORAL : RCMI_TEMPORAL, to, bytes,
                                 room);
    if (status == RCM_OK)
        t->done += len;
    else
        flow->emptying = t; /* it may be in no list */
    if (status == RCM_AGAIN)
        t->copy->len = len;
    return status;
}

/* Completes a receive that has all data. */
static inline void rcmi_receive_end(const struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    e->messaging->completed(t, rcmi_transfer_differs(t) ? RCM_ERR_MISMATCH
                               : t->total > t->mem.len  ? RCM_ERR_TRUNCATED
                                                        : RCM_OK);
}

/* The peer has sent `what`, which violates the protocol. */
static inline rcm_status rcmi_endpoint_protocol_error(const struct rcmi_endpoint *e,
                                                      const char *what, uint64_t value) {
    return rcmi_fail_origin(RCM_ERR_PROTOCOL, e->peer, "rank %d sent %s (%llu)", e->peer, what,
                            (unsigned long long)value);
}

/* ---- endpoint_send.c */
rcm_status rcmi_endpoint_pump(struct rcmi_endpoint *e, bool *moved);
/* The peer is ready for the data of a message, or this rank is: they can move once t->after has
 * ended. */
rcm_status rcmi_endpoint_flows(struct rcmi_endpoint *e, struct rcmi_transfer *t);
/* The separate flow of a message whose memory is of this kind at both ends, known once the main one
 * is ready. NULL: it uses the main one. */
struct rcmi_flow *rcmi_endpoint_own_flow(struct rcmi_endpoint *e, const struct rcmi_transfer *t);
/* _may_be_eager: whether a message of this size may be sent eagerly. _put_eager: sends it;
 * RCM_AGAIN: it is being copied, or no slot is free. t NULL: there is no transfer, and the memory
 * is the host's. */
bool rcmi_endpoint_may_be_eager(const struct rcmi_endpoint *e, uint64_t tag, size_t total);
rcm_status rcmi_endpoint_put_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t tag,
                                   uint8_t dtype, const struct rcmi_mem *mem);

/* ---- endpoint_receive.c: takes arrived messages */
rcm_status rcmi_endpoint_drain(struct rcmi_endpoint *e, bool *moved);

/* ---- endpoint_copy.c: for memory that the CPU does not touch */
/* _copy_kept: begins to copy an eager message from the memory that stores it, which is then freed.
 * _copy_aside: from a slot, whose bytes are stored first. */
rcm_status rcmi_endpoint_copy_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                   const char *bytes, void *memory);
rcm_status rcmi_endpoint_copy_aside(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                    const char *bytes);
/* RCM_OK: it has ended; else RCM_AGAIN. */
rcm_status rcmi_endpoint_copied_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t);

/* ---- endpoint_get.c */
/* _begin_get: a rendezvous begins; true: its message is copied by get, transfer->from is set, and
 * it is in e->getting. _get: copies the next piece. */
bool rcmi_endpoint_begin_get(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t from);
rcm_status rcmi_endpoint_get(struct rcmi_endpoint *e, bool *moved);

#endif
