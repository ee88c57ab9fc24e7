/* SPDX-License-Identifier: BSD-3-Clause */
/* base/faster.h: the faster way is found, kept, and left when it is no more; by costs made up. */
#include <stdlib.h>
#include "check.h"
#include "faster.h"

/* Uses it n times at these costs; how often way 1 was taken. */
static int use(struct rcmi_faster *faster, int n, float cost0, float cost1) {
    int taken = 0;
    for (int i = 0; i < n; i++) {
        const int way = rcmi_faster_way(faster);
        taken += way;
        rcmi_faster_learn(faster, way, way ? cost1 : cost0);
    }
    return taken;
}

static void test_keeps_the_first(void **state) {
    struct rcmi_faster faster = {0};
    (void)state;
    use(&faster, 10000, 10, 100);
    assert_int_equal(faster.way, 0);
    /* Once for every thousand, after it was looked at often enough. */
    assert_in_range(use(&faster, 10000, 10, 100), 1, 20);
}

static void test_finds_the_other(void **state) {
    struct rcmi_faster faster = {0};
    (void)state;
    assert_in_range(use(&faster, 200, 100, 10), 150, 199);
    assert_int_equal(faster.way, 1);
}

static void test_alike_is_left(void **state) {
    struct rcmi_faster faster = {0};
    (void)state;
    use(&faster, 10000, 100, 95);
    assert_int_equal(faster.way, 0);
}

/* What is in use becomes slow: left at once; what is not becomes fast: found within the interval.
 */
static void test_follows(void **state) {
    struct rcmi_faster faster = {0};
    (void)state;
    use(&faster, 2000, 100, 10);
    use(&faster, 20, 100, 1000);
    assert_int_equal(faster.way, 0);
    use(&faster, 5000, 100, 1000);
    use(&faster, 1100, 100, 10);
    assert_int_equal(faster.way, 1);
}

/* One use that was interrupted says nothing about the way. */
static void test_outlier(void **state) {
    struct rcmi_faster faster = {0};
    (void)state;
    use(&faster, 500, 10, 200);
    assert_int_equal(faster.way, 0);
    if (faster.left == 0)
        use(&faster, 1, 10, 200);
    const int way = rcmi_faster_way(&faster);
    assert_int_equal(way, 0);
    rcmi_faster_learn(&faster, way, 1e6f);
    use(&faster, 10, 10, 200);
    assert_int_equal(faster.way, 0);
}

static void test_sizes(void **state) {
    struct rcmi_faster_sizes sizes = {0};
    (void)state;
    struct rcmi_try none = rcmi_try_begin(&sizes, RCMI_FASTER_MIN - 1);
    assert_null(none.of);
    assert_int_equal(none.way, 0);
    rcmi_try_end(&none, 1);
    struct rcmi_try small = rcmi_try_begin(&sizes, RCMI_FASTER_MIN);
    struct rcmi_try large = rcmi_try_begin(&sizes, (size_t)1 << 40);
    assert_non_null(small.of);
    assert_non_null(large.of);
    assert_ptr_not_equal(small.of, large.of);
    rcmi_try_end(&small, RCMI_FASTER_MIN);
    assert_true(small.of->cost[small.way] > 0);
}

/* Looks at the clock that `uses` pieces of so many bytes take. */
static int looks(struct rcmi_faster_sizes *sizes, int uses, size_t bytes) {
    int looked = 0;
    for (int i = 0; i < uses; i++) {
        const struct rcmi_try try = rcmi_try_begin(sizes, bytes);
        looked += try.of != NULL;
        rcmi_try_end(&try, bytes);
    }
    return looked;
}

/* Each large piece is measured, of small ones a few; and what a way costs others counts too. */
static void test_small_ones(void **state) {
    struct rcmi_faster_sizes sizes = {0};
    (void)state;
    assert_int_equal(looks(&sizes, 1000, RCMI_FASTER_ALL), 1000);
    assert_in_range(looks(&sizes, 1000, RCMI_FASTER_ALL - 1), 1, 200);
    for (int i = 0; i < 1000; i++) {
        struct rcmi_try try = rcmi_try_begin(&sizes, RCMI_FASTER_MIN);
        try.more = try.way == 0 ? 1e6f : 0;
        rcmi_try_end(&try, RCMI_FASTER_MIN);
    }
    assert_int_equal(sizes.of[0].way, 1);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* n uses; the first one after a change of the way costs ten times as much. */
static int rows_use(struct rcmi_rows *rows, int n, float cost0, float cost1) {
    int taken = 0, before = -1;
    for (int i = 0; i < n; i++) {
        const int way = rcmi_rows_way(rows);
        const float cost = way ? cost1 : cost0;
        taken += way;
        rcmi_rows_learn(rows, way, way == before ? cost : 10 * cost);
        before = way;
    }
    return taken;
}

static void test_rows_are_rows(void **state) {
    struct rcmi_rows rows = {.faster = {.way = 0}};
    (void)state;
    for (int row = 0; row < 100; row++) {
        const int way = rcmi_rows_way(&rows);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(rcmi_rows_way(&rows), way);
            rcmi_rows_learn(&rows, !way, 1); /* not what the row is for */
            rcmi_rows_learn(&rows, way, 100);
        }
    }
}

static void test_rows_find(void **state) {
    struct rcmi_rows better = {.faster = {.way = 0}}, alike = better, worse = better;
    (void)state;
    assert_in_range(rows_use(&better, 400, 100, 85), 300, 399);
    assert_in_range(rows_use(&alike, 400, 100, 95), 4, 40);
    assert_in_range(rows_use(&worse, 4000, 100, 200), 4, 100);
}

