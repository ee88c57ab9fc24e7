/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a kind that the CPU does not touch (mem_kind.h), for the library's own use: allocated
 * and freed on the kind's own thread, where the driver may be called, so it is there later. A
 * driver may wait with either until the device has done all else, and with it what the thread is to
 * begin next; so what is given back stays in its pool, to be taken again, until the pool ends.
 *
 *      take    RCM_AGAIN by look, then wake: RCM_OK, or why there is none
 *      give    at any time, once nothing uses it
 *
 * Not here: memory of users, which they wait for (transport/channel/device_memory.c).
 */
#ifndef RCMI_SCRATCH_H
#define RCMI_SCRATCH_H

#include <stddef.h>
#include "mem_kind.h"

struct rcmi_scratch;

/* One thread at a time. Zeroed but for: */
struct rcmi_scratches {
    void (*wake)(void *arg); /* any thread, does not block */
    void *arg;
    struct rcmi_scratch *spare; /* given back */
};

/* At least so many bytes of a device's; *ret_bytes: how many. RCM_ERR_NOMEM: it did not begin. */
rcm_status rcmi_scratch_take(struct rcmi_scratches *all, const struct rcmi_mem_row *row,
                             struct rcmi_device *device, size_t bytes,
                             struct rcmi_scratch **ret_scratch, size_t *ret_bytes);
/* RCM_OK: *ret_memory is there. An error: it never is. */
rcm_status rcmi_scratch_look(struct rcmi_scratch *scratch, void **ret_memory);
/* NULL is a no-op. */
void rcmi_scratch_give(struct rcmi_scratches *all, struct rcmi_scratch *scratch);
/* All were given back. Returns at once; wake is not called any more. They are freed before the
 * device is closed. */
void rcmi_scratches_end(struct rcmi_scratches *all);

#endif
