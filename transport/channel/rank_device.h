/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device of a rank, and the streams that calls on its memory come after. One for all
 * communicators of an rcm_init; it is opened when it is first needed.
 *
 * Not here: what a device does (base/mem_kind.h), and the operations of a work
 * (kernels/operation.h).
 */
#ifndef RCMI_RANK_DEVICE_H
#define RCMI_RANK_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include "clock.h"
#include "mem.h"
#include "mem_kind.h"
#include "ringcomm.h"

struct rcmi_device;
struct rcmi_node;
struct rcmi_operation;

struct rcmi_rank_device {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool opening;           /* a thread opens it. Under the lock */
    char *name;             /* "auto", a number, a UUID */
    int local_rank;         /* set before it is opened, and: */
    struct rcmi_node *node; /* hears of it; NULL: none does */
    /* NULL until it is needed, then final; under the lock, or after a call that opened it. */
    struct rcmi_device *device;
};

rcm_status rcmi_rank_device_init(struct rcmi_rank_device *own, const char *name);
/* The rank's number on its host is known. Opens one that was named. */
rcm_status rcmi_rank_device_begin(struct rcmi_rank_device *own, int local_rank,
                                  rcmi_deadline deadline);
/* Where the device of that name is, before there is a node: "" if none is named. */
rcm_status rcmi_rank_device_locate(const char *name, rcmi_deadline deadline,
                                   char ret_address[RCMI_PCI_ADDRESS]);
/* Nothing uses it any more. */
void rcmi_rank_device_end(struct rcmi_rank_device *own);
/* Opens it, if that was not done. An error says why there is none; RCM_ERR_TIMEOUT: the driver has
 * not come back by the deadline. Any thread. */
rcm_status rcmi_rank_device_open(struct rcmi_rank_device *own, rcmi_deadline deadline);

/* Is there a kind of memory of devices in this process? wanted: looks for a driver, and loads it;
 * else only for one that the program has loaded. An error says why not. Any thread. */
rcm_status rcmi_device_look(bool wanted);
/* The same at each start of a communicator: the program may have loaded a driver by now. */
void rcmi_device_notice_driver(void);

/* What a call, or each start of a persistent one, comes after. */
struct rcmi_stream {
    void *stream;
    bool none;          /* nothing */
    int64_t timeout_ms; /* to open the device in */
};
/* timeout_ms: of the communicator, where the call has none of its own. */
static inline struct rcmi_stream rcmi_stream_of(const struct rcm_call *call, int64_t timeout_ms) {
    if (!call)
        return (struct rcmi_stream){NULL, false, timeout_ms};
    return (struct rcmi_stream){call->stream, (call->flags & RCM_NO_STREAM) != 0,
                                call->timeout_ms ? call->timeout_ms : timeout_ms};
}
/* Of a call of one kind of memory, of which mem tells: *ret_fence, NULL before, becomes what its
 * operations come after, if anything. Opens the device, and sees that it is the one of the memory.
 * Where several operations have one fence, it is made for the first one of device memory; the
 * devices of the others must be the same. */
rcm_status rcmi_stream_follow(struct rcmi_rank_device *own, struct rcmi_stream stream,
                              const struct rcmi_mem *mem, struct rcmi_operation **ret_fence);
/* No operation of the call begins or runs any more. NULL is a no-op. */
void rcmi_stream_drop(struct rcmi_operation *fence);

#endif
