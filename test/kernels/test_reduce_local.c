/* SPDX-License-Identifier: BSD-3-Clause */
/* rcm_reduce_local compared bit by bit with scalar code; more than 2^31 elements; rejected
 * arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>
#include "reference.h"
#include "ringcomm.h"

enum { COUNT = 10007, GUARD = 64 };

static const rcm_dtype dtypes[] = {
#define TEST_DTYPE(name, number, bytes, ctype) RCM_##name,
    RCM_DTYPE_MAP(TEST_DTYPE)};
static const rcm_op ops[] = {
#define TEST_OP(name, number) RCM_##name,
    RCM_OP_MAP(TEST_OP)};
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static uint8_t in[COUNT * 16 + 16], pattern[sizeof(in)], expected[sizeof(in)];
static uint8_t memory[sizeof(in) + 2 * GUARD];

/* The reference's left operand is its result; rcm_reduce_local's is `in`. */
static void check_case(rcm_dtype dtype, rcm_op op, size_t count, size_t shift) {
    const size_t bytes = count * rcm_dtype_size(dtype), at = shift * rcm_dtype_size(dtype);
    uint8_t *inout = memory + GUARD + at;
    reference_fill(dtype, in, count, 3, 1);
    reference_fill(dtype, pattern, count, 5, 1);
    reference_reduce(dtype, op, (const void *[]){in, pattern}, (void *[]){memory, expected}, 2,
                     count);
    memset(memory, 0xa5, sizeof(memory));
    memcpy(inout, pattern, bytes);
    assert_int_equal(rcm_reduce_local(in, inout, count, dtype, op), RCM_OK);
    assert_memory_equal(inout, expected, bytes);
    for (size_t i = 0; i < GUARD; i++)
        assert_true(inout[bytes + i] == 0xa5 && memory[i] == 0xa5);
}

static void test_results(void **state) {
    static const size_t counts[] = {0, 1, 3, 16, 255, COUNT};
    (void)state;
    for (size_t d = 0; d < LENGTH(dtypes); d++)
        for (size_t o = 0; o < LENGTH(ops); o++)
            for (size_t c = 0;
                 ops[o] != RCM_AVG && c < LENGTH(counts) && reference_defines(dtypes[d], ops[o]);
                 c++)
                check_case(dtypes[d], ops[o], counts[c], c % 2);
}

/* More address space than memory: a page, then the same piece mapped repeatedly, then a page. */
enum { PAGE = 4096, PIECE = 1 << 20, TIMES = (1 << 11) + 3, RANGE_LAST = PAGE - 5 };
#define RANGE ((size_t)TIMES * PIECE + 2 * PAGE)

static uint8_t *range_map(void) {
    const int fd = memfd_create("repeated", MFD_CLOEXEC);
    uint8_t *range = mmap(NULL, RANGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(fd >= 0 && range != MAP_FAILED);
    assert_int_equal(ftruncate(fd, PIECE), 0);
    for (size_t i = 0; i < TIMES; i++)
        assert_true(mmap(range + PAGE + i * PIECE, PIECE, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    close(fd);
    return range;
}

/* Each mapping of the piece adds to it once. */
static void test_beyond_32_bits(void **state) {
    const size_t count = RANGE - PAGE + RANGE_LAST;
    uint8_t *ones = range_map(), *sums = range_map(), *last = sums + RANGE - PAGE;
    (void)state;
    memset(ones, 1, PAGE + PIECE);
    memset(ones + RANGE - PAGE, 1, PAGE);
    assert_true(count > (size_t)1 << 31);
    assert_int_equal(rcm_reduce_local(ones, sums, count, RCM_UINT8, RCM_SUM), RCM_OK);
    for (size_t i = 0; i < PAGE + PIECE; i++)
        assert_true(sums[i] == (uint8_t)(i < PAGE ? 1 : TIMES));
    for (size_t i = 0; i < PAGE; i++)
        assert_true(last[i] == (i < RANGE_LAST));
    munmap(ones, RANGE);
    munmap(sums, RANGE);
}

static void expect_refused(rcm_status status, const char *words) {
    assert_int_equal(status, RCM_ERR_INVALID);
    if (!strstr(rcm_last_error(), words))
        fail_msg("\"%s\" is not in \"%s\"", words, rcm_last_error());
}

static void test_refused(void **state) {
    int32_t a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {0};
    (void)state;
    expect_refused(rcm_reduce_local(NULL, b, 8, RCM_INT32, RCM_SUM), "in is NULL and count is 8");
    expect_refused(rcm_reduce_local(a, NULL, 8, RCM_INT32, RCM_SUM), "inout is NULL and count");
    expect_refused(rcm_reduce_local(a, b, 8, (rcm_dtype)99, RCM_SUM), "dtype 99 is not a type");
    expect_refused(rcm_reduce_local(a, b, 8, RCM_INT32, (rcm_op)0), "op 0 is not an operator");
    expect_refused(rcm_reduce_local(a, b, 1, RCM_COMPLEX64, RCM_MAX),
                   "max of complex64 is not defined: complex numbers have no order");
    expect_refused(rcm_reduce_local(a, b, 1, RCM_FLOAT16, RCM_BXOR),
                   "bxor of float16 is not defined: floats have no bit");
    expect_refused(rcm_reduce_local(a, b, 1, RCM_INT64_INT32, RCM_SUM),
                   "sum of int64_int32 is not defined: pairs have only");
    expect_refused(rcm_reduce_local(a, b, 1, RCM_INT32, RCM_MINLOC),
                   "minloc of int32 is not defined: they are for pairs");
    expect_refused(rcm_reduce_local(a, b, 1, RCM_INT32, RCM_AVG),
                   "avg has no meaning on a single rank");
    expect_refused(rcm_reduce_local(a, b, SIZE_MAX / 4, RCM_INT32, RCM_SUM), "more than memory");
    expect_refused(rcm_reduce_local(a, a, 8, RCM_INT32, RCM_SUM), "overlap (32 bytes each)");
    expect_refused(rcm_reduce_local(a, a + 3, 4, RCM_INT32, RCM_SUM), "overlap (16 bytes each)");
    expect_refused(rcm_reduce_local(a + 3, a, 4, RCM_INT32, RCM_SUM), "overlap (16 bytes each)");
    for (int i = 0; i < 8; i++)
        assert_true(a[i] == i + 1 && b[i] == 0);
    assert_int_equal(rcm_reduce_local(a, a + 4, 4, RCM_INT32, RCM_SUM), RCM_OK);
    assert_int_equal(a[7], 12);
    assert_int_equal(rcm_reduce_local(NULL, NULL, 0, RCM_INT32, RCM_SUM), RCM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_beyond_32_bits),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("reduce_local", tests, NULL, NULL);
}
