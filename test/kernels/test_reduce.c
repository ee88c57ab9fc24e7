/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every reduction kernel of every instruction set this CPU has, against scalar code, bit by bit:
 * type x operator x 1..16 sources x sizes x misalignment x dst apart from or equal to each source,
 * plain and streaming. Bytes around dst must stay.
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
#define MAX_SIZE 100003

static const char *const variant_names[] = {"generic", "avx2", "avx512"};
static const rcm_dtype dtypes[] = {
#define TEST_DTYPE(name, number, bytes, ctype) RCM_##name,
    RCM_DTYPE_MAP(TEST_DTYPE)};
static const rcm_op ops[] = {
#define TEST_OP(name, number) RCM_##name,
    RCM_OP_MAP(TEST_OP)};
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* One buffer: [GUARD][up to a vector of shift][MAX_SIZE elements of 8][GUARD]. */
struct buffer {
    uint8_t *base;
    size_t room;
};

struct fixture {
    struct buffer src[RCMI_REDUCE_MAX], dst, other;
    uint8_t *pattern[RCMI_REDUCE_MAX]; /* what the sources hold */
    uint8_t *expected[RCMI_REDUCE_MAX + 1];
};

/* One case of the matrix. */
struct trial {
    const struct rcmi_kernel_table *table;
    rcm_dtype dtype;
    rcm_op op;
    int nsrcs;
    size_t count;
    size_t shift;  /* elements by which dst (once) and the sources (each differently) are moved */
    int alias;     /* source that dst is, or -1 */
    int streaming; /* 2: with a second result, which is not aliased; 3: streaming too */
};

static struct buffer buffer_make(void) {
    struct buffer b = {.room = MAX_SIZE * 8 + 2 * GUARD + 64 * 8};
    b.base = aligned_alloc(64, (b.room + 63) / 64 * 64);
    assert_non_null(b.base);
    return b;
}

static int fixture_create(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    for (int s = 0; s < RCMI_REDUCE_MAX; s++) {
        f->src[s] = buffer_make();
        f->pattern[s] = malloc(MAX_SIZE * 8);
        f->expected[s + 1] = malloc(MAX_SIZE * 8);
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

/* expected[n] for every n at once: each is the one before and one more source. */
static void fixture_expect(struct fixture *f, rcm_dtype dtype, rcm_op op, int specials) {
    size_t len = MAX_SIZE * rcm_dtype_size(dtype);
    for (int s = 0; s < RCMI_REDUCE_MAX; s++)
        reference_fill(dtype, f->pattern[s], MAX_SIZE, 1 + (unsigned)s * 1000003u, specials);
    memcpy(f->expected[1], f->pattern[0], len);
    for (int n = 2; n <= RCMI_REDUCE_MAX; n++) {
        memcpy(f->expected[n], f->expected[n - 1], len);
        reference_combine(dtype, op, f->expected[n], f->pattern[n - 1], MAX_SIZE);
    }
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
    rcmi_reduce_fn fn = t->streaming ? t->table->reduce_streaming[t->dtype][t->op]
                                     : t->table->reduce[t->dtype][t->op];
    uint8_t *other = f->other.base + GUARD + (t->count % 3 == 0 ? t->shift * size : 0);
    memset(other, 0xcc, len);
    guards_set(other, len);
    if (t->streaming < 2)
        fn(dst, srcs, t->nsrcs, t->count);
    else /* either one may be a source */
        t->table->reduce_twice[t->dtype][t->op](t->count % 2 ? dst : other,
                                                t->count % 2 ? other : dst, srcs, t->nsrcs,
                                                t->count, (enum rcmi_twice)(t->streaming - 2));
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

static void trials_small(struct fixture *f, struct trial t) {
    static const size_t sizes[] = {0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 129, 255, 256, 257, 1000};
    static const size_t shifts[SHIFTS] = {0, 1, 5};
    for (size_t z = 0; z < LENGTH(sizes); z++)
        for (size_t m = 0; m < SHIFTS; m++)
            for (t.nsrcs = 1; t.nsrcs <= RCMI_REDUCE_MAX; t.nsrcs++)
                for (t.alias = -1; t.alias < t.nsrcs; t.alias++) {
                    t.count = sizes[z];
                    t.shift = shifts[m];
                    trial_run(f, &t);
                }
}

static void trials_large(struct fixture *f, struct trial t) {
    static const int nsrcs[] = {1, 2, 3, 4, 9, 16};
    static const size_t sizes[] = {4096, 4099, MAX_SIZE};
    for (size_t z = 0; z < LENGTH(sizes); z++)
        for (size_t n = 0; n < LENGTH(nsrcs); n++)
            for (t.alias = -1; t.alias < 2 && t.alias < nsrcs[n]; t.alias++) {
                t.nsrcs = nsrcs[n];
                t.count = sizes[z];
                t.shift = sizes[z] % 2 * 3;
                trial_run(f, &t);
            }
}

static void trials_of_variants(struct fixture *f, rcm_dtype dtype, rcm_op op) {
    for (size_t v = 0; v < LENGTH(variant_names); v++) {
        struct trial t = {.table = rcmi_kernel_variant(variant_names[v]), .dtype = dtype, .op = op};
        if (!t.table)
            continue;
        for (t.streaming = 0; t.streaming < 5; t.streaming++) {
            trials_small(f, t);
            trials_large(f, t);
        }
    }
}

static void test_matrix(void **state) {
    for (size_t d = 0; d < LENGTH(dtypes); d++)
        for (size_t o = 0; o < LENGTH(ops); o++) {
            fixture_expect(*state, dtypes[d], ops[o], 0);
            trials_of_variants(*state, dtypes[d], ops[o]);
        }
}

static void test_specials(void **state) {
    for (size_t o = 0; o < LENGTH(ops); o++) {
        fixture_expect(*state, RCM_FLOAT32, ops[o], 1);
        trials_of_variants(*state, RCM_FLOAT32, ops[o]);
        fixture_expect(*state, RCM_FLOAT64, ops[o], 1);
        trials_of_variants(*state, RCM_FLOAT64, ops[o]);
    }
}

/* What the header promises in words, written as literals, so that the reference is tested too. */
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
            table->reduce[RCM_FLOAT32][rules[i].op](r, (const void *[]){a, b}, 2, 40);
            for (size_t k = 0; k < 40; k++)
                assert_int_equal(r[k], rules[i].result);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_matrix, fixture_create, fixture_destroy),
        cmocka_unit_test_setup_teardown(test_specials, fixture_create, fixture_destroy),
        cmocka_unit_test(test_float_rules),
    };
    for (size_t v = 0; v < LENGTH(variant_names); v++)
        printf("# %s: %s\n", variant_names[v],
               rcmi_kernel_variant(variant_names[v]) ? "tested" : "not on this CPU");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
