/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes the GPU kernels, and compares each bit of their results with plain C (reference.h) and
 * with the CPU kernels. All bytes around the results must be unchanged.
 *
 *      cuda-kernels [SEED [ROUNDS [IMAGE]]]
 *
 * A round is a trial of each type and operator. The rest is drawn: sources and results, their
 * positions, which of them coincide, their length, scales, special values, grid and block. All
 * memory of a trial is one image of equal slots; `wanted` is its expected contents.
 *
 *      | guard | shift | elements | guard |     a slot of each source and of each result
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../kernels/reference.h"
#include "gpu.h"

#define MAX_COUNT 3000
#define WIDEST    16 /* bytes of an element */
#define GUARD     32
#define SHIFTS    16 /* bytes */
#define MEMORY    (2 * RCMI_CUDA_MAX * (2 * GUARD + SHIFTS + MAX_COUNT * WIDEST + 16))
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const rcm_dtype dtypes[] = {
#define TEST_DTYPE(name, number, bytes, ctype) RCM_##name,
    RCM_DTYPE_MAP(TEST_DTYPE)};
static const rcm_op ops[] = {
#define TEST_OP(name, number) RCM_##name,
    RCM_OP_MAP(TEST_OP) RCMI_OP_PREMUL_SUM};

struct trial {
    rcm_dtype dtype;
    rcm_op op;
    int nsrcs, nresults;
    size_t count;
    bool specials;
    unsigned grid, block;
    size_t stride;
    size_t at[2 * RCMI_CUDA_MAX]; /* of each source, then of each result, in the image */
    struct rcmi_reduce_context context;
};

static struct gpu gpu;
static uint8_t image[MEMORY], wanted[MEMORY];
static uint8_t steps[RCMI_CUDA_MAX][MAX_COUNT * WIDEST], by_cpu[MAX_COUNT * WIDEST];
static uint64_t seed = 1;
static unsigned long trials;

