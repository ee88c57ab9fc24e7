/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operators that the program creates: operators TRANSPORT processes|threads RANKS [HOSTS]
 *
 * Every collective that reduces, by every algorithm that supports the call, in place or not,
 * blocking, asynchronous or persistent. Each rank creates an operator for the case and frees it
 * before its last result is complete. Values are exact in every order. For types that round, all
 * ranks must have the same bits.
 */
#include "operators.h"
#include "buffer_memory.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum rcm_collective reductions[] = {RCM_ALL_REDUCE, RCM_REDUCE, RCM_REDUCE_SCATTER,
                                                 RCM_SCAN,       RCM_EXSCAN, RCM_REDUCE_SCATTER_V};
enum { REDUCTIONS = sizeof(reductions) / sizeof(reductions[0]) };

/* ---- Buffers ------------------------------------------------------------------------------- */

static bool in_blocks(const struct problem *t) {
    return t->collective == RCM_REDUCE_SCATTER || t->collective == RCM_REDUCE_SCATTER_V;
}

static size_t block_count(const struct problem *t, int rank) {
    return t->collective == RCM_REDUCE_SCATTER_V ? t->count * (size_t)(rank % 3) / 2 : t->count;
}

static size_t block_first(const struct problem *t, int rank) {
    size_t first = 0;
    for (int r = 0; r < rank; r++)
        first += block_count(t, r);
    return first;
}

static size_t in_count(const struct problem *t) {
    return in_blocks(t) ? block_first(t, t->p) : t->count;
}

static size_t out_count(const struct problem *t) {
    const bool none = (t->collective == RCM_REDUCE && t->rank != t->root) ||
                      (t->collective == RCM_EXSCAN && t->rank == 0);
    return none ? 0 : block_count(t, t->rank);
}

static int contributors(const struct problem *t) {
    return t->collective == RCM_SCAN ? t->rank + 1 : t->collective == RCM_EXSCAN ? t->rank : t->p;
}

/* ---- A call -------------------------------------------------------------------------------- */

static rcm_status call_v(const struct problem *t, const void *in, void *out,
                         const struct rcm_call *call, rcm_work **ret_work) {
    size_t counts[RANKS_MAX];
    for (int r = 0; r < t->p; r++)
        counts[r] = block_count(t, r);
    return rcm_reduce_scatter_v(t->comm, in, counts, NULL, out, counts[t->rank], t->dtype, t->op,
                                call, ret_work);
}

rcm_status problem_call(const struct problem *t, const void *in, void *out,
                        const struct rcm_call *call, rcm_work **ret_work) {
    switch (t->collective) {
    case RCM_ALL_REDUCE:
        return rcm_all_reduce(t->comm, in, out, t->count, t->dtype, t->op, call, ret_work);
    case RCM_REDUCE:
        return rcm_reduce(t->comm, in, out, t->count, t->dtype, t->op, t->root, call, ret_work);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(t->comm, in, out, t->count, t->dtype, t->op, call, ret_work);
    case RCM_SCAN:
        return rcm_scan(t->comm, in, out, t->count, t->dtype, t->op, call, ret_work);
    case RCM_EXSCAN:
        return rcm_exscan(t->comm, in, out, t->count, t->dtype, t->op, call, ret_work);
    default:
        return call_v(t, in, out, call, ret_work);
    }
}

/* Frees the operator as early as allowed. */
static rcm_status call_in_some_way(const struct problem *t, const void *in, void *out) {
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    call.algorithm = t->algorithm;
    if (t->way == WAY_PERSISTENT)
        call.flags = RCM_PERSISTENT;
    rcm_status status = problem_call(t, in, out, &call, t->way == WAY_BLOCKING ? NULL : &work);
    const rcm_status freed = rcm_op_free(t->op);
    if (status == RCM_OK)
        status = freed;
    if (status == RCM_OK && t->way == WAY_PERSISTENT)
        status = rcm_work_start(work);
    if (status == RCM_OK && work)
        status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    return status;
}

/* ---- Cases --------------------------------------------------------------------------------- */

