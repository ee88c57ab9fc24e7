/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of operations and streams.
 *
 *     groups RANKS processes|thread CASE [CASE...]
 *
 *   order     a kernel that waits before each call, one that reads the result after it
 *   random    200 random groups of messages and collectives over several streams and communicators
 *   capture   a stream that is captured is rejected, and its capture stays valid
 *   queues    order of an all_reduce with one hardware queue: right, or an error with a name
 *   queues-of-all  the same of every call
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"

enum { COUNT = 500, BYTES = COUNT * 4, GROUPS = 200, COMMS = 3, OPERATIONS = 8, PARTS = 6 };

static void *at(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* A rank's buffers: source is copied to in by a kernel that waits, out to seen by one afterwards.
 */
struct bench {
    CUdeviceptr source, in, out, seen;
    volatile uint32_t *open;
};

static void bench_new(const struct rank *rank, struct bench *b, int n) {
    int32_t *numbers = malloc((size_t)n * BYTES);
    if (!numbers)
        abort();
    rank_enter(rank);
    for (int i = 0; i < n * COUNT; i++)
        numbers[i] = i + 1000 * (rank->rank + 1);
    b->source = device_copy(numbers, (size_t)n * BYTES);
    memset(numbers, 0x77, (size_t)n * BYTES);
    b->in = device_copy(numbers, (size_t)n * BYTES);
    b->out = device_copy(numbers, (size_t)n * BYTES);
    b->seen = device_copy(numbers, (size_t)n * BYTES);
    b->open = pinned_new(64);
    free(numbers);
}

static void bench_free(const struct rank *rank, const struct bench *b) {
    rank_enter(rank);
    CUDA(cuMemFree(b->source));
    CUDA(cuMemFree(b->in));
    CUDA(cuMemFree(b->out));
    CUDA(cuMemFree(b->seen));
    CUDA(cuMemFreeHost((void *)(uintptr_t)b->open));
}

enum call {
    ALL_REDUCE,
    REDUCE,
    BROADCAST,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    MESSAGE,
    CALLS
};

static ncclResult_t call_make(const struct rank *rank, const struct bench *b, enum call call, int n,
                              CUstream stream) {
    const int right = (rank->rank + 1) % n, left = (rank->rank + n - 1) % n;
    ncclResult_t result;
    switch (call) {
    case ALL_REDUCE:
        return ncclAllReduce(at(b->in), at(b->out), COUNT, ncclInt32, ncclSum, rank->comm, stream);
    case REDUCE:
        return ncclReduce(at(b->in), at(b->out), COUNT, ncclInt32, ncclSum, 1, rank->comm, stream);
    case BROADCAST:
        return ncclBroadcast(at(b->in), at(b->out), COUNT, ncclInt32, 1, rank->comm, stream);
    case ALL_GATHER:
        return ncclAllGather(at(b->in), at(b->out), COUNT, ncclInt32, rank->comm, stream);
    case REDUCE_SCATTER:
        return ncclReduceScatter(at(b->in), at(b->out), COUNT, ncclInt32, ncclSum, rank->comm,
                                 stream);
    case ALL_TO_ALL:
        return ncclAlltoAll(at(b->in), at(b->out), COUNT, ncclInt32, rank->comm, stream);
    case GATHER:
        return ncclGather(at(b->in), at(b->out), COUNT, ncclInt32, 1, rank->comm, stream);
    case SCATTER:
        return ncclScatter(at(b->in), at(b->out), COUNT, ncclInt32, 1, rank->comm, stream);
    default:
        (void)ncclGroupStart();
        result = ncclSend(at(b->in), COUNT, ncclInt32, right, rank->comm, stream);
        if (result == ncclSuccess)
            result = ncclRecv(at(b->out), COUNT, ncclInt32, left, rank->comm, stream);
        (void)ncclGroupEnd();
        return result;
    }
}

/* Element i of block `block` of rank r's source. */
static int32_t element(int r, int block, int i) {
    return block * COUNT + i + 1000 * (r + 1);
}

static int32_t sum(int n, int block, int i) {
    int32_t total = 0;
    for (int r = 0; r < n; r++)
        total += element(r, block, i);
    return total;
}

static int32_t expected(enum call call, int rank, int n, int block, int i) {
    switch (call) {
    case ALL_REDUCE:
    case REDUCE:
        return sum(n, 0, i);
    case BROADCAST:
        return element(1, 0, i);
    case ALL_GATHER:
    case GATHER:
        return element(block, 0, i);
    case REDUCE_SCATTER:
        return sum(n, rank, i);
    case ALL_TO_ALL:
        return element(block, rank, i);
    case SCATTER:
        return element(1, rank, i);
    default:
        return element((rank + n - 1) % n, 0, i);
    }
}

static int seen_check(const struct rank *rank, const struct bench *b, enum call call, int n) {
    const bool only_root = call == REDUCE || call == GATHER;
    const int blocks = call == ALL_GATHER || call == GATHER || call == ALL_TO_ALL ? n : 1;
    int32_t *seen = malloc((size_t)n * BYTES);
    int errors = 0;
    if (!seen)
        abort();
    CUDA(cuMemcpyDtoH(seen, b->seen, (size_t)n * BYTES));
    for (int block = 0; block < blocks; block++)
        for (int i = 0; i < COUNT && errors == 0; i++) {
            const int32_t want =
                only_root && rank->rank != 1 ? 0x77777777 : expected(call, rank->rank, n, block, i);
            CHECK(errors, seen[block * COUNT + i] == want,
                  "call %d: element %d of block %d is %d, "
                  "not %d",
                  (int)call, i, block, seen[block * COUNT + i], want);
        }
    free(seen);
    return errors;
}

/* Enqueues: the kernel that waits, the call, the kernel that reads. */
static int order_enqueue(const struct job *job, struct bench *benches, enum call call) {
    int errors = 0;
    (void)ncclGroupStart();
    for (int r = 0; r < job->nlocal; r++) {
        const struct rank *rank = &job->ranks[r];
        struct bench *b = &benches[r];
        rank_enter(rank);
        CUDA(cuMemsetD8Async(b->out, 0x77, (size_t)job->n * BYTES, rank->streams[0]));
        *b->open = 0;
        launch_gate(rank, rank->streams[0], b->open, b->in, b->source, (uint32_t)(job->n * BYTES));
        NCCL_OK(errors, call_make(rank, b, call, job->n, rank->streams[0]));
    }
    NCCL_OK(errors, ncclGroupEnd());
    for (int r = 0; r < job->nlocal; r++) {
        const struct rank *rank = &job->ranks[r];
        rank_enter(rank);
        launch_move(rank, rank->streams[0], benches[r].seen, benches[r].out,
                    (uint32_t)(job->n * BYTES));
    }
    return errors;
}

static int order_one(const struct job *job, struct bench *benches, enum call call) {
    const int64_t began = now_ms();
    int errors = order_enqueue(job, benches, call);
    CHECK(errors, now_ms() - began < 2000, "call %d took %lld ms", (int)call,
          (long long)(now_ms() - began));
    for (int r = 0; r < job->nlocal; r++) {
        rank_enter(&job->ranks[r]);
        CHECK(errors, !stream_ends(job->ranks[r].streams[0], 2),
              "call %d: the stream ended before the kernel that waits", (int)call);
    }
    job_barrier(job);
    for (int r = 0; r < job->nlocal; r++)
        *benches[r].open = 1;
    for (int r = 0; r < job->nlocal && errors == 0; r++) {
        rank_enter(&job->ranks[r]);
        CHECK(errors, stream_ends(job->ranks[r].streams[0], 20000), "call %d: the stream hangs: %s",
              (int)call, ncclGetLastError(job->ranks[r].comm));
        errors += errors ? 0 : seen_check(&job->ranks[r], &benches[r], call, job->n);
    }
    return errors;
}

static int order(struct job *job) {
    struct bench benches[RANKS_MAX];
    int errors = 0;
    for (int r = 0; r < job->nlocal; r++)
        bench_new(&job->ranks[r], &benches[r], job->n);
    for (int call = 0; call < CALLS && errors == 0; call++)
        errors += order_one(job, benches, (enum call)call);
    for (int r = 0; r < job->nlocal && errors == 0; r++)
        bench_free(&job->ranks[r], &benches[r]);
    return errors;
}

/* ---- One hardware queue ---------------------------------------------------------------------- */

/* The waiting stream may keep the operation itself from running: then its deadline passes, and
 * ncclCommAbort lets the stream continue. */
static int queues_end(const struct rank *rank, const struct bench *b, enum call call, int n) {
    ncclResult_t result = ncclSuccess;
    int errors = 0;
    rank_enter(rank);
    for (int i = 0; i < 300 && result == ncclSuccess && !stream_ends(rank->streams[0], 50); i++)
        NCCL_OK(errors, ncclCommGetAsyncError(rank->comm, &result));
    if (result == ncclSuccess)
        return errors + seen_check(rank, b, call, n);
    CHECK(errors, result == ncclRemoteError, "the error is %d", (int)result);
    CHECK(errors, strlen(ncclGetLastError(rank->comm)) > 20, "the error has no text");
    fprintf(stderr, "one queue, call %d: %s\n", (int)call, ncclGetLastError(rank->comm));
    return errors;
}

static int queues_one(struct job *job, enum call call) {
    struct bench benches[RANKS_MAX];
    int errors = 0;
    for (int r = 0; r < job->nlocal; r++)
        bench_new(&job->ranks[r], &benches[r], job->n);
    errors += order_enqueue(job, benches, call);
    for (int r = 0; r < job->nlocal; r++)
        *benches[r].open = 1;
    for (int r = 0; r < job->nlocal && errors == 0; r++)
        errors += queues_end(&job->ranks[r], &benches[r], call, job->n);
    for (int r = 0; r < job->nlocal; r++) {
        NCCL_OK(errors, ncclCommAbort(job->ranks[r].comm));
        job->ranks[r].comm = NULL;
    }
    for (int r = 0; r < job->nlocal; r++) {
        rank_enter(&job->ranks[r]);
        CHECK(errors, stream_ends(job->ranks[r].streams[0], 2000), "the stream hangs after Abort");
        bench_free(&job->ranks[r], &benches[r]);
    }
    return errors;
}

static int queues(struct job *job) {
    return queues_one(job, ALL_REDUCE);
}

static int queues_of_all(struct job *job) {
    int errors = queues(job);
    for (int call = ALL_REDUCE + 1; call < CALLS && errors == 0; call++) {
        errors += job_make_communicators(job);
        errors += errors ? 0 : queues_one(job, (enum call)call);
    }
    return errors;
}

/* ---- Random groups --------------------------------------------------------------------------- */

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* The communicators of a rank: all, all again, and all in reverse order. */
static int comms_make(const struct job *job, ncclComm_t comms[RANKS_MAX][COMMS]) {
    int errors = 0;
    for (int c = 1; c < COMMS; c++) {
        (void)ncclGroupStart();
        for (int r = 0; r < job->nlocal; r++)
            NCCL_OK(errors,
                    ncclCommSplit(job->ranks[r].comm, 0, c == 1 ? 0 : job->n - job->ranks[r].rank,
                                  &comms[r][c], NULL));
        NCCL_OK(errors, ncclGroupEnd());
    }
    for (int r = 0; r < job->nlocal; r++)
        comms[r][0] = job->ranks[r].comm;
    return errors;
}

struct place {
    uint32_t *expected; /* host copy of out */
    CUdeviceptr in, out;
};

enum { WORDS = GROUPS * OPERATIONS * PARTS };

static uint32_t word_of(int rank, int index) {
    return (uint32_t)(rank * 1000003 + index * 7 + 5);
}

/* One random operation, which all ranks describe equally. The part of `rank` is issued. */
struct random_operation {
    int kind, comm, index, from, to, stream, len;
};

static int rank_in(const struct job *job, int comm, int rank) {
    return comm == 2 ? job->n - 1 - rank : rank;
}

static ncclResult_t random_issue(const struct job *job, const struct rank *rank,
                                 ncclComm_t comms[COMMS], const struct place *place,
                                 const struct random_operation *o) {
    const int me = rank_in(job, o->comm, rank->rank);
    /* Streams differ between ranks. */
    const CUstream stream = rank->streams[(o->stream + rank->rank) % STREAMS];
    const size_t offset = (size_t)o->index * PARTS * 4, len = (size_t)o->len;
    void *out = at(place->out + offset), *in = at(place->in + offset);
    ncclResult_t result = ncclSuccess;
    if (o->kind == 0) {
        for (int i = 0; i < o->len; i++)
            for (int r = 0; r < job->n; r++)
                place->expected[o->index * PARTS + i] +=
                    word_of(r, o->index * PARTS + i) - (r == 0 ? 0x77777777 : 0);
        return ncclAllReduce(in, out, len, ncclUint32, ncclSum, comms[o->comm], stream);
    }
    if (o->kind == 1) {
        const int root = rank_in(job, o->comm, o->from); /* its own inverse */
        for (int i = 0; i < o->len; i++)
            place->expected[o->index * PARTS + i] = word_of(root, o->index * PARTS + i);
        return ncclBroadcast(in, out, len, ncclUint32, o->from, comms[o->comm], stream);
    }
    if (me == o->from)
        result = ncclSend(in, len, ncclUint32, o->to, comms[o->comm], stream);
    if (me == o->to && result == ncclSuccess) {
        for (int i = 0; i < o->len; i++)
            place->expected[o->index * PARTS + i] =
                word_of(rank_in(job, o->comm, o->from), o->index * PARTS + i);
        result = ncclRecv(out, len, ncclUint32, o->from, comms[o->comm], stream);
    }
    return result;
}

static int random_groups(const struct job *job, ncclComm_t comms[RANKS_MAX][COMMS],
                         struct place *places) {
    uint32_t state = 4711;
    int errors = 0;
    for (int g = 0; g < GROUPS && errors == 0; g++) {
        struct random_operation o[OPERATIONS];
        const int n = 1 + (int)(next(&state) % OPERATIONS);
        for (int i = 0; i < n; i++)
            o[i] = (struct random_operation){.kind = (int)(next(&state) % 4),
                                             .comm = (int)(next(&state) % COMMS),
                                             .index = g * OPERATIONS + i,
                                             .from = (int)(next(&state) % (uint32_t)job->n),
                                             .to = (int)(next(&state) % (uint32_t)job->n),
                                             .stream = (int)(next(&state) % STREAMS),
                                             .len = (int)(next(&state) % (PARTS + 1))};
        NCCL_OK(errors, ncclGroupStart());
        for (int r = 0; r < job->nlocal; r++)
            for (int i = 0; i < n; i++)
                NCCL_OK(errors, random_issue(job, &job->ranks[r], comms[r], &places[r], &o[i]));
        NCCL_OK(errors, ncclGroupEnd());
    }
    return errors;
}

static void place_new(const struct rank *rank, struct place *place) {
    uint32_t *words = malloc(WORDS * 4);
    place->expected = malloc(WORDS * 4);
    if (!words || !place->expected)
        abort();
    for (int i = 0; i < WORDS; i++)
        words[i] = word_of(rank->rank, i);
    memset(place->expected, 0x77, WORDS * 4);
    rank_enter(rank);
    place->in = device_copy(words, WORDS * 4);
    place->out = device_copy(place->expected, WORDS * 4);
    free(words);
}

static int place_check(const struct rank *rank, struct place *place) {
    uint32_t *got = malloc(WORDS * 4);
    int errors = 0;
    if (!got)
        abort();
    rank_enter(rank);
    for (int s = 0; s < STREAMS; s++)
        CHECK(errors, stream_ends(rank->streams[s], 30000), "stream %d hangs: %s", s,
              ncclGetLastError(rank->comm));
    if (errors)
        return errors;
    CUDA(cuMemcpyDtoH(got, place->out, WORDS * 4));
    for (int i = 0; i < WORDS && errors < 3; i++)
        CHECK(errors, got[i] == place->expected[i],
              "rank %d: group %d, operation %d, word %d is 0x%x, not 0x%x", rank->rank,
              i / PARTS / OPERATIONS, i / PARTS % OPERATIONS, i % PARTS, got[i],
              place->expected[i]);
    CUDA(cuMemFree(place->in));
    CUDA(cuMemFree(place->out));
    free(place->expected);
    free(got);
    return errors;
}

static int random_case(struct job *job) {
    ncclComm_t comms[RANKS_MAX][COMMS];
    struct place places[RANKS_MAX];
    int errors = comms_make(job, comms);
    for (int r = 0; r < job->nlocal; r++)
        place_new(&job->ranks[r], &places[r]);
    if (errors == 0)
        errors += random_groups(job, comms, places);
    for (int r = 0; r < job->nlocal && errors == 0; r++)
        errors += place_check(&job->ranks[r], &places[r]);
    for (int r = 0; r < job->nlocal; r++)
        for (int c = 1; c < COMMS; c++)
            NCCL_OK(errors, ncclCommDestroy(comms[r][c]));
    return errors;
}

/* ---- Capture --------------------------------------------------------------------------------- */

static int capture_one(const struct job *job, const struct rank *rank) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUdeviceptr memory;
    CUgraph graph = NULL;
    int errors = 0;
    rank_enter(rank);
    memory = device_copy("01234567", 8);
    CUDA(cuStreamBeginCapture(rank->streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 2; i++) {
        const ncclResult_t result =
            i ? ncclSend(at(memory), 2, ncclInt32, 0, rank->comm, rank->streams[0])
              : ncclAllReduce(at(memory), at(memory), 2, ncclInt32, ncclSum, rank->comm,
                              rank->streams[0]);
        CHECK(errors, result == ncclInvalidUsage && strstr(ncclGetLastError(NULL), "captured"),
              "%s", nccl_text(result));
    }
    CUDA(cuStreamIsCapturing(rank->streams[0], &status));
    CHECK(errors, status == CU_STREAM_CAPTURE_STATUS_ACTIVE, "the capture is %d", (int)status);
    /* Another stream, and memory for its order, while this thread captures. */
    NCCL_OK(errors, job->nlocal > 1 ? ncclSuccess
                                    : ncclAllReduce(at(memory), at(memory), 2, ncclInt32, ncclSum,
                                                    rank->comm, rank->streams[1]));
    CUDA(cuStreamEndCapture(rank->streams[0], &graph));
    CHECK(errors, graph, "no graph");
    CUDA(cuGraphDestroy(graph));
    CUDA(cuStreamSynchronize(rank->streams[1]));
    CUDA(cuMemFree(memory));
    return errors;
}

/* A group with a captured stream does nothing: its first stream does not wait for another one. */
static int capture_group(const struct rank *rank) {
    const CUdeviceptr memory = device_copy("01234567", 8);
    volatile uint32_t *open = pinned_new(64);
    CUgraph graph = NULL;
    int errors = 0;
    CUDA(cuStreamBeginCapture(rank->streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    launch_gate(rank, rank->streams[1], open, memory, memory, 4);
    NCCL_OK(errors, ncclGroupStart());
    for (int i = STREAMS - 1; i >= 0; i--)
        NCCL_OK(errors, ncclAllReduce(at(memory), at(memory), 1, ncclInt32, ncclSum, rank->comm,
                                      rank->streams[i]));
    const ncclResult_t result = ncclGroupEnd();
    CHECK(errors, result == ncclInvalidUsage, "%s", nccl_text(result));
    CHECK(errors, stream_ends(rank->streams[STREAMS - 1], 2000), "the first stream waits");
    *open = 1;
    CUDA(cuStreamEndCapture(rank->streams[0], &graph));
    CUDA(cuGraphDestroy(graph));
    CUDA(cuStreamSynchronize(rank->streams[1]));
    CUDA(cuMemFree(memory));
    CUDA(cuMemFreeHost((void *)(uintptr_t)open));
    return errors;
}

static int capture(struct job *job) {
    int errors = 0;
    for (int r = 0; r < job->nlocal; r++)
        errors += capture_one(job, &job->ranks[r]) + capture_group(&job->ranks[r]);
    return errors;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static char **chosen;
static int nchosen;

static int run_cases(struct job *job) {
    static const struct {
        const char *name;
        int (*run)(struct job *job);
    } cases[] = {{"order", order},
                 {"random", random_case},
                 {"capture", capture},
                 {"queues", queues},
                 {"queues-of-all", queues_of_all}};
    int errors = 0;
    for (int i = 0; i < nchosen; i++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            if (strcmp(cases[c].name, chosen[i]) == 0 && errors == 0)
                errors += cases[c].run(job);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    chosen = argv + 3;
    nchosen = argc - 3;
    return job_run(atoi(argv[1]), strcmp(argv[2], "thread") == 0, run_cases) > 0;
}
