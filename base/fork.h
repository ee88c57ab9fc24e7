/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process created an object: a number that differs in every child. It also differs in a child
 * that no atfork handler sees (raw clone, _Fork), or that has its parent's pid in another PID
 * namespace. Exception: children that share the parent's memory (vfork, CLONE_VM) have the parent's
 * number; only their pid differs.
 */
#ifndef RCMI_FORK_H
#define RCMI_FORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The number's storage: in memory that the kernel zeroes in a child (MADV_WIPEONFORK), or if the
 * kernel rejects that, in memory that an atfork handler zeroes. */
extern _Atomic uint32_t *_Atomic rcmi_fork_word;

/* The number of this process, never 0. A created object stores it. */
uint32_t rcmi_fork_watch(void);
/* The same without a call, for comparison only: 0 in a child that has created nothing yet. Relaxed,
 * without a partner: a thread that has an object got it from a caller of rcmi_fork_watch. */
static inline uint32_t rcmi_fork_generation(void) {
    return atomic_load_explicit(atomic_load_explicit(&rcmi_fork_word, memory_order_relaxed),
                                memory_order_relaxed);
}
/* Did this process create the object with that number? False also in a child that shares its
 * memory. One system call. */
bool rcmi_fork_is_maker(uint32_t generation);

#endif
