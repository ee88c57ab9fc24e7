/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow.h: the data of large messages between this rank and one peer: one flow for each kind of
 * memory.
 *
 *      receive   owed      --- CTS --->   receiving   --- all received --->   completed
 *      send      (RTS)     --- CTS --->   sending  --- all sent --->  draining  --->  completed
 *
 * A flow has a pair of channels, whose slots are of its kind if the link has a plane for that
 * (plane.c). The flow of host memory also carries eager messages, all control messages
 * (endpoint.h), and the data of messages with host memory at one end. So data in device memory at
 * both ends, within a machine, never pass through host memory.
 *
 * A piece is sent directly from its memory if the channel supports it, else by a slot. A slot of
 * memory that the CPU does not touch is filled and emptied by an asynchronous copy
 * (endpoint_copy.c). The slot stays reserved, or peeked, until the copy has ended, and all later
 * messages of the channel wait. An endpoint is canceled when all copies are quiet.
 *
 * Not here: matching (matching.h), and messages without CTS (endpoint.h).
 */
#ifndef RCMI_FLOW_H
#define RCMI_FLOW_H

#include "keyed.h"
#include "operation.h"
#include "transport.h"

struct rcmi_endpoint;
struct rcmi_flow;

/* One end of a message. Its owner keeps it until it is completed. */
struct rcmi_transfer {
    struct rcmi_transfer *next, **at; /* in its list; the link that points to it */
    struct rcmi_keyed_item item;      /* in its table */
    /* Used by matching (api/p2p). order: when a receive was posted, 0: it is not. message: a
     * message that a probe took, for a receive of it or for that probe. probe: RCMI_PROBE_
     * flags. */
    uint64_t order;
    void *message;
    uint32_t probe;
    int peer;     /* of a receive that has its message: the message's */
    uint64_t tag; /* likewise */
    uint32_t id;  /* identifies the message between the two ranks, once an RTS was sent */
    struct rcmi_mem mem;
    size_t total; /* bytes of the message */
    size_t done;  /* bytes moved */
    int stage;
    uint64_t last;          /* once all is sent: number of the last message */
    uint64_t zero_copy;     /* number of the last message sent without a copy */
    struct rcmi_copy *copy; /* in memory with asynchronous copies, once one has begun; NULL */
    uint64_t from;          /* the source of a get, see endpoint_get.c; 0: no get */
    /* The operation after which its copies come, see fence.h; NULL: it has ended. Outlives the
     * transfer. */
    struct rcmi_operation *after;
    uint8_t dtype;          /* code of the type of its elements, 0: any type */
    uint8_t came;           /* of a receive that has its message: the message's */
    bool synchronous;       /* a send completes when it is matched: never eager */
    bool awaits_left;       /* a receive goes on waiting for ranks that have left */
    bool rendezvous;        /* a receive whose data come after a CTS */
    struct rcmi_flow *flow; /* the flow of its data, once known */
};

/* The code of a type in messages; 0: an opaque one, which all match. */
static inline uint8_t rcmi_dtype_code(rcm_dtype dtype) {
    return (unsigned)dtype < 64 ? (uint8_t)dtype : 0;
}
/* Whether a message and a receive of these types differ. Signed and unsigned integers of one size
 * do not, nor pairs of int32 and int32, and types of one byte match all, if there are bytes for
 * whole elements. */
bool rcmi_dtypes_differ(uint8_t message, uint8_t receive, size_t bytes);
/* Whether a receive has a message of another type. One without elements has none. */
static inline bool rcmi_transfer_differs(const struct rcmi_transfer *t) {
    return t->came != t->dtype && t->total > 0 && rcmi_dtypes_differ(t->came, t->dtype, t->total);
}

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

/* A copy between a transfer's memory and a slot or the memory of a kept message; see
 * endpoint_copy.c. */
struct rcmi_copy {
    struct rcmi_operation operation;
    uint64_t meta;        /* of its message */
    size_t head_len, len; /* bytes of the message before those of the transfer; these */
    void *kept;           /* memory of a kept message, from malloc; NULL */
    bool awaits;          /* no copy: the operation waits for the transfer's fence */
};
/* Frees the copy of a completed transfer. */
void rcmi_transfer_free_copy(struct rcmi_transfer *transfer);

