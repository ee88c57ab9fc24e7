/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective, type and operator, in place and not, as NCCL's calls on device memory: the same
 * bits as the library's calls on host memory.
 *
 *     collectives RANKS processes|thread [LARGE]
 *
 * With 5 ranks, or ranks of one thread, every collective is either in place or not, by count.
 * LARGE: only three pairs of type and operator, with 300,000 elements.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"

enum { COUNT_MAX = 1023, OPS = 5, PREMUL = 5, BATCH = 48 };

static const rcm_dtype dtypes[] = {
#define ROW(name, number, ringcomm) ringcomm,
    NCCL_DTYPE_MAP(ROW)
#undef ROW
};
static const rcm_op ops[] = {
#define ROW(name, number, ringcomm) ringcomm,
    NCCL_OP_MAP(ROW)
#undef ROW
};
static const enum rcm_collective kinds[] = {
    RCM_ALL_REDUCE, RCM_REDUCE,     RCM_REDUCE_SCATTER, RCM_BROADCAST,
    RCM_ALL_GATHER, RCM_ALL_TO_ALL, RCM_GATHER,         RCM_SCATTER,
};

/* One operation on one rank, on the device and on the host. */
struct trial {
    enum rcm_collective kind;
    int dtype, op, root; /* op: PREMUL is a scaled sum */
    bool in_place, scalar_on_device;
    size_t count, send_bytes, recv_bytes;
    size_t send_at, recv_at, scalar_at; /* in the rank's arenas */
    ncclRedOp_t created;
    rcm_work *work;
};

static size_t size_of(const struct trial *t) {
    return rcm_dtype_size(dtypes[t->dtype]);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static uint64_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Any bits, but every other element of a longer float is a small number. */
static void fill(const struct trial *t, unsigned char *bytes, size_t len, uint64_t seed) {
    uint64_t state = seed;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)next(&state);
    for (size_t i = 0; i < len / size_of(t); i += 2) {
        const float small = (float)(next(&state) % 1000) / 8;
        const double twice = small;
        const uint16_t half = (uint16_t)(0x3c00 + next(&state) % 0x800);
        if (dtypes[t->dtype] == RCM_FLOAT32)
            memcpy(bytes + i * 4, &small, 4);
        else if (dtypes[t->dtype] == RCM_FLOAT64)
            memcpy(bytes + i * 8, &twice, 8);
        else if (dtypes[t->dtype] == RCM_FLOAT16 || dtypes[t->dtype] == RCM_BFLOAT16)
            memcpy(bytes + i * 2, &half, 2);
    }
}

/* 0.75 + rank, as an element and as a number. */
static double scalar_of(int dtype, int rank, unsigned char bytes[8]) {
    static const uint16_t half[] = {0x3a00, 0x3f00, 0x4180, 0x4380, 0x44c0};
    static const uint16_t bfloat[] = {0x3f40, 0x3fe0, 0x4030, 0x4070, 0x4098};
    static const uint8_t e4m3[] = {0x34, 0x3e, 0x43, 0x47, 0x4a}; /* the last: 5 */
    static const uint8_t e5m2[] = {0x3a, 0x3f, 0x42, 0x44, 0x45}; /* from the third: 3, 4, 5 */
    const double number = dtypes[dtype] == RCM_FLOAT8_E4M3FN && rank == 4 ? 5
                          : dtypes[dtype] == RCM_FLOAT8_E5M2 && rank >= 2 ? rank + 1
                                                                          : 0.75 + rank;
    const float single = (float)number;
    switch (dtypes[dtype]) {
    case RCM_FLOAT16:
        memcpy(bytes, &half[rank], 2);
        break;
    case RCM_BFLOAT16:
        memcpy(bytes, &bfloat[rank], 2);
        break;
    case RCM_FLOAT8_E4M3FN:
        bytes[0] = e4m3[rank];
        break;
    case RCM_FLOAT8_E5M2:
        bytes[0] = e5m2[rank];
        break;
    case RCM_FLOAT32:
        memcpy(bytes, &single, 4);
        break;
    default:
        memcpy(bytes, &number, 8);
    }
    return number;
}

static bool many_sends(enum rcm_collective kind) {
    return kind == RCM_REDUCE_SCATTER || kind == RCM_ALL_TO_ALL || kind == RCM_SCATTER;
}

