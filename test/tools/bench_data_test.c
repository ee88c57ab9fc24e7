/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data of ringcomm-bench: the expected results equal those of a plain typed loop in any order
 * of the ranks, and every wrong element is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "bench.h"

#define COUNT 1500 /* not a multiple of the block of bench_data.c */

static const rcm_dtype dtypes[] = {RCM_UINT8, RCM_INT32, RCM_INT64, RCM_FLOAT32, RCM_FLOAT64};
static const rcm_dtype all_dtypes[] = {
#define TEST_DTYPE(name, number, bytes, ctype) RCM_##name,
    RCM_DTYPE_MAP(TEST_DTYPE)};
static const rcm_op all_ops[] = {
#define TEST_OP(name, number) RCM_##name,
    RCM_OP_MAP(TEST_OP)};
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define NDTYPES   (sizeof(dtypes) / sizeof(dtypes[0]))

static struct bench_point point_of(enum bench_what what, rcm_dtype dtype, rcm_op op, int nranks) {
    struct bench_point point = {
        .what = what, .dtype = dtype, .op = op, .count = COUNT, .nranks = nranks};
    point.bytes = COUNT * rcm_dtype_size(dtype);
    point.info = (struct rcm_collective_info){.send_blocks = 1,
                                              .recv_blocks = 1,
                                              .send_at_root = what == BENCH_BROADCAST,
                                              .reduces = what == BENCH_ALL_REDUCE};
    return point;
}

#define COMBINE(ctype, wide)                                                                       \
    static void combine_##ctype(rcm_op op, void *acc, const void *more) {                          \
        ctype *a = acc;                                                                            \
        const ctype *b = more;                                                                     \
        for (int i = 0; i < COUNT; i++) {                                                          \
            if (op == RCM_SUM)                                                                     \
                a[i] = (ctype)((wide)a[i] + (wide)b[i]);                                           \
            else if (op == RCM_PROD)                                                               \
                a[i] = (ctype)((wide)a[i] * (wide)b[i]);                                           \
            else if ((op == RCM_MIN) == (b[i] < a[i]))                                             \
                a[i] = b[i];                                                                       \
        }                                                                                          \
    }
COMBINE(uint8_t, uint32_t)
COMBINE(int32_t, uint32_t)
COMBINE(int64_t, uint64_t)
COMBINE(float, float)
COMBINE(double, double)

static void combine(rcm_dtype dtype, rcm_op op, void *acc, const void *more) {
    switch (op > RCM_MAX ? 0 : (int)dtype) {
    case RCM_UINT8:
        combine_uint8_t(op, acc, more);
        break;
    case RCM_INT32:
        combine_int32_t(op, acc, more);
        break;
    case RCM_INT64:
        combine_int64_t(op, acc, more);
        break;
    case RCM_FLOAT32:
        combine_float(op, acc, more);
        break;
    case RCM_FLOAT64:
        combine_double(op, acc, more);
        break;
    default: /* the kernels have their own tests */
        assert_int_equal(rcm_reduce_local(more, acc, COUNT, dtype, op), RCM_OK);
    }
}

/* Combines the data of all ranks in ring order, starting with rank `first`. */
static void reduce_all(const struct bench_point *point, int first, uint64_t iteration, void *acc,
                       void *scratch) {
    bench_fill(point, first, iteration, acc);
    for (int i = 1; i < point->nranks; i++) {
        bench_fill(point, (first + i) % point->nranks, iteration, scratch);
        combine(point->dtype, point->op, acc, scratch);
    }
}

static void all_reduce_is_exact_in_any_order(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 8, 130};
    static double acc[2 * COUNT], scratch[2 * COUNT];
    for (size_t d = 0; d < LENGTH(all_dtypes); d++)
        for (size_t o = 0; o < LENGTH(all_ops); o++)
            for (size_t s = 0; s < LENGTH(sizes); s++) {
                if (all_ops[o] == RCM_AVG || rcm_op_defined(all_ops[o], all_dtypes[d]) != RCM_OK)
                    continue;
                struct bench_point point =
                    point_of(BENCH_ALL_REDUCE, all_dtypes[d], all_ops[o], sizes[s]);
                for (int first = 0; first < sizes[s]; first += 1 + sizes[s] / 3) {
                    reduce_all(&point, first, 7, acc, scratch);
                    assert_int_equal(bench_count_wrong(&point, 0, 7, acc), 0);
                    assert_int_equal(bench_count_wrong(&point, sizes[s] - 1, 7, acc), 0);
                }
            }
}

