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
#include "nccl_driver.h"

struct order;

/* Pinned memory of an order, or a scalar of PreMulSum. */
struct slot;
ncclResult_t slot_take(int device, struct slot **ret_slot);
void slot_give(struct slot *slot); /* NULL is a no-op */
void *slot_scalar(struct slot *slot);

/* comm was entered. */
ncclResult_t order_begin(struct ncclComm *comm, struct order **ret_order);
/* What a work receives: a shorter message is an error. */
struct expected {
    int peer;
    size_t bytes;
    struct rcm_message message;
};
/* Adds a work, which the order frees; expected is freed when it ends, and scalar given back. Not
 * after a failure: the copy of a scalar from device memory may still be on the stream. */
ncclResult_t order_add(struct order *order, rcm_work *work, struct slot *scalar,
                       struct expected *expected, size_t nexpected);
/* Makes a stream wait. The thread visits the device's context. */
ncclResult_t order_follow(struct order *order, const struct driver *driver, cudaStream_t stream);
/* No more works and streams. The order frees itself. */
void order_end(struct order *order);

/* Under the lock: lets the streams of failed orders continue, also of those that fail later. */
void orders_release(struct ncclComm *comm);

#endif
