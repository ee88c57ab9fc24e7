/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device of a rank, and the streams that calls on its memory wait for. One for all
 * communicators of an rcm_init; it is opened when first needed.
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
    bool opening;           /* a thread is opening it; under the lock */
    char *name;             /* "auto", a number, a UUID */
    int local_rank;         /* this and node are set before it is opened */
    struct rcmi_node *node; /* gets the device by rcmi_node_use_device; may be NULL */
    /* NULL until it is needed, then final; read under the lock, or after a call that opened it. */
    struct rcmi_device *device;
};

rcm_status rcmi_rank_device_init(struct rcmi_rank_device *own, const char *name);
/* Called once local_rank is known. Opens a device that was named. */
rcm_status rcmi_rank_device_begin(struct rcmi_rank_device *own, int local_rank,
                                  rcmi_deadline deadline);
/* Returns the PCI address of the named device, before there is a node; "" if none is named. */
rcm_status rcmi_rank_device_locate(const char *name, rcmi_deadline deadline,
                                   char ret_address[RCMI_PCI_ADDRESS]);
/* Closes the device; nothing may use it any more. */
void rcmi_rank_device_end(struct rcmi_rank_device *own);
/* Opens the device, unless that was done. Errors: why there is no device; RCM_ERR_TIMEOUT: the
 * driver has not returned by the deadline. Any thread. */
rcm_status rcmi_rank_device_open(struct rcmi_rank_device *own, rcmi_deadline deadline);

/* Does this process support device memory? wanted: loads a driver if there is one; else only checks
 * for a driver that the program has loaded. The error contains the reason. Any thread. */
rcm_status rcmi_device_look(bool wanted);
/* Called at each start of a communicator, because the program may have loaded a driver by then. */
void rcmi_device_notice_driver(void);

/* The stream that a call, or each start of a persistent one, waits for. */
struct rcmi_stream {
    void *stream;
    bool none;          /* RCM_NO_STREAM: waits for nothing */
    int64_t timeout_ms; /* for opening the device */
};
/* timeout_ms: the communicator's, used if the call has none. */
static inline struct rcmi_stream rcmi_stream_of(const struct rcm_call *call, int64_t timeout_ms) {
    if (!call)
        return (struct rcmi_stream){NULL, false, timeout_ms};
    return (struct rcmi_stream){call->stream, (call->flags & RCM_NO_STREAM) != 0,
                                call->timeout_ms ? call->timeout_ms : timeout_ms};
}
/* Makes a call on memory of mem's kind wait for the stream: *ret_fence, NULL before, becomes the
 * fence that its operations come after, if any. Opens the device and checks that mem belongs to it.
 * Several operations with one fence: it is made for the first one of device memory, and the others
 * must be on the same device. */
rcm_status rcmi_stream_follow(struct rcmi_rank_device *own, struct rcmi_stream stream,
                              const struct rcmi_mem *mem, struct rcmi_operation **ret_fence);
/* No operation of the call starts or runs any more. NULL is a no-op. */
void rcmi_stream_drop(struct rcmi_operation *fence);

#endif
