/* SPDX-License-Identifier: BSD-3-Clause */
/* RINGCOMM_KERNELS. meson.build runs this once per value, because the choice is made once per
 * process. A variant that this CPU lacks and an unknown name fall back to the best variant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "cpu.h"
#include "kernels.h"
#include "pairs.h"
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
#define CHECK_PAIR(name, op, kernel)                                                               \
    assert_ptr_equal(rcmi_reduction_find(RCM_##name, op), &table->reductions[RCM_##name][op]);
    RCMI_PAIR_MAP(CHECK_PAIR)
}

static void test_unknown_numbers(void **state) {
    (void)state;
    assert_null(rcmi_reduction_find((rcm_dtype)0, RCM_SUM));
    assert_null(rcmi_reduction_find((rcm_dtype)99, RCM_SUM));
    assert_null(rcmi_reduction_find((rcm_dtype)-1, RCM_SUM));
    assert_null(rcmi_reduction_find(RCM_FLOAT32, (rcm_op)0));
    assert_null(rcmi_reduction_find(RCM_FLOAT32, (rcm_op)77));
    assert_null(rcmi_reduction_find(RCM_FLOAT32, RCM_BAND));
}

#if defined(__x86_64__)
/* The library detects the CPU itself, and must find the same as the compiler's runtime. */
static void test_instructions(void **state) {
    (void)state;
    assert_int_equal(rcmi_cpu_has_avx2(), __builtin_cpu_supports("avx2") != 0);
    assert_int_equal(rcmi_cpu_has_avx512(),
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_kernels_are_the_chosen_ones),
        cmocka_unit_test(test_unknown_numbers),
#if defined(__x86_64__)
        cmocka_unit_test(test_instructions),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
