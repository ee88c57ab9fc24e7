/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a kind that the CPU does not touch (mem_kind.h), for the library's own use: allocated
 * and freed on the kind's own thread, where the driver may be called, so it is there later.
 *
 *      begin   RCM_AGAIN by look, then wake: RCM_OK, or why there is none
 *      end     at any time, once nothing uses it
 *
 * Not here: memory of users, which they wait for (transport/device_memory.c).
 */
#ifndef RCMI_SCRATCH_H
#define RCMI_SCRATCH_H

#include <stddef.h>
#include "mem_kind.h"

struct rcmi_scratch;

/* wake: any thread, does not block; not called any more once end has returned. RCM_ERR_NOMEM: it
 * did not begin. */
rcm_status rcmi_scratch_begin(const struct rcmi_mem_row *row, struct rcmi_device *device,
                              size_t bytes, void (*wake)(void *arg), void *arg,
                              struct rcmi_scratch **ret_scratch);
/* RCM_OK: *ret_memory is there. An error: it never is. */
rcm_status rcmi_scratch_look(struct rcmi_scratch *scratch, void **ret_memory);
/* Returns at once; what was allocated is freed before the device is closed. NULL is a no-op. */
void rcmi_scratch_end(struct rcmi_scratch *scratch);

#endif
