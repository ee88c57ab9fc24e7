/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shows what the ranks of running jobs on this machine are doing (ringcomm-info --live), from their
 * status pages. Each rank's page is in a memory file that stays open, so it is read through
 * /proc/PID/fd. This needs no cooperation of the process, which may be stopped, spinning or asleep.
 * Nothing in a page is trusted.
 *
 *   live_find.c  finds and reads the pages
 *   live.c       prints the rows, and a conclusion per communicator
 *   live_near.c  summarizes which ranks are near each other
 */
#ifndef RINGCOMM_TOOLS_LIVE_H
#define RINGCOMM_TOOLS_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "status_page.h"

#define LIVE_RANKS_MAX 100000 /* of a job; a page with more is invalid */

/* A rank of a communicator. */
struct live_rank {
    int pid;      /* as in /proc; the page may have another, of a container */
    bool stopped; /* by a signal or a debugger */
    char program[32];
    dev_t dev; /* of the memory file */
    ino_t ino;
    bool own; /* the page has this process's pid; else the process only holds the file open */
    struct rcmi_page_owner owner;
    struct rcmi_page_label label; /* of one of its communicators */
    struct rcmi_activity activity;
    struct rcmi_page_traffic traffic;
};

/* All ranks of processes that this user may inspect, sorted by job, communicator and rank; the
 * caller frees. *ret_readable: whether process pid may be inspected. Prints an error and returns
 * false on failure. */
bool live_find(int pid, struct live_rank **ret_ranks, size_t *ret_n, bool *ret_readable);

/* Writes which of the ranks [first, end) of a world are near each other, and why; cut to fit. */
void live_near(const struct live_rank *first, const struct live_rank *end, char *text, size_t cap);

/* Prints the ranks of the jobs of process pid; pid 0: of all jobs. Returns an exit status. */
int live_print(int pid, const char *csv, const char *json);

#endif
