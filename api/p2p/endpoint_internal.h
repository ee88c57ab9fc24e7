/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of endpoints share; no other file includes it. The protocol is in endpoint.h.
 *
 *   endpoint.c          channels, life, the short way
 *   endpoint_send.c     eager messages and RTS, answers that are owed
 *   endpoint_receive.c  what arrives
 *   endpoint_get.c      messages that the receiver copies out of the sender's memory
 *   endpoint_copy.c     copies, and those that finish later
 *   flow.c              data of large messages
 */
#ifndef RCMI_ENDPOINT_INTERNAL_H
#define RCMI_ENDPOINT_INTERNAL_H

#include <string.h>
#include "endpoint.h"

#define EAGER_MAX  ((size_t)65536)  /* between sockets: a rendezvous costs more than the copies */
#define EAGER_BARE ((size_t)262144) /* the same without copies, see travels_bare */
/* Where ranks share cores a sender that went on at once might keep the receiver from their core: it
 * waits, from so many bytes on, until the message was taken. */
#define OVERSUBSCRIBED_WAITS ((size_t)16384)
#define EAGER_OVERHEAD       ((size_t)256)
#define RCMI_PIECES          4 /* of a message, at least, if they are not smaller than piece_min */

enum kind {
    KIND_EAGER = 1,
    KIND_RTS,
    KIND_CTS,
    KIND_DATA,
    KIND_CREDIT,
    KIND_BARE,
    KIND_ACK,
    KIND_DEVICE_CTS,
};

/* How far a send is; shown as progress. */
enum stage { STAGE_NEW, STAGE_RTS, STAGE_DATA, STAGE_DRAIN };

struct header {
    uint64_t tag, total;
};

/* What an RTS (request to send) holds. */
struct rts {
    struct header header;
    uint64_t from;   /* where the message lies in its sender's process; 0: that is of no use */
    uint64_t device; /* 1: it can go by the channel of device memory, and is not empty; else 0 */
};

/* Of an RTS, in rcmi_endpoint.announced. */
static inline struct rcmi_key id_key(uint32_t id) {
    return (struct rcmi_key){{id, 0}};
}

/* Between kind and id stand 24 bits that follow from both, so that a damaged word is noticed. */
static inline uint64_t meta_of(enum kind kind, uint32_t id) {
    const uint64_t word = (uint64_t)kind << 56 | id;
    return word | word * UINT64_C(0x9e3779b97f4a7c15) >> 40 << 32;
}

/* Of a message without a header nothing else says how long it was sent: the length has a part in
 * those bits. */
static inline uint64_t meta_of_bare(uint32_t tag, size_t len) {
    return meta_of(KIND_BARE, tag) ^ (uint64_t)len * UINT64_C(0xd6e8feb86659fd93) >> 40 << 32;
}

/* What an eager message takes of the budget: what is kept aside of an empty one is not nothing (the
 * matching's entry, and what malloc adds). */
static inline size_t eager_charge(size_t total) {
    return total + EAGER_OVERHEAD;
}

/* The state of a channel for sends that are under way. A peer that has left may have sent its
 * answer to them before, which is looked for first (deadline.c). */
static inline rcm_status tx_state(const struct rcmi_channel *tx) {
    const rcm_status status = rcmi_channel_state(tx);
    return status < 0 && rcmi_channel_peer_left(tx) ? RCM_OK : status;
}

/* Does another core read the slots where they are written? Not known before the channel is
 * ready. */
static inline bool shares_slots(const struct rcmi_channel *channel) {
    /* Acquire pairs with the release store of the loop thread, which chose the transport before. */
    return atomic_load_explicit(&channel->state, memory_order_acquire) == RCM_OK &&
           channel->transport->shared_slots;
}

/* Does an eager message travel without its header, straight from buffer to buffer? Where the kernel
 * copies anyhow; its tag is its id then. */
static inline bool travels_bare(const struct rcmi_endpoint *e, uint64_t tag, size_t total) {
    return total >= e->messaging->bare_min && tag <= UINT32_MAX && !shares_slots(e->main.tx);
}

/* Tag and payload of a message that came eagerly; false if it is none, or is not of its length. */
static inline bool eager_open(const struct rcmi_slot *slot, struct header *ret_header,
                              const char **ret_bytes) {
    const bool bare = slot->meta == meta_of_bare((uint32_t)slot->meta, slot->len);
    const size_t head = bare ? 0 : sizeof(*ret_header);
    if ((!bare && slot->meta != meta_of(KIND_EAGER, (uint32_t)slot->meta)) || slot->len < head)
        return false;
    *ret_header = (struct header){.tag = (uint32_t)slot->meta, .total = slot->len};
    if (!bare)
        memcpy(ret_header, slot->bytes, sizeof(*ret_header));
    *ret_bytes = (const char *)slot->bytes + head;
    return ret_header->total == slot->len - head;
}

