/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators: made, divided, shrunk, revoked, finalized, in any order of their ends; arguments,
 * configurations, memory; functions that are not built.
 *
 *     communicators RANKS processes|thread
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"

static void *at(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

/* ---- Use of a communicator ------------------------------------------------------------------- */

/* All local ranks with a communicator add 1 + their rank in it. */
static int sums(const struct job *job, const ncclComm_t *comms) {
    int32_t got = 0;
    CUdeviceptr memory[RANKS_MAX];
    int errors = 0;
    NCCL_OK(errors, ncclGroupStart());
    for (int r = 0; r < job->nlocal; r++) {
        int me = 0;
        if (!comms[r])
            continue;
        rank_enter(&job->ranks[r]);
        NCCL_OK(errors, ncclCommUserRank(comms[r], &me));
        me++;
        memory[r] = device_copy(&me, sizeof me);
        NCCL_OK(errors, ncclAllReduce(at(memory[r]), at(memory[r]), 1, ncclInt32, ncclSum, comms[r],
                                      job->ranks[r].streams[1]));
    }
    NCCL_OK(errors, ncclGroupEnd());
    for (int r = 0; r < job->nlocal && errors == 0; r++) {
        int n = 0;
        if (!comms[r])
            continue;
        rank_enter(&job->ranks[r]);
        NCCL_OK(errors, ncclCommCount(comms[r], &n));
        CHECK(errors, stream_ends(job->ranks[r].streams[1], 10000), "the stream hangs: %s",
              ncclGetLastError(comms[r]));
        CUDA(cuMemcpyDtoH(&got, memory[r], sizeof got));
        CHECK(errors, got == n * (n + 1) / 2, "the sum of %d ranks is %d", n, got);
        CUDA(cuMemFree(memory[r]));
    }
    return errors;
}

static int awaited(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    int errors = 0;
    for (int i = 0; i < 5000 && state == ncclInProgress; i++) {
        NCCL_OK(errors, ncclCommGetAsyncError(comm, &state));
        usleep(1000);
    }
    CHECK(errors, state == ncclSuccess, "state %d: %s", (int)state, ncclGetLastError(comm));
    return errors;
}

static void take(const struct job *job, ncclComm_t comms[RANKS_MAX]) {
    for (int r = 0; r < job->nlocal; r++)
        comms[r] = job->ranks[r].comm;
}

static int destroy_all(const struct job *job, const ncclComm_t *comms) {
    int errors = 0;
    for (int r = 0; r < job->nlocal; r++)
        if (comms[r])
            NCCL_OK(errors, ncclCommDestroy(comms[r]));
    return errors;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static int queries(struct job *job) {
    int errors = 0, value = -1;
    for (int r = 0; r < job->nlocal; r++) {
        const struct rank *rank = &job->ranks[r];
        NCCL_OK(errors, ncclCommCount(rank->comm, &value));
        CHECK(errors, value == job->n, "count %d", value);
        NCCL_OK(errors, ncclCommUserRank(rank->comm, &value));
        CHECK(errors, value == rank->rank, "rank %d", value);
        NCCL_OK(errors, ncclCommCuDevice(rank->comm, &value));
        CHECK(errors, value == rank->device, "device %d", value);
    }
    NCCL_OK(errors, ncclGetVersion(&value));
    CHECK(errors, value == 23007, "version %d", value);
    return errors;
}

/* Odd ranks in reverse order; the last even one in none. */
static int split(struct job *job) {
    ncclComm_t parts[RANKS_MAX] = {NULL};
    int errors = 0, value;
    NCCL_OK(errors, ncclGroupStart());
    for (int r = 0; r < job->nlocal; r++) {
        const int rank = job->ranks[r].rank, last = (job->n - 1) / 2 * 2;
        NCCL_OK(errors, ncclCommSplit(job->ranks[r].comm, rank == last ? -1 : rank % 2, -rank,
                                      &parts[r], NULL));
    }
    NCCL_OK(errors, ncclGroupEnd());
    for (int r = 0; r < job->nlocal; r++) {
        const int rank = job->ranks[r].rank, last = (job->n - 1) / 2 * 2;
        CHECK(errors, !parts[r] == (rank == last), "rank %d: %p", rank, (void *)parts[r]);
        if (rank % 2 && parts[r]) {
            NCCL_OK(errors, ncclCommUserRank(parts[r], &value));
            CHECK(errors, value == job->n / 2 - 1 - rank / 2, "rank %d is %d", rank, value);
        }
    }
    errors += sums(job, parts);
    return errors + destroy_all(job, parts);
}

/* Without rank 1; the parent stays usable, unless its operations are aborted. */
static int shrink(struct job *job, int flags) {
    ncclComm_t rest[RANKS_MAX] = {NULL}, comms[RANKS_MAX];
    int errors = 0, excluded = 1;
    NCCL_OK(errors, ncclGroupStart());
    for (int r = 0; r < job->nlocal; r++)
        if (job->ranks[r].rank != 1)
            NCCL_OK(errors,
                    ncclCommShrink(job->ranks[r].comm, &excluded, 1, &rest[r], NULL, flags));
    NCCL_OK(errors, ncclGroupEnd());
    errors += sums(job, rest);
    take(job, comms);
    if (flags == 0)
        errors += sums(job, comms);
    return errors + destroy_all(job, rest);
}

/* Not blocking, with a name, by a struct of an older version that ends after `blocking`. */
static int not_blocking(struct job *job) {
    ncclConfig_t config = {.size = offsetof(ncclConfig_t, cgaClusterSize),
                           .magic = NCCL_MAGIC,
                           .version = 21400,
                           .blocking = 0,
                           .commName = (const char *)1};
    ncclComm_t comms[RANKS_MAX], parts[RANKS_MAX];
    const ncclUniqueId id = job_id(job);
    int errors = 0;
    for (int r = 0; r < job->nlocal; r++) {
        rank_enter(&job->ranks[r]);
        const ncclResult_t result =
            ncclCommInitRankConfig(&comms[r], job->n, id, job->ranks[r].rank, &config);
        CHECK(errors, result == ncclInProgress || result == ncclSuccess, "%s", nccl_text(result));
    }
    for (int r = 0; r < job->nlocal && errors == 0; r++)
        errors += awaited(comms[r]);
    errors += sums(job, comms);
    for (int r = 0; r < job->nlocal && errors == 0; r++) {
        const ncclResult_t result = ncclCommSplit(comms[r], 0, 0, &parts[r], NULL);
        CHECK(errors, result == ncclInProgress || result == ncclSuccess, "%s", nccl_text(result));
    }
    for (int r = 0; r < job->nlocal && errors == 0; r++)
        errors += awaited(comms[r]) + awaited(parts[r]);
    errors += sums(job, parts) + destroy_all(job, parts);
    for (int r = 0; r < job->nlocal && errors == 0; r++) {
        const ncclResult_t result = ncclCommFinalize(comms[r]);
        CHECK(errors, result == ncclInProgress || result == ncclSuccess, "%s", nccl_text(result));
    }
    for (int r = 0; r < job->nlocal && errors == 0; r++)
        errors += awaited(comms[r]);
    return errors + destroy_all(job, comms);
}

/* Several ids, and a name that appears in errors. */
static int scalable(struct job *job) {
    ncclConfig_t config = {.size = sizeof config,
                           .magic = NCCL_MAGIC,
                           .version = NCCL_NUMBER,
                           .blocking = NCCL_UNDEFINED,
                           .commName = "the pipeline"};
    ncclUniqueId ids[2] = {job_id(job), job_id(job)};
    ncclComm_t comms[RANKS_MAX];
    int errors = 0;
    NCCL_OK(errors, ncclGroupStart());
    for (int r = 0; r < job->nlocal; r++) {
        rank_enter(&job->ranks[r]);
        NCCL_OK(errors,
                ncclCommInitRankScalable(&comms[r], job->n, job->ranks[r].rank, 2, ids, &config));
    }
    NCCL_OK(errors, ncclGroupEnd());
    errors += sums(job, comms);
    return errors + destroy_all(job, comms);
}

static int init_all(struct job *job) {
    ncclComm_t comms[RANKS_MAX];
    const int devices[RANKS_MAX] = {0, 1, 0, 1, 0};
    int errors = 0;
    if (job->nlocal == 1)
        return 0;
    NCCL_OK(errors, ncclCommInitAll(comms, job->n, devices));
    errors += sums(job, comms);
    return errors + destroy_all(job, comms);
}

static int memory(struct job *job) {
    int errors = 0;
    for (int r = 0; r < job->nlocal; r++) {
        void *memory = NULL, *handle = NULL;
        rank_enter(&job->ranks[r]);
        NCCL_OK(errors, ncclMemAlloc(&memory, 1000));
        NCCL_OK(errors, ncclCommRegister(job->ranks[r].comm, memory, 1000, &handle));
        NCCL_OK(errors, ncclCommDeregister(job->ranks[r].comm, handle));
        NCCL_OK(errors, ncclMemFree(memory));
        NCCL_OK(errors, ncclMemFree(NULL));
    }
    return errors;
}

/* Memory that was registered with a destroyed communicator may be freed, and other memory at its
 * address be registered. */
static int registered_before(struct job *job) {
    ncclComm_t parts[RANKS_MAX];
    void *memory = NULL, *again = NULL, *handle;
    int errors = 0;
    NCCL_OK(errors, ncclGroupStart());
    for (int r = 0; r < job->nlocal; r++)
        NCCL_OK(errors, ncclCommSplit(job->ranks[r].comm, 0, 0, &parts[r], NULL));
    NCCL_OK(errors, ncclGroupEnd());
    if (errors)
        return errors;
    rank_enter(&job->ranks[0]);
    NCCL_OK(errors, ncclMemAlloc(&memory, 1000));
    NCCL_OK(errors, ncclCommRegister(parts[0], memory, 1000, &handle));
    errors += destroy_all(job, parts);
    NCCL_OK(errors, ncclMemFree(memory));
    NCCL_OK(errors, ncclMemAlloc(&again, 1000));
    CHECK(errors, again == memory, "the emulator gave another address");
    NCCL_OK(errors, ncclCommRegister(job->ranks[0].comm, again, 1000, &handle));
    NCCL_OK(errors, ncclCommDeregister(job->ranks[0].comm, handle));
    NCCL_OK(errors, ncclMemFree(again));
    return errors;
}

/* ---- Wrong calls ----------------------------------------------------------------------------- */

static int rejects(ncclResult_t result, ncclResult_t want, const char *words) {
    int errors = 0;
    CHECK(errors, result == want && strstr(ncclGetLastError(NULL), words), "%s, not %d with \"%s\"",
          nccl_text(result), (int)want, words);
    return errors;
}

static int arguments(struct job *job) {
    const struct rank *rank = &job->ranks[0];
    const CUdeviceptr memory = device_copy("12345678", 8);
    const ncclDataType_t no_type = (ncclDataType_t)12;
    const ncclRedOp_t no_op = (ncclRedOp_t)99;
    const CUstream s = rank->streams[0];
    void *p = at(memory);
    ncclRedOp_t op;
    float two = 2;
    int errors = rejects(ncclAllReduce(p, p, 1, ncclInt8, ncclSum, NULL, s), ncclInvalidArgument,
                         "ncclAllReduce: comm is NULL");
    errors += rejects(ncclAllReduce(p, p, 1, no_type, ncclSum, rank->comm, s), ncclInvalidArgument,
                      "datatype is 12");
    errors += rejects(ncclAllReduce(p, p, 1, ncclInt8, no_op, rank->comm, s), ncclInvalidArgument,
                      "op is 99");
    errors += rejects(ncclBroadcast(p, p, 1, ncclInt8, job->n, rank->comm, s), ncclInvalidArgument,
                      "rank 3 does not exist");
    errors += rejects(ncclAllReduce(NULL, p, 1, ncclInt8, ncclSum, rank->comm, s),
                      ncclInvalidArgument, "sendbuff is NULL");
    errors +=
        rejects(ncclRedOpCreatePreMulSum(&op, &two, ncclInt32, ncclScalarHostImmediate, rank->comm),
                ncclInvalidUsage, "not int32");
    NCCL_OK(errors,
            ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarHostImmediate, rank->comm));
    errors += rejects(ncclAllReduce(p, p, 1, ncclFloat64, op, rank->comm, s), ncclInvalidArgument,
                      "created for float32");
    NCCL_OK(errors, ncclRedOpDestroy(op, rank->comm));
    errors += rejects(ncclRedOpDestroy(op, rank->comm), ncclInvalidArgument, "was not created");
    errors += rejects(ncclGroupEnd(), ncclInvalidUsage, "no ncclGroupStart");
    /* In a group: only the argument's error comes from the call, and the group then does nothing.
     */
    NCCL_OK(errors, ncclGroupStart());
    NCCL_OK(errors, ncclSend(p, 1, ncclInt8, 0, rank->comm, s));
    errors += rejects(ncclSend(p, 1, no_type, 0, rank->comm, s), ncclInvalidArgument, "datatype");
    errors += rejects(ncclGroupEnd(), ncclInvalidArgument, "datatype is 12");
    CUDA(cuMemFree(memory));
    return errors;
}

/* The parent of a rejected shrink stays usable, and has no error. */
static int shrink_rejected(struct job *job) {
    ncclComm_t rest, comms[RANKS_MAX];
    ncclResult_t state;
    int errors = 0;
    for (int r = 0; r < job->nlocal; r++) {
        const ncclComm_t comm = job->ranks[r].comm;
        int other = (job->ranks[r].rank + 1) % job->n, twice[2] = {other, other};
        rest = comm;
        errors += rejects(ncclCommShrink(comm, twice, 2, &rest, NULL, NCCL_ABORTING),
                          ncclInvalidArgument, "twice");
        CHECK(errors, !rest, "a rejected call returned a communicator");
        NCCL_OK(errors, ncclCommGetAsyncError(comm, &state));
        CHECK(errors, state == ncclSuccess, "the parent has error %d", (int)state);
    }
    take(job, comms);
    return errors + sums(job, comms);
}

/* More ranks than devices: the ranks that exist are not awaited. */
static int init_all_rejected(struct job *job) {
    ncclComm_t comms[RANKS_MAX] = {job->ranks[0].comm};
    const int64_t began = now_ms();
    int errors =
        rejects(ncclCommInitAll(comms, RANKS_MAX, NULL), ncclInvalidArgument, "is not one");
    CHECK(errors, now_ms() - began < 10000, "after %lld ms", (long long)(now_ms() - began));
    for (int r = 0; r < RANKS_MAX; r++)
        CHECK(errors, !comms[r], "a communicator was made");
    return errors;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes, void **window,
                                    int flags);
ncclResult_t ncclGroupSimulateEnd(void *info);

static int missing(struct job *job) {
    ncclConfig_t config = {.size = 3};
    ncclComm_t comm = NULL;
    void *window = NULL;
    int errors = rejects(ncclCommWindowRegister(job->ranks[0].comm, NULL, 0, &window, 0),
                         ncclInvalidUsage, "ncclCommWindowRegister");
    NCCL_OK(errors, ncclGroupStart());
    errors += rejects(ncclGroupSimulateEnd(NULL), ncclInvalidUsage, "ncclGroupSimulateEnd");
    errors += rejects(ncclGroupEnd(), ncclInvalidUsage, "no ncclGroupStart");
    errors += rejects(ncclCommInitRankConfig(&comm, 1, job_id(job), 0, &config),
                      ncclInvalidArgument, "not initialised");
    return errors;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* Ranks destroy two communicators in different orders. */
static int other_order(struct job *job) {
    ncclComm_t a[RANKS_MAX], b[RANKS_MAX];
    int errors = 0;
    for (int c = 0; c < 2; c++) {
        NCCL_OK(errors, ncclGroupStart());
        for (int r = 0; r < job->nlocal; r++)
            NCCL_OK(errors, ncclCommSplit(job->ranks[r].comm, 0, 0, c ? &b[r] : &a[r], NULL));
        NCCL_OK(errors, ncclGroupEnd());
    }
    for (int r = 0; r < job->nlocal; r++) {
        const bool odd = job->ranks[r].rank % 2;
        NCCL_OK(errors, ncclCommDestroy(odd ? b[r] : a[r]));
        NCCL_OK(errors, ncclCommDestroy(odd ? a[r] : b[r]));
    }
    return errors;
}

/* A revoked communicator has no error, and can be shrunk. The others have one. */
static int revoked(struct job *job) {
    ncclComm_t rest[RANKS_MAX];
    ncclResult_t state;
    int errors = 0;
    job_barrier(job);
    for (int r = 0; r < job->nlocal; r++) {
        NCCL_OK(errors, ncclCommRevoke(job->ranks[r].comm, 0));
        NCCL_OK(errors, ncclCommGetAsyncError(job->ranks[r].comm, &state));
        CHECK(errors, state == ncclSuccess, "a revoked communicator: %d", (int)state);
    }
    job_barrier(job);
    NCCL_OK(errors, ncclGroupStart());
    for (int r = 0; r < job->nlocal; r++)
        NCCL_OK(errors, ncclCommShrink(job->ranks[r].comm, NULL, 0, &rest[r], NULL, 0));
    NCCL_OK(errors, ncclGroupEnd());
    errors += sums(job, rest);
    return errors + destroy_all(job, rest);
}

static int all(struct job *job) {
    ncclComm_t comms[RANKS_MAX];
    take(job, comms);
    int errors = sums(job, comms) + queries(job) + split(job) + shrink(job, 0);
    errors += not_blocking(job) + scalable(job) + init_all(job) + memory(job);
    errors += other_order(job);
    /* With all ranks in one process the emulator allocates elsewhere. */
    errors += job->nlocal == 1 ? registered_before(job) : 0;
    errors += job->n == 3 ? arguments(job) + missing(job) : 0;
    errors += shrink_rejected(job) + init_all_rejected(job);
    /* The earlier operations have ended on all ranks: else what follows aborts them. */
    job_barrier(job);
    errors += job->n == 3 ? revoked(job) : shrink(job, NCCL_ABORTING);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    return job_run(atoi(argv[1]), strcmp(argv[2], "thread") == 0, all) > 0;
}
