/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floating-point environment of a calling thread changes no result, and is the same after each
 * call:
 *
 *     fp_environment TRANSPORT processes|threads RANKS
 *
 * Each rank sets a different environment before rcm_init: another rounding mode, denormals flushed
 * to zero, exceptions that raise signals. The same calls run in the default environment first.
 */
#include "../ranks.h"
#include <fenv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { COUNT = 600, WIDTH = 16, BYTES = COUNT * WIDTH };

/* ---- Environments ---------------------------------------------------------------------------- */

enum { UPWARD, FLUSHING, SIGNALING, DOWNWARD, ODD };

#if defined(__x86_64__)
enum { CONTROL = 0xFFC0, FLUSH = 0x8040, MASKS = 0x1F80, ROUND_UP = 0x4000, ROUND_DOWN = 0x2000 };

static uint32_t environment_get(void) {
    return _mm_getcsr() & CONTROL;
}

static void environment_set(int kind) {
    static const uint32_t words[ODD] = {
        [UPWARD] = MASKS | ROUND_UP,
        [FLUSHING] = MASKS | FLUSH,
        [SIGNALING] = 0,
        [DOWNWARD] = MASKS | FLUSH | ROUND_DOWN,
    };
    static const int modes[ODD] = {[UPWARD] = FE_UPWARD,
                                   [FLUSHING] = FE_TONEAREST,
                                   [SIGNALING] = FE_TONEAREST,
                                   [DOWNWARD] = FE_DOWNWARD};
    fesetround(modes[kind]); /* also of x87 */
    _mm_setcsr(words[kind]);
}

static bool environment_is_default(void) {
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return environment_get() == MASKS && (x87 & 0x0F3F) == 0x033F;
}
#else
static uint32_t environment_get(void) {
    return (uint32_t)fegetround();
}

static void environment_set(int kind) {
    fesetround(kind == UPWARD ? FE_UPWARD : kind == DOWNWARD ? FE_DOWNWARD : FE_TOWARDZERO);
}

static bool environment_is_default(void) {
    return fegetround() == FE_TONEAREST;
}
#endif

static void environment_default(void) {
    fesetenv(FE_DFL_ENV);
}

