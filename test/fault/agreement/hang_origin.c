/* SPDX-License-Identifier: BSD-3-Clause */
/* The origin of a hang by the rules of api/diagnosis/hang.c: rows as ranks reported them, and the
 * rank that must be named. Real hangs: hang_rank.c and random_faults.c in the parent folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "hang.h"
#include "ringcomm.h"

enum { N = 4 };

static struct rcmi_hang_row row_new(enum rcmi_hang_state state, bool on_chain) {
    struct rcmi_hang_row row = {.state = state, .on_chain = on_chain, .host = ""};
    row.activity.waits_for = -1;
    row.activity.collective = RCM_ALL_REDUCE;
    return row;
}

/* A rank in all_reduce number 7, waiting for `peer`. */
static struct rcmi_hang_row row_waiting(int peer) {
    struct rcmi_hang_row row = row_new(RCMI_ROW_WAITS, true);
    row.known = true;
    row.activity.called = row.activity.sequence = 7;
    row.activity.waits_for = peer;
    return row;
}

/* A rank that has finished all_reduce number 6. */
static struct rcmi_hang_row row_between(enum rcmi_hang_state state) {
    struct rcmi_hang_row row = row_new(state, true);
    row.known = true;
    row.activity.called = 6;
    return row;
}

static void check(const struct rcmi_hang_row rows[N], int rank, const char *part) {
    char text[512];
    assert_int_equal(rcmi_hang_conclude(rows, N, text, sizeof(text)), rank);
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

static void test_silent(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_waiting(2), row_new(RCMI_ROW_SILENT, true),
                                    row_waiting(2)};
    check(rows, 2, "does not answer");
    rows[2] = row_between(RCMI_ROW_STOPPED);
    check(rows, 2, "is stopped");
}

/* Silent, but not stopped. */
static struct rcmi_hang_row row_late(bool on_chain) {
    struct rcmi_hang_row row = row_new(RCMI_ROW_SILENT, on_chain);
    row.runs = true;
    return row;
}

/* One rank is stopped; another runs, but answered too late. */
static void test_stopped_behind(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_late(true), row_waiting(1),
                                    row_new(RCMI_ROW_STOPPED, false)};
    check(rows, 3, "is stopped");
    rows[1] = row_new(RCMI_ROW_BUSY, true);
    check(rows, 3, "is stopped");
    rows[2] = row_late(false);
    check(rows, 3, "is stopped");
    rows[0] = row_waiting(2);
    rows[1] = row_waiting(3);
    rows[2] = row_late(true);
    rows[3].on_chain = true;
    check(rows, 3, "is stopped");
    rows[2] = row_new(RCMI_ROW_SILENT, true);
    check(rows, 3, "is stopped");
}

/* The rank that the others wait for has reported what it does, or is on another machine. */
static void test_stopped_elsewhere(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_between(RCMI_ROW_IDLE),
                                    row_new(RCMI_ROW_STOPPED, false), row_waiting(1)};
    check(rows, 1, "never called");
    rows[3] = row_new(RCMI_ROW_BUSY, true);
    check(rows, 1, "never called");
    rows[3] = row_waiting(1);
    rows[1] = row_new(RCMI_ROW_SILENT, true);
    check(rows, 1, "does not answer: it is stopped, hangs, or cannot be reached");
}

/* No rank is stopped. */
static void test_late(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_late(true), row_waiting(1), row_waiting(1)};
    check(rows, 1, "does not answer, though it is not stopped");
    rows[3] = row_new(RCMI_ROW_SILENT, true);
    check(rows, 3, "does not answer: it is stopped, hangs, or cannot be reached");
}

static void test_idle(void **state) {
    (void)state;
    const struct rcmi_hang_row rows[N] = {row_waiting(1), row_between(RCMI_ROW_IDLE),
                                          row_waiting(1), row_waiting(1)};
    check(rows, 1, "never called all_reduce number 7");
}

/* A rank that has finished all_reduce number 6, and receives from `peer`. */
static struct rcmi_hang_row row_receiving(int peer) {
    struct rcmi_hang_row row = row_between(RCMI_ROW_WAITS);
    row.activity.waits_for = row.activity.peer = peer;
    row.activity.transfer = RCMI_TRANSFER_RECV;
    return row;
}

