/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory for a user, with a deadline. Drivers wait for work on the device before they
 * allocate (cuMemAlloc may) or free memory (cuMemFree does), and that work may never end. So
 * another thread calls the driver (timed_call.h), and the wait for that thread has a deadline.
 */
#include <stdlib.h>
#include "channel.h"
#include "timed_call.h"
#include "mem_kind.h"

struct move {
    struct rcmi_timed_call call; /* first */
    const struct rcmi_mem_row *row;
    struct rcmi_device *device; /* held until the call has ended */
    void *memory;
    size_t bytes;
};

static rcm_status move_alloc(struct rcmi_timed_call *call) {
    struct move *move = (struct move *)call;
    return move->row->alloc(move->device, move->bytes, &move->memory);
}

static void move_alloc_late(struct rcmi_timed_call *call, rcm_status status) {
    const struct move *move = (struct move *)call;
    if (status == RCM_OK)
        move->row->free(move->device, move->memory);
    move->row->close(move->device);
}

static rcm_status move_free(struct rcmi_timed_call *call) {
    const struct move *move = (struct move *)call;
    move->row->free(move->device, move->memory);
    return RCM_OK;
}

static void move_free_late(struct rcmi_timed_call *call, rcm_status status) {
    const struct move *move = (struct move *)call;
    (void)status;
    move->row->close(move->device);
}

static struct move *move_new(struct rcmi_device *device, size_t bytes, void *memory) {
    struct move *move = calloc(1, sizeof *move);
    if (!move)
        return NULL;
    move->row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    move->device = device;
    move->bytes = bytes;
    move->memory = memory;
    move->row->hold(device);
    return move;
}

/* Frees a move that the caller still owns, whether its call was made or not. */
static void move_end(struct move *move) {
    move->row->close(move->device);
    free(move);
}

rcm_status rcmi_device_memory_take(struct rcmi_device *device, size_t bytes, rcmi_deadline deadline,
                                   void **ret_memory) {
    struct move *move = move_new(device, bytes, NULL);
    rcm_status status;
    if (!move)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %zu bytes of a device", bytes);
    move->call.run = move_alloc;
    move->call.late = move_alloc_late;
    if (!rcmi_timed_call_run(&move->call, deadline, &status))
        return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                         "%zu bytes of %s were not allocated by the deadline: the driver waits, "
                         "possibly for work on the device",
                         bytes, rcmi_mem_kind_row(RCMI_MEM_DEVICE)->label(device));
    *ret_memory = move->memory;
    move_end(move);
    return status;
}

rcm_status rcmi_device_memory_give(struct rcmi_device *device, void *memory,
                                   rcmi_deadline deadline) {
    struct move *move = move_new(device, 0, memory);
    rcm_status status;
    if (!move)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to free memory of a device");
    move->call.run = move_free;
    move->call.late = move_free_late;
    if (!rcmi_timed_call_run(&move->call, deadline, &status))
        return rcmi_fail(
            RCM_ERR_TIMEOUT, 0,
            "%p of %s was not freed by the deadline: it will be freed when the driver returns, "
            "which waits, possibly for work on the device",
            memory, rcmi_mem_kind_row(RCMI_MEM_DEVICE)->label(device));
    move_end(move);
    return status;
}
