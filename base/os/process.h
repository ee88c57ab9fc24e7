/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process on which machine, in facts that another process of that machine can check: a
 * number alone comes back for another process after a while, so the time of the start is told too,
 * and the kernel and the namespace in which the number means something.
 */
#ifndef RCMI_PROCESS_H
#define RCMI_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RCMI_PROCESS_NAME 64

struct rcmi_process {
    int pid, parent;
    uint64_t start;   /* clock ticks since the machine started; 0: not known */
    uint64_t pid_ns;  /* of process numbers; 0: not known */
    uint64_t time_ns; /* of clocks, which start counts by (time_namespaces(7)); 0: not known */
    char boot[40];    /* the kernel's boot id; "-": not known */
    char host[RCMI_PROCESS_NAME + 1];
};

/* The time namespace of this process: CLOCK_MONOTONIC and CLOCK_BOOTTIME of two processes are one
 * clock if it is the same. 0: not known, or the kernel has none. */
uint64_t rcmi_process_time_ns(void);

/* This process. Nothing here fails: what cannot be found out is not known. */
void rcmi_process_self(struct rcmi_process *ret_process);

/* Microseconds since the machine started: now, and when the process can have begun at the
 * latest. */
uint64_t rcmi_process_clock(void);
uint64_t rcmi_process_begun(const struct rcmi_process *process);

enum rcmi_process_state {
    RCMI_PROCESS_SELF,
    RCMI_PROCESS_RUNS,
    RCMI_PROCESS_STOPPED, /* by a signal or a debugger */
    RCMI_PROCESS_ENDED,
    RCMI_PROCESS_ELSEWHERE, /* cannot be seen from here */
};
enum rcmi_process_state rcmi_process_look(const struct rcmi_process *process);

/* Whether no thread of it is in a system call, or will be before somebody continues it: all have
 * stopped or ended. */
bool rcmi_process_rests(int pid);

/* Can this process read the memory of others of its user (process_vm_readv), as far as it can tell
 * without one? reason: a sentence in any case. */
bool rcmi_process_reads_others(char *reason, size_t cap);

#endif