/* The number of wrong elements. */
static size_t result_wrong(const struct problem *t, const void *result) {
    const size_t first = in_blocks(t) ? block_first(t, t->rank) : 0;
    size_t wrong = 0;
    for (size_t i = 0; i < out_count(t); i++) {
        const struct number want = t->kind->expected(first + i, contributors(t));
        const struct number got = number_get(t->dtype, result, i);
        wrong += got.re != want.re || got.im != want.im;
    }
    return wrong;
}

static int one_case(struct problem t) {
    const size_t width = rcm_dtype_size(t.dtype), n = in_count(&t);
    const size_t own = in_blocks(&t) ? block_first(&t, t.rank) * width : 0;
    char *in = mem_new(n * width + 64), *out = mem_new(t.count * width + 64);
    char *view = mem_view(in);
    int errors = 0;
    for (size_t i = 0; i < n; i++)
        number_put(t.dtype, view, i, t.kind->input(t.rank, i));
    CHECK(errors, t.kind->create(t.rank, t.dtype, &t.op) == RCM_OK, "create: %s", rcm_last_error());
    const rcm_status status = call_in_some_way(&t, in, t.in_place ? in + own : out);
    CHECK(errors, status == RCM_OK, "%s: %s", problem_name(&t), rcm_last_error());
    const void *result = t.in_place ? view + own : mem_view(out);
    const size_t wrong = status == RCM_OK ? result_wrong(&t, result) : 0;
    CHECK(errors, wrong == 0, "%s: %zu of %zu are wrong", problem_name(&t), wrong, out_count(&t));
    for (size_t i = 0; i < n && !t.in_place && errors == 0; i++)
        errors += number_get(t.dtype, view, i).re != t.kind->input(t.rank, i).re;
    CHECK(errors, errors == 0, "%s: or its input was changed", problem_name(&t));
    mem_free(in);
    mem_free(out);
    return errors;
}

/* Each algorithm gets every form of call, in place or not, and every type in some of its cases. */
static int check_algorithm(struct problem t, int *number) {
    static const size_t counts[] = {0, 5, 1000, 9001};
    int errors = 0;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && errors < 5; c++) {
        for (int place = 0; place < 2; place++, (*number)++) {
            t.count = counts[c];
            t.in_place = place;
            t.root = *number % t.p;
            t.way = (enum way)(*number % WAYS);
            t.dtype = t.kind->dtypes[*number / 2 % t.kind->ndtypes];
            errors += one_case(t);
        }
    }
    return errors;
}

/* True if the algorithm supports the call. All ranks get the same answer. */
static bool algorithm_fits(struct problem t) {
    struct rcm_call call = RCM_CALL_INIT;
    void *none = mem_new(sizeof(struct rcm_complex128));
    call.algorithm = t.algorithm;
    t.dtype = t.kind->dtypes[0];
    if (t.kind->create(t.rank, t.dtype, &t.op) != RCM_OK)
        abort();
    const rcm_status status = problem_call(&t, none, none, &call, NULL);
    if (rcm_op_free(t.op) != RCM_OK)
        abort();
    mem_free(none);
    return status == RCM_OK;
}

static int check_collective(struct problem t, int *number) {
    struct rcm_algorithm_info info;
    int errors = check_algorithm(t, number), fit = 0;
    for (size_t a = 0; rcm_algorithm_at(t.collective, a, &info) == RCM_OK; a++) {
        t.algorithm = info.name;
        if (algorithm_fits(t)) {
            errors += check_algorithm(t, number);
            fit++;
        }
    }
    CHECK(errors, fit > 0, "no algorithm fits");
    return errors;
}

/* Functions of the program cannot run on device memory: the call fails and sends nothing. */
static int check_not_on_device(const struct problem *t, bool opaque) {
    void *memory = mem_new(64);
    rcm_dtype dtype = t->kind->dtypes[0];
    rcm_op op;
    int errors = 0;
    if (opaque)
        CHECK(errors, rcm_dtype_opaque(12, &dtype) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, t->kind->create(t->rank, dtype, &op) == RCM_OK, "create");
    const rcm_status status = rcm_all_reduce(t->comm, memory, memory, 1, dtype, op, NULL, NULL);
    CHECK(errors, status == RCM_ERR_UNSUPPORTED && strstr(rcm_last_error(), "which the CPU calls"),
          "%s: %s", t->kind->name, rcm_last_error());
    CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
    mem_free(memory);
    return errors;
}