static unsigned draw(unsigned below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static size_t bytes_of(const struct trial *t) {
    return t->count * rcm_dtype_size(t->dtype);
}

static void fail(const struct trial *t, const char *what) {
    printf(
        "%s %s: %d sources, %d results, %zu elements, grid %u x %u, scaled %#x by %g %g, divisor "
        "%u: %s\n",
        rcm_dtype_name(t->dtype), t->op == RCMI_OP_PREMUL_SUM ? "premul" : rcm_op_name(t->op),
        t->nsrcs, t->nresults, t->count, t->grid, t->block, t->context.scaled, t->context.scale[0],
        t->context.scale[1], t->context.divisor, what);
    for (int i = 0; i < t->nsrcs + t->nresults; i++)
        printf(" %s %d at %zu\n", i < t->nsrcs ? "source" : "result",
               i < t->nsrcs ? i : i - t->nsrcs, t->at[i]);
    exit(1);
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static size_t draw_count(void) {
    static const unsigned below[] = {4, 70, 70, 600, MAX_COUNT + 1};
    return draw(below[draw(LENGTH(below))]);
}

static int draw_number(void) {
    static const int often[] = {1, 2, 2, 3, RCMI_CUDA_MAX};
    return draw(2) ? often[draw(LENGTH(often))] : 1 + (int)draw(RCMI_CUDA_MAX);
}

/* The alignment of the type. */
static size_t unit_of(rcm_dtype dtype) {
    const size_t size = rcm_dtype_size(dtype);
    return dtype >= RCM_COMPLEX64 ? size / 2 : size;
}

/* In two of three trials all are congruent modulo 16. Some results coincide with a source. */
static void draw_addresses(struct trial *t) {
    const size_t unit = unit_of(t->dtype), shift = unit * draw((unsigned)(SHIFTS / unit));
    const bool alike = draw(3) > 0;
    const int first = (int)draw((unsigned)t->nsrcs), n = t->nsrcs + t->nresults;
    t->stride = (2 * GUARD + SHIFTS + bytes_of(t) + 15) / 16 * 16;
    for (int i = 0; i < n; i++)
        t->at[i] = (size_t)i * t->stride + GUARD +
                   (alike ? shift : unit * draw((unsigned)(SHIFTS / unit)));
    for (int r = 0; r < t->nresults && r < t->nsrcs; r++)
        if (draw(3) == 0)
            t->at[t->nsrcs + r] = t->at[(first + r) % t->nsrcs];
}

static void draw_context(struct trial *t) {
    static const double scales[] = {0.5, -0.3, 1.7, 1e30, 0, 3};
    static const unsigned divisors[] = {1, 2, 3, 7, 100, 65536};
    memset(&t->context, 0, sizeof t->context);
    if (t->op != RCM_AVG && t->op != RCMI_OP_PREMUL_SUM)
        return;
    t->context.divisor = divisors[draw(LENGTH(divisors))];
    if (t->op == RCM_AVG)
        return;
    t->context.scaled = draw(1u << 16);
    for (int i = 0; i < 2; i++)
        t->context.scale[i] = scales[draw(LENGTH(scales))];
}

static void draw_grid(struct trial *t) {
    static const unsigned blocks[] = {32, 32, 64, 256};
    t->grid = draw(60) == 0 ? 264 : draw(2) ? 1 : 3;
    t->block = t->grid == 264 ? 32 : blocks[draw(LENGTH(blocks))];
}

/* ---- One trial ------------------------------------------------------------------------------- */

static struct rcmi_operation operation_of(const struct trial *t) {
    struct rcmi_operation o = {.nresults = 1,
                               .nsrcs = (uint32_t)t->nsrcs,
                               .bytes = bytes_of(t),
                               .dtype = t->dtype,
                               .reduces = true,
                               .op = t->op,
                               .context = t->context};
    for (int s = 0; s < t->nsrcs; s++)
        o.srcs[s] = (const void *)(uintptr_t)(gpu.memory + t->at[s]);
    o.results[0] = (void *)(uintptr_t)(gpu.memory + t->at[t->nsrcs]);
    return o;
}

/* Uses more results than an operation has, and another grid. */
static void widen(const struct trial *t, struct rcmi_cuda_launch *launch) {
    launch->args.nresults = (uint32_t)t->nresults;
    for (int r = 0; r < t->nresults; r++)
        launch->args.results[r] = (void *)(uintptr_t)(gpu.memory + t->at[t->nsrcs + r]);
    if (t->grid > 0) {
        launch->grid = t->grid;
        launch->block = t->block;
    }
}

static void fill(const struct trial *t) {
    memset(image, 0xa5, t->stride * (size_t)(t->nsrcs + t->nresults));
    for (int s = 0; s < t->nsrcs; s++)
        reference_fill(t->dtype, image + t->at[s], t->count, draw(1u << 30), t->specials);
}

/* The expected result in plain C and by the CPU kernels. */
static void expect(const struct trial *t) {
    const void *srcs[RCMI_CUDA_MAX];
    void *results[RCMI_CUDA_MAX];
    const struct reference_scaling scaling = {
        {t->context.scale[0], t->context.scale[1]}, t->context.scaled, t->context.divisor};
    for (int s = 0; s < t->nsrcs; s++) {
        srcs[s] = image + t->at[s];
        results[s] = steps[s];
    }
    if (t->op == RCM_AVG || t->op == RCMI_OP_PREMUL_SUM)
        reference_scaled_sum(t->dtype, &scaling, srcs, results, t->nsrcs, t->count);
    else
        reference_reduce(t->dtype, t->op, srcs, results, t->nsrcs, t->count);
    rcmi_reduction_find(t->dtype, t->op)->reduce(by_cpu, srcs, t->nsrcs, t->count, &t->context);
    if (memcmp(by_cpu, steps[t->nsrcs - 1], bytes_of(t)) != 0)
        fail(t, "the CPU's kernel differs from plain C");
}

static void compare(const struct trial *t) {
    char what[100];
    const size_t bytes = t->stride * (size_t)(t->nsrcs + t->nresults);
    for (size_t i = 0; i < bytes; i++)
        if (image[i] != wanted[i]) {
            snprintf(what, sizeof what, "byte %zu of slot %zu is %02x, not %02x", i % t->stride,
                     i / t->stride, image[i], wanted[i]);
            fail(t, what);
        }
}

/* Runs the trial on the filled image. */
static void run(const struct trial *t) {
    const struct rcmi_operation operation = operation_of(t);
    const size_t bytes = t->stride * (size_t)(t->nsrcs + t->nresults);
    struct rcmi_cuda_launch launch;
    expect(t);
    memcpy(wanted, image, bytes);
    for (int r = 0; r < t->nresults; r++)
        memcpy(wanted + t->at[t->nsrcs + r], steps[t->nsrcs - 1], bytes_of(t));
    if (!rcmi_cuda_launch_of(&operation, 4, &launch))
        fail(t, "no kernel");
    widen(t, &launch);
    if (launch.grid > 0)
        gpu_run(&gpu, &launch, image, bytes);
    if (memcmp(image, wanted, bytes) != 0)
        compare(t);
    trials++;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void draw_trial(rcm_dtype dtype, rcm_op op) {
    struct trial t = {.dtype = dtype, .op = op, .nsrcs = draw_number(), .specials = draw(2)};
    t.nresults = draw(2) ? 1 + (int)draw(2) : draw_number();
    t.count = draw_count();
    draw_addresses(&t);
    draw_context(&t);
    draw_grid(&t);
    fill(&t);
    run(&t);
}

static bool defined(rcm_dtype dtype, rcm_op op) {
    return rcmi_reduction_find(dtype, op) != NULL;
}

/* The GPU has a kernel exactly where the CPU has one. Functions of the program have none. */
static void test_defined(void) {
    struct rcmi_cuda_launch launch;
    struct trial t = {.nsrcs = 2, .nresults = 1, .count = 1};
    for (t.dtype = -1; t.dtype < 40; t.dtype++)
        for (t.op = -1; t.op < 40; t.op++)
            if ((rcmi_cuda_function_of(t.dtype, t.op) >= 0) != defined(t.dtype, t.op))
                fail(&t, "defined only here or only on the CPU");
    t.dtype = RCM_FLOAT32;
    t.op = RCMI_OP_FUNCTION;
    const struct rcmi_operation operation = operation_of(&t);
    if (rcmi_cuda_launch_of(&operation, 4, &launch))
        fail(&t, "a function of the program has a kernel");
}

static void test_round(void) {
    for (size_t d = 0; d < LENGTH(dtypes); d++)
        for (size_t o = 0; o < LENGTH(ops); o++)
            if (defined(dtypes[d], ops[o]))
                draw_trial(dtypes[d], ops[o]);
}

/* The grid of a collective, with enough elements for all packs of a thread. */
static void test_launches(void) {
    static const rcm_dtype some[] = {RCM_FLOAT32, RCM_BFLOAT16, RCM_UINT8, RCM_FLOAT64_INT32};
    for (size_t d = 0; d < LENGTH(some); d++) {
        struct trial t = {.dtype = some[d], .nsrcs = 2, .nresults = 1};
        t.op = some[d] == RCM_FLOAT64_INT32 ? RCM_MINLOC : RCM_SUM;
        for (t.count = 0; t.count <= MAX_COUNT; t.count += MAX_COUNT / 2) {
            t.stride = (2 * GUARD + bytes_of(&t) + 15) / 16 * 16;
            for (size_t i = 0; i < 3; i++)
                t.at[i] = i * t.stride + GUARD;
            fill(&t);
            run(&t);
        }
    }
}

/* Every 8-bit float with every other, and every 16-bit float with -0, in pieces. */
static void test_codes_of(rcm_dtype dtype, rcm_op op) {
    const size_t size = rcm_dtype_size(dtype);
    struct trial t = {.dtype = dtype, .op = op, .nsrcs = 2, .nresults = 1, .grid = 2, .block = 128};
    for (uint32_t code = 0, n = 0; code < 0x10000; code += n) {
        n = code + 2048 < 0x10000 ? 2048 : 0x10000 - code;
        t.count = n;
        t.stride = (2 * GUARD + bytes_of(&t) + 15) / 16 * 16;
        for (size_t i = 0; i < 3; i++)
            t.at[i] = i * t.stride + GUARD;
        memset(image, 0xa5, 3 * t.stride);
        for (uint32_t i = 0; i < n; i++) {
            const uint16_t a = (uint16_t)(code + i), b = size == 2 ? 0x8000 : a >> 8;
            memcpy(image + t.at[0] + i * size, &a, size);
            memcpy(image + t.at[1] + i * size, &b, size);
        }
        run(&t);
    }
}

static void test_codes(void) {
    for (rcm_op op = RCM_SUM; op <= RCM_MAX; op++) {
        test_codes_of(RCM_FLOAT8_E4M3FN, op);
        test_codes_of(RCM_FLOAT8_E5M2, op);
        test_codes_of(RCM_FLOAT16, op);
        test_codes_of(RCM_BFLOAT16, op);
    }
}

int main(int argc, char **argv) {
    const unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 1;
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    gpu_open(&gpu, MEMORY, argc > 3 ? argv[3] : NULL);
    test_defined();
    test_launches();
    test_codes();
    for (unsigned i = 0; i < rounds; i++)
        test_round();
    gpu_close(&gpu);
    printf("%lu launches: all bits equal\n", trials);
    return 0;
}
