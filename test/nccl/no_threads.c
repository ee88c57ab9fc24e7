/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ncclCommShrink with NCCL_SHRINK_ABORT, if no thread can be started: it has ended the parent's
 * operations, so its streams continue, and the parent has no error.
 *
 *     no-threads
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"

enum { RANKS = 2, LIMIT_MS = 10000 };

static atomic_bool refuses;

/* The libraries find this one first. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *arg),
                   void *arg) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *function = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &function, sizeof real);
    return atomic_load(&refuses) ? EAGAIN : real(thread, attributes, run, arg);
}

static int shrink_refused(ncclComm_t comm) {
    ncclComm_t rest = comm;
    ncclResult_t state;
    int errors = 0, excluded = 1;
    atomic_store(&refuses, true);
    const ncclResult_t result = ncclCommShrink(comm, &excluded, 1, &rest, NULL, NCCL_ABORTING);
    atomic_store(&refuses, false);
    CHECK(errors, result == ncclSystemError && strstr(ncclGetLastError(NULL), "thread"), "%s",
          nccl_text(result));
    CHECK(errors, !rest, "a failed call returned a communicator");
    NCCL_OK(errors, ncclCommGetAsyncError(comm, &state));
    CHECK(errors, state == ncclSuccess, "the parent has error %d: %s", (int)state,
          ncclGetLastError(comm));
    return errors;
}

/* Rank 1 does not call all_reduce. */
static int shrunk(struct job *job) {
    const int devices[RANKS] = {0, 1}, zero = 0;
    const struct rank *rank = &job->ranks[0];
    ncclComm_t comms[RANKS];
    int errors = 0;
    NCCL_OK(errors, ncclCommInitAll(comms, RANKS, devices));
    rank_enter(rank);
    const CUdeviceptr memory = device_copy(&zero, sizeof zero);
    void *at = (void *)(uintptr_t)memory;
    NCCL_OK(errors, ncclAllReduce(at, at, 1, ncclInt32, ncclSum, comms[0], rank->streams[0]));
    errors += shrink_refused(comms[0]);
    CHECK(errors, stream_ends(rank->streams[0], LIMIT_MS), "the stream hangs");
    for (int i = 0; i < RANKS; i++)
        NCCL_OK(errors, ncclCommAbort(comms[i]));
    CHECK(errors, stream_ends(rank->streams[0], LIMIT_MS), "the stream hangs after Abort");
    CUDA(cuMemFree(memory));
    return errors;
}

int main(void) {
    return job_run_bare(RANKS, true, shrunk) > 0;
}