struct rcmi_flow {
    struct rcmi_channel *tx, *rx; /* NULL before they are needed */
    enum rcmi_mem_kind kind;
    /* The CPU does not touch its memory: pieces are read directly from the sender's memory, and may
     * be longer than slots. */
    bool gets;
    struct rcmi_transfers owed;      /* receives whose CTS was not sent */
    struct rcmi_transfers receiving; /* data come, mostly in the order of CTS */
    struct rcmi_transfers sending;   /* CTS came; in its order except for streams */
    struct rcmi_transfers draining;  /* sent, but not yet completed */
    /* The transfer that is copied into the reserved slot, or out of the oldest one; NULL. */
    struct rcmi_transfer *filling, *emptying;
};

void rcmi_flow_init(struct rcmi_flow *flow, enum rcmi_mem_kind kind);

/* The content of a slot: a head, and memory of a transfer. */
struct rcmi_piece {
    uint64_t meta;
    const void *head, *bytes;
    size_t head_len, len;
};
/* Sends what rcmi_flow_put has begun; RCM_AGAIN: its copy has not ended. */
rcm_status rcmi_flow_filled(const struct rcmi_endpoint *endpoint, struct rcmi_flow *flow);

/* RCM_OK: the copy that rcmi_flow_take began has ended; RCM_AGAIN: not yet. */
rcm_status rcmi_flow_emptied(const struct rcmi_endpoint *endpoint, struct rcmi_flow *flow);

/* _data: takes an arrived piece of a message; status as for rcmi_flow_take. _end: called once it
 * was taken. */
rcm_status rcmi_flow_data(const struct rcmi_endpoint *endpoint, struct rcmi_flow *flow,
                          const struct rcmi_slot *slot);
void rcmi_flow_data_end(const struct rcmi_endpoint *endpoint, struct rcmi_flow *flow,
                        struct rcmi_transfer *transfer);

/* Sends data of messages whose CTS came, and completes those that are through. */
rcm_status rcmi_flow_pump(struct rcmi_endpoint *endpoint, struct rcmi_flow *flow, bool *moved);
/* Takes arrived messages of a flow that carries only data. */
rcm_status rcmi_flow_drain(struct rcmi_endpoint *endpoint, struct rcmi_flow *flow, bool *moved);

/* ---- endpoint_copy.c */
/* Begins a copy after t->after. One side is the transfer's memory, which the CPU does not touch.
 * RCM_AGAIN: in progress; rcmi_copy_look returns RCM_OK when it has ended. */
rcm_status rcmi_copy_begin_operation(const struct rcmi_endpoint *endpoint,
                                     struct rcmi_transfer *transfer, void *to, const void *from,
                                     size_t bytes);
rcm_status rcmi_copy_look(const struct rcmi_endpoint *endpoint,
                          const struct rcmi_transfer *transfer);
/* _is_over: whether t->after has ended. _ready: the same, and arranges a wake-up of the owner.
 * RCM_AGAIN until then; the caller must hold nothing meanwhile that other messages need. */
bool rcmi_copy_is_over(const struct rcmi_transfer *transfer);
rcm_status rcmi_copy_ready(const struct rcmi_endpoint *endpoint, struct rcmi_transfer *transfer);
/* How many of the next len bytes of a message fit the buffer of its receive. */
static inline size_t rcmi_copy_room(const struct rcmi_transfer *t, size_t len) {
    const size_t room = t->done < t->mem.len ? t->mem.len - t->done : 0;
    return len < room ? len : room;
}
/* Whether the CPU touches the memory of a transfer. */
static inline bool rcmi_transfer_is_touched(const struct rcmi_transfer *t) {
    return t->mem.kind == RCMI_MEM_HOST;
}
/* Begins a copy for any transfer; NULL: both sides are host memory. RCM_OK: it is done at once. */
static inline rcm_status rcmi_copy_begin(const struct rcmi_endpoint *endpoint,
                                         struct rcmi_transfer *transfer, enum rcmi_stores stores,
                                         void *to, const void *from, size_t bytes) {
    if (transfer && !rcmi_transfer_is_touched(transfer))
        return rcmi_copy_begin_operation(endpoint, transfer, to, from, bytes);
    rcmi_copy_by(stores, to, from, bytes);
    return RCM_OK;
}

#endif
