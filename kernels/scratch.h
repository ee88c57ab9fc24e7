/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a kind that the CPU does not touch (mem_kind.h), for internal use. It is allocated and
 * freed on the kind's own thread, where the driver may be called, so it becomes available later. A
 * driver may delay both until the device has finished all other work, and with it what that thread
 * is to begin next. Returned memory therefore stays in a pool for reuse until the pool ends.
 *
 *      take    then look: RCM_AGAIN, later (after wake) RCM_OK or the error
 *      give    at any time, once nothing uses it
 *
 * Not here: memory of users, who wait for it (transport/channel/device_memory.c).
 */
#ifndef RCMI_SCRATCH_H
#define RCMI_SCRATCH_H

#include <stddef.h>
#include "mem_kind.h"

struct rcmi_scratch;

/* One thread at a time. Initialise to zero, except: */
struct rcmi_scratches {
    void (*wake)(void *arg); /* any thread, does not block */
    void *arg;
    struct rcmi_scratch *spare; /* returned */
};

/* Takes at least `bytes` of device memory; *ret_bytes: how many. RCM_ERR_NOMEM: not begun. */
rcm_status rcmi_scratch_take(struct rcmi_scratches *all, const struct rcmi_mem_row *row,
                             struct rcmi_device *device, size_t bytes,
                             struct rcmi_scratch **ret_scratch, size_t *ret_bytes);
/* RCM_OK: *ret_memory is available. An error: it never will be. */
rcm_status rcmi_scratch_look(struct rcmi_scratch *scratch, void **ret_memory);
/* NULL is a no-op. */
void rcmi_scratch_give(struct rcmi_scratches *all, struct rcmi_scratch *scratch);
/* Call after all memory was returned. Returns at once; wake is not called any more. The memory is
 * freed before the device is closed. */
void rcmi_scratches_end(struct rcmi_scratches *all);

#endif
