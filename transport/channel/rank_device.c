/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of a rank: see rank_device.h. */
#include "rank_device.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "device.h"
#include "error.h"
#include "fence.h"
#include "timed_call.h"
#include "mem_kind.h"
#include "thread.h"
#include "transport.h"

/* Is the device named in the settings, instead of chosen by local rank when needed? */
static bool is_named(const char *name) {
    return *name && strcasecmp(name, "auto") != 0 && strcasecmp(name, "none") != 0;
}

rcm_status rcmi_rank_device_init(struct rcmi_rank_device *own, const char *name) {
    pthread_mutex_init(&own->lock, NULL);
    rcmi_condition_init(&own->changed);
    own->name = strdup(name);
    return own->name ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the name of a device");
}

void rcmi_rank_device_end(struct rcmi_rank_device *own) {
    if (own->device)
        rcmi_mem_kind_row(RCMI_MEM_DEVICE)->close(own->device);
    free(own->name);
    pthread_cond_destroy(&own->changed);
    pthread_mutex_destroy(&own->lock);
}

rcm_status rcmi_device_look(bool wanted) {
    if (rcmi_mem_kind_row(RCMI_MEM_DEVICE))
        return RCM_OK;
    if (wanted)
        return rcmi_device_kind_add();
    return rcmi_device_notice()
               ? RCM_OK
               : rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "the program has not loaded a CUDA driver");
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* The driver may take long, so it is loaded and opens the device on another thread. */
struct opening {
    struct rcmi_timed_call call; /* first */
    char *name;
    int local_rank;
    struct rcmi_device *device;
};

static rcm_status opening_run(struct rcmi_timed_call *call) {
    struct opening *opening = (struct opening *)call;
    const rcm_status status = rcmi_device_look(true);
    return status == RCM_OK ? rcmi_mem_kind_row(RCMI_MEM_DEVICE)
                                  ->open(opening->name, opening->local_rank, &opening->device)
                            : status;
}

static void opening_late(struct rcmi_timed_call *call, rcm_status status) {
    struct opening *opening = (struct opening *)call;
    if (status == RCM_OK)
        rcmi_mem_kind_row(RCMI_MEM_DEVICE)->close(opening->device);
    free(opening->name);
}

static struct opening *opening_new(const struct rcmi_rank_device *own) {
    struct opening *opening = calloc(1, sizeof *opening);
    char *name = strdup(own->name);
    if (!opening || !name) {
        free(opening);
        free(name);
        return NULL;
    }
    opening->call.run = opening_run;
    opening->call.late = opening_late;
    opening->name = name;
    opening->local_rank = own->local_rank;
    return opening;
}

static rcm_status device_is_late(const char *name) {
    return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                     "the device of this rank ('%s', RINGCOMM_DEVICE) was not open by the "
                     "deadline: the driver has not returned",
                     name);
}

/* Called by one thread at a time. */
static rcm_status device_open(const struct rcmi_rank_device *own, rcmi_deadline deadline,
                              struct rcmi_device **ret_device) {
    rcm_status status;
    if (strcmp(own->name, "none") == 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "this rank has no device: RINGCOMM_DEVICE is none");
    struct opening *opening = opening_new(own);
    if (!opening)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to open a device");
    if (!rcmi_timed_call_run(&opening->call, deadline, &status))
        return device_is_late(own->name);
    *ret_device = opening->device;
    free(opening->name);
    free(opening);
    return status;
}

/* True: this thread must open it. Under the lock. */
static bool opening_is_mine(struct rcmi_rank_device *own, rcmi_deadline deadline) {
    while (own->opening && rcmi_condition_wait(&own->changed, &own->lock, deadline))
        ;
    if (own->device || own->opening)
        return false;
    return own->opening = true;
}

static void opening_ends(struct rcmi_rank_device *own, struct rcmi_device *device) {
    pthread_mutex_lock(&own->lock);
    own->opening = false;
    own->device = device;
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
}

