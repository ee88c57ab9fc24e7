/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process made an object: a number that differs in every child, also in one that no atfork
 * handler sees (raw clone, _Fork) or that has its parent's pid in a PID namespace of its own.
 * Children that share the parent's memory (vfork, CLONE_VM) have the parent's number; they differ
 * in their pid only.
 */
#ifndef RCMI_FORK_H
#define RCMI_FORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The word of this process: in memory that the kernel zeroes in a child (MADV_WIPEONFORK), or,
 * where it refuses that, in memory that an atfork handler zeroes. */
extern _Atomic uint32_t *_Atomic rcmi_fork_word;

/* The number of this process, never 0: what makes an object keeps it there. */
uint32_t rcmi_fork_watch(void);
/* The same without a call, for comparison only: 0 in a child that has made nothing yet. Relaxed,
 * without a partner: who has an object to compare has it from who called rcmi_fork_watch. */
static inline uint32_t rcmi_fork_generation(void) {
    return atomic_load_explicit(atomic_load_explicit(&rcmi_fork_word, memory_order_relaxed),
                                memory_order_relaxed);
}
/* Whether this process made what keeps that number; false also in a child that shares its memory.
 * One system call. */
bool rcmi_fork_is_maker(uint32_t generation);

#endif