/* A rank receives while others wait for it in a collective: the rank that it waits for is the
 * origin. */
static void test_receives(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_receiving(2), row_waiting(1),
                                    row_waiting(1)};
    check(rows, 1, "never called all_reduce number 7: it is in recv from rank 2");
    rows[2] = row_between(RCMI_ROW_IDLE);
    check(rows, 2, "never called all_reduce number 7: it is alive, but in no operation");
    rows[2] = row_receiving(3);
    check(rows, 2, "never called all_reduce number 7: it is in recv from rank 3");
    rows[2] = row_between(RCMI_ROW_BUSY);
    check(rows, 2, "has not begun all_reduce number 7");
    rows[2] = row_new(RCMI_ROW_SILENT, true);
    check(rows, 2, "does not answer");
}

static void test_any_source(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_receiving(RCM_ANY_SOURCE), row_waiting(1),
                                    row_waiting(1)};
    check(rows, 1, "never called all_reduce number 7: it is in recv from any source");
    rows[0] = row_receiving(RCM_ANY_SOURCE);
    rows[1] = row_between(RCMI_ROW_IDLE);
    rows[1].on_chain = false; /* no rank waits for it in particular */
    rows[2] = rows[3] = rows[1];
    check(rows, 0, "is in recv from any source (tag 0), and no rank sent to it");
}

/* Two ranks receive from each other: with all ranks queried, or only these two. */
static void test_pair(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_waiting(2), row_receiving(3),
                                    row_receiving(2)};
    check(rows, 3, "rank 2, which is furthest behind, for rank 3");
    rows[0] = rows[1] = row_new(RCMI_ROW_NOT_QUERIED, false);
    check(rows, 3, "rank 2, which is furthest behind, for rank 3");
}

/* The chain ends at a rank that had no time to look; a rank that does not answer at all is behind
 * it. */
static void test_silent_behind_busy(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_new(RCMI_ROW_BUSY, true), row_waiting(1),
                                    row_new(RCMI_ROW_SILENT, false)};
    check(rows, 3, "does not answer");
    rows[3] = row_new(RCMI_ROW_NOT_QUERIED, false);
    check(rows, 1, "is at work, and the others wait for it");
    rows[1] = row_between(RCMI_ROW_BUSY);
    check(rows, 1, "has not begun all_reduce number 7");
}

/* Outside of the chain, with no busy rank in the chain, silence means nothing. */
static void test_silent_elsewhere(void **state) {
    (void)state;
    const struct rcmi_hang_row rows[N] = {row_waiting(1), row_between(RCMI_ROW_IDLE),
                                          row_new(RCMI_ROW_SILENT, false), row_waiting(1)};
    check(rows, 1, "never called");
}

static void test_circle(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_waiting(2), row_waiting(3), row_waiting(0)};
    rows[2].activity.called = rows[2].activity.sequence = 6;
    check(rows, 3, "all wait for each other");
    rows[1] = row_new(RCMI_ROW_BUSY, true);
    check(rows, 1, "is at work, and the others wait for it");
}

/* ---- Missing from a monitored barrier, collective number 7 ---------------------------------- */

static void check_missing(const struct rcmi_hang_row *rows, int n, bool first_only, int origin,
                          const char *list, const char *sentence) {
    const struct rcmi_hang_barrier barrier = {7, first_only};
    struct rcmi_rank_set missing = {.nranks = 0};
    char text[360], found[512] = "";
    const int concluded = rcmi_hang_conclude(rows, n, text, sizeof(text));
    assert_int_equal(rcmi_hang_missing(rows, n, &barrier, concluded, &missing, text, sizeof(text)),
                     origin);
    for (uint32_t r = 0; r < missing.nranks; r++)
        if (rcmi_rank_set_has(&missing, r))
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%u ", r);
    assert_string_equal(found, list);
    if (!strstr(text, sentence))
        fail_msg("'%s' is not in '%s'", sentence, text);
}

