/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that finish later: copies and reductions in memory of a kind (mem_kind.h) that the CPU
 * does not touch. What they compute is what the kernels of host memory do (kernels.h).
 *
 *      owner (executor, endpoint)                     kind, on a thread of its own
 *        rcmi_operation_begin   ---- row->begin --->    queues it, runs it
 *        rcmi_operation_look: RCM_AGAIN
 *                               <--- wake -----------   rcmi_operation_end
 *        rcmi_operation_look: RCM_OK, or why it failed
 *
 * From begin to end the struct and all memory that it names stay where they are. Operations that
 * run at the same time are independent of each other, and may end in any order.
 *
 * Not here: which step needs which operation when (algorithms/exec/exec_operation.c).
 */
#ifndef RCMI_OPERATION_H
#define RCMI_OPERATION_H

#include "kernels.h"
#include "mem_kind.h"

/* All operations of one owner, which is woken when one ends. */
struct rcmi_operations {
    struct rcmi_device *const *device; /* of the rank; there before the first one begins */
    void (*wake)(void *arg);           /* any thread; does not block */
    void *arg;
    _Atomic int running; /* begun and not ended */
    _Atomic int waking;  /* ended, and the call of wake has not returned */
    _Atomic bool given_up;
};

struct rcmi_operation {
    /* Each result becomes (srcs[0] op srcs[1]) op ..., as the context says. A result may be one of
     * the sources; no other overlap. At least one of each; or none, of no bytes: it ends when
     * `after` has, and touches nothing. */
    void *results[2];
    const void *srcs[RCMI_REDUCE_MAX];
    uint32_t nresults, nsrcs;
    size_t bytes;
    rcm_dtype dtype;
    bool reduces; /* else its one source is copied */
    rcm_op op;
    struct rcmi_reduce_context context;
    enum rcmi_mem_kind kind;
    struct rcmi_operations *all;
    const struct rcmi_operation *after; /* ends first, see fence.h; NULL: there is none */
    /* The kind's, from begin to end. */
    struct rcmi_operation *next;
    void *own;
    /* How it ended. */
    int code;           /* the kind's; written before status */
    _Atomic int status; /* RCM_PENDING while it runs; release store, acquire load */
};

/* One that has ended, or was zeroed, begins. An error: it did not. */
rcm_status rcmi_operation_begin(struct rcmi_operation *operation);
/* One of no bytes: it ends when what is enqueued on the stream now is done (mem_kind.h). */
rcm_status rcmi_operation_follow(struct rcmi_operation *operation, void *stream);
/* RCM_AGAIN while it runs, RCM_OK, or why it failed. */
rcm_status rcmi_operation_look(const struct rcmi_operation *operation);
/* The kind's: it has ended; nothing of it touches memory any more. After this call the kind does
 * not look at the operation again. */
void rcmi_operation_end(struct rcmi_operation *operation, rcm_status status, int code);

/* The kind's, of one that comes after another: RCM_PENDING: it does not begin yet; RCM_OK: it does;
 * or why it ends without having touched anything, of which the code is *ret_code, 0 where it was
 * given up. */
rcm_status rcmi_operation_may_run(const struct rcmi_operation *operation, int *ret_code);

/* None of them that waits for another operation touches memory any more; they end soon. No further
 * one begins. Any thread. */
void rcmi_operations_give_up(struct rcmi_operations *all);
/* Does none of them touch any memory? Then none will, before another one begins. */
bool rcmi_operations_quiet(const struct rcmi_operations *all);
/* Before the owner is freed, once they are quiet: until no wake is under way. */
void rcmi_operations_settle(const struct rcmi_operations *all);

#endif
