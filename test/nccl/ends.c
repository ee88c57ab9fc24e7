/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of a communicator from two threads at once, while an operation of it is unfinished, and
 * ncclCommAbort at the moment that another thread has made it: no call hangs, and no memory is used
 * after its end (in a build with a sanitizer). One registration, which two threads end.
 *
 *     ends [ROUNDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"
#include "processor_delay.h"

enum { RANKS = 2, LIMIT_MS = 10000 };

static int rounds = 4;

static ncclResult_t revoke_now(ncclComm_t comm) {
    return ncclCommRevoke(comm, 0);
}

static ncclResult_t poll_errors(ncclComm_t comm) {
    ncclResult_t state = ncclSuccess, result = ncclSuccess;
    for (int i = 0; i < 200 && result == ncclSuccess; i++) {
        result = ncclCommGetAsyncError(comm, &state);
        (void)ncclGetLastError(comm);
    }
    return result;
}

static const struct pair {
    const char *name;
    ncclResult_t (*calls[2])(ncclComm_t comm);
    bool ends; /* the handle is not the program's afterwards */
} pairs[] = {
    {"Finalize, Abort", {ncclCommFinalize, ncclCommAbort}, true},
    {"Revoke, Abort", {revoke_now, ncclCommAbort}, true},
    {"Revoke, Destroy", {revoke_now, ncclCommDestroy}, true},
    {"Revoke, Finalize", {revoke_now, ncclCommFinalize}, false},
    {"Destroy, Abort", {ncclCommDestroy, ncclCommAbort}, true},
    {"Destroy, Destroy", {ncclCommDestroy, ncclCommDestroy}, true},
    {"Abort, Abort", {ncclCommAbort, ncclCommAbort}, true},
    {"GetAsyncError, Abort", {poll_errors, ncclCommAbort}, true},
    {"GetAsyncError, Destroy", {poll_errors, ncclCommDestroy}, true},
};

struct call {
    ncclResult_t (*make)(ncclComm_t comm);
    ncclComm_t comm;
    int after_us;
    ncclResult_t result;
};

static void *call_main(void *arg) {
    struct call *call = arg;
    usleep((useconds_t)call->after_us);
    call->result = call->make(call->comm);
    return NULL;
}

/* One of the calls may find that the other one has ended the communicator. */
static bool is_expected(ncclResult_t result) {
    return result == ncclSuccess || result == ncclInvalidArgument || result == ncclRemoteError;
}

static int calls_make(const struct pair *pair, ncclComm_t comm, int round) {
    struct call calls[2];
    pthread_t threads[2];
    int errors = 0;
    for (int i = 0; i < 2; i++) {
        calls[i] = (struct call){pair->calls[i], comm, i == round % 2 ? round * 150 : 0, 0};
        if (pthread_create(&threads[i], NULL, call_main, &calls[i]) != 0)
            abort();
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK(errors, is_expected(calls[i].result), "%s: call %d returned %d", pair->name, i,
              (int)calls[i].result);
    }
    return errors;
}

/* Rank 1 does not call all_reduce, and leaves after the calls have begun. */
static void *leave_main(void *arg) {
    usleep(20000);
    if (ncclCommAbort(*(ncclComm_t *)arg) != ncclSuccess)
        abort();
    return NULL;
}

static int round_of(const struct job *job, const struct pair *pair, int round) {
    const int devices[RANKS] = {0, 1}, zero = 0;
    const struct rank *rank = &job->ranks[0];
    ncclComm_t comms[RANKS];
    pthread_t thread;
    int errors = 0;
    NCCL_OK(errors, ncclCommInitAll(comms, RANKS, devices));
    if (errors > 0)
        return errors;
    rank_enter(rank);
    const CUdeviceptr memory = device_copy(&zero, sizeof zero);
    void *at = (void *)(uintptr_t)memory;
    NCCL_OK(errors, ncclAllReduce(at, at, 1, ncclInt32, ncclSum, comms[0], rank->streams[0]));
    const int64_t began = now_ms();
    if (pthread_create(&thread, NULL, leave_main, &comms[1]) != 0)
        abort();
    errors += calls_make(pair, comms[0], round);
    pthread_join(thread, NULL);
    CHECK(errors, now_ms() - began < LIMIT_MS, "%s: %lld ms", pair->name,
          (long long)(now_ms() - began));
    if (!pair->ends)
        NCCL_OK(errors, ncclCommDestroy(comms[0]));
    CHECK(errors, stream_ends(rank->streams[0], LIMIT_MS), "%s: the stream hangs", pair->name);
    CUDA(cuMemFree(memory));
    return errors;
}

/* ---- Registered memory ----------------------------------------------------------------------- */

enum { DEREGISTRATIONS = 300 };

struct deregistration {
    ncclComm_t comm;
    void *handle;
    pthread_barrier_t *both;
    ncclResult_t result;
};

static void *deregister_main(void *arg) {
    struct deregistration *d = arg;
    pthread_barrier_wait(d->both);
    d->result = ncclCommDeregister(d->comm, d->handle);
    return NULL;
}

/* Two threads pass one handle of memory that is registered twice: the other one stays valid. */
static int deregister_one(ncclComm_t comm, void *memory) {
    struct deregistration calls[2];
    pthread_barrier_t both;
    pthread_t threads[2];
    void *one, *other;
    int errors = 0;
    NCCL_OK(errors, ncclCommRegister(comm, memory, 1000, &one));
    NCCL_OK(errors, ncclCommRegister(comm, memory, 1000, &other));
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++) {
        calls[i] = (struct deregistration){comm, one, &both, ncclSuccess};
        if (pthread_create(&threads[i], NULL, deregister_main, &calls[i]) != 0)
            abort();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&both);
    CHECK(errors, (calls[0].result == ncclSuccess) != (calls[1].result == ncclSuccess),
          "two calls with one handle: %d and %d", (int)calls[0].result, (int)calls[1].result);
    NCCL_OK(errors, ncclCommDeregister(comm, other));
    return errors;
}