rcm_status rcmi_rank_device_open(struct rcmi_rank_device *own, rcmi_deadline deadline) {
    struct rcmi_device *device = NULL;
    pthread_mutex_lock(&own->lock);
    const bool mine = opening_is_mine(own, deadline), there = own->device != NULL;
    pthread_mutex_unlock(&own->lock);
    if (!mine)
        return there ? RCM_OK : device_is_late(own->name);
    const rcm_status status = device_open(own, deadline, &device);
    /* Before other threads see it as open, because they then register its memory with the node. */
    if (status == RCM_OK && own->node)
        rcmi_node_use_device(own->node, device);
    opening_ends(own, status == RCM_OK ? device : NULL);
    return status;
}

/* ---- Location -------------------------------------------------------------------------------- */

/* Locating a device may take long, too. */
struct locating {
    struct rcmi_timed_call call; /* first */
    char *name;
    char address[RCMI_PCI_ADDRESS];
};

static rcm_status locating_run(struct rcmi_timed_call *call) {
    struct locating *locating = (struct locating *)call;
    const rcm_status status = rcmi_device_look(true);
    return status == RCM_OK
               ? rcmi_mem_kind_row(RCMI_MEM_DEVICE)->locate(locating->name, locating->address)
               : status;
}

static void locating_late(struct rcmi_timed_call *call, rcm_status status) {
    (void)status;
    free(((struct locating *)call)->name);
}

rcm_status rcmi_rank_device_locate(const char *name, rcmi_deadline deadline,
                                   char ret_address[RCMI_PCI_ADDRESS]) {
    rcm_status status;
    ret_address[0] = '\0';
    if (!is_named(name))
        return RCM_OK;
    struct locating *locating = calloc(1, sizeof *locating);
    char *own = strdup(name);
    if (!locating || !own) {
        free(locating);
        free(own);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to find a device");
    }
    locating->call.run = locating_run;
    locating->call.late = locating_late;
    locating->name = own;
    if (!rcmi_timed_call_run(&locating->call, deadline, &status))
        return device_is_late(name);
    memcpy(ret_address, locating->address, RCMI_PCI_ADDRESS);
    free(own);
    free(locating);
    return status;
}

/* ---- Streams --------------------------------------------------------------------------------- */

rcm_status rcmi_rank_device_begin(struct rcmi_rank_device *own, int local_rank,
                                  rcmi_deadline deadline) {
    own->local_rank = local_rank;
    if (is_named(own->name))
        return rcmi_rank_device_open(own, deadline);
    return RCM_OK;
}

void rcmi_device_notice_driver(void) {
    const struct rcmi_error before = *rcmi_last_error();
    if (rcmi_device_look(false) != RCM_OK)
        *rcmi_last_error() = before;
}

static rcm_status device_check(const struct rcmi_rank_device *own, const struct rcmi_mem *mem) {
    const struct rcmi_mem_row *row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    if (mem->device == row->number(own->device))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "%p is memory of device %d, but this rank's is %s (RINGCOMM_DEVICE)",
                     mem->bytes, mem->device, row->label(own->device));
}

/* Host memory has no stream: the call would not wait for work that is enqueued on one. */
static rcm_status stream_of_host(struct rcmi_stream stream, const struct rcmi_mem *mem) {
    if (!stream.stream || mem->len == 0)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INVALID, 0, "call->stream is %p, but %p is host memory", stream.stream,
                     mem->bytes);
}

static rcm_status fence_check(const struct rcmi_operation *fence,
                              const struct rcmi_rank_device *own) {
    const struct rcmi_mem_row *row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    const int before = row->number(*fence->all->device), now = row->number(own->device);
    if (before == now)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "memory of device %d and of device %d, which have no stream in common", before,
                     now);
}

rcm_status rcmi_stream_follow(struct rcmi_rank_device *own, struct rcmi_stream stream,
                              const struct rcmi_mem *mem, struct rcmi_operation **ret_fence) {
    if (mem->kind == RCMI_MEM_HOST)
        return stream_of_host(stream, mem);
    rcm_status status = rcmi_rank_device_open(own, rcmi_deadline_in(stream.timeout_ms));
    if (status == RCM_OK)
        status = device_check(own, mem);
    if (status != RCM_OK || stream.none)
        return status;
    if (*ret_fence)
        return fence_check(*ret_fence, own);
    return rcmi_fence_make(mem->kind, own->device, stream.stream, ret_fence);
}

void rcmi_stream_drop(struct rcmi_operation *fence) {
    rcmi_fence_drop(fence);
}
