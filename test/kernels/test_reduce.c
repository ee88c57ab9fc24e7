/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every reduction kernel of every instruction set of this CPU, compared bit by bit with scalar
 * code: each operator of each type x 1..16 sources x sizes x misalignment x dst separate or equal
 * to a source; plain, streaming, and with a second result. Bytes around dst must not change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels.h"
#include "reference.h"
#include "variant.h"

#define GUARD    64 /* bytes before and after each buffer that must not change */
#define SHIFTS   3
#define MAX_SIZE 20011
#define WIDEST   16 /* bytes of an element */

static const char *const variant_names[] = {"generic", "avx2", "avx512"};
static const rcm_dtype dtypes[] = {
#define TEST_DTYPE(name, number, bytes, ctype) RCM_##name,
    RCM_DTYPE_MAP(TEST_DTYPE)};
static const rcm_op ops[] = {
#define TEST_OP(name, number) RCM_##name,
    RCM_OP_MAP(TEST_OP)};
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* One buffer: [GUARD][up to a vector of shift][MAX_SIZE elements of 16][GUARD]. */
struct buffer {
    uint8_t *base;
    size_t room;
};

struct fixture {
    struct buffer src[RCMI_REDUCE_MAX], dst, other;
    uint8_t *pattern[RCMI_REDUCE_MAX]; /* contents of the sources */
    uint8_t *expected[RCMI_REDUCE_MAX + 1];
};

/* One combination. */
struct trial {
    const struct rcmi_kernel_table *table;
    rcm_dtype dtype;
    rcm_op op;
    int nsrcs;
    size_t count;
    size_t shift; /* misalignment in elements of dst (once) and of the sources (each differently) */
    const struct rcmi_reduce_context *context;
    int alias;     /* the source that equals dst, or -1 */
    int streaming; /* 2: with a second result, which is not aliased; 3: streaming too */
};

static struct buffer buffer_make(void) {
    struct buffer b = {.room = MAX_SIZE * WIDEST + 2 * GUARD + 64 * WIDEST};
    b.base = aligned_alloc(64, (b.room + 63) / 64 * 64);
    assert_non_null(b.base);
    return b;
}

static int fixture_create(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    for (int s = 0; s < RCMI_REDUCE_MAX; s++) {
        f->src[s] = buffer_make();
        f->pattern[s] = malloc(MAX_SIZE * WIDEST);
        f->expected[s + 1] = malloc(MAX_SIZE * WIDEST);
        assert_true(f->pattern[s] && f->expected[s + 1]);
    }
    f->dst = buffer_make();
    f->other = buffer_make();
    *state = f;
    return 0;
}

static int fixture_destroy(void **state) {
    struct fixture *f = *state;
    for (int s = 0; s < RCMI_REDUCE_MAX; s++) {
        free(f->src[s].base);
        free(f->pattern[s]);
        free(f->expected[s + 1]);
    }
    free(f->dst.base);
    free(f->other.base);
    free(f);
    return 0;
}

static void fixture_fill(struct fixture *f, rcm_dtype dtype, int specials) {
    for (int s = 0; s < RCMI_REDUCE_MAX; s++)
        reference_fill(dtype, f->pattern[s], MAX_SIZE, 1 + (unsigned)s * 1000003u, specials);
}

static void fixture_expect(struct fixture *f, rcm_dtype dtype, rcm_op op, int specials) {
    fixture_fill(f, dtype, specials);
    reference_reduce(dtype, op, (const void *const *)f->pattern, (void *const *)(f->expected + 1),
                     RCMI_REDUCE_MAX, MAX_SIZE);
}

static void guards_set(uint8_t *data, size_t len) {
    memset(data - GUARD, 0xa5, GUARD);
    memset(data + len, 0x5a, GUARD);
}

static int guards_intact(const uint8_t *data, size_t len) {
    const uint8_t *before = data - GUARD, *after = data + len;
    for (size_t i = 0; i < GUARD; i++)
        if (before[i] != 0xa5 || after[i] != 0x5a)
            return 0;
    return 1;
}