static int deregister_twice(const struct rank *rank) {
    const int device = 0;
    ncclComm_t comm;
    void *memory = NULL;
    int errors = 0;
    rank_enter(rank);
    NCCL_OK(errors, ncclCommInitAll(&comm, 1, &device));
    NCCL_OK(errors, ncclMemAlloc(&memory, 1000));
    for (int i = 0; i < DEREGISTRATIONS && errors == 0; i++)
        errors += deregister_one(comm, memory);
    NCCL_OK(errors, ncclMemFree(memory));
    NCCL_OK(errors, ncclCommDestroy(comm));
    return errors;
}

/* ---- At the moment that it exists ------------------------------------------------------------ */

/* Rank 1 never comes, or does not divide the communicator. */
static ncclResult_t init_one(ncclComm_t parent, ncclComm_t *comm) {
    ncclUniqueId id;
    (void)parent;
    if (ncclGetUniqueId(&id) != ncclSuccess)
        abort();
    return ncclCommInitRank(comm, RANKS, id, 0);
}

static ncclResult_t init_grouped(ncclComm_t parent, ncclComm_t *comm) {
    (void)ncclGroupStart();
    (void)init_one(parent, comm);
    return ncclGroupEnd();
}

static ncclResult_t split_one(ncclComm_t parent, ncclComm_t *comm) {
    return ncclCommSplit(parent, 0, 0, comm, NULL);
}

static const struct making {
    const char *name;
    ncclResult_t (*make)(ncclComm_t parent, ncclComm_t *comm);
    bool divides;
} makings[] = {
    {"InitRank", init_one, false}, {"a group", init_grouped, false}, {"Split", split_one, true}};
enum { MAKINGS = sizeof makings / sizeof makings[0] };

static void *abort_at_once(void *arg) {
    ncclComm_t volatile *comm = arg;
    while (!*comm)
        ;
    if (ncclCommAbort(*comm) != ncclSuccess)
        abort();
    return NULL;
}

static int making_round(const struct making *making) {
    const int devices[RANKS] = {0, 1};
    ncclComm_t parents[RANKS] = {NULL}, comm = NULL;
    pthread_t thread;
    int errors = 0;
    if (making->divides)
        NCCL_OK(errors, ncclCommInitAll(parents, RANKS, devices));
    if (pthread_create(&thread, NULL, abort_at_once, &comm) != 0)
        abort();
    const ncclResult_t result = making->make(parents[0], &comm);
    pthread_join(thread, NULL);
    CHECK(errors, result == ncclRemoteError, "%s: %d", making->name, (int)result);
    for (int i = 0; i < RANKS; i++)
        NCCL_OK(errors, ncclCommAbort(parents[i]));
    return errors;
}

static int all(struct job *job) {
    const int threads = library_threads();
    int errors = deregister_twice(&job->ranks[0]);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (int round = 0; round < rounds && errors == 0; round++)
            errors += round_of(job, &pairs[i], round);
    for (int i = 0; i < 3 * rounds && errors == 0; i++)
        errors += making_round(&makings[i % MAKINGS]);
    /* Ends of communicators: a process waits for them for 15 s at exit. */
    CHECK(errors, library_threads_await(threads), "%d threads are left, %d before",
          library_threads(), threads);
    return errors;
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atoi(argv[1]) : rounds;
    return job_run_bare(RANKS, true, all) > 0;
}
