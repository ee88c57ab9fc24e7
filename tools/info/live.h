/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks of running jobs on this machine are doing (ringcomm-info --live), from their
 * status pages. Each rank keeps its page in a memory file that stays open, so it is read through
 * /proc/PID/fd: without asking the process, which may be stopped, spin or sleep, and without its
 * noticing. Nothing in a page is trusted.
 *
 *   live_find.c  finds and reads the pages
 *   live.c       the rows, and the conclusion per communicator
 */
#ifndef RINGCOMM_TOOLS_LIVE_H
#define RINGCOMM_TOOLS_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "status_page.h"

/* A rank of a communicator. */
struct live_rank {
    int pid;      /* as /proc has it; the page may say another, of a container */
    bool stopped; /* by a signal or a debugger */
    char program[32];
    dev_t dev; /* of the memory file */
    ino_t ino;
    bool own; /* the process says that it is the page's, and does not just hold it open */
    struct rcmi_page_owner owner;
    struct rcmi_page_label label; /* of one of its communicators */
    struct rcmi_activity activity;
    struct rcmi_page_traffic traffic;
};

/* All ranks of processes that may be looked into, sorted by job, communicator and rank; the caller
 * frees. *ret_readable: whether process pid is one that may. Complains and returns false on
 * failure. */
bool live_find(int pid, struct live_rank **ret_ranks, size_t *ret_n, bool *ret_readable);

/* Prints them; pid 0: of all jobs, else of those that it is of. Returns an exit status. */
int live_print(int pid, const char *csv, const char *json);

#endif
