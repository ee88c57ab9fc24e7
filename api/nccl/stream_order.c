/* SPDX-License-Identifier: BSD-3-Clause */
/* See stream_order.h. */
#include "stream_order.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "nccl_driver.h"

/* ---- Pinned memory --------------------------------------------------------------------------- */

enum { SLOTS_PER_BLOCK = 64 };

struct pinned {
    _Alignas(64) _Atomic uint32_t word;
    unsigned char scalar[16];
};
struct slot {
    struct slot *next; /* in the list of free ones */
    struct pinned *pinned;
    uint64_t address; /* of the word, for the device */
    uint32_t value;   /* the last one waited for */
};

/* Blocks are kept for good: a stream may read a word long after its order ended. */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *free_slots;

static ncclResult_t block_pin(int device, struct pinned **ret_pinned, uint64_t *ret_address) {
    const unsigned flags = DRIVER_HOST_PORTABLE | DRIVER_HOST_MAPPED;
    struct driver_visit visit;
    void *memory = NULL;
    ncclResult_t result = driver_enter(device, &visit);
    if (result != ncclSuccess)
        return result;
    const struct driver *d = visit.driver;
    result =
        driver_result(d, "cuMemHostAlloc",
                      d->cuMemHostAlloc(&memory, SLOTS_PER_BLOCK * sizeof(struct pinned), flags));
    if (result == ncclSuccess)
        result = driver_result(d, "cuMemHostGetDevicePointer",
                               d->cuMemHostGetDevicePointer(ret_address, memory, 0));
    driver_leave(&visit);
    *ret_pinned = memory;
    return result;
}

static ncclResult_t slots_add(int device) {
    struct pinned *pinned;
    uint64_t address;
    struct slot *block = calloc(SLOTS_PER_BLOCK, sizeof *block);
    if (!block)
        return face_fail(ncclSystemError, "no memory for the order of streams");
    const ncclResult_t result = block_pin(device, &pinned, &address);
    if (result != ncclSuccess) {
        free(block);
        return result;
    }
    memset(pinned, 0, SLOTS_PER_BLOCK * sizeof *pinned);
    for (int i = 0; i < SLOTS_PER_BLOCK; i++) {
        block[i] =
            (struct slot){.pinned = pinned + i, .address = address + (uint64_t)i * sizeof *pinned};
        slot_give(&block[i]);
    }
    return ncclSuccess;
}

ncclResult_t slot_take(int device, struct slot **ret_slot) {
    for (;;) {
        pthread_mutex_lock(&slots_lock);
        struct slot *slot = *ret_slot = free_slots;
        if (slot)
            free_slots = slot->next;
        pthread_mutex_unlock(&slots_lock);
        if (slot)
            return ncclSuccess;
        const ncclResult_t result = slots_add(device);
        if (result != ncclSuccess)
            return result;
    }
}

void slot_give(struct slot *slot) {
    if (!slot)
        return;
    pthread_mutex_lock(&slots_lock);
    slot->next = free_slots;
    free_slots = slot;
    pthread_mutex_unlock(&slots_lock);
}

void *slot_scalar(struct slot *slot) {
    return slot->pinned->scalar;
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

struct part {
    struct order *order;
    rcm_work *work;
    struct slot *scalar;
    struct expected *expected;
    size_t nexpected;
};

ncclResult_t order_begin(struct ncclComm *comm, struct order **ret_order) {
    struct order *order = calloc(1, sizeof *order);
    if (!order)
        return face_fail(ncclSystemError, "no memory for the order of streams");
    *order = (struct order){.comm = comm, .rcm = comm->rcm, .left = 1};
    const ncclResult_t result = slot_take(comm->device, &order->slot);
    if (result != ncclSuccess) {
        free(order);
        return result;
    }
    order->slot->value++;
    comm_lock();
    order->next = comm->orders;
    comm->orders = order;
    comm_unlock();
    *ret_order = order;
    return ncclSuccess;
}

/* Under the lock. Release: the results are complete before the word. */
static void order_store(struct order *order) {
    struct order **at = &order->comm->orders;
    while (*at != order)
        at = &(*at)->next;
    *at = order->next;
    atomic_store_explicit(&order->slot->pinned->word, order->slot->value, memory_order_release);
    slot_give(order->slot);
    free(order);
}

/* Under the lock. */
static void order_part_done(struct order *order) {
    if (--order->left == 0 && (!order->failed || order->comm->released))
        order_store(order);
}

/* A receive of fewer bytes than the call states has no error in ringcomm.h. */
static bool part_is_short(const struct part *part, char *text, size_t cap) {
    for (size_t i = 0; i < part->nexpected; i++) {
        const struct expected *e = &part->expected[i];
        if (e->message.bytes == e->bytes)
            continue;
        snprintf(text, cap,
                 "ncclRecv of rank %d: rank %d sent %zu bytes, but %zu are to be received. Pass "
                 "the same count and type to ncclSend and ncclRecv",
                 part->order->comm->rank, e->peer, e->message.bytes, e->bytes);
        return true;
    }
    return false;
}

/* On the engine's thread, or in order_add. */
static void part_done(void *arg, rcm_status status) {
    struct part *part = arg;
    struct order *order = part->order;
    struct rcm_error error = RCM_ERROR_INIT;
    const bool is_short = status == RCM_OK && part_is_short(part, error.text, sizeof error.text);
    if (is_short)
        status = RCM_ERR_TRUNCATED;
    else if (status != RCM_OK)
        (void)rcm_work_error(part->work, &error);
    if (status == RCM_ERR_TRUNCATED) /* ends the operation on the other ranks too */
        (void)!rcm_abort(order->rcm, error.text);
    rcm_work_free(part->work);
    if (status == RCM_OK)
        slot_give(part->scalar);
    comm_lock();
    if (status != RCM_OK) {
        order->failed = true;
        comm_fail(order->comm, face_number(status), error.text);
    }
    order_part_done(order);
    comm_unlock();
    free(part->expected);
    free(part);
}

ncclResult_t order_add(struct order *order, rcm_work *work, struct slot *scalar,
                       struct expected *expected, size_t nexpected) {
    struct part *part = malloc(sizeof *part);
    rcm_status status = RCM_ERR_NOMEM;
    comm_lock();
    order->left++;
    comm_unlock();
    if (part) {
        *part = (struct part){order, work, scalar, expected, nexpected};
        status = rcm_work_on_complete(work, part_done, part);
    }
    if (status == RCM_OK)
        return ncclSuccess;
    /* Nothing reports the work's end: the order fails for good, with its communicator. The memory
     * that the work uses is left to it. */
    (void)!rcm_abort(order->rcm, "no memory for the callback of an operation");
    comm_lock();
    order->failed = true;
    order_part_done(order);
    comm_unlock();
    free(part);
    return face_fail(ncclSystemError, "no memory for the callback of an operation");
}

ncclResult_t order_follow(struct order *order, const struct driver *driver, cudaStream_t stream) {
    return driver_result(driver, "cuStreamWaitValue32",
                         driver->cuStreamWaitValue32(stream, order->slot->address,
                                                     order->slot->value, DRIVER_WAIT_GEQ));
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