static int check_kinds(rcm_comm *comm) {
    struct problem t = {.comm = comm, .p = rcm_size(comm), .rank = rcm_rank(comm)};
    int errors = 0, number = 0;
    for (size_t k = 0; operator_kinds[k]; k++) {
        t.kind = operator_kinds[k];
        if (t.kind->function && !mem_is_host()) {
            errors += check_not_on_device(&t, false) + check_not_on_device(&t, true);
            continue;
        }
        for (int i = 0; i < REDUCTIONS && errors < 5; i++) {
            t.collective = reductions[i];
            errors += check_collective(t, &number);
        }
    }
    return errors;
}

/* ---- Bits ---------------------------------------------------------------------------------- */

/* A scale and values that short floats cannot represent. A rank's result must have the bits that
 * the others get. */
static int check_bits(rcm_comm *comm, const char *algorithm, rcm_dtype dtype) {
    enum { COUNT = 500 };
    struct rcm_call call = RCM_CALL_INIT;
    const size_t bytes = COUNT * rcm_dtype_size(dtype);
    _Alignas(16) unsigned char mine[COUNT * 4], first[COUNT * 4];
    rcm_op op;
    int errors = 0;
    call.algorithm = algorithm;
    for (size_t i = 0; i < bytes; i++)
        mine[i] = (unsigned char)(0x30 + (i * 7 + (size_t)rcm_rank(comm) * 13) % 11);
    if (rcm_op_create_premul_sum(1.0 / (3 + rcm_rank(comm)), 0, dtype, &op) != RCM_OK)
        return 1;
    const rcm_status status = rcm_all_reduce(comm, mine, mine, COUNT, dtype, op, &call, NULL);
    CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
    if (status == RCM_ERR_UNSUPPORTED)
        return errors;
    CHECK(errors, status == RCM_OK, "%s: %s", algorithm, rcm_last_error());
    memcpy(first, mine, bytes);
    CHECK(errors, rcm_broadcast(comm, first, bytes, RCM_UINT8, 0, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, memcmp(first, mine, bytes) == 0,
          "rank %d: premul_sum of %s by %s has other bits than on rank 0", rcm_rank(comm),
          rcm_dtype_name(dtype), algorithm);
    return errors;
}

static int check_all_bits(rcm_comm *comm) {
    static const rcm_dtype dtypes[] = {RCM_FLOAT16, RCM_BFLOAT16, RCM_FLOAT8_E4M3FN,
                                       RCM_FLOAT8_E5M2, RCM_FLOAT32};
    struct rcm_algorithm_info info;
    int errors = 0;
    for (size_t a = 0; rcm_algorithm_at(RCM_ALL_REDUCE, a, &info) == RCM_OK; a++)
        for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
            errors += check_bits(comm, info.name, dtypes[d]);
    return errors;
}

static int check_all(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    if (mem_is_host())
        errors += operators_check_life(comm) + operators_check_calls(comm) + check_all_bits(comm);
    errors += check_kinds(comm);
    if (mem_is_host() && rcm_size(comm) > 1)
        errors += operators_check_mismatches(comm);
    return errors;
}

static int hosts;

static void deal_host(int rank) {
    char id[16];
    snprintf(id, sizeof id, "h%d", rank % hosts);
    setenv("RINGCOMM_HOST_ID", id, 1);
}

int main(int argc, char **argv) {
    if (argc < 4 || atoi(argv[3]) < 1 || atoi(argv[3]) > RANKS_MAX) {
        fprintf(stderr, "usage: operators TRANSPORT processes|threads RANKS [HOSTS]\n");
        return 2;
    }
    struct ranks ranks = {
        .n = atoi(argv[3]), .threads = strcmp(argv[2], "threads") == 0, .transport = argv[1]};
    hosts = argc > 4 ? atoi(argv[4]) : 1;
    if (hosts > 1)
        ranks.before = deal_host;
    setenv("RINGCOMM_SLOT_BYTES", "4096", 0);
    mem_init();
    return ranks_run(&ranks, check_all, NULL) ? 1 : 0;
}