static void trial_fail(const struct trial *t, const char *what) {
    fail_msg("%s %s %s%s: %d sources, %zu elements, shift %zu, dst is source %d: %s",
             t->table->name, rcm_dtype_name(t->dtype), rcm_op_name(t->op),
             t->streaming ? " streaming" : "", t->nsrcs, t->count, t->shift, t->alias, what);
}

static void trial_run(struct fixture *f, const struct trial *t) {
    size_t size = rcm_dtype_size(t->dtype), len = t->count * size;
    const void *srcs[RCMI_REDUCE_MAX];
    uint8_t *data[RCMI_REDUCE_MAX];
    for (int s = 0; s < t->nsrcs; s++) {
        data[s] = f->src[s].base + GUARD + (t->shift * (size_t)(s + 1) % 64) * size;
        memcpy(data[s], f->pattern[s], len);
        guards_set(data[s], len);
        srcs[s] = data[s];
    }
    uint8_t *dst = t->alias >= 0 ? data[t->alias] : f->dst.base + GUARD + t->shift * size;
    if (t->alias < 0) {
        memset(dst, 0xcc, len);
        guards_set(dst, len);
    }
    const struct rcmi_reduction *reduction = &t->table->reductions[t->dtype][t->op];
    rcmi_reduce_fn fn = t->streaming ? reduction->reduce_streaming : reduction->reduce;
    uint8_t *other = f->other.base + GUARD + (t->count % 3 == 0 ? t->shift * size : 0);
    memset(other, 0xcc, len);
    guards_set(other, len);
    if (t->streaming < 2)
        fn(dst, srcs, t->nsrcs, t->count, t->context);
    else /* either result may equal a source */
        reduction->reduce_twice(t->count % 2 ? dst : other, t->count % 2 ? other : dst, srcs,
                                t->nsrcs, t->count, (enum rcmi_twice)(t->streaming - 2),
                                t->context);
    if (t->streaming >= 2 &&
        (memcmp(other, f->expected[t->nsrcs], len) != 0 || !guards_intact(other, len)))
        trial_fail(t, "wrong second result");
    if (memcmp(dst, f->expected[t->nsrcs], len) != 0)
        trial_fail(t, "wrong result");
    if (!guards_intact(dst, len))
        trial_fail(t, "bytes around dst changed");
    for (int s = 0; s < t->nsrcs; s++)
        if (s != t->alias && memcmp(data[s], f->pattern[s], len) != 0)
            trial_fail(t, "a source changed");
}

/* The shift and the source that equals dst vary with the rest. */
static void trials_small(struct fixture *f, struct trial t) {
    static const size_t sizes[] = {0, 1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 129, 255, 257};
    static const size_t shifts[SHIFTS] = {0, 1, 5};
    for (size_t z = 0; z < LENGTH(sizes); z++)
        for (t.nsrcs = 1; t.nsrcs <= RCMI_REDUCE_MAX; t.nsrcs++)
            for (int again = 0; again < 2; again++) {
                t.count = sizes[z];
                t.shift = shifts[(z + (size_t)t.nsrcs + (size_t)again) % SHIFTS];
                t.alias = again ? (int)(z + (size_t)t.streaming) % t.nsrcs : -1;
                trial_run(f, &t);
            }
}

static void trials_large(struct fixture *f, struct trial t) {
    static const int nsrcs[] = {1, 2, 3, 16};
    static const size_t sizes[] = {1000, 4099, MAX_SIZE};
    for (size_t z = 0; z < LENGTH(sizes); z++)
        for (size_t n = 0; n < LENGTH(nsrcs); n++) {
            if (sizes[z] == MAX_SIZE && nsrcs[n] == 16)
                continue;
            t.nsrcs = nsrcs[n];
            t.alias = (int)((z + n) % 3) - 1 < t.nsrcs ? (int)((z + n) % 3) - 1 : -1;
            t.count = sizes[z];
            t.shift = (z + n) % 2 * 3;
            trial_run(f, &t);
        }
}

