/* SPDX-License-Identifier: BSD-3-Clause */
/* What RINGCOMM_KERNELS does: meson.build runs this once per value, since the choice is made once
 * per process. A variant that this CPU lacks, and a name that is none, fall back to the best. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels.h"
#include "variant.h"

static const char *best_name(void) {
    if (rcmi_kernel_variant("avx512"))
        return "avx512";
    return rcmi_kernel_variant("avx2") ? "avx2" : "generic";
}

static void test_name(void **state) {
    const char *wanted = getenv("RINGCOMM_KERNELS");
    (void)state;
    if (wanted && rcmi_kernel_variant(wanted))
        assert_string_equal(rcmi_kernels_name(), wanted);
    else
        assert_string_equal(rcmi_kernels_name(), best_name());
}

static void test_kernels_are_the_chosen_ones(void **state) {
    const struct rcmi_kernel_table *table = rcmi_kernel_variant(rcmi_kernels_name());
    (void)state;
    assert_non_null(table);
#define CHECK_DTYPE(name, number, bytes, ctype)                                                    \
    for (int op = RCM_SUM; op <= RCM_MAX; op++) {                                                  \
        rcmi_reduce_fn plain = rcmi_reduce_kernel(RCM_##name, (rcm_op)op);                         \
        rcmi_reduce_fn streaming = rcmi_reduce_kernel_streaming(RCM_##name, (rcm_op)op);           \
        assert_true(plain &&plain == table->reduce[RCM_##name][op]);                               \
        assert_true(streaming &&streaming == table->reduce_streaming[RCM_##name][op]);             \
    }
    RCM_DTYPE_MAP(CHECK_DTYPE)
}

static void test_unknown_numbers(void **state) {
    (void)state;
    assert_true(rcmi_reduce_kernel((rcm_dtype)0, RCM_SUM) == NULL);
    assert_true(rcmi_reduce_kernel((rcm_dtype)99, RCM_SUM) == NULL);
    assert_true(rcmi_reduce_kernel((rcm_dtype)-1, RCM_SUM) == NULL);
    assert_true(rcmi_reduce_kernel(RCM_FLOAT32, (rcm_op)0) == NULL);
    assert_true(rcmi_reduce_kernel_streaming(RCM_FLOAT32, (rcm_op)77) == NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_kernels_are_the_chosen_ones),
        cmocka_unit_test(test_unknown_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
