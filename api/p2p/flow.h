/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow.h: messages, and the data of large ones between this rank and one peer: a flow for each kind
 * of memory.
 *
 *      receive   owed      --- CTS --->   receiving   --- all is there --->   completed
 *      send      (RTS)     --- CTS --->   sending  --- all is sent --->  draining  --->  completed
 *
 * A flow has a pair of channels, whose slots are of its kind where the link has a plane for that
 * (plane.c). That of host memory also carries eager messages and all control messages (endpoint.h),
 * and the data of messages of which one end is the host's memory; so data that lie in memory of
 * devices at both ends, within a machine, never come to the host.
 *
 * A piece goes out from where it lies, where the channel can, else by a slot. A slot of memory that
 * the CPU does not touch is filled and emptied by a copy that finishes later (endpoint_copy.c): it
 * is reserved, or peeked, until that has ended, and all that would go by the channel waits. An
 * endpoint is canceled when all copies are quiet.
 *
 * Not here: which receive a message belongs to (matching.h), messages without CTS (endpoint.h).
 */
#ifndef RCMI_FLOW_H
#define RCMI_FLOW_H

#include "keyed.h"
#include "operation.h"
#include "transport.h"

struct rcmi_endpoint;
struct rcmi_flow;

/* One message, at one of its ends. Its owner keeps it until it is completed. */
struct rcmi_transfer {
    struct rcmi_transfer *next, **at; /* in the list that it is in; where that has it */
    struct rcmi_keyed_item item;      /* in the table that it is in */
    /* The matching's (api/p2p): when a receive was posted, 0: it is not; a message that a probe has
     * taken, for which a receive is, or that a probe took; and what a probe does. */
    uint64_t order;
    void *message;
    uint32_t probe;
    int peer;     /* of a receive that has its message: the message's */
    uint64_t tag; /* likewise */
    uint32_t id;  /* names the message between the two ranks, once an RTS was sent */
    struct rcmi_mem mem;
    size_t total; /* bytes of the message */
    size_t done;  /* bytes moved */
    int stage;
    uint64_t last;      /* of the channel, once all is sent: the message that the other must take */
    uint64_t zero_copy; /* the last one that was sent without a copy */
    struct rcmi_copy *copy; /* in memory whose copies finish later, once one has begun; NULL */
    uint64_t from;          /* where it is got from, see endpoint_get.c; 0: it is not */
    /* What its copies come after, see fence.h, unless that is known to have ended; NULL. Outlives
     * it. */
    struct rcmi_operation *after;
    bool synchronous;       /* a send ends when it is matched: never eager */
    bool rendezvous;        /* a receive of a message whose data come when they are asked for */
    struct rcmi_flow *flow; /* by which its data go, once that is known */
};

struct rcmi_transfers {
    struct rcmi_transfer *head, **end;
};
static inline void rcmi_transfers_init(struct rcmi_transfers *list) {
    list->head = NULL;
    list->end = &list->head;
}
static inline void rcmi_transfers_append(struct rcmi_transfers *list, struct rcmi_transfer *t) {
    t->next = NULL;
    t->at = list->end;
    *list->end = t;
    list->end = &t->next;
}
static inline void rcmi_transfers_remove(struct rcmi_transfers *list, struct rcmi_transfer *t) {
    *t->at = t->next;
    if (t->next)
        t->next->at = t->at;
    else
        list->end = t->at;
}
static inline struct rcmi_transfer *rcmi_transfer_of(struct rcmi_keyed_item *item) {
    return (struct rcmi_transfer *)((char *)item - offsetof(struct rcmi_transfer, item));
}

/* A copy between a transfer's memory and a slot, or memory that keeps a message; see
 * endpoint_copy.c. */
struct rcmi_copy {
    struct rcmi_operation operation;
    uint64_t meta;        /* of the message that it is for */
    size_t head_len, len; /* of that: bytes before those of the transfer, and these */
    void *kept;           /* in which they lie, malloc'd; NULL */
    bool awaits;          /* the operation is no copy, but waits for the transfer's fence */
};
/* Of a transfer that is completed. */
void rcmi_transfer_free_copy(struct rcmi_transfer *transfer);

