/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of a rank: see rank_device.h. */
#include "rank_device.h"
#include <stdlib.h>
#include <string.h>
#include "device.h"
#include "error.h"
#include "fence.h"
#include "transport.h"

rcm_status rcmi_rank_device_init(struct rcmi_rank_device *own, const char *name) {
    pthread_mutex_init(&own->lock, NULL);
    own->name = strdup(name);
    return own->name ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the name of a device");
}

void rcmi_rank_device_end(struct rcmi_rank_device *own) {
    if (own->device)
        rcmi_mem_kind_row(RCMI_MEM_DEVICE)->close(own->device);
    free(own->name);
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

static rcm_status device_open(struct rcmi_rank_device *own) {
    const struct rcmi_mem_row *row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    if (strcmp(own->name, "none") == 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "this rank has no device: RINGCOMM_DEVICE is none");
    const rcm_status status = row->open(own->name, own->local_rank, &own->device);
    if (status == RCM_OK && own->node)
        rcmi_node_use_device(own->node, own->device);
    return status;
}

rcm_status rcmi_rank_device_open(struct rcmi_rank_device *own) {
    rcm_status status = rcmi_device_look(true);
    if (status != RCM_OK)
        return status;
    pthread_mutex_lock(&own->lock);
    if (!own->device)
        status = device_open(own);
    pthread_mutex_unlock(&own->lock);
    return status;
}

rcm_status rcmi_rank_device_begin(struct rcmi_rank_device *own, int local_rank) {
    own->local_rank = local_rank;
    if (strcmp(own->name, "auto") != 0 && strcmp(own->name, "none") != 0)
        return rcmi_rank_device_open(own);
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

/* Host memory has no stream: what is enqueued on one would not be waited for. */
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
    rcm_status status = rcmi_rank_device_open(own);
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
