/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fence: what was enqueued on a stream before a call, which the call's operations come after.
 *
 *      stream   ---- a ---- b ---------------------- c ---->
 *                             call: fence            (c is of no matter to it)
 *      operations               '--- end of b ---> begin
 *
 * It is an operation that touches no memory (operation.h); operations name it in `after`. A call on
 * memory of a kind without streams has none.
 *
 * Not here: how a stream is followed (struct rcmi_mem_row, base/mem_kind.h).
 */
#ifndef RCMI_FENCE_H
#define RCMI_FENCE_H

#include "operation.h"

/* Of a call with such a stream. RCM_ERR_INVALID: it is being captured. Any thread. */
rcm_status rcmi_fence_make(enum rcmi_mem_kind kind, struct rcmi_device *device, void *stream,
                           struct rcmi_operation **ret_fence);
/* Has *after, a fence, ended? Then it becomes NULL. RCM_AGAIN until then: the owner of `watch` is
 * woken, by an operation of no bytes. That one is the caller's, zeroed but for kind and all, and
 * *awaits, which is false at first, is true while it runs. Another error: what was enqueued
 * failed. */
rcm_status rcmi_fence_await(struct rcmi_operation *watch, bool *awaits,
                            struct rcmi_operation **after);
/* No operation that names it begins or runs any more. It may not have ended. NULL is a no-op. */
void rcmi_fence_drop(struct rcmi_operation *fence);

#endif