static void trials_of_variants(struct fixture *f, struct trial t) {
    for (size_t v = 0; v < LENGTH(variant_names); v++) {
        t.table = rcmi_kernel_variant(variant_names[v]);
        for (t.streaming = 0; t.table && t.streaming < 5; t.streaming++) {
            trials_small(f, t);
            trials_large(f, t);
        }
    }
}

static void trials_of_pair(struct fixture *f, rcm_dtype dtype, rcm_op op, int specials) {
    const struct trial t = {.dtype = dtype, .op = op};
    fixture_expect(f, dtype, op, specials);
    trials_of_variants(f, t);
}

/* Each combination gets special values or not, because they do not affect how a kernel iterates. */
static void test_matrix(void **state) {
    for (size_t d = 0; d < LENGTH(dtypes); d++)
        for (size_t o = 0; o < LENGTH(ops); o++)
            if (ops[o] != RCM_AVG && reference_defines(dtypes[d], ops[o]))
                trials_of_pair(*state, dtypes[d], ops[o], (d + o) % 2 != 0);
}

static void test_specials(void **state) {
    static const rcm_dtype floats[] = {RCM_FLOAT32, RCM_FLOAT64, RCM_FLOAT16, RCM_BFLOAT16};
    for (size_t d = 0; d < LENGTH(floats); d++)
        for (rcm_op op = RCM_SUM; op <= RCM_MAX; op++)
            trials_of_pair(*state, floats[d], op, 1);
}

static void trials_scaled(struct fixture *f, rcm_dtype dtype, rcm_op op,
                          const struct rcmi_reduce_context *context) {
    const struct reference_scaling scaling = {.scale = {context->scale[0], context->scale[1]},
                                              .scaled = context->scaled,
                                              .divisor = context->divisor};
    const struct trial t = {.dtype = dtype, .op = op, .context = context};
    fixture_fill(f, dtype, 1);
    reference_scaled_sum(dtype, &scaling, (const void *const *)f->pattern,
                         (void *const *)(f->expected + 1), RCMI_REDUCE_MAX, MAX_SIZE);
    trials_of_variants(f, t);
}

/* avg of every type that has a sum, except bool; premul_sum of floats and complex numbers. */
static void test_scaled(void **state) {
    const struct rcmi_reduce_context average = {.divisor = 7};
    const struct rcmi_reduce_context scale = {.scale = {-0.3, 1.7}, .scaled = 0x5a05, .divisor = 1};
    for (size_t d = 0; d < LENGTH(dtypes); d++) {
        const struct rcmi_kernel_table *table = rcmi_kernel_variant("generic");
        if (table->reductions[dtypes[d]][RCM_AVG].reduce)
            trials_scaled(*state, dtypes[d], RCM_AVG, &average);
        if (table->reductions[dtypes[d]][RCMI_OP_PREMUL_SUM].reduce)
            trials_scaled(*state, dtypes[d], RCMI_OP_PREMUL_SUM, &scale);
    }
}

/* Every 16- and 8-bit float converted to float32 and back: its sum with -0 is itself, or the
 * NaN. */
static void test_all_codes(void **state) {
    static const rcm_dtype smalls[] = {RCM_FLOAT16, RCM_BFLOAT16, RCM_FLOAT8_E4M3FN,
                                       RCM_FLOAT8_E5M2};
    static uint8_t codes[2 * 65536], zeros[2 * 65536], sums[2 * 65536], wanted[2 * 65536];
    (void)state;
    for (size_t d = 0; d < LENGTH(smalls); d++) {
        const size_t size = rcm_dtype_size(smalls[d]), n = (size_t)1 << (8 * size);
        void *const results[] = {codes, wanted};
        for (size_t i = 0; i < n; i++) {
            codes[size * i] = (uint8_t)i;
            codes[size * i + size - 1] = (uint8_t)(i >> (8 * (size - 1)));
            zeros[size * i] = 0;
            zeros[size * i + size - 1] = 0x80;
        }
        reference_reduce(smalls[d], RCM_SUM, (const void *[]){codes, zeros}, results, 2, n);
        for (size_t v = 0; v < LENGTH(variant_names); v++) {
            const struct rcmi_kernel_table *table = rcmi_kernel_variant(variant_names[v]);
            if (!table)
                continue;
            table->reductions[smalls[d]][RCM_SUM].reduce(sums, (const void *[]){codes, zeros}, 2, n,
                                                         NULL);
            assert_memory_equal(sums, wanted, n * size);
        }
    }
}

