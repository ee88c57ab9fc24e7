/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forks, counted on the child's side: an object of the parent process is told by the count that it
 * keeps, cheaper than by getpid() in every call. Not here: rcm_spawn, which forks (spawn.c).
 */
#ifndef RCMI_FORK_H
#define RCMI_FORK_H

#include <stdatomic.h>
#include <stdint.h>

/* Relaxed, without a partner: a forked process has one thread. Counts from the first
 * rcmi_fork_watch on, which every communicator calls. */
extern _Atomic uint32_t rcmi_forks;
void rcmi_fork_watch(void);
static inline uint32_t rcmi_fork_generation(void) {
    return atomic_load_explicit(&rcmi_forks, memory_order_relaxed);
}

#endif
