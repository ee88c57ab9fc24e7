/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small job whose ranks run in processes of their own and always return: makes all calls of the
 * library once, and counts what they left behind. The driver judges the result.
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
    /* Called around the library's calls; what the process owns is counted outside of them. */
    void (*begin)(const void *arg, int rank);
    void (*end)(void);
    const void *arg;
};

/* In memory shared with the driver. */
struct report {
    /* The current stage as text; the driver prints it when a rank hangs. Relaxed: only printed. */
    _Atomic(const char *) stage;
    bool done;          /* everything below is filled in */
    int status;         /* rcm_status of the first call that failed */
    const char *failed; /* which one */
    char text[512];     /* its error text */
    bool forgotten;     /* the communicator did not keep that error */
    int wrong;          /* elements with wrong values */
    long hits;
    long calls[FAILING_FUNCTIONS];
    int fds, threads, maps; /* differences to the numbers before */
    long blocks;            /* of memory, not freed */
    char left[512];         /* names of the descriptors left open */
};

/* Runs rank `rank` of the job in this process, with the plan. */
void job_run(const struct job *job, int rank, const struct failing_plan *plan,
             struct report *report);

#endif
