/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fence: the work enqueued on a stream before a call. The call's operations start after it.
 *
 *      stream   ---- a ---- b ---------------------- c ---->
 *                             call: fence            (c does not matter)
 *      operations               '--- end of b ---> begin
 *
 * A fence is an operation that touches no memory (operation.h); other operations name it in
 * `after`. A call on memory of a kind without streams has none.
 *
 * Not here: how a stream is followed (struct rcmi_mem_row, base/mem_kind.h).
 */
#ifndef RCMI_FENCE_H
#define RCMI_FENCE_H

#include "operation.h"

/* Makes the fence of a call with a stream. RCM_ERR_INVALID: the stream is being captured. Any
 * thread. */
rcm_status rcmi_fence_make(enum rcmi_mem_kind kind, struct rcmi_device *device, void *stream,
                           struct rcmi_operation **ret_fence);
/* Checks whether *after, a fence, has ended, and sets *after to NULL if so. Until then returns
 * RCM_AGAIN and wakes the owner of `watch` later, by an operation of no bytes. The caller owns that
 * operation, zeroed except kind and all. *awaits, initially false, is true while it is in progress.
 * Another error: the enqueued work failed. */
rcm_status rcmi_fence_await(struct rcmi_operation *watch, bool *awaits,
                            struct rcmi_operation **after);
/* Call when no operation that names the fence begins or runs any more. The fence itself may not
 * have ended. NULL is a no-op. */
void rcmi_fence_drop(struct rcmi_operation *fence);

#endif
