/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines: they saturate, round up, and pass, also in waits on condition variables. */
#include <limits.h>
#include "check.h"
#include "clock.h"
#include "thread.h"

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

struct waited {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static void *waited_do(void *arg) {
    struct waited *waited = arg;
    pthread_mutex_lock(&waited->lock);
    waited->done = true;
    pthread_cond_signal(&waited->changed);
    pthread_mutex_unlock(&waited->lock);
    return NULL;
}

static void test_condition(void **state) {
    (void)state;
    const rcmi_deadline past[] = {INT64_MIN, -1, 0, 1, rcmi_now_ns() - 1};
    const rcmi_deadline far[] = {rcmi_deadline_in(60000), RCMI_NEVER - 1, RCMI_NEVER};
    struct waited waited = {.lock = PTHREAD_MUTEX_INITIALIZER};
    rcmi_condition_init(&waited.changed);
    pthread_mutex_lock(&waited.lock);
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++)
        assert_false(rcmi_condition_wait(&waited.changed, &waited.lock, past[i]));
    const rcmi_deadline soon = rcmi_deadline_in(20);
    while (rcmi_condition_wait(&waited.changed, &waited.lock, soon))
        ;
    assert_true(rcmi_deadline_passed(soon));
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        pthread_t thread;
        waited.done = false;
        assert_int_equal(pthread_create(&thread, NULL, waited_do, &waited), 0);
        while (!waited.done)
            assert_true(rcmi_condition_wait(&waited.changed, &waited.lock, far[i]));
        pthread_mutex_unlock(&waited.lock);
        pthread_join(thread, NULL);
        pthread_mutex_lock(&waited.lock);
    }
    pthread_mutex_unlock(&waited.lock);
    pthread_cond_destroy(&waited.changed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadline_never),
        cmocka_unit_test(test_deadline_saturates),
        cmocka_unit_test(test_deadline_passes),
        cmocka_unit_test(test_condition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
