/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines: they saturate, round up, and pass. */
#include <limits.h>
#include "check.h"
#include "clock.h"

static void test_deadline_never(void **state) {
    (void)state;
    assert_true(rcmi_deadline_in(-1) == RCMI_NEVER);
    assert_true(rcmi_deadline_in(INT64_MIN) == RCMI_NEVER);
    assert_true(rcmi_deadline_in(INT64_MAX) == RCMI_NEVER);
    assert_false(rcmi_deadline_passed(RCMI_NEVER));
    assert_int_equal(rcmi_deadline_left_ms(RCMI_NEVER), -1);
}

static void test_deadline_saturates(void **state) {
    (void)state;
    /* The largest timeouts around the limit: never negative, never earlier than a smaller one. */
    int64_t largest = (INT64_MAX - rcmi_now_ns()) / 1000000;
    for (int64_t ms = largest - 3; ms <= largest + 3; ms++)
        assert_true(rcmi_deadline_in(ms) > rcmi_deadline_in(1000));
    assert_true(rcmi_deadline_in(largest + 1) == RCMI_NEVER);
    assert_int_equal(rcmi_deadline_left_ms(RCMI_NEVER - 1), INT_MAX);
    assert_int_equal(rcmi_deadline_left_ms(rcmi_deadline_in((int64_t)INT_MAX + 5000)), INT_MAX);
}

static void test_deadline_passes(void **state) {
    (void)state;
    assert_true(rcmi_deadline_passed(rcmi_deadline_in(0)));
    assert_true(rcmi_deadline_passed(0));
    assert_true(rcmi_deadline_passed(-1));
    assert_int_equal(rcmi_deadline_left_ms(INT64_MIN), 0);
    assert_int_equal(rcmi_deadline_left_ms(0), 0);
    rcmi_deadline soon = rcmi_now_ns() + 20000000;
    assert_int_equal(rcmi_deadline_left_ms(rcmi_now_ns() + 1000000000) > 900, 1);
    while (!rcmi_deadline_passed(soon)) {
        int left = rcmi_deadline_left_ms(soon);
        /* rounded up: 0 only once it has passed */
        assert_true(left > 0 || rcmi_deadline_passed(soon));
        assert_true(left <= 20);
    }
    assert_true(rcmi_now_ns() >= soon);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadline_never),
        cmocka_unit_test(test_deadline_saturates),
        cmocka_unit_test(test_deadline_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
