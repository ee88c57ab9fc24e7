/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of point to point share; nobody else includes it. The protocol is in p2p.c.
 *
 *   p2p.c          pairs and their channels, what the driver calls
 *   p2p_send.c     eager messages and RTS, pieces of data, answers that are owed
 *   p2p_receive.c  what arrives, and to which receive it belongs
 *   p2p_get.c      messages that the receiver copies out of the sender's memory
 *   p2p_direct.c   blocking calls that need no work
 */
#ifndef RCMI_P2P_INTERNAL_H
#define RCMI_P2P_INTERNAL_H

#include <string.h>
#include "comm.h"

#define EAGER_MAX  ((size_t)65536)  /* between sockets: a rendezvous costs more than the copies */
#define EAGER_BARE ((size_t)262144) /* the same without copies, see travels_bare */
/* Where ranks share cores a sender that went on at once might keep the receiver from their core: it
 * waits, from so many bytes on, until the message was taken. */
#define CROWDED_WAITS  ((size_t)16384)
#define BUDGET_MAX     ((size_t)1 << 20) /* of a pair; where there are many pairs */
#define BUDGET_MIN     ((size_t)1 << 14) /* less each, so that all together */
#define BUDGET_TOTAL   ((size_t)1 << 26) /* are this much, up to 4096 ranks */
#define RTS_MAX        ((size_t)1 << 20) /* that no receive was posted for */
#define EAGER_OVERHEAD ((size_t)64)
#ifndef BARE_MIN                /* the fuzz target's slots are small */
#define BARE_MIN ((size_t)8192) /* smaller eager messages are cheaper to copy */
#endif
#ifndef ZERO_COPY_MIN
#define ZERO_COPY_MIN ((size_t)2048)
#endif
#define PIECES 4 /* of a message, at least, if they are not smaller than this: */
#ifndef PIECE_MIN
#define PIECE_MIN ((size_t)16384)
#endif

enum kind {
    KIND_EAGER = 1,
    KIND_RTS,
    KIND_CTS,
    KIND_DATA,
    KIND_CREDIT,
    KIND_BARE,
    KIND_ACK,
};

enum stage { STAGE_NEW, STAGE_RTS, STAGE_DATA, STAGE_DRAIN };

struct header {
    uint64_t tag, total;
};

/* What an RTS (request to send) holds. */
struct rts {
    struct header header;
    uint64_t from; /* where the message lies in its sender's process; 0: that is of no use */
};

struct list {
    struct rcm_work *head, **end;
};

struct unexpected {
    struct unexpected *next;
    int peer;
    bool rendezvous; /* its bytes are still to come */
    uint32_t id;     /* then */
    struct rts said;
    char bytes[];
};

/* A CTS (clear to send) that is owed. */
struct cts {
    struct cts *next;
    uint32_t id;
};

struct pair {
    struct rcmi_channel *tx, *rx;
    struct list outgoing; /* not yet issued, in order */
    struct list sending;  /* RTS sent, or sending */
    struct list receiving;
    struct cts *cts, **cts_end; /* CTS messages to be sent */
    uint32_t next_id;
    size_t eager_out; /* eager bytes sent for which no credit came back */
    size_t eager_in;  /* eager bytes taken for which no credit was given */
    size_t eager_due; /* eager bytes arrived for which no credit was given: the peer's eager_out, or
                         less */
    int getting;      /* of the messages that it is receiving */
    bool ungettable;  /* its memory, by now it is known */
    bool posted;      /* a receive, with the channel */
    bool active;
    _Atomic bool wanted; /* set by the loop thread, taken by the driver (exchange) */
};

struct rcmi_p2p {
    rcm_comm *comm;
    struct pair *pairs;
    int *active, nactive; /* ranks with an open channel */
    _Atomic bool any_wanted;
    struct list posted;
    struct unexpected *unexpected, **unexpected_end;
    size_t rendezvous; /* of those, without their bytes */
    size_t budget;     /* eager bytes of a pair; the same on all ranks */
    const struct rcmi_protocol *protocol;
};

static inline void list_init(struct list *list) {
    list->head = NULL;
    list->end = &list->head;
}

static inline void list_append(struct list *list, struct rcm_work *work) {
    work->next = NULL;
    *list->end = work;
    list->end = &work->next;
}

