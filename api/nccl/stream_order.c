/* SPDX-License-Identifier: BSD-3-Clause */
/* See stream_order.h. */
#include "stream_order.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "nccl_driver.h"

/* ---- Pinned memory --------------------------------------------------------------------------- */

enum { SLOTS_PER_BLOCK = 64 };

static struct slot *free_slots; /* under the lock */

static void slot_give(struct slot *slot) {
    slot->next = free_slots;
    free_slots = slot;
}

/* Under the lock, which it gives up. Blocks are kept for good: a stream may read a word long after
 * its order ended. */
static ncclResult_t slots_add(void) {
    const unsigned flags = DRIVER_HOST_PORTABLE | DRIVER_HOST_MAPPED;
    const size_t bytes = SLOTS_PER_BLOCK * sizeof(struct slot);
    void *block;
    comm_unlock();
    const ncclResult_t result = DRIVER(cuMemHostAlloc, &block, bytes, flags);
    if (result == ncclSuccess)
        memset(block, 0, bytes);
    comm_lock();
    for (int i = 0; i < SLOTS_PER_BLOCK && result == ncclSuccess; i++)
        slot_give((struct slot *)block + i);
    return result;
}

ncclResult_t slot_take(struct slot **ret_slot) {
    ncclResult_t result = ncclSuccess;
    comm_lock();
    while (!free_slots && result == ncclSuccess)
        result = slots_add();
    *ret_slot = free_slots;
    if (free_slots)
        free_slots = free_slots->next;
    comm_unlock();
    return *ret_slot ? ncclSuccess : result;
}

/* ---- Orders ---------------------------------------------------------------------------------- */

struct order {
    struct order *next; /* in the communicator's list */
    struct ncclComm *comm;
    rcm_comm *rcm;
    struct slot *slot;
    int left; /* unfinished works, and one until order_end */
    bool failed;
};

ncclResult_t order_begin(struct ncclComm *comm, struct order **ret_order) {
    struct order *order = malloc(sizeof *order);
    if (!order)
        return face_fail(ncclSystemError, "no memory for the order of streams");
    *order = (struct order){.comm = comm, .rcm = comm->rcm, .left = 1};
    const ncclResult_t result = slot_take(&order->slot);
    if (result != ncclSuccess) {
        free(order);
        return result;
    }
    order->slot->value++;
    comm_lock();
    order->next = comm->orders;
    *ret_order = comm->orders = order;
    comm_unlock();
    return ncclSuccess;
}

/* Under the lock. Release: the results are complete before the word. */
static void order_store(struct order *order) {
    struct order **at = &order->comm->orders;
    while (*at != order)
        at = &(*at)->next;
    *at = order->next;
    atomic_store_explicit(&order->slot->word, order->slot->value, memory_order_release);
    slot_give(order->slot);
    free(order);
}

/* Under the lock. */
static void order_part_done(struct order *order) {
    if (--order->left == 0 && (!order->failed || order->comm->released))
        order_store(order);
}

ncclResult_t order_follow(struct order *order, cudaStream_t stream) {
    return DRIVER(cuStreamWaitValue32, stream, &order->slot->word, order->slot->value,
                  DRIVER_WAIT_GEQ);
}

void order_end(struct order *order) {
    comm_lock();
    order_part_done(order);
    comm_unlock();
}

void orders_release(struct ncclComm *comm) {
    comm->released = true;
    for (struct order *order = comm->orders, *next; order; order = next) {
        next = order->next;
        if (order->left == 0)
            order_store(order);
    }
}

/* ---- Works ----------------------------------------------------------------------------------- */

struct part *part_new(struct order *order, size_t n) {
    struct part *part = calloc(1, sizeof *part + n * sizeof part->received[0]);
    if (part)
        part->order = order;
    else
        (void)face_fail(ncclSystemError, "no memory for an operation");
    return part;
}

/* A receive of fewer bytes than the call states has no error in ringcomm.h. */
static bool part_is_short(const struct part *part, char *text, size_t cap) {
    const struct received *r = part->received, *end = r + part->nreceived;
    while (r < end && r->message.bytes == r->bytes)
        r++;
    if (r < end)
        snprintf(text, cap,
                 "ncclRecv of rank %d: rank %d sent %zu bytes, but %zu are to be received. Pass "
                 "the same count and type to ncclSend and ncclRecv",
                 part->order->comm->rank, r->message.source, r->message.bytes, r->bytes);
    return r < end;
}

/* On the engine's thread, or in part_issued. */
static void part_done(void *arg, rcm_status status) {
    struct part *part = arg;
    struct order *order = part->order;
    struct rcm_error error = RCM_ERROR_INIT;
    if (status != RCM_OK)
        (void)rcm_work_error(part->work, &error);
    else if (part_is_short(part, error.text, sizeof error.text))
        status = RCM_ERR_TRUNCATED;
    if (status == RCM_ERR_TRUNCATED) /* ends the operation on the other ranks too */
        (void)!rcm_abort(order->rcm, error.text);
    rcm_work_free(part->work);
    comm_lock();
    if (status != RCM_OK) {
        order->failed = true;
        comm_fail(order->comm, face_number(status), error.text);
    } else if (part->scalar) {
        slot_give(part->scalar);
    }
    order_part_done(order);
    comm_unlock();
    free(part);
}

ncclResult_t part_issued(struct part *part, rcm_status status, const char *what) {
    if (status != RCM_OK) {
        free(part);
        return face_result(status, what);
    }
    comm_lock();
    part->order->left++;
    comm_unlock();
    if (rcm_work_on_complete(part->work, part_done, part) != RCM_OK) {
        (void)!rcm_abort(part->order->rcm, "no memory for the callback of an operation");
        part_done(part, rcm_work_wait(part->work, -1));
    }
    return ncclSuccess;
}
