/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the machine let a test's processes run. A bound on time says something of the library
 * only if its threads had a processor when they wanted one; the kernel counts how long they had
 * none, and for how long a virtual machine's own host kept its processors. Tests of such bounds
 * look here before they fault the library, say so, and try again.
 *
 * Queueing is no excuse for a library that keeps the processors busy itself.
 */
#ifndef TEST_FAULT_CPU_STARVATION_H
#define TEST_FAULT_CPU_STARVATION_H

#include <stdint.h>
#include <sys/types.h>

struct strain {
    int64_t at_ns;     /* when this was read */
    int64_t ran_ns;    /* on a processor, all threads together */
    int64_t queued_ns; /* ready, but without a processor, all threads together */
    int64_t stolen_ns; /* from all processors of the machine, by what runs it */
};

/* Adds what the threads of a process (0: the caller's) have met so far; nothing where the kernel
 * does not tell, or the process is gone. */
void strain_add(struct strain *strain, pid_t pid);

/* The same of the calling thread alone. */
void strain_add_thread(struct strain *strain);

/* What a virtual machine's own host has kept of all processors so far; 0 if that is not told. */
int64_t strain_stolen_ns(void);

/* Adds one process's reading to that of several; the time is the last one's. */
void strain_sum(struct strain *sum, const struct strain *one);

/* How long threads had to queue, and processors were away, between two readings of the same
 * processes. */
int64_t strain_excuse(const struct strain *before, const struct strain *after);

#endif
