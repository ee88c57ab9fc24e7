/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that differ, ranks that die, and ncclCommAbort from another thread.
 *
 *     failures CASE [NUMBER]
 *
 * Cases:
 *     mismatch  ranks differ in operation, count, type, operator, root, message: an error names
 * both kill      NUMBER times (10) a rank is killed: the others name it within 1 s abort     while
 * init, split, a group of inits, or a stream waits: all ranks are back in 1 s
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "job.h"
#include "processor_delay.h"

enum { COUNT = 100, LIMIT_MS = 1000 };

static void *at(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

/* Shared by the processes of a case. */
static struct shared {
    _Atomic int64_t since; /* the moment that a failure began */
    bool idle;             /* the survivors have nothing in flight */
} * shared;

/* ---- Errors of a communicator ---------------------------------------------------------------- */

/* Polls like a watchdog, on another thread than the one that called. */
struct poll {
    ncclComm_t comm;
    ncclResult_t result;
    int64_t ms, limit; /* the moment of the error; the limit that holds for it */
    struct delays before;
    char text[700];
};

static void *poll_main(void *arg) {
    struct poll *poll = arg;
    const int64_t began = now_ms();
    while (poll->result == ncclSuccess && now_ms() - began < 60000) {
        if (ncclCommGetAsyncError(poll->comm, &poll->result) != ncclSuccess)
            abort();
        usleep(2000);
    }
    poll->ms = now_ms();
    poll->limit = limit_ms(LIMIT_MS, &poll->before);
    snprintf(poll->text, sizeof poll->text, "%s", ncclGetLastError(NULL));
    return NULL;
}

/* before: the delays when the time began. */
static int await_error(const struct rank *rank, const struct delays *before, struct poll *poll) {
    pthread_t thread;
    int errors = 0;
    *poll = (struct poll){.comm = rank->comm, .before = *before};
    if (pthread_create(&thread, NULL, poll_main, poll) != 0)
        abort();
    pthread_join(thread, NULL);
    CHECK(errors, poll->result != ncclSuccess, "rank %d: no error", rank->rank);
    CHECK(errors, strcmp(poll->text, ncclGetLastError(rank->comm)) == 0,
          "the texts differ: \"%s\" and \"%s\"", poll->text, ncclGetLastError(rank->comm));
    return errors;
}

/* The stream does not continue with a wrong result before the communicator is aborted. */
static int abort_releases(struct rank *rank) {
    int errors = 0;
    CHECK(errors, !stream_ends(rank->streams[0], 30), "rank %d: the stream went on", rank->rank);
    NCCL_OK(errors, ncclCommAbort(rank->comm));
    rank->comm = NULL;
    CHECK(errors, stream_ends(rank->streams[0], LIMIT_MS), "rank %d: the stream hangs", rank->rank);
    return errors;
}

/* ---- Mismatch -------------------------------------------------------------------------------- */

struct difference {
    const char *name;
    const char *words[2];
};
static const struct difference differences[] = {
    {"operation", {"all_reduce", "broadcast"}},
    {"count", {"100 float32", "99 float32"}},
    {"type", {"float32", "int32"}},
    {"operator", {"sum", "max"}},
    {"root", {"from rank 0", "from rank 1"}},
    {"message", {"200 bytes", "400"}},
    {"long message", {"400 bytes", "200"}},
};
enum { DIFFERENCES = sizeof differences / sizeof differences[0] };

static ncclResult_t differ(const struct rank *rank, int which, void *memory) {
    const bool odd = rank->rank == 1;
    const CUstream stream = rank->streams[0];
    switch (which) {
    case 0:
        return odd ? ncclBroadcast(memory, memory, COUNT, ncclFloat32, 0, rank->comm, stream)
                   : ncclAllReduce(memory, memory, COUNT, ncclFloat32, ncclSum, rank->comm, stream);
    case 1:
        return ncclAllReduce(memory, memory, COUNT - odd, ncclFloat32, ncclSum, rank->comm, stream);
    case 2:
        return ncclAllReduce(memory, memory, COUNT, odd ? ncclInt32 : ncclFloat32, ncclSum,
                             rank->comm, stream);
    case 3:
        return ncclAllReduce(memory, memory, COUNT, ncclFloat32, odd ? ncclMax : ncclSum,
                             rank->comm, stream);
    case 4:
        return ncclBroadcast(memory, memory, COUNT, ncclFloat32, odd, rank->comm, stream);
    default:
        if (odd)
            return ncclSend(memory, which == 5 ? COUNT / 2 : COUNT, ncclFloat32, 0, rank->comm,
                            stream);
        return ncclRecv(memory, which == 5 ? COUNT : COUNT / 2, ncclFloat32, 1, rank->comm, stream);
    }
}

/* A call after the error returns it too; in a group, its end does. */
static int mismatch_group(const struct rank *rank, ncclResult_t want, void *memory) {
    int errors = 0;
    NCCL_OK(errors, ncclGroupStart());
    NCCL_OK(errors,
            ncclAllReduce(memory, memory, 1, ncclInt8, ncclSum, rank->comm, rank->streams[1]));
    const ncclResult_t result = ncclGroupEnd();
    CHECK(errors, result == want, "a group: %d, not %d", (int)result, (int)want);
    return errors;
}

static int mismatch_check(struct rank *rank, int which, void *memory, int64_t began,
                          const struct delays *before) {
    const struct difference *d = &differences[which];
    struct poll poll;
    int errors = await_error(rank, before, &poll);
    CHECK(errors, poll.ms - began < poll.limit, "%s: after %lld ms, limit %lld", d->name,
          (long long)(poll.ms - began), (long long)poll.limit);
    CHECK(errors, poll.result == ncclInvalidUsage || which >= 5, "%s: %d", d->name,
          (int)poll.result);
    CHECK(errors, strstr(poll.text, d->words[0]) && strstr(poll.text, d->words[1]),
          "%s: \"%s\" and \"%s\" are not both in \"%s\"", d->name, d->words[0], d->words[1],
          poll.text);
    CHECK(errors,
          ncclAllReduce(memory, memory, 1, ncclInt8, ncclSum, rank->comm, rank->streams[1]) ==
              poll.result,
          "%s: the next call has another error", d->name);
    return errors + mismatch_group(rank, poll.result, memory);
}

static int mismatch(struct job *job) {
    struct rank *rank = &job->ranks[0];
    const float zeros[COUNT] = {0};
    const CUdeviceptr memory = device_copy(zeros, sizeof zeros);
    struct delays before;
    int errors = 0;
    for (int which = 0; which < DIFFERENCES && errors == 0; which++) {
        NCCL_OK(errors, ncclCommInitRank(&rank->comm, job->n, job_id(job), rank->rank));
        delays_now(&before);
        job_barrier(job);
        const int64_t began = now_ms();
        const ncclResult_t result = differ(rank, which, at(memory));
        CHECK(errors, result == ncclSuccess || result == ncclInvalidUsage, "%s: %s",
              differences[which].name, nccl_text(result));
        if (rank->rank < 2 || which < 5)
            errors += mismatch_check(rank, which, at(memory), began, &before);
        job_barrier(job);
        NCCL_OK(errors, ncclCommAbort(rank->comm));
        CHECK(errors, stream_ends(rank->streams[0], LIMIT_MS), "the stream hangs");
    }
    CUDA(cuMemFree(memory));
    return errors;
}

/* ---- Kills ----------------------------------------------------------------------------------- */

/* Rank 1 is killed, while the others are in an all_reduce or have nothing in flight. */
static int kill_one(struct job *job) {
    struct rank *rank = &job->ranks[0];
    const float zeros[COUNT] = {0};
    const CUdeviceptr memory = device_copy(zeros, sizeof zeros);
    const bool idle = shared->idle;
    struct delays before;
    struct poll poll;
    int errors = 0;
    NCCL_OK(errors, ncclAllReduce(at(memory), at(memory), COUNT, ncclFloat32, ncclSum, rank->comm,
                                  rank->streams[0]));
    CUDA(cuStreamSynchronize(rank->streams[0]));
    delays_now(&before);
    job_barrier(job);
    if (rank->rank == 1) {
        usleep(50000);
        shared->since = now_ms();
        kill(getpid(), SIGKILL);
    }
    if (!idle)
        NCCL_OK(errors, ncclAllReduce(at(memory), at(memory), COUNT, ncclFloat32, ncclSum,
                                      rank->comm, rank->streams[0]));
    errors += await_error(rank, &before, &poll);
    CHECK(errors, poll.result == ncclRemoteError && strstr(poll.text, "rank 1"), "%d: %s",
          (int)poll.result, poll.text);
    CHECK(errors, poll.ms - shared->since < poll.limit, "rank %d: after %lld ms, limit %lld",
          rank->rank, (long long)(poll.ms - shared->since), (long long)poll.limit);
    fprintf(stderr, "rank %d: %lld ms: %s\n", rank->rank, (long long)(poll.ms - shared->since),
            poll.text);
    if (!idle)
        errors += abort_releases(rank);
    _exit(errors > 0); /* the reference communicator lost a rank too */
}

/* ---- Abort ----------------------------------------------------------------------------------- */

/* A thread that aborts *comm a moment after it exists. It stays until it is joined, so that its
 * delays count. */
struct aborter {
    pthread_t thread;
    struct delays before;
    ncclComm_t *comm;
    int64_t called; /* when the thread called ncclCommAbort */
    _Atomic int64_t returned;
    atomic_bool may_end;
};

static void *abort_main(void *arg) {
    struct aborter *aborter = arg;
    ncclComm_t volatile *comm = aborter->comm;
    while (!*comm)
        usleep(1000);
    usleep(100000);
    aborter->called = now_ms();
    shared->since = aborter->called;
    if (ncclCommAbort(*comm) != ncclSuccess)
        abort();
    aborter->returned = now_ms();
    while (!aborter->may_end)
        usleep(1000);
    return NULL;
}

static void abort_begin(struct aborter *aborter, ncclComm_t *comm) {
    *aborter = (struct aborter){.comm = comm};
    delays_now(&aborter->before);
    if (pthread_create(&aborter->thread, NULL, abort_main, aborter) != 0)
        abort();
}

static int back(const char *what, int64_t at_ms, const struct aborter *aborter) {
    const int64_t limit = limit_ms(LIMIT_MS, &aborter->before);
    int errors = 0;
    CHECK(errors, at_ms - aborter->called < limit, "%s: back after %lld ms, limit %lld", what,
          (long long)(at_ms - aborter->called), (long long)limit);
    return errors;
}

/* The call that was aborted is back now, ncclCommAbort soon. */
static int abort_end(const char *what, struct aborter *aborter) {
    const int64_t now = now_ms();
    while (!aborter->returned)
        usleep(1000);
    const int errors = back(what, now, aborter) + back("ncclCommAbort", aborter->returned, aborter);
    aborter->may_end = true;
    pthread_join(aborter->thread, NULL);
    return errors;
}

/* Rank 0 of two ranks waits for the other one, which does not come. */
static int abort_init(const struct job *job, struct rank *rank, bool group) {
    struct aborter aborter;
    ncclComm_t comm = NULL;
    int errors = 0;
    const ncclUniqueId id = job_id(job);
    if (rank->rank != 0)
        return 0;
    abort_begin(&aborter, &comm);
    if (group)
        (void)ncclGroupStart();
    ncclResult_t result = ncclCommInitRank(&comm, 2, id, 0);
    if (group)
        result = ncclGroupEnd();
    CHECK(errors, result != ncclSuccess, "init returned success");
    return errors + abort_end(group ? "a group of inits" : "init", &aborter);
}

/* Rank 1 does not call split; rank 0 aborts the new communicator, rank 2 the parent. */
static int abort_split(const struct job *job, struct rank *rank) {
    struct aborter aborter;
    ncclComm_t part = NULL, whole = NULL;
    int errors = 0;
    NCCL_OK(errors, ncclCommInitRank(&whole, job->n, job_id(job), rank->rank));
    job_barrier(job);
    if (rank->rank != 1) {
        abort_begin(&aborter, rank->rank == 0 ? &part : &whole);
        const ncclResult_t result = ncclCommSplit(whole, 0, 0, &part, NULL);
        CHECK(errors, result != ncclSuccess, "split returned success");
        errors += abort_end("split", &aborter);
    }
    job_barrier(job);
    if (rank->rank < 2)
        NCCL_OK(errors, ncclCommAbort(whole));
    if (rank->rank == 2)
        NCCL_OK(errors, ncclCommAbort(part));
    return errors;
}

/* Rank 1 does not call; the stream of the others waits. Rank 0 aborts, rank 2 then has an error. */
static int abort_stream(const struct job *job, struct rank *rank, CUdeviceptr memory) {
    struct aborter aborter;
    struct delays before;
    struct poll poll;
    int errors = 0;
    NCCL_OK(errors, ncclCommInitRank(&rank->comm, job->n, job_id(job), rank->rank));
    if (rank->rank != 1)
        NCCL_OK(errors, ncclAllReduce(at(memory), at(memory), COUNT, ncclFloat32, ncclSum,
                                      rank->comm, rank->streams[0]));
    delays_now(&before);
    job_barrier(job);
    if (rank->rank == 0) {
        abort_begin(&aborter, &rank->comm);
        CUDA(cuStreamSynchronize(rank->streams[0]));
        return errors + abort_end("a stream", &aborter);
    }
    errors += await_error(rank, &before, &poll);
    CHECK(errors, poll.result == ncclRemoteError && strstr(poll.text, "ncclCommAbort"), "%s",
          poll.text);
    CHECK(errors, poll.ms - shared->since < poll.limit, "rank %d: after %lld ms, limit %lld",
          rank->rank, (long long)(poll.ms - shared->since), (long long)poll.limit);
    if (rank->rank == 2)
        return errors + abort_releases(rank);
    NCCL_OK(errors, ncclCommAbort(rank->comm));
    return errors;
}

static int aborts(struct job *job) {
    struct rank *rank = &job->ranks[0];
    const float zeros[COUNT] = {0};
    const CUdeviceptr memory = device_copy(zeros, sizeof zeros);
    int errors = abort_init(job, rank, false);
    job_barrier(job);
    errors += abort_init(job, rank, true);
    job_barrier(job);
    errors += abort_split(job, rank);
    job_barrier(job);
    errors += abort_stream(job, rank, memory);
    job_barrier(job);
    CUDA(cuMemFree(memory));
    return errors;
}

static int kills(int number) {
    int errors = 0;
    for (int i = 0; i < number && errors == 0; i++) {
        shared->idle = i % 3 == 2;
        errors += job_run_survivors(3, kill_one);
    }
    return errors;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    if (strcmp(name, "mismatch") == 0)
        return job_run_bare(3, false, mismatch) > 0;
    if (strcmp(name, "abort") == 0)
        return job_run_bare(3, false, aborts) > 0;
    return kills(argc > 2 ? atoi(argv[2]) : 10) > 0;
}