/* The first row was slow because it was the first: looked at again soon, a few times. */
static void test_rows_early(void **state) {
    struct rcmi_rows rows = {.faster = {.way = 0}};
    (void)state;
    rows_use(&rows, 4, 100, 1000);
    assert_int_equal(rows_use(&rows, 12, 100, 10), 0);
    rows_use(&rows, 8, 100, 10);
    assert_int_equal(rows.faster.way, 1);
}

/* Of a way that is far slower two in a row are enough to see it, of one that is not they are not.
 */
static void test_rows_hopeless(void **state) {
    struct rcmi_rows far = {.faster = {.way = 0, .interval = 32, .cost = {100, 0}}}, near = far;
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rcmi_rows_way(&far), 1);
        rcmi_rows_learn(&far, 1, 200);
        assert_int_equal(rcmi_rows_way(&near), 1);
        rcmi_rows_learn(&near, 1, i == 0 ? 1000 : 110);
    }
    assert_int_equal(rcmi_rows_way(&far), 0);
    assert_true(far.faster.cost[1] == 200);
    assert_int_equal(rows_use(&near, 2, 100, 80), 2);
    assert_int_equal(near.faster.way, 1);
}

/* n uses; those that may pass are not measured. Returns how many were. */
static int rows_pass(struct rcmi_rows *rows, int n, float cost0, float cost1, int *ret_other) {
    int measured = 0;
    *ret_other = 0;
    for (int i = 0; i < n; i++) {
        if (rcmi_rows_may_pass(rows)) {
            rcmi_rows_pass(rows);
            continue;
        }
        const int way = rcmi_rows_way(rows);
        *ret_other += way != rows->faster.way;
        rcmi_rows_learn(rows, way, way ? cost1 : cost0);
        measured++;
    }
    return measured;
}

static void test_rows_pass(void **state) {
    struct rcmi_rows rows = {.faster = {.way = 0}};
    int other;
    (void)state;
    assert_false(rcmi_rows_may_pass(&rows)); /* nothing is known */
    /* Of what is far slower a row is tried early, a few times, and then ever less often. */
    assert_in_range(rows_pass(&rows, 4000, 100, 200, &other), 8, 400);
    assert_in_range(other, 8, 50);
    assert_int_equal(other % 2, 0);
    /* The other way is found to be faster, and its rows pass too. */
    while (rows.faster.way == 0)
        rows_pass(&rows, 4, 100, 10, &other);
    assert_in_range(rows_pass(&rows, 4000, 100, 10, &other), 8, 400);
    assert_true(other > 0);
}

/* A row passes as a whole: what is measured meanwhile does not count. */
static void test_rows_pass_whole(void **state) {
    struct rcmi_rows rows = {.faster = {.way = 0, .left = 10, .cost = {100, 200}}};
    (void)state;
    for (int row = 0; row < 3; row++) {
        for (int i = 0; i < 4; i++) {
            assert_true(rcmi_rows_may_pass(&rows));
            rcmi_rows_pass(&rows);
            rcmi_rows_learn(&rows, 0, 1);
        }
        assert_int_equal(rows.faster.left, 9 - row);
    }
    assert_true(rows.faster.cost[0] == 100);
    assert_int_equal(rcmi_rows_way(&rows), 0); /* begins a row to be measured */
    assert_false(rcmi_rows_may_pass(&rows));
    rcmi_rows_learn(&rows, 0, 50);
    assert_false(rcmi_rows_may_pass(&rows));
    rcmi_rows_see(&rows); /* nothing: it is measured already */
    assert_int_equal(rows.left, 3);
}

/* A row that began to go by does not last for ever where the next uses are to be measured. */
static void test_rows_seen(void **state) {
    struct rcmi_rows rows = {.faster = {.way = 0, .left = 10, .cost = {100, 200}}};
    int other = 0;
    (void)state;
    rcmi_rows_pass(&rows);
    for (int i = 0; i < 100; i++) {
        rcmi_rows_see(&rows);
        const int way = rcmi_rows_way(&rows);
        other += way;
        rcmi_rows_learn(&rows, way, way ? 10 : 100);
    }
    assert_true(other > 0);
    assert_int_equal(rows.faster.way, 1);
}

static void test_rows_sizes(void **state) {
    (void)state;
    assert_int_equal(rcmi_rows_size(0), 0);
    assert_int_equal(rcmi_rows_size((size_t)1 << 14), 0);
    assert_int_equal(rcmi_rows_size((size_t)1 << 15), 1);
    assert_int_equal(rcmi_rows_size((size_t)1 << 17), 2);
    assert_int_equal(rcmi_rows_size(((size_t)1 << 17) + 1), 3);
    assert_int_equal(rcmi_rows_size((size_t)1 << 20), 3);
    assert_int_equal(rcmi_rows_size((size_t)8 << 20), 4);
    assert_int_equal(rcmi_rows_size(SIZE_MAX), RCMI_ROWS_SIZES - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_the_first), cmocka_unit_test(test_finds_the_other),
        cmocka_unit_test(test_alike_is_left),   cmocka_unit_test(test_follows),
        cmocka_unit_test(test_outlier),         cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_small_ones),      cmocka_unit_test(test_rows_are_rows),
        cmocka_unit_test(test_rows_find),       cmocka_unit_test(test_rows_early),
        cmocka_unit_test(test_rows_pass),       cmocka_unit_test(test_rows_pass_whole),
        cmocka_unit_test(test_rows_seen),       cmocka_unit_test(test_rows_sizes),
        cmocka_unit_test(test_rows_hopeless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
