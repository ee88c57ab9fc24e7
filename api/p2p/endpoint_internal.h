/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of endpoints share; no other file includes it. The protocol is in endpoint.h.
 *
 *   endpoint.c          channels, life, the short way
 *   endpoint_send.c     eager messages and RTS, pieces of data, answers that are owed
 *   endpoint_receive.c  what arrives
 *   endpoint_get.c      messages that the receiver copies out of the sender's memory
 *   endpoint_copy.c     messages in memory whose copies finish later
 *   endpoint_device.c   those between two such memories, by a channel of their own
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
    return total >= e->messaging->bare_min && tag <= UINT32_MAX && !shares_slots(e->tx);
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
    return total > OVERSUBSCRIBED_WAITS && e->messaging->oversubscribed && shares_slots(e->tx);
}

/* How long the next piece is of a message of which `done` bytes are through. Both ends have seen
 * messages on the channel before, so it is ready and its slots have their size. Where the receiver
 * copies from the slots that the sender writes, a message has several pieces, so that the one
 * copies while the other writes the next. */
static inline size_t piece_bytes(const struct rcmi_endpoint *e, const struct rcmi_channel *channel,
                                 size_t total, size_t done) {
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
    rcm_status status = rcmi_channel_reserve(e->tx, len, &reserved);
    if (status != RCM_OK)
        return status;
    if (len)
        memcpy(reserved.bytes, bytes, len);
    rcmi_channel_commit(e->tx, len, meta);
    return RCM_OK;
}

/* Begins to receive data by slots, by a CTS. */
static inline void rcmi_receive_data(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcmi_transfers_append(&e->receiving, t);
    if (!e->owed)
        e->owed = t;
}

/* Ends a receive that has all. */
static inline void rcmi_receive_end(const struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    e->messaging->completed(t, t->total > t->mem.len ? RCM_ERR_TRUNCATED : RCM_OK);
}

/* endpoint_send.c: sends what can be sent. */
rcm_status rcmi_endpoint_pump(struct rcmi_endpoint *e, bool *moved);
/* A CTS came: its data go out, once it is ready. */
rcm_status rcmi_endpoint_send_answered(struct rcmi_endpoint *e, struct rcmi_transfer *t);
/* May a message of so many bytes go out eagerly? Sends it so; RCM_AGAIN: no slot is free. */
bool rcmi_endpoint_may_be_eager(const struct rcmi_endpoint *e, uint64_t tag, size_t total);
rcm_status rcmi_endpoint_put_eager(struct rcmi_endpoint *e, uint64_t tag,
                                   const struct rcmi_mem *mem);
/* endpoint_receive.c: copies bytes of a message that came to user memory, from where that is
 * filled. */
void rcmi_receive_bytes(const struct rcmi_endpoint *e, struct rcmi_transfer *t, const char *bytes,
                        size_t len);
/* Takes what came. */
rcm_status rcmi_endpoint_drain(struct rcmi_endpoint *e, bool *moved);
/* Do copies in the memory of a transfer finish later? */
static inline bool transfer_is_later(const struct rcmi_transfer *t) {
    return t->mem.kind != RCMI_MEM_HOST;
}
/* Of those whose data come (`end`: the first that has not been asked for), the one of that id. */
static inline struct rcmi_transfer *rcmi_receive_of(const struct rcmi_transfers *list,
                                                    const struct rcmi_transfer *end, uint32_t id) {
    struct rcmi_transfer *t = list->head;
    while (t && t != end && t->id != id)
        t = t->next;
    return t == end ? NULL : t;
}

/* endpoint_copy.c */
/* Makes t->copy, if there is none; begins one from memory to memory, which comes after t->after,
 * and of no bytes touches none; has it ended? */
rcm_status rcmi_copy_make(struct rcmi_transfer *t);
rcm_status rcmi_copy_begin(const struct rcmi_endpoint *e, struct rcmi_transfer *t, void *to,
                           const void *from, size_t bytes);
rcm_status rcmi_copy_look(const struct rcmi_endpoint *e, const struct rcmi_transfer *t);
/* Has t->after ended? rcmi_copy_ready also takes care that the owner is woken when it has:
 * RCM_AGAIN until then, while nothing is to be held that other messages need. */
bool rcmi_copy_is_over(const struct rcmi_transfer *t);
rcm_status rcmi_copy_ready(const struct rcmi_endpoint *e, struct rcmi_transfer *t);
/* How many of the next len bytes of a message have room in the buffer of its receive. */
size_t rcmi_copy_room(const struct rcmi_transfer *t, size_t len);
/* What a slot gets: a head, and memory of a transfer. */
struct rcmi_piece {
    const void *head;
    size_t head_len;
    struct rcmi_mem mem;
};
/* Begins to fill a slot for such a message. RCM_AGAIN: it has begun (e->copy_out), there is no
 * slot, or the transfer is not ready. */
rcm_status rcmi_endpoint_copy_out(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t meta,
                                  const struct rcmi_piece *piece);
/* Sends it once it is filled; else RCM_AGAIN. */
rcm_status rcmi_endpoint_copied_out(struct rcmi_endpoint *e, struct rcmi_transfer **ret_sent);
/* Does a receive copy later what came for it, or some of that? */
bool rcmi_receive_copies(const struct rcmi_transfer *t, size_t len);
/* Begins to, out of the oldest slot: RCM_AGAIN. That is released when it is done, which _copied_in
 * says. */
rcm_status rcmi_endpoint_copy_in(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                 const char *bytes, size_t len);
rcm_status rcmi_endpoint_copied_in(struct rcmi_endpoint *e, struct rcmi_transfer **ret_received);
/* The same out of memory, which is freed then; that, and the bytes of an eager message in it. */
rcm_status rcmi_endpoint_copy_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                   const char *bytes, void *memory);
rcm_status rcmi_endpoint_copy_aside(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                    const char *bytes);
rcm_status rcmi_endpoint_copied_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t);
/* endpoint_device.c */
void rcmi_endpoint_device_init(struct rcmi_endpoint *e);
/* May the data of a send go by the channel of device memory? Known once e->tx is ready. */
bool rcmi_endpoint_device_may(const struct rcmi_endpoint *e, const struct rcmi_transfer *t);
/* The data of a receive come that way: a DEVICE_CTS is owed. Sends those that are. */
void rcmi_endpoint_device_receive(struct rcmi_endpoint *e, struct rcmi_transfer *t);
rcm_status rcmi_endpoint_device_answer(struct rcmi_endpoint *e, bool *moved);
/* Takes what came; sends what can be sent. */
rcm_status rcmi_endpoint_device_drain(struct rcmi_endpoint *e, bool *moved);
rcm_status rcmi_endpoint_device_pump(struct rcmi_endpoint *e, bool *moved);

/* endpoint_get.c. A message of a rendezvous begins to be received: is it got from there? Then it
 * sets transfer->from and is in e->getting. The next piece of one that is got. */
bool rcmi_endpoint_begin_get(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t from);
rcm_status rcmi_endpoint_get(struct rcmi_endpoint *e, bool *moved);

#endif
