/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of the job of job.h in which one rank, the victim, is in trouble: calls fail, or a limit of
 * the system is low. Several runs go on at once; each is judged when all its ranks have ended, or
 * have not in time. What must hold of every rank, whatever the trouble:
 *
 *   it ends by itself, in time, by no signal, and no sanitizer has anything to say;
 *   every call succeeded with right data, or the first that did not gave a status and a sentence,
 *   and the communicator kept it;
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
    bool tell; /* print what each rank got */
    int hang_s;
};
extern struct setup setup;

struct trouble {
    int victim;
    struct failing_plan plan; /* function -1: none */
    /* RLIMIT_NOFILE: so many descriptors more than are open; RLIMIT_AS: so many KiB more than are
     * mapped; others: the value itself. */
    const char *limit; /* "nofile", "as", "memlock", "fsize"; NULL: none */
    long room;
};

struct totals {
    long runs, struck, findings; /* struck: a call failed on purpose, or the victim's job failed */
};

/* Before the first run. */
void attempts_init(void);
/* Begins a run, waiting for room among those under way. */
void attempt_start(const struct trouble *trouble);
/* Waits for all that are under way. */
void attempts_wait(void);
struct totals attempts_total(void);
/* A run without trouble; how often each rank called each function. */
void attempts_count(long calls[RANKS_MAX][FAILING_FUNCTIONS]);

#endif
