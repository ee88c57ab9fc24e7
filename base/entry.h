/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a user's thread inside the library, and its restoration:
 *
 *   floating point   the default environment: round to nearest, no flush to zero, exceptions
 *                    masked. Results and prices thus have the same bits on every rank
 *   cancellation     disabled: a cancelled thread that drives would leave locks held
 *
 * A thread that drives a communicator has both, through its lock (comm.h). Other functions that
 * wait, compute or make system calls begin with RCMI_ENTRY. Entries nest. Threads of the library
 * start in the default environment (thread.h).
 *
 * User code runs between rcmi_foreign_begin and _end, where it may change the environment: operator
 * functions, and callbacks on the loop thread.
 *
 * Not here: exception flags. Flags raised inside the library stay set, unless the control bits
 * differed.
 */
#ifndef RCMI_ENTRY_H
#define RCMI_ENTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
/* Control bits of MXCSR: denormals are zero, exception masks, rounding, flush to zero. The library
 * does not use the x87 unit; rcmi_foreign_begin handles it. */
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
/* FPCR: all bits are control bits, the default is 0. */
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
/* Unknown CPU: keeps the thread's environment. */
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
    rcmi_fp_state own; /* saved state of the thread */
    int cancel;        /* saved cancel state */
};

/* The compiler does not move later function calls before this, but may move arithmetic on
 * arguments. */
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

/* Sets up the environment until the end of the block. */
#define RCMI_ENTRY                                                                                 \
    const struct rcmi_entered entry_ __attribute__((cleanup(rcmi_entry_end), unused)) =            \
        rcmi_entry_begun()

/* ---- User code ------------------------------------------------------------------------------- */

struct rcmi_foreign {
    rcmi_fp_state own;
    uint16_t x87; /* its control word */
};

/* Call in the default environment; _begin then saves it and sets the x87 default as well. _end
 * restores the state before _begin. */
void rcmi_foreign_begin(struct rcmi_foreign *foreign);
void rcmi_foreign_end(const struct rcmi_foreign *foreign);

/* Called around an operator function, in addition: a communicator is being driven. */
void rcmi_operator_call_begin(void);
void rcmi_operator_call_end(void);
/* Is this thread running an operator function? */
extern _Atomic int rcmi_operator_calls; /* running, all threads. Relaxed: a thread sees its own */
bool rcmi_operator_call_is_here(void);
static inline bool rcmi_in_operator(void) {
    return __builtin_expect(atomic_load_explicit(&rcmi_operator_calls, memory_order_relaxed), 0) &&
           rcmi_operator_call_is_here();
}

#endif
