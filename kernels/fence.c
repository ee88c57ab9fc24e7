/* SPDX-License-Identifier: BSD-3-Clause */
/* Fences: see fence.h. A fence that is dropped before it has ended is kept until then. */
#include "fence.h"
#include <pthread.h>
#include <stdlib.h>
#include "error.h"

struct fence {
    struct rcmi_operation operation; /* first */
    struct rcmi_operations owner;
    struct rcmi_device *device;
    struct fence *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fence *dropped; /* those that had not ended; under the lock */

/* No wake-up is needed: the kind itself checks operations that come after a fence. */
static void wake_none(void *arg) {
    (void)arg;
}

static bool fence_is_over(const struct fence *fence) {
    return rcmi_operations_quiet(&fence->owner) &&
           atomic_load_explicit(&fence->owner.waking, memory_order_acquire) == 0;
}

static void dropped_sweep(void) {
    struct fence **at = &dropped;
    while (*at) {
        struct fence *fence = *at;
        if (!fence_is_over(fence)) {
            at = &fence->next;
            continue;
        }
        *at = fence->next;
        free(fence);
    }
}

rcm_status rcmi_fence_make(enum rcmi_mem_kind kind, struct rcmi_device *device, void *stream,
                           struct rcmi_operation **ret_fence) {
    struct fence *fence = calloc(1, sizeof *fence);
    if (!fence)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to wait for a stream");
    fence->device = device;
    fence->owner = (struct rcmi_operations){.device = &fence->device, .wake = wake_none};
    fence->operation.kind = kind;
    fence->operation.all = &fence->owner;
    const rcm_status status = rcmi_operation_follow(&fence->operation, stream);
    if (status != RCM_OK) {
        free(fence);
        return status;
    }
    *ret_fence = &fence->operation;
    return RCM_OK;
}

rcm_status rcmi_fence_await(struct rcmi_operation *watch, bool *awaits,
                            struct rcmi_operation **after) {
    rcm_status status = RCM_OK;
    if (*awaits) {
        status = rcmi_operation_look(watch);
    } else if (*after && rcmi_operation_look(*after) != RCM_OK) {
        watch->nresults = watch->nsrcs = 0;
        watch->bytes = 0;
        watch->after = *after;
        status = rcmi_operation_begin(watch);
        status = status == RCM_OK ? RCM_AGAIN : status;
    }
    if (status == RCM_OK)
        *after = NULL;
    *awaits = status == RCM_AGAIN;
    return status;
}

void rcmi_fence_drop(struct rcmi_operation *operation) {
    if (!operation)
        return;
    struct fence *fence = (struct fence *)operation;
    pthread_mutex_lock(&lock);
    fence->next = dropped;
    dropped = fence;
    dropped_sweep();
    pthread_mutex_unlock(&lock);
}