static void before(int rank) {
    environment_set(rank % ODD);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static uint64_t noise(int rank, size_t i) {
    uint64_t x = ((uint64_t)rank << 40 ^ (uint64_t)i) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

/* The sign and fraction bits of a value of that many bytes. */
static uint64_t denormal_bits(rcm_dtype dtype) {
    switch (dtype) {
    case RCM_FLOAT16:
        return 0x83ff;
    case RCM_BFLOAT16:
        return 0x807f;
    case RCM_FLOAT8_E4M3FN:
        return 0x87;
    case RCM_FLOAT8_E5M2:
        return 0x83;
    case RCM_FLOAT32:
    case RCM_COMPLEX64:
    case RCM_FLOAT32_INT32:
        return UINT64_C(0xffffffff807fffff);
    default:
        return UINT64_C(0x800fffffffffffff);
    }
}

/* Numbers of all kinds, half of them denormal. */
static void fill(char *buffer, rcm_dtype dtype, int rank) {
    const size_t width = rcm_dtype_size(dtype), part = width < 8 ? width : 8;
    memset(buffer, 0, BYTES);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t at = 0; at < width; at += part) {
            uint64_t x = noise(rank, i * WIDTH + at);
            if (i % 2)
                x &= denormal_bits(dtype);
            if (width == 16 && at == 8 && dtype != RCM_COMPLEX128)
                x &= 0xffff; /* an index, and unused bits */
            memcpy(buffer + i * width + at, &x, part);
        }
}

/* ---- Results --------------------------------------------------------------------------------- */

struct results {
    char blocking[BYTES], later[BYTES], local[BYTES];
};

/* Runs in the thread's current environment and does not change it. */
static rcm_status reduce(rcm_comm *comm, rcm_dtype dtype, rcm_op op, const char *in,
                         struct results *out) {
    rcm_work *work;
    rcm_status status = rcm_all_reduce(comm, in, out->blocking, COUNT, dtype, op, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_all_reduce(comm, in, out->later, COUNT, dtype, op, NULL, &work);
    if (status == RCM_OK) {
        status = rcm_work_wait(work, -1);
        rcm_work_free(work);
    }
    if (status == RCM_OK && op != RCM_AVG)
        status = rcm_reduce_local(in, out->local, COUNT, dtype, op);
    return status;
}

static int check_pair(rcm_comm *comm, rcm_dtype dtype, rcm_op op, int kind) {
    static _Thread_local struct results want, got;
    static _Thread_local char in[BYTES];
    int errors = 0;
    fill(in, dtype, rcm_rank(comm));
    memset(&want, 0, sizeof want);
    memset(&got, 0, sizeof got);
    fill(want.local, dtype, 77);
    fill(got.local, dtype, 77);
    CHECK(errors, reduce(comm, dtype, op, in, &want) == RCM_OK, "%s", rcm_last_error());
    environment_set(kind);
    const uint32_t own = environment_get();
    const rcm_status status = reduce(comm, dtype, op, in, &got);
    const uint32_t after = environment_get();
    environment_default();
    CHECK(errors, status == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, after == own, "the environment is 0x%x, and was 0x%x", after, own);
    CHECK(errors, memcmp(want.blocking, want.later, BYTES) == 0, "the asynchronous result differs");
    CHECK(errors, memcmp(want.blocking, got.blocking, BYTES) == 0, "%s of %s, blocking, differs",
          rcm_op_name(op), rcm_dtype_name(dtype));
    CHECK(errors, memcmp(want.later, got.later, BYTES) == 0, "%s of %s, asynchronous, differs",
          rcm_op_name(op), rcm_dtype_name(dtype));
    CHECK(errors, memcmp(want.local, got.local, BYTES) == 0, "%s of %s, rcm_reduce_local, differs",
          rcm_op_name(op), rcm_dtype_name(dtype));
    return errors;
}

/* All types with all operators. */
static int check_pairs(rcm_comm *comm, int kind) {
    int errors = 0;
    for (int dtype = RCM_UINT8; dtype <= RCM_INT64_INT32; dtype++)
        for (rcm_op op = RCM_SUM; op <= RCM_MAXLOC; op++)
            if (rcm_op_defined(op, (rcm_dtype)dtype) == RCM_OK)
                errors += check_pair(comm, (rcm_dtype)dtype, op, kind);
    return errors;
}

static int check_premul(rcm_comm *comm, int kind) {
    int errors = 0;
    rcm_op op = 0;
    float in[4] = {1, 3, 1e-39f, 7}, want[4], got[4];
    CHECK(errors, rcm_op_create_premul_sum(1.0 / 3, 0, RCM_FLOAT32, &op) == RCM_OK, "%s",
          rcm_last_error());
    rcm_status status = rcm_all_reduce(comm, in, want, 4, RCM_FLOAT32, op, NULL, NULL);
    environment_set(kind);
    if (status == RCM_OK)
        status = rcm_all_reduce(comm, in, got, 4, RCM_FLOAT32, op, NULL, NULL);
    environment_default();
    CHECK(errors, status == RCM_OK && memcmp(want, got, sizeof got) == 0, "premul_sum: %s",
          rcm_last_error());
    CHECK(errors, rcm_op_free(op) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- Code of the program --------------------------------------------------------------------- */

struct seen {
    _Atomic int calls, odd;
};

static void note(struct seen *seen) {
    seen->calls++;
    seen->odd += !environment_is_default();
    environment_set(DOWNWARD);
}

static void add(const void *in, void *inout, size_t count, rcm_dtype dtype, void *context) {
    (void)dtype;
    note(context);
    for (size_t i = 0; i < count; i++)
        ((int32_t *)inout)[i] += ((const int32_t *)in)[i];
}

static void call_back(void *arg, rcm_status status) {
    (void)status;
    note(arg);
}

/* The environment that an operator and a callback run in, and what they leave behind. */
static int check_foreign(rcm_comm *comm, int kind) {
    struct seen operator_seen = {0}, callback_seen = {0};
    int errors = 0;
    int32_t x = 1, sums[3] = {0};
    rcm_op op = 0;
    rcm_work *work = NULL, *marked = NULL;
    CHECK(errors,
          rcm_op_create(add, &operator_seen, RCM_OP_COMMUTATIVE, "add", RCM_INT32, &op) == RCM_OK,
          "%s", rcm_last_error());
    environment_set(kind);
    const uint32_t own = environment_get();
    rcm_status status = rcm_all_reduce(comm, &x, &sums[0], 1, RCM_INT32, op, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_all_reduce(comm, &x, &sums[1], 1, RCM_INT32, op, NULL, &work);
    if (status == RCM_OK)
        status = rcm_work_wait(work, -1);
    if (status == RCM_OK) /* pending until all ranks are in the barrier */
        status = rcm_irecv(comm, &sums[2], 1, RCM_INT32, rcm_rank(comm), 5, &marked);
    if (status == RCM_OK)
        status = rcm_work_on_complete(marked, call_back, &callback_seen);
    if (status == RCM_OK)
        status = rcm_send(comm, &x, 1, RCM_INT32, rcm_rank(comm), 5, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_work_wait(marked, -1);
    const uint32_t after = environment_get();
    environment_default();
    while (status == RCM_OK && callback_seen.calls == 0)
        (void)rcm_work_test(marked);
    CHECK(errors, status == RCM_OK && sums[0] == rcm_size(comm) && sums[1] == sums[0], "%d %d: %s",
          (int)sums[0], (int)sums[1], rcm_last_error());
    CHECK(errors, operator_seen.odd == 0, "the operator's environment is the thread's");
    CHECK(errors, callback_seen.odd == 0, "the callback's environment is not the default one");
    CHECK(errors, own == after, "the environment is 0x%x, and was 0x%x", after, own);
    rcm_work_free(work);
    rcm_work_free(marked);
    CHECK(errors, rcm_op_free(op) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/* Costs are the same in every environment, so the same algorithms are selected. */
static int check_plans(rcm_comm *comm, int kind) {
    int errors = 0;
    for (enum rcm_collective c = RCM_ALL_REDUCE; c <= RCM_EXSCAN; c++)
        for (size_t bytes = 1; bytes < (size_t)1 << 30; bytes += bytes / 3 + 1) {
            const char *want = rcm_comm_algorithm(comm, c, bytes);
            environment_set(kind);
            (void)rcm_comm_algorithm(comm, c, bytes + 1); /* drops the cached plan */
            const char *got = rcm_comm_algorithm(comm, c, bytes);
            environment_default();
            CHECK(errors, strcmp(want, got) == 0, "%s, and %s otherwise", got, want);
        }
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    const int kind = rcm_rank(comm) % ODD;
    rcm_comm *other = NULL;
    int errors = 0;
    (void)arg;
    const rcm_status status = rcm_comm_duplicate(comm, NULL, &other); /* in the old environment */
    const uint32_t after = environment_get();
    environment_set(kind);
    const uint32_t own = environment_get();
    environment_default();
    CHECK(errors, status == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, after == own, "after rcm_init: 0x%x, and was 0x%x", after, own);
    errors += check_plans(comm, kind) + check_premul(other, kind);
    errors += check_foreign(comm, kind) + check_pairs(comm, kind) + check_pairs(other, kind);
    environment_set(kind);
    const rcm_status ended = rcm_destroy(other);
    environment_default();
    CHECK(errors, ended == RCM_OK, "%s", rcm_last_error());
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: fp_environment TRANSPORT processes|threads RANKS\n");
        return 2;
    }
    const struct ranks ranks = {.n = atoi(argv[3]),
                                .threads = strcmp(argv[2], "threads") == 0,
                                .transport = argv[1],
                                .before = before};
    setenv("RINGCOMM_SLOT_BYTES", "4096", 0);
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