/* Does an eager send of so many bytes wait until they were taken? */
static inline bool eager_waits(const struct rcmi_endpoint *e, size_t total) {
    return total > OVERSUBSCRIBED_WAITS && e->messaging->oversubscribed && shares_slots(e->main.tx);
}

/* How long the next piece of a message is. Both ends have seen messages on the channel before, so
 * it is ready and its slots have their size. Where the receiver copies from the slots that the
 * sender writes, a message has several pieces, so that the one copies while the other writes the
 * next. */
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

/* Sends a message of `len` bytes, as small as a header. */
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

/* All of a send has gone out. */
static inline void rcmi_flow_sent(struct rcmi_flow *flow, struct rcmi_transfer *t) {
    t->stage = STAGE_DRAIN;
    rcmi_transfers_append(&flow->draining, t);
}

/* Opens one of the channels, if it is not. */
static inline rcm_status rcmi_flow_open(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                                        bool writer) {
    struct rcmi_channel **channel = writer ? &flow->tx : &flow->rx;
    return *channel
               ? RCM_OK
               : e->messaging->open(e->messaging->open_arg, e->peer, flow->kind, writer, channel);
}

/* Is there a receive whose CTS was not sent? */
static inline bool rcmi_endpoint_owes(const struct rcmi_endpoint *e) {
    for (int kind = 0; kind < RCMI_MEM_KINDS; kind++)
        if (e->flows[kind].owed.head)
            return true;
    return false;
}

/* Sends a piece by a slot. RCM_AGAIN: it is being filled, see rcmi_flow_filled, or there is no
 * slot, or the transfer is not ready; NULL, of host memory, always is. Inlined, for the sake of
 * short messages. */
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

/* Takes len bytes of a message out of the oldest slot, as far as its receive has room. RCM_AGAIN:
 * it is being emptied, see rcmi_flow_emptied. A long message would not stay in a cache, but lines
 * that are written there are read first. */
static inline rcm_status rcmi_flow_take(const struct rcmi_endpoint *e, struct rcmi_flow *flow,
                                        struct rcmi_transfer *t, const char *bytes, size_t len) {
    const bool non_temporal = rcmi_range_has(e->messaging->protocol->copy_non_temporal, t->total);
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

/* Ends a receive that has all. */
static inline void rcmi_receive_end(const struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    e->messaging->completed(t, t->total > t->mem.len ? RCM_ERR_TRUNCATED : RCM_OK);
}

/* The peer has sent `what`, which is not right. */
static inline rcm_status rcmi_endpoint_protocol_error(const struct rcmi_endpoint *e,
                                                      const char *what, uint64_t value) {
    return rcmi_fail_origin(RCM_ERR_PROTOCOL, e->peer, "rank %d sent %s (%llu)", e->peer, what,
                            (unsigned long long)value);
}

/* ---- endpoint_send.c: sends what can be sent */
rcm_status rcmi_endpoint_pump(struct rcmi_endpoint *e, bool *moved);
/* The peer is ready for the data of a message, or this rank is: they flow once t->after has
 * ended. */
rcm_status rcmi_endpoint_flows(struct rcmi_endpoint *e, struct rcmi_transfer *t);
/* The flow of a message that lies in memory of this kind at both ends, known once the main one is
 * ready: NULL if they have the main one. */
struct rcmi_flow *rcmi_endpoint_own_flow(struct rcmi_endpoint *e, const struct rcmi_transfer *t);
/* May a message of so many bytes go out eagerly? Sends it so; RCM_AGAIN: it is being copied, or no
 * slot is free. t NULL: none has it, and its memory is the host's. */
bool rcmi_endpoint_may_be_eager(const struct rcmi_endpoint *e, uint64_t tag, size_t total);
rcm_status rcmi_endpoint_put_eager(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t tag,
                                   const struct rcmi_mem *mem);

/* ---- endpoint_receive.c: takes what came */
rcm_status rcmi_endpoint_drain(struct rcmi_endpoint *e, bool *moved);

/* ---- endpoint_copy.c: of memory that the CPU does not touch */
/* Begins to copy an eager message out of the memory that keeps it, which is freed then; out of a
 * slot, whose bytes are kept first. */
rcm_status rcmi_endpoint_copy_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                   const char *bytes, void *memory);
rcm_status rcmi_endpoint_copy_aside(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                    const char *bytes);
/* It has ended; else RCM_AGAIN. */
rcm_status rcmi_endpoint_copied_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t);

/* ---- endpoint_get.c */
/* A message of a rendezvous begins to be received: is it got from there? Then it sets
 * transfer->from and is in e->getting. The next piece of one that is got. */
bool rcmi_endpoint_begin_get(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t from);
rcm_status rcmi_endpoint_get(struct rcmi_endpoint *e, bool *moved);

#endif
