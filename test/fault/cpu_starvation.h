/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures whether the machine let a test's processes run. A time limit tests the library only if
 * its threads got a processor when they were ready. The kernel counts how long they waited for one,
 * and for how long the host of a virtual machine took its processors away. Tests with such limits
 * check this before they fail, print it, and repeat the measurement.
 *
 * Queueing does not excuse a library that keeps the processors busy itself.
 */
#ifndef TEST_FAULT_CPU_STARVATION_H
#define TEST_FAULT_CPU_STARVATION_H

#include <stdint.h>
#include <sys/types.h>

struct strain {
    int64_t at_ns;     /* time of this reading */
    int64_t ran_ns;    /* on a processor, all threads together */
    int64_t queued_ns; /* ready without a processor, all threads together */
    int64_t stolen_ns; /* taken from the machine's processors by its host */
};

/* Adds the counters of a process's threads (0: the caller's); adds nothing where the kernel does
 * not report them, or the process is gone. */
void strain_add(struct strain *strain, pid_t pid);

/* The same for the calling thread only. */
void strain_add_thread(struct strain *strain);

/* Time that a virtual machine's host has taken from all processors so far; 0 if it is not
 * reported. */
int64_t strain_stolen_ns(void);

/* Adds one process's reading to the sum of several; the time is that of the last one. */
void strain_sum(struct strain *sum, const struct strain *one);

/* How long threads queued, and processors were taken away, between two readings of the same
 * processes. */
int64_t strain_excuse(const struct strain *before, const struct strain *after);

#endif
