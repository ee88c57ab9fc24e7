/* SPDX-License-Identifier: BSD-3-Clause */
/* The partition rule: chunks cover the vector exactly once, for any count, and start on cache
 * lines. */
#include "plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void check(size_t count, size_t element_bytes, uint32_t nchunks) {
    const size_t per_line = 64 / element_bytes;
    const bool long_enough = count / per_line >= nchunks;
    size_t next = 0, longest = 0;
    for (uint32_t i = 0; i < nchunks; i++) {
        size_t first = 1, n = 1;
        rcmi_chunk_range(count, element_bytes, nchunks, i, &first, &n);
        assert_true(first == next);
        if (long_enough) {
            assert_true(first % per_line == 0);
            assert_true(n > 0);
        }
        next = first + n;
        assert_true(next >= first); /* no overflow */
        if (n > longest)
            longest = n;
    }
    assert_true(next == count);
    assert_true(rcmi_chunk_max(count, element_bytes, nchunks) == longest);
}

static void test_small(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes <= 16; bytes *= 2)
        for (uint32_t nchunks = 1; nchunks <= 20; nchunks++)
            for (size_t count = 0; count <= 700; count++)
                check(count, bytes, nchunks);
}

static void test_large(void **state) {
    static const size_t counts[] = {((size_t)1 << 31) - 1, (size_t)1 << 31,
                                    ((size_t)1 << 31) + 1, ((size_t)1 << 32) + 12345,
                                    ((size_t)1 << 40) + 3, SIZE_MAX / 8};
    static const uint32_t parts[] = {1, 2, 3, 7, 16, 130, 1000};
    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
            for (size_t bytes = 1; bytes <= 8; bytes *= 2)
                check(counts[i], bytes, parts[k]);
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
        check(SIZE_MAX, 1, parts[k]);
        check(SIZE_MAX - 63, 1, parts[k]);
        check(SIZE_MAX / 4, 4, parts[k]);
    }
}

/* Lengths differ by at most one cache line. */
static void test_even(void **state) {
    size_t first, n;
    (void)state;
    for (uint32_t i = 0; i < 7; i++) {
        rcmi_chunk_range(1000000, 4, 7, i, &first, &n);
        assert_in_range(n, 1000000 / 7 - 16, 1000000 / 7 + 16);
    }
    rcmi_chunk_range(5, 4, 8, 4, &first, &n); /* too short for lines: one element each */
    assert_int_equal(first, 4);
    assert_int_equal(n, 1);
    rcmi_chunk_range(5, 4, 8, 7, &first, &n);
    assert_int_equal(n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_even),
    };
    return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