static inline void list_remove(struct list *list, struct rcm_work **at) {
    *at = (*at)->next;
    if (!*at)
        list->end = at;
}

/* Are there more ranks than CPUs, so that the peer may have its turn on this very CPU? */
static inline bool oversubscribed(const struct rcmi_p2p *p2p) {
    return p2p->comm->engine->crowd > 1;
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

/* What an eager message takes of the budget: what is kept aside of an empty one is not nothing. */
static inline size_t eager_charge(size_t total) {
    return total + EAGER_OVERHEAD;
}

/* Does another core read the slots where they are written? Not known before the channel is ready.
 */
static inline bool shares_slots(const struct rcmi_channel *channel) {
    /* Acquire pairs with the release store of the loop thread, which chose the transport before. */
    return atomic_load_explicit(&channel->state, memory_order_acquire) == RCM_OK &&
           channel->transport->shared_slots;
}

/* Does an eager message travel without its header, straight from buffer to buffer? Where the kernel
 * copies anyhow; its tag is its id then. */
static inline bool travels_bare(const struct pair *pair, uint64_t tag, size_t total) {
    return total >= BARE_MIN && tag <= UINT32_MAX && !shares_slots(pair->tx);
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
static inline bool eager_waits(const struct rcmi_p2p *p2p, const struct pair *pair, size_t total) {
    return total > CROWDED_WAITS && oversubscribed(p2p) && shares_slots(pair->tx);
}

/* How long the next piece is of a message of which `done` bytes are through. Both ends have seen
 * messages on the channel before, so it is ready and its slots have their size. Where the receiver
 * copies from the slots that the sender writes, a message has several pieces, so that the one
 * copies while the other writes the next. */
static inline size_t piece_bytes(const struct rcmi_channel *channel, size_t total, size_t done) {
    size_t piece = channel->slot_bytes;
    if (channel->transport->shared_slots && total / PIECES < piece)
        piece = total / PIECES < PIECE_MIN ? PIECE_MIN : total / PIECES & ~(size_t)63;
    piece = piece < channel->slot_bytes ? piece : channel->slot_bytes;
    return total - done < piece ? total - done : piece;
}

/* p2p.c: the channel to peer, and that from it, opened on first use. */
rcm_status rcmi_pair_open_tx(struct rcmi_p2p *p2p, int peer);
rcm_status rcmi_pair_open_rx(struct rcmi_p2p *p2p, int peer);
/* p2p_send.c: a message of so few bytes; sends what can be sent to peer. */
rcm_status rcmi_pair_put(struct pair *pair, uint64_t meta, const void *bytes, size_t len);
rcm_status rcmi_pair_pump(struct rcmi_p2p *p2p, int peer, bool *moved);
/* May a message of so many bytes go out eagerly? Sends it so; RCM_AGAIN: no slot is free. */
bool rcmi_pair_may_be_eager(const struct rcmi_p2p *p2p, const struct pair *pair, uint64_t tag,
                            size_t total);
rcm_status rcmi_pair_put_eager(struct pair *pair, uint64_t tag, const struct rcmi_mem *mem);
/* p2p_receive.c: copies bytes of a message that came to user memory, from where that is filled. */
void rcmi_receive_bytes(const struct rcmi_p2p *p2p, struct rcmi_transfer *t, const char *bytes,
                        size_t len);
/* p2p_receive.c: takes what came from peer; owes it a CTS; ends a receive that has all. */
rcm_status rcmi_pair_drain(struct rcmi_p2p *p2p, int peer, bool *moved);
rcm_status rcmi_pair_owe_cts(struct pair *pair, int peer, uint32_t id);
void rcmi_receive_end(struct rcm_work *work);
/* p2p_get.c. A message of a rendezvous begins to be received: is it got from there? Then it sets
 * transfer->from and counts it in pair->getting. The next piece of one that is got. */
bool rcmi_pair_begin_get(struct pair *pair, struct rcmi_transfer *transfer, uint64_t from);
rcm_status rcmi_pair_get(const struct rcmi_p2p *p2p, int peer, bool *moved);
/* A new receive. */
void rcmi_p2p_post_receive(struct rcmi_p2p *p2p, struct rcm_work *work);

#endif