/* The defined combinations are those of the header's table. */
static void test_defined(void **state) {
    (void)state;
    for (size_t d = 0; d < LENGTH(dtypes); d++)
        for (size_t o = 0; o < LENGTH(ops); o++)
            assert_int_equal(rcm_op_defined(ops[o], dtypes[d]),
                             reference_defines(dtypes[d], ops[o]) ? RCM_OK : RCM_ERR_INVALID);
}

/* The rules of the header, written as literals, so that the reference is tested too. */
static void test_float_rules(void **state) {
    static const struct {
        rcm_op op;
        uint32_t a, b, result;
    } rules[] = {
        {RCM_MIN, 0x00000000, 0x80000000, 0x80000000},  /* min(+0, -0) = -0 */
        {RCM_MIN, 0x80000000, 0x00000000, 0x80000000},  /* min(-0, +0) = -0 */
        {RCM_MAX, 0x00000000, 0x80000000, 0x00000000},  /* max(+0, -0) = +0 */
        {RCM_MAX, 0x80000000, 0x00000000, 0x00000000},  /* max(-0, +0) = +0 */
        {RCM_MIN, 0x3f800000, 0xffc12345, 0x7fc00000},  /* min(1, NaN) = NaN */
        {RCM_MIN, 0xffc12345, 0x3f800000, 0x7fc00000},  /* min(NaN, 1) = NaN */
        {RCM_MAX, 0x3f800000, 0x7f800001, 0x7fc00000},  /* max(1, signalling NaN) = NaN */
        {RCM_MAX, 0x7f800001, 0x3f800000, 0x7fc00000},  /* max(signalling NaN, 1) = NaN */
        {RCM_SUM, 0x7f800000, 0xff800000, 0x7fc00000},  /* inf - inf = NaN */
        {RCM_PROD, 0x00000000, 0xff800000, 0x7fc00000}, /* 0 * -inf = NaN */
        {RCM_SUM, 0xffc00001, 0x7fc00002, 0x7fc00000},  /* NaN + NaN = NaN */
        {RCM_SUM, 0x80000000, 0x80000000, 0x80000000},  /* -0 + -0 = -0 */
        {RCM_SUM, 0x00000001, 0x00000001, 0x00000002},  /* subnormals are not flushed */
    };
    (void)state;
    for (size_t v = 0; v < LENGTH(variant_names); v++)
        for (size_t i = 0; i < LENGTH(rules); i++) {
            const struct rcmi_kernel_table *table = rcmi_kernel_variant(variant_names[v]);
            uint32_t a[40], b[40], r[40];
            for (size_t k = 0; k < 40; k++)
                a[k] = rules[i].a, b[k] = rules[i].b;
            if (!table)
                continue;
            table->reductions[RCM_FLOAT32][rules[i].op].reduce(r, (const void *[]){a, b}, 2, 40,
                                                               NULL);
            for (size_t k = 0; k < 40; k++)
                assert_int_equal(r[k], rules[i].result);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_matrix, fixture_create, fixture_destroy),
        cmocka_unit_test_setup_teardown(test_specials, fixture_create, fixture_destroy),
        cmocka_unit_test_setup_teardown(test_scaled, fixture_create, fixture_destroy),
        cmocka_unit_test(test_all_codes),
        cmocka_unit_test(test_float_rules),
        cmocka_unit_test(test_defined),
    };
    for (size_t v = 0; v < LENGTH(variant_names); v++)
        printf("# %s: %s\n", variant_names[v],
               rcmi_kernel_variant(variant_names[v]) ? "tested" : "not on this CPU");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
