/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identification of a process on a machine, by facts that other processes of that machine can
 * check. A pid is reused after a while. The start time, the boot id and the namespace of the pid
 * are therefore stored too.
 */
#ifndef RCMI_PROCESS_H
#define RCMI_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RCMI_PROCESS_NAME 64

struct rcmi_process {
    int pid, parent;
    uint64_t start;   /* clock ticks since the machine started; 0: unknown */
    uint64_t pid_ns;  /* PID namespace; 0: unknown */
    uint64_t time_ns; /* time namespace of start (time_namespaces(7)); 0: unknown */
    char boot[40];    /* the kernel's boot id; "-": unknown */
    char host[RCMI_PROCESS_NAME + 1];
};

/* The time namespace of this process: if it is equal, CLOCK_MONOTONIC and CLOCK_BOOTTIME of two
 * processes are the same clocks. 0: unknown, or the kernel has none. */
uint64_t rcmi_process_time_ns(void);

/* This process. Cannot fail: values that cannot be read are unknown. */
void rcmi_process_self(struct rcmi_process *ret_process);

/* Microseconds since the machine started: now, and the latest possible start of the process. */
uint64_t rcmi_process_clock(void);
uint64_t rcmi_process_begun(const struct rcmi_process *process);

enum rcmi_process_state {
    RCMI_PROCESS_SELF,
    RCMI_PROCESS_RUNS,
    RCMI_PROCESS_STOPPED, /* by a signal or a debugger */
    RCMI_PROCESS_ENDED,
    RCMI_PROCESS_ELSEWHERE, /* not visible from here */
};
enum rcmi_process_state rcmi_process_look(const struct rcmi_process *process);

/* Have all its threads stopped or ended, so that none is in a system call until somebody continues
 * it? */
bool rcmi_process_rests(int pid);

/* Can this process read the memory of its user's other processes (process_vm_readv), as far as it
 * can check alone? reason: always a text. */
bool rcmi_process_reads_others(char *reason, size_t cap);

#endif