/* A rank that waits for a rank in the barrier is missing, the rank in the barrier is not; nor is a
 * rank that has called it and is about to look. */
static void test_missing(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_between(RCMI_ROW_WAITS), row_waiting(1),
                                    row_between(RCMI_ROW_IDLE)};
    rows[1].activity.transfer = RCMI_TRANSFER_RECV;
    rows[1].activity.waits_for = rows[1].activity.peer = 2;
    check_missing(rows, N, false, 1, "1 3 ",
                  "ranks 1, 3 are missing: rank 1 is in recv from rank 2 (tag 0), rank 3 is in no "
                  "operation");
    check_missing(rows, N, true, 1, "1 ", "rank 1 is missing: rank 1 is in recv");
    rows[1] = row_waiting(3);
    rows[1].state = RCMI_ROW_BUSY;
    check_missing(rows, N, false, 3, "3 ", "rank 3 is missing: rank 3 is in no operation");
}

static void test_missing_silent(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_waiting(2), row_new(RCMI_ROW_SILENT, true),
                                    row_waiting(2)};
    check_missing(rows, N, false, 2, "2 ", "rank 2 is missing: rank 2 does not answer");
    rows[2] = row_between(RCMI_ROW_STOPPED);
    check_missing(rows, N, false, 2, "2 ", "rank 2 is stopped, in no operation");
    rows[1] = row_between(RCMI_ROW_IDLE); /* in both cases 2 is the origin, since it was queried */
    check_missing(rows, N, false, 2, "1 2 ", "ranks 1, 2 are missing: rank 1 is in no");
}

/* Ranks that have called it count only if there are no others. */
static void test_missing_stopped_in_it(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_waiting(2), row_waiting(3), row_waiting(2)};
    rows[2].state = RCMI_ROW_STOPPED;
    check_missing(rows, N, false, 2, "2 ", "rank 2 is missing: rank 2 is stopped, in all_reduce");
    rows[3] = row_between(RCMI_ROW_IDLE);
    check_missing(rows, N, false, 2, "3 ",
                  "rank 3 is missing: rank 3 is in no operation since it finished");
    check_missing(rows, N, false, 2, "3 ", "; rank 2 is stopped");
    check_missing(rows, N, true, 3, "3 ", "rank 3 is missing");
}

/* No rank is missing: the text lists what is known. */
static void test_missing_none(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_new(RCMI_ROW_BUSY, true), row_waiting(1),
                                    row_waiting(1)};
    rows[1].known = true;
    rows[1].activity.called = 7;
    check_missing(rows, N, false, 1, "", "is at work, and the others wait for it");
}

static void test_missing_many(void **state) {
    enum { MANY = 100 };
    static struct rcmi_hang_row rows[MANY];
    (void)state;
    for (int r = 0; r < MANY; r++)
        rows[r] = r == 0 || r % 7 == 3 ? row_waiting(2) : row_between(RCMI_ROW_IDLE);
    for (int r = 0; r < 20; r++)
        rows[r].pid = 123456;
    const struct rcmi_hang_barrier barrier = {7, false};
    struct rcmi_rank_set missing = {.nranks = 0};
    char text[360] = "";
    assert_int_equal(rcmi_hang_missing(rows, MANY, &barrier, -1, &missing, text, sizeof(text)), 1);
    assert_true(strstr(text, "ranks 1, 2, 4-9, 11-16, 18-23, ") == text);
    assert_non_null(strstr(text, " more are missing: rank 1 (pid 123456) is in no operation"));
    assert_string_equal(text + strlen(text) - strlen(" more"), " more");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_stopped_behind),
        cmocka_unit_test(test_stopped_elsewhere),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_receives),
        cmocka_unit_test(test_any_source),
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_silent_behind_busy),
        cmocka_unit_test(test_silent_elsewhere),
        cmocka_unit_test(test_circle),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_missing_silent),
        cmocka_unit_test(test_missing_stopped_in_it),
        cmocka_unit_test(test_missing_none),
        cmocka_unit_test(test_missing_many),
    };
    return cmocka_run_group_tests_name("conclude", tests, NULL, NULL);
}
