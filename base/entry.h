/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a thread of the program's while it is inside the library, and the way back:
 *
 *   floating point   the default environment: nearest, no flush to zero, exceptions masked. So
 *                    results and prices have the same bits on every rank
 *   cancellation     disabled: a thread that ended while it drives would leave locks behind
 *
 * Whoever drives a communicator has both, by its lock (comm.h). Other functions that wait, compute
 * or do system calls begin with RCMI_ENTRY. Entries nest. Threads of the library have the default
 * environment from their start (thread.h).
 *
 * Code of the program's runs between rcmi_foreign_begin and _end, where it may change the
 * environment: operators' functions, and callbacks on the loop thread.
 *
 * Not here: exception flags. Those raised inside stay, but where the control bits differed.
 */
#ifndef RCMI_ENTRY_H
#define RCMI_ENTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
/* Of MXCSR: denormals are zero, exception masks, rounding, flush to zero. The x87 unit, which our
 * code does not use, is left to rcmi_foreign_begin. */
typedef uint32_t rcmi_fp_state;
#define RCMI_FP_CONTROL UINT32_C(0xFFC0)
#define RCMI_FP_DEFAULT UINT32_C(0x1F80)
static inline rcmi_fp_state rcmi_fp_get(void) {
    rcmi_fp_state state;
    __asm__ volatile("stmxcsr %0" : "=m"(state)::"memory");
    return state;
}
static inline void rcmi_fp_set(rcmi_fp_state state) {
    __asm__ volatile("ldmxcsr %0" ::"m"(state) : "memory");
}
static inline bool rcmi_fp_differs(rcmi_fp_state state) {
    return (state & RCMI_FP_CONTROL) != RCMI_FP_DEFAULT;
}
#elif defined(__aarch64__)
/* FPCR: all of it is control, the default is 0. */
typedef uint64_t rcmi_fp_state;
#define RCMI_FP_DEFAULT UINT64_C(0)
static inline rcmi_fp_state rcmi_fp_get(void) {
    rcmi_fp_state state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state)::"memory");
    return state;
}
static inline void rcmi_fp_set(rcmi_fp_state state) {
    __asm__ volatile("msr fpcr, %0" ::"r"(state) : "memory");
}
static inline bool rcmi_fp_differs(rcmi_fp_state state) {
    return state != RCMI_FP_DEFAULT;
}
#else
/* Not known: the environment stays the thread's. */
typedef int rcmi_fp_state;
#define RCMI_FP_DEFAULT 0
static inline rcmi_fp_state rcmi_fp_get(void) {
    return RCMI_FP_DEFAULT;
}
static inline void rcmi_fp_set(rcmi_fp_state state) {
    (void)state;
}
static inline bool rcmi_fp_differs(rcmi_fp_state state) {
    return state != RCMI_FP_DEFAULT;
}
#endif

struct rcmi_entered {
    rcmi_fp_state own; /* the thread's */
    int cancel;        /* likewise */
};

/* Calls of functions behind it are not moved before it, arithmetic on arguments may be. */
static inline void rcmi_entry_begin(struct rcmi_entered *entry) {
    entry->own = rcmi_fp_get();
    if (__builtin_expect(rcmi_fp_differs(entry->own), 0))
        rcmi_fp_set(RCMI_FP_DEFAULT);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &entry->cancel);
}

static inline void rcmi_entry_end(const struct rcmi_entered *entry) {
    if (__builtin_expect(rcmi_fp_differs(entry->own), 0))
        rcmi_fp_set(entry->own);
    (void)pthread_setcancelstate(entry->cancel, NULL);
}

static inline struct rcmi_entered rcmi_entry_begun(void) {
    struct rcmi_entered entry;
    rcmi_entry_begin(&entry);
    return entry;
}

/* From here to the end of the block. */
#define RCMI_ENTRY                                                                                 \
    const struct rcmi_entered entry_ __attribute__((cleanup(rcmi_entry_end), unused)) =            \
        rcmi_entry_begun()

/* ---- Code of the program's ------------------------------------------------------------------- */

struct rcmi_foreign {
    rcmi_fp_state own;
    uint16_t x87; /* its control word */
};

/* By a thread in the default environment, which is the default one for x87 as well then. _end:
 * the environment is as it was before _begin. */
void rcmi_foreign_begin(struct rcmi_foreign *foreign);
void rcmi_foreign_end(const struct rcmi_foreign *foreign);

/* Around an operator's function, beside these: a communicator is driven meanwhile. */
void rcmi_operator_call_begin(void);
void rcmi_operator_call_end(void);
/* Does this thread run an operator's function? */
extern _Atomic int rcmi_operator_calls; /* in all threads. Relaxed: a thread sees its own */
bool rcmi_operator_call_is_here(void);
static inline bool rcmi_in_operator(void) {
    return __builtin_expect(atomic_load_explicit(&rcmi_operator_calls, memory_order_relaxed), 0) &&
           rcmi_operator_call_is_here();
}

#endif