static bool many_recvs(enum rcm_collective kind) {
    return kind == RCM_ALL_GATHER || kind == RCM_ALL_TO_ALL || kind == RCM_GATHER;
}

/* Memory of all trials of a rank: for the host's calls, and a copy on the device. */
static struct arena {
    unsigned char *host, *got;
    CUdeviceptr device;
    size_t used, size;
} arenas[RANKS_MAX];

static void arena_new(const struct rank *rank, struct arena *arena, size_t size) {
    rank_enter(rank);
    arena->size = size;
    arena->host = malloc(size);
    arena->got = malloc(size);
    if (!arena->host || !arena->got)
        abort();
    memset(arena->host, 0, size);
    arena->device = device_copy(arena->host, size);
}

static size_t arena_take(struct arena *arena, size_t bytes) {
    const size_t at = arena->used;
    arena->used += (bytes + 15) / 16 * 16;
    if (arena->used > arena->size)
        abort();
    return at;
}

/* In place, the larger buffer has both. */
static void trial_make(const struct job *job, const struct rank *rank, struct arena *arena,
                       struct trial *t) {
    const size_t block = t->count * size_of(t);
    t->send_bytes = block * (size_t)(many_sends(t->kind) ? job->n : 1);
    t->recv_bytes = block * (size_t)(many_recvs(t->kind) ? job->n : 1);
    const bool unequal = t->send_bytes != t->recv_bytes, more = t->send_bytes > t->recv_bytes;
    const size_t at = unequal ? (size_t)rank->rank * block : 0;
    t->send_at = arena_take(arena, t->send_bytes);
    t->recv_at = arena_take(arena, t->recv_bytes);
    if (t->in_place && more)
        t->recv_at = t->send_at + at;
    else if (t->in_place)
        t->send_at = t->recv_at + at;
    fill(t, arena->host + t->send_at, t->send_bytes, (uint64_t)(rank->rank * 77 + t->dtype));
    if (!t->in_place || !more)
        fill(t, arena->host + t->recv_at, t->recv_bytes, (uint64_t)(rank->rank * 99 + t->op));
    t->scalar_at = arena_take(arena, 8);
    scalar_of(t->dtype, rank->rank, arena->host + t->scalar_at);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static ncclResult_t device_call(const struct rank *rank, const struct arena *arena,
                                const struct trial *t, ncclRedOp_t op, CUstream stream) {
    const void *send = (const void *)(uintptr_t)(arena->device + t->send_at);
    void *recv = (void *)(uintptr_t)(arena->device + t->recv_at);
    const ncclDataType_t dtype = (ncclDataType_t)t->dtype;
    switch (t->kind) {
    case RCM_ALL_REDUCE:
        return ncclAllReduce(send, recv, t->count, dtype, op, rank->comm, stream);
    case RCM_REDUCE:
        return ncclReduce(send, recv, t->count, dtype, op, t->root, rank->comm, stream);
    case RCM_REDUCE_SCATTER:
        return ncclReduceScatter(send, recv, t->count, dtype, op, rank->comm, stream);
    case RCM_BROADCAST:
        return t->in_place
                   ? ncclBcast(recv, t->count, dtype, t->root, rank->comm, stream)
                   : ncclBroadcast(send, recv, t->count, dtype, t->root, rank->comm, stream);
    case RCM_ALL_GATHER:
        return ncclAllGather(send, recv, t->count, dtype, rank->comm, stream);
    case RCM_ALL_TO_ALL:
        return ncclAlltoAll(send, recv, t->count, dtype, rank->comm, stream);
    case RCM_GATHER:
        return ncclGather(send, recv, t->count, dtype, t->root, rank->comm, stream);
    default:
        return ncclScatter(send, recv, t->count, dtype, t->root, rank->comm, stream);
    }
}

static int device_issue(const struct rank *rank, const struct arena *arena, struct trial *t,
                        CUstream stream) {
    void *scalar = t->scalar_on_device ? (void *)(uintptr_t)(arena->device + t->scalar_at)
                                       : arena->host + t->scalar_at;
    int errors = 0;
    rank_enter(rank);
    t->created = (ncclRedOp_t)t->op;
    if (t->op == PREMUL)
        NCCL_OK(errors, ncclRedOpCreatePreMulSum(&t->created, scalar, (ncclDataType_t)t->dtype,
                                                 t->scalar_on_device ? ncclScalarDevice
                                                                     : ncclScalarHostImmediate,
                                                 rank->comm));
    NCCL_OK(errors, device_call(rank, arena, t, t->created, stream));
    if (t->op == PREMUL) /* at once: also in a group, whose end issues the call */
        NCCL_OK(errors, ncclRedOpDestroy(t->created, rank->comm));
    return errors;
}

static rcm_status host_call(const struct rank *rank, const struct arena *arena, struct trial *t,
                            rcm_op op) {
    const void *send = arena->host + t->send_at;
    void *recv = arena->host + t->recv_at;
    const rcm_dtype dtype = dtypes[t->dtype];
    switch (t->kind) {
    case RCM_ALL_REDUCE:
        return rcm_all_reduce(rank->host, send, recv, t->count, dtype, op, NULL, &t->work);
    case RCM_REDUCE:
        return rcm_reduce(rank->host, send, recv, t->count, dtype, op, t->root, NULL, &t->work);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(rank->host, send, recv, t->count, dtype, op, NULL, &t->work);
    case RCM_BROADCAST:
        if (rank->rank == t->root && !t->in_place)
            memcpy(recv, send, t->send_bytes);
        return rcm_broadcast(rank->host, recv, t->count, dtype, t->root, NULL, &t->work);
    case RCM_ALL_GATHER:
        return rcm_all_gather(rank->host, send, recv, t->count, dtype, NULL, &t->work);
    case RCM_ALL_TO_ALL:
        return rcm_all_to_all(rank->host, send, recv, t->count, dtype, NULL, &t->work);
    case RCM_GATHER:
        return rcm_gather(rank->host, send, recv, t->count, dtype, t->root, NULL, &t->work);
    default:
        return rcm_scatter(rank->host, send, recv, t->count, dtype, t->root, NULL, &t->work);
    }
}

static int host_issue(const struct rank *rank, const struct arena *arena, struct trial *t) {
    unsigned char scalar[8];
    rcm_op op = t->op < OPS ? ops[t->op] : 0;
    int errors = 0;
    if (t->op == PREMUL && rcm_op_create_premul_sum(scalar_of(t->dtype, rank->rank, scalar), 0,
                                                    dtypes[t->dtype], &op) != RCM_OK)
        abort();
    CHECK(errors, host_call(rank, arena, t, op) == RCM_OK, "%s", rcm_last_error());
    if (t->op == PREMUL)
        (void)!rcm_op_free(op);
    return errors;
}

/* ---- Comparison ------------------------------------------------------------------------------ */

static int trial_compare(const struct rank *rank, const struct arena *arena,
                         const struct trial *t) {
    const unsigned char *got = arena->got + t->recv_at, *want = arena->host + t->recv_at;
    int errors = 0;
    for (size_t i = 0; i < t->recv_bytes && errors == 0; i++)
        CHECK(errors, got[i] == want[i],
              "rank %d: collective %d, type %s, operator %d, count %zu, root %d%s: byte %zu is "
              "0x%02x, not 0x%02x",
              rank->rank, (int)t->kind, rcm_dtype_name(dtypes[t->dtype]), t->op, t->count, t->root,
              t->in_place ? ", in place" : "", i, got[i], want[i]);
    return errors;
}

static int rank_compare(const struct rank *rank, const struct arena *arena, struct trial *trials,
                        int n) {
    int errors = 0;
    rank_enter(rank);
    for (int s = 0; s < STREAMS; s++)
        CUDA(cuStreamSynchronize(rank->streams[s]));
    CUDA(cuMemcpyDtoH(arena->got, arena->device, arena->used));
    for (int i = 0; i < n; i++) {
        CHECK(errors, rcm_work_wait(trials[i].work, -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(trials[i].work);
        errors += trial_compare(rank, arena, &trials[i]);
    }
    CHECK(errors, errors > 0 || memcmp(arena->got, arena->host, arena->used) == 0,
          "rank %d: bytes beside the buffers were written", rank->rank);
    return errors;
}

/* Runs the trials on all ranks of this process, all in flight at once. */
static int run_batch(struct job *job, const struct trial *trials, int n) {
    static struct trial all[RANKS_MAX][BATCH];
    int errors = 0;
    for (int r = 0; r < job->nlocal; r++) {
        rank_enter(&job->ranks[r]);
        memcpy(all[r], trials, (size_t)n * sizeof *trials);
        arenas[r].used = 0;
        for (int i = 0; i < n; i++)
            trial_make(job, &job->ranks[r], &arenas[r], &all[r][i]);
        CUDA(cuMemcpyHtoD(arenas[r].device, arenas[r].host, arenas[r].used));
    }
    for (int i = 0; i < n; i++) {
        NCCL_OK(errors, job->nlocal > 1 ? ncclGroupStart() : ncclSuccess);
        for (int r = 0; r < job->nlocal; r++)
            errors += device_issue(&job->ranks[r], &arenas[r], &all[r][i],
                                   job->ranks[r].streams[i % STREAMS]);
        NCCL_OK(errors, job->nlocal > 1 ? ncclGroupEnd() : ncclSuccess);
    }
    for (int i = 0; i < n; i++)
        for (int r = 0; r < job->nlocal; r++)
            errors += host_issue(&job->ranks[r], &arenas[r], &all[r][i]);
    for (int r = 0; r < job->nlocal && errors == 0; r++)
        errors += rank_compare(&job->ranks[r], &arenas[r], all[r], n);
    return errors;
}

/* ---- The matrix ------------------------------------------------------------------------------ */

static int errors_of_matrix;
static struct trial pending[BATCH];
static int npending;

static void flush(struct job *job) {
    if (npending > 0 && errors_of_matrix == 0)
        errors_of_matrix += run_batch(job, pending, npending);
    npending = 0;
}

static void add(struct job *job, struct trial t) {
    pending[npending++] = t;
    if (npending == BATCH)
        flush(job);
}

static void add_types(struct job *job, enum rcm_collective kind, size_t count, bool in_place) {
    const bool reduces = kind == RCM_ALL_REDUCE || kind == RCM_REDUCE || kind == RCM_REDUCE_SCATTER;
    for (int dtype = 0; dtype < ncclNumTypes; dtype++) {
        const int nops = !reduces ? 1 : dtype < ncclFloat16 ? OPS : OPS + 1;
        for (int op = 0; op < nops; op++)
            add(job, (struct trial){.kind = kind,
                                    .dtype = dtype,
                                    .op = op,
                                    .root = (dtype + op) % job->n,
                                    .in_place = in_place,
                                    .scalar_on_device = dtype % 2 == 0,
                                    .count = count});
    }
}

static void arenas_new(const struct job *job, size_t per_trial) {
    for (int r = 0; r < job->nlocal; r++)
        arena_new(&job->ranks[r], &arenas[r], BATCH * (per_trial + 64));
}

static void arenas_free(const struct job *job) {
    for (int r = 0; r < job->nlocal; r++) {
        rank_enter(&job->ranks[r]);
        CUDA(cuMemFree(arenas[r].device));
        free(arenas[r].host);
        free(arenas[r].got);
    }
}

static int matrix(struct job *job) {
    arenas_new(job, (size_t)job->n * 2 * COUNT_MAX * sizeof(double));
    for (int count = 1; count <= COUNT_MAX; count += COUNT_MAX - 1)
        for (int in_place = 0; in_place < 2; in_place++)
            for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
                if ((job->n < 5 && job->nlocal == 1) ||
                    (k + (size_t)count / 2 + (size_t)in_place) % 2)
                    add_types(job, kinds[k], (size_t)count, in_place);
    flush(job);
    arenas_free(job);
    return errors_of_matrix;
}

static int large(struct job *job) {
    static const int pairs[][2] = {
        {ncclFloat32, ncclSum}, {ncclBfloat16, ncclAvg}, {ncclInt8, ncclMax}};
    arenas_new(job, 3 * 300000 * sizeof(float) * 2 / BATCH);
    for (int i = 0; i < 3; i++)
        add(job, (struct trial){.kind = RCM_ALL_REDUCE,
                                .dtype = pairs[i][0],
                                .op = pairs[i][1],
                                .in_place = i == 1,
                                .count = 300000});
    flush(job);
    arenas_free(job);
    return errors_of_matrix;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    const int errors =
        job_run(atoi(argv[1]), strcmp(argv[2], "thread") == 0, argc > 3 ? large : matrix);
    if (errors > 0)
        fprintf(stderr, "%d errors\n", errors);
    return errors > 0;
}
