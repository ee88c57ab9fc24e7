/* SPDX-License-Identifier: BSD-3-Clause */
/* Returning home: the thread gets there, its mask stays, and it does not insist. */
#include <sched.h>
#include <stdlib.h>
#include "check.h"
#include "clock.h"
#include "place.h"

enum { TRIES = 50 }; /* the kernel may move us away between going and looking */

static int cpu_other_than(int here, const cpu_set_t *allowed) {
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (cpu != here && CPU_ISSET((size_t)cpu, allowed))
            return cpu;
    return -1;
}

static void test_home(void **state) {
    (void)state;
    cpu_set_t before, after;
    int arrived = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) < 2)
        skip();
    for (int i = 0; i < TRIES && arrived < 2; i++) {
        struct rcmi_place place = {.home = cpu_other_than(sched_getcpu(), &before)};
        rcmi_place_return(&place);
        arrived += sched_getcpu() == place.home;
        assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
        assert_true(CPU_EQUAL(&before, &after));
    }
    assert_int_equal(arrived, 2);
}

static void test_no_home(void **state) {
    (void)state;
    struct rcmi_place place = {.home = -1};
    rcmi_place_return(&place);
    assert_true(place.next_ns == 0);
}

/* Away for a visit, and home when it is over; what was learnt about home does not keep it. */
static void test_visit(void **state) {
    (void)state;
    cpu_set_t allowed;
    int arrived = 0, returned = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    if (CPU_COUNT(&allowed) < 2)
        skip();
    for (int i = 0; i < TRIES && (arrived < 2 || returned < 2); i++) {
        struct rcmi_place place = {.home = sched_getcpu(), .next_ns = INT64_MAX};
        const int other = cpu_other_than(place.home, &allowed);
        rcmi_place_visit(&place, other, 2000000);
        rcmi_place_return(&place);
        arrived += sched_getcpu() == other;
        place.next_ns = INT64_MAX;
        rcmi_place_visit(&place, other, 2000000); /* it goes on */
        assert_true(place.next_ns == INT64_MAX && place.other_until > 0);
        place.other_until = 1; /* a long time ago */
        rcmi_place_return(&place);
        returned += sched_getcpu() == place.home;
        assert_true(place.other_until == 0);
    }
    assert_true(arrived >= 2 && returned >= 2);
}

/* A CPU that somebody else keeps is not visited again for a while. */
static void test_busy(void **state) {
    (void)state;
    bool shunned = false;
    for (int i = 0; i < TRIES && !shunned; i++) {
        const int here = sched_getcpu();
        struct rcmi_place place = {.home = here + 1};
        rcmi_place_visit(&place, here, 2000000);
        rcmi_place_waited(&place, 1000);
        assert_true(rcmi_place_visits(&place));
        rcmi_place_waited(&place, 1000000000);
        shunned = !rcmi_place_visits(&place); /* else the kernel has moved us meanwhile */
        assert_true(shunned == (place.shunned_until > 0));
        rcmi_place_visit(&place, here, 2000000);
        assert_true(!rcmi_place_visits(&place) || rcmi_now_ns() >= place.shunned_until);
        place.shunned_until = 1; /* a long time ago */
        rcmi_place_visit(&place, here, 2000000);
        assert_true(rcmi_place_visits(&place));
        place.home = here; /* at home one stays, whoever else is there */
        rcmi_place_waited(&place, 1000000000);
        assert_true(rcmi_place_visits(&place));
    }
    assert_true(shunned);
}

/* A CPU that is not allowed: nothing happens, the mask stays. */
static void test_forbidden(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int forbidden = 0;
    while (forbidden < CPU_SETSIZE && CPU_ISSET((size_t)forbidden, &before))
        forbidden++;
    if (forbidden == CPU_SETSIZE)
        skip();
    struct rcmi_place place = {.home = forbidden};
    rcmi_place_return(&place);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

/* Somebody who is moved away whenever he is home goes more and more seldom; who stayed, soon. */
static void test_patience(void **state) {
    (void)state;
    struct rcmi_place place = {.home = CPU_SETSIZE - 1}; /* nobody is there */
    rcmi_place_return(&place);
    const int64_t first = place.pause_ns, next = place.next_ns;
    assert_true(first > 0 && next > rcmi_now_ns() - 1000000000);
    place.next_ns = rcmi_now_ns(); /* the pause is over, just now */
    rcmi_place_return(&place);
    assert_true(place.pause_ns == 2 * first || place.pause_ns == first); /* or a long time ago */
    place.next_ns = INT64_MAX;
    place.pause_ns = 12345;
    rcmi_place_return(&place);
    assert_true(place.pause_ns == 12345);
    place.next_ns = 1; /* a long time ago */
    rcmi_place_return(&place);
    assert_true(place.pause_ns == first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_home),      cmocka_unit_test(test_busy),
        cmocka_unit_test(test_no_home),   cmocka_unit_test(test_visit),
        cmocka_unit_test(test_forbidden), cmocka_unit_test(test_patience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