/* Every single flipped bit, at a few places, is found and counts as one element. */
static void a_flipped_bit_is_one_wrong_element(void **state) {
    (void)state;
    static double acc[COUNT], scratch[COUNT];
    for (size_t d = 0; d < NDTYPES; d++) {
        struct bench_point point = point_of(BENCH_ALL_REDUCE, dtypes[d], RCM_SUM, 3);
        unsigned char *bytes = (unsigned char *)acc;
        reduce_all(&point, 0, 0, acc, scratch);
        for (size_t at = 0; at < point.bytes; at += 97) {
            for (int bit = 0; bit < 8; bit++) {
                bytes[at] ^= (unsigned char)(1u << bit);
                assert_int_equal(bench_count_wrong(&point, 1, 0, acc), 1);
                bytes[at] ^= (unsigned char)(1u << bit);
            }
        }
        bytes[point.bytes - 1] ^= 1;
        bytes[0] ^= 1;
        assert_int_equal(bench_count_wrong(&point, 1, 0, acc), 2);
    }
}

/* A missing rank, a rank counted twice, an old iteration, a shifted result: nearly all elements of
 * a sum are wrong. */
static void wrong_results_are_seen(void **state) {
    (void)state;
    static double acc[COUNT + 1], scratch[COUNT + 1];
    for (size_t d = 0; d < NDTYPES; d++) {
        struct bench_point point = point_of(BENCH_ALL_REDUCE, dtypes[d], RCM_SUM, 4);
        const size_t width = rcm_dtype_size(dtypes[d]);
        const size_t most = COUNT * 9 / 10;

        reduce_all(&point, 0, 3, acc, scratch);
        assert_true(bench_count_wrong(&point, 0, 4, acc) > most);
        assert_true(bench_count_wrong(&point, 0, 2, acc) > most);
        memmove((char *)acc + width, acc, point.bytes - width);
        assert_true(bench_count_wrong(&point, 0, 3, acc) > most);

        reduce_all(&point, 0, 3, acc, scratch);
        bench_fill(&point, 2, 3, scratch);
        combine(point.dtype, point.op, acc, scratch);
        assert_true(bench_count_wrong(&point, 0, 3, acc) > most);

        struct bench_point fewer = point;
        fewer.nranks = 3;
        reduce_all(&fewer, 0, 3, acc, scratch);
        assert_true(bench_count_wrong(&point, 0, 3, acc) > most);

        bench_poison(&point, acc);
        assert_true(bench_count_wrong(&point, 0, 3, acc) > most);
    }
}

static void broadcast_is_the_roots_data(void **state) {
    (void)state;
    static double data[COUNT];
    for (size_t d = 0; d < NDTYPES; d++) {
        struct bench_point point = point_of(BENCH_BROADCAST, dtypes[d], RCM_SUM, 5);
        point.root = 3;
        bench_fill(&point, 3, 1, data);
        for (int rank = 0; rank < 5; rank++) {
            assert_int_equal(bench_count_wrong(&point, rank, 1, data), 0);
            assert_int_equal(bench_has_input(&point, rank), rank == 3);
        }
        bench_fill(&point, 2, 1, data);
        assert_true(bench_count_wrong(&point, 0, 1, data) > COUNT * 9 / 10);
    }
}

static void sendrecv_is_the_peers_data(void **state) {
    (void)state;
    static double data[COUNT];
    struct bench_point point = point_of(BENCH_SENDRECV, RCM_INT32, RCM_SUM, 3);
    bench_fill(&point, 1, 5, data);
    assert_int_equal(bench_count_wrong(&point, 0, 5, data), 0);
    assert_true(bench_count_wrong(&point, 1, 5, data) > COUNT * 9 / 10);
    assert_true(bench_has_result(&point, 1));
    assert_false(bench_has_result(&point, 2));
    assert_false(bench_has_input(&point, 2));
}

static void zero_elements_are_right(void **state) {
    (void)state;
    struct bench_point point = point_of(BENCH_ALL_REDUCE, RCM_FLOAT32, RCM_SUM, 2);
    point.count = point.bytes = 0;
    assert_int_equal(bench_count_wrong(&point, 0, 0, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduce_is_exact_in_any_order),
        cmocka_unit_test(a_flipped_bit_is_one_wrong_element),
        cmocka_unit_test(wrong_results_are_seen),
        cmocka_unit_test(broadcast_is_the_roots_data),
        cmocka_unit_test(sendrecv_is_the_peers_data),
        cmocka_unit_test(zero_elements_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
