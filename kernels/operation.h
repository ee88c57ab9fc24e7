/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous operations: copies and reductions in memory of a kind (mem_kind.h) that the CPU does
 * not touch. They compute the same as the kernels of host memory (kernels.h).
 *
 *      owner (executor, endpoint)                     kind, on its own thread
 *        rcmi_operation_begin   ---- row->begin --->    queues it, runs it
 *        rcmi_operation_look: RCM_AGAIN
 *                               <--- wake -----------   rcmi_operation_end
 *        rcmi_operation_look: RCM_OK, or the error
 *
 * From begin to end, the struct and all memory that it names stay in place. Concurrent operations
 * are independent of each other and may end in any order.
 *
 * Not here: which step needs which operation, and when (algorithms/exec/exec_operation.c).
 */
#ifndef RCMI_OPERATION_H
#define RCMI_OPERATION_H

#include "kernels.h"
#include "mem_kind.h"

/* All operations of one owner, which is woken when one ends. */
struct rcmi_operations {
    struct rcmi_device *const *device; /* of the rank; set before the first operation begins */
    void (*wake)(void *arg);           /* any thread; does not block */
    void *arg;
    _Atomic int running; /* begun and not ended */
    _Atomic int waking;  /* ended, but the call of wake has not returned */
    _Atomic bool given_up;
};

struct rcmi_operation {
    /* Each result becomes (srcs[0] op srcs[1]) op ..., with the context. A result may be one of the
     * sources; no other overlap. An operation has results and sources, or neither of them: then it
     * has no bytes, touches no memory, and ends when `after` has ended. */
    void *results[2];
    const void *srcs[RCMI_REDUCE_MAX];
    uint32_t nresults, nsrcs;
    size_t bytes;
    rcm_dtype dtype;
    bool reduces; /* else copies its single source */
    rcm_op op;
    struct rcmi_reduce_context context;
    enum rcmi_mem_kind kind;
    struct rcmi_operations *all;
    const struct rcmi_operation *after; /* must end first, see fence.h; NULL: none */
    /* Owned by the kind, from begin to end. */
    struct rcmi_operation *next;
    void *own;
    /* Result: */
    int code;           /* of the kind; written before status */
    _Atomic int status; /* RCM_PENDING until the end; read it with rcmi_operation_look */
};

/* Begins an operation that has ended or was zeroed. RCM_OK: it has begun, the struct and its memory
 * stay in use, and all->wake is called when it ends, perhaps before this function returns. An
 * error: it did not begin, and nothing wakes the owner. */
rcm_status rcmi_operation_begin(struct rcmi_operation *operation);
/* Begins an operation of no bytes that ends when the work now enqueued on the stream is done
 * (mem_kind.h). */
rcm_status rcmi_operation_follow(struct rcmi_operation *operation, void *stream);
/* RCM_AGAIN until it ends, then RCM_OK or the error. */
rcm_status rcmi_operation_look(const struct rcmi_operation *operation);
/* Called by the kind: the operation has ended and touches no memory any more. After this call the
 * kind does not access the operation. */
void rcmi_operation_end(struct rcmi_operation *operation, rcm_status status, int code);

/* Called by the kind before it runs a begun operation with `after`. RCM_PENDING: it must wait, and
 * the kind calls again. RCM_OK: it may run. Else the error with which it ends without touching
 * memory: that of `after` with its *ret_code, or RCM_ERR_CANCELED with 0 after a give_up. */
rcm_status rcmi_operation_may_run(const struct rcmi_operation *operation, int *ret_code);

/* From now on operations that still wait for their `after` end without touching memory. The caller
 * begins no further operation. Any thread. */
void rcmi_operations_give_up(struct rcmi_operations *all);
/* Does no operation touch memory? Then none will before another one begins. */
bool rcmi_operations_quiet(const struct rcmi_operations *all);
/* Call before the owner is freed, once the operations are quiet: waits until no call of wake is in
 * progress. */
void rcmi_operations_settle(const struct rcmi_operations *all);

#endif
