/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion in stream order. An order is what the streams of one call or group wait for:
 *
 *      works ---- callbacks ----> the last one stores a word ----> streams wait for the word
 *
 * A stream waits by cuStreamWaitValue32 for a word of pinned memory to reach a value. If a work
 * failed, the word is not stored, so that nothing later on the stream reads a wrong result, until
 * the communicator is aborted, revoked or destroyed. Words are used again at once: each use waits
 * for the next value, and a wait for an older one is satisfied by it.
 */
#ifndef NCCL_STREAM_ORDER_H
#define NCCL_STREAM_ORDER_H

#include "nccl_comm.h"

/* Pinned memory of an order, or a scalar of PreMulSum. Its address is the same on all devices. */
struct slot {
    _Alignas(64) _Atomic uint32_t word;
    uint32_t value; /* the last one waited for */
    unsigned char scalar[16];
    struct slot *next; /* in the list of free ones */
};
/* The thread visits a context. */
ncclResult_t slot_take(struct slot **ret_slot);

/* comm was entered, and its device's context. */
struct order;
ncclResult_t order_begin(struct ncclComm *comm, struct order **ret_order);

/* A work of an order. */
struct part {
    struct order *order;
    rcm_work *work;
    struct slot *scalar; /* or NULL */
    size_t nreceived;
    struct received { /* a shorter message is an error */
        struct rcm_message message;
        size_t bytes;
    } received[];
};
/* Without a work yet, and with room for n receives; NULL without memory. */
struct part *part_new(struct order *order, size_t n);
/* status: of the call that made the work, whose name is `what`. The part frees itself when the work
 * ends, or now after an error. Its scalar is given back unless the work failed: the copy of a
 * scalar from device memory may still be on the stream. */
ncclResult_t part_issued(struct part *part, rcm_status status, const char *what);

/* Makes a stream wait. The thread visits the device's context. */
ncclResult_t order_follow(struct order *order, cudaStream_t stream);
/* No more works and streams. The order frees itself. */
void order_end(struct order *order);

/* Under the lock: lets the streams of failed orders continue, also of those that fail later. */
void orders_release(struct ncclComm *comm);

#endif
