/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of the job of job.h in which one rank, the victim, has a problem: calls fail, or a system
 * limit is low. Several runs are active at once; each is judged when all its ranks have ended or
 * its time is over. Every rank must fulfil, whatever the problem:
 *
 *   it ends by itself, in time, without a signal or a sanitizer report;
 *   every call succeeded with correct data, or the first failed one returned a status and a text,
 *   and the communicator kept that error;
 *   no descriptor, thread, mapping or block of memory is left, and no file but the store's.
 */
#ifndef TEST_RESOURCE_VICTIM_RUN_H
#define TEST_RESOURCE_VICTIM_RUN_H

#include <stdbool.h>
#include <sys/types.h>
#include "fail_nth_call.h"

enum { RANKS_MAX = 8, JOBS_MAX = 16 };

struct setup {
    const char *transport, *store; /* "shm" or "tcp", "file" or "tcp" */
    const char *url;               /* NULL: a new one for each run */
    int ranks, jobs;               /* jobs: runs at once */
    bool secret;
    bool print_ranks; /* print each rank's result */
    int hang_s;
};
extern struct setup setup;

struct trouble {
    int victim;
    struct failing_plan plan; /* function -1: none */
    /* RLIMIT_NOFILE: descriptors above those that are open; RLIMIT_AS: KiB above what is mapped;
     * others: the value itself. */
    const char *limit; /* "nofile", "as", "memlock", "fsize"; NULL: none */
    long room;
};

struct totals {
    long runs, struck, findings; /* struck: a call failed on purpose, or the victim's job failed */
};

/* Call it before the first run. */
void attempts_init(void);
/* Starts a run when fewer than setup.jobs are active. */
void attempt_start(const struct trouble *trouble);
/* Waits for all active runs. */
void attempts_wait(void);
struct totals attempts_total(void);
/* Makes a run without a problem; returns how often each rank called each function. */
void attempts_count(long calls[RANKS_MAX][FAILING_FUNCTIONS]);

#endif
