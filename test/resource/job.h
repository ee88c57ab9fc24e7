/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small job whose ranks run in processes of their own and come back in every case: all the
 * library's calls once, and a look at what they left behind. No judgement: that is the driver's.
 */
#ifndef TEST_RESOURCE_JOB_H
#define TEST_RESOURCE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include "fail_nth_call.h"

struct job {
    int nranks;
    const char *transport; /* "shm", "tcp" */
    const char *url;       /* of the store, the same for all ranks */
    const char *secret;    /* NULL: none */
    int timeout_ms;        /* of every wait */
    /* Around the calls; the look at what the process has is before and after that. */
    void (*begin)(const void *arg, int rank);
    void (*end)(void);
    const void *arg;
};

/* In memory that the driver shares with the rank. */
struct report {
    /* Where it is, in words; the driver reads it when a rank hangs. Relaxed: for people. */
    _Atomic(const char *) stage;
    bool done;          /* everything below is filled in */
    int status;         /* rcm_status of the first call that failed */
    const char *failed; /* which one */
    char text[512];     /* its sentence */
    bool forgotten;     /* the communicator did not keep that error */
    int wrong;          /* elements with wrong values */
    long hits;
    long calls[FAILING_FUNCTIONS];
    int fds, threads, maps; /* more than before */
    long blocks;            /* of memory, not freed */
    char left[512];         /* the descriptors' names */
};

/* Runs rank `rank` of the job in this process, with the plan. */
void job_run(const struct job *job, int rank, const struct failing_plan *plan,
             struct report *report);

#endif