struct rcmi_flow {
    struct rcmi_channel *tx, *rx; /* NULL before they are needed */
    enum rcmi_mem_kind kind;
    /* The CPU does not touch its memory: pieces are got from where they lie, and may be longer than
     * slots. */
    bool gets;
    struct rcmi_transfers owed;      /* receives whose CTS was not sent */
    struct rcmi_transfers receiving; /* data come, most likely in the order of CTS */
    struct rcmi_transfers sending;   /* CTS came, in the order of that but for streams */
    struct rcmi_transfers draining;  /* sent, but not yet through */
    /* A copy into the slot that was reserved, out of the oldest one, is of this transfer; NULL. */
    struct rcmi_transfer *filling, *emptying;
};

void rcmi_flow_init(struct rcmi_flow *flow, enum rcmi_mem_kind kind);

/* What a slot gets: a head, and memory of a transfer. */
struct rcmi_piece {
    uint64_t meta;
    const void *head, *bytes;
    size_t head_len, len;
};
/* Sends what rcmi_flow_put has begun; RCM_AGAIN until it may. */
rcm_status rcmi_flow_filled(const struct rcmi_endpoint *endpoint, struct rcmi_flow *flow);

/* RCM_OK once what rcmi_flow_take has begun is there; RCM_AGAIN until then. */
rcm_status rcmi_flow_emptied(const struct rcmi_endpoint *endpoint, struct rcmi_flow *flow);

/* A piece of a message that came by its channel; status as of _take. And once it was taken. */
rcm_status rcmi_flow_data(const struct rcmi_endpoint *endpoint, struct rcmi_flow *flow,
                          const struct rcmi_slot *slot);
void rcmi_flow_data_end(const struct rcmi_endpoint *endpoint, struct rcmi_flow *flow,
                        struct rcmi_transfer *transfer);

/* Sends what can be sent of messages that were asked for, and completes what is through. */
rcm_status rcmi_flow_pump(struct rcmi_endpoint *endpoint, struct rcmi_flow *flow, bool *moved);
/* Takes what came by a flow that carries nothing but data. */
rcm_status rcmi_flow_drain(struct rcmi_endpoint *endpoint, struct rcmi_flow *flow, bool *moved);

/* ---- endpoint_copy.c */
/* Begins to copy from memory to memory, one of which is the transfer's that the CPU does not touch;
 * after t->after. RCM_AGAIN: rcmi_copy_look returns RCM_OK when it has ended. */
rcm_status rcmi_copy_begin_operation(const struct rcmi_endpoint *endpoint,
                                     struct rcmi_transfer *transfer, void *to, const void *from,
                                     size_t bytes);
rcm_status rcmi_copy_look(const struct rcmi_endpoint *endpoint,
                          const struct rcmi_transfer *transfer);
/* Has t->after ended? rcmi_copy_ready also takes care that the owner is woken when it has:
 * RCM_AGAIN until then, while nothing is to be held that other messages need. */
bool rcmi_copy_is_over(const struct rcmi_transfer *transfer);
rcm_status rcmi_copy_ready(const struct rcmi_endpoint *endpoint, struct rcmi_transfer *transfer);
/* How many of the next len bytes of a message have room in the buffer of its receive. */
static inline size_t rcmi_copy_room(const struct rcmi_transfer *t, size_t len) {
    const size_t room = t->done < t->mem.len ? t->mem.len - t->done : 0;
    return len < room ? len : room;
}
/* Does the CPU touch the memory of a transfer? */
static inline bool rcmi_transfer_is_touched(const struct rcmi_transfer *t) {
    return t->mem.kind == RCMI_MEM_HOST;
}
/* The same for any transfer, NULL where none has the memory: RCM_OK where it is done at once. */
static inline rcm_status rcmi_copy_begin(const struct rcmi_endpoint *endpoint,
                                         struct rcmi_transfer *transfer, enum rcmi_stores stores,
                                         void *to, const void *from, size_t bytes) {
    if (transfer && !rcmi_transfer_is_touched(transfer))
        return rcmi_copy_begin_operation(endpoint, transfer, to, from, bytes);
    rcmi_copy_by(stores, to, from, bytes);
    return RCM_OK;
}

#endif
