/* SPDX-License-Identifier: BSD-3-Clause */
/* The origin, by the rules of api/diagnosis/hang.c alone: rows as witnesses gave them, and the
 * rank that must be named. Real hangs are in hang.c and harness.c of this folder. */
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

/* In all_reduce number 7, for `peer`. */
static struct rcmi_hang_row row_waiting(int peer) {
    struct rcmi_hang_row row = row_new(RCMI_ROW_WAITS, true);
    row.known = true;
    row.activity.called = row.activity.sequence = 7;
    row.activity.waits_for = peer;
    return row;
}

/* Has finished all_reduce number 6. */
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

/* One is stopped; another runs, but was too late with its answer. */
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

/* Whom the others wait for has said what it does, or is of another machine. */
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

/* Nobody is stopped. */
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

/* Has finished all_reduce number 6, and receives from `peer`. */
static struct rcmi_hang_row row_receiving(int peer) {
    struct rcmi_hang_row row = row_between(RCMI_ROW_WAITS);
    row.activity.waits_for = row.activity.peer = peer;
    row.activity.transfer = RCMI_TRANSFER_RECV;
    return row;
}

/* A rank that receives while others wait for it in a collective: the rank that keeps it is the
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

/* Two that receive from each other: whether all were asked, or only these two. */
static void test_pair(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_waiting(2), row_receiving(3),
                                    row_receiving(2)};
    check(rows, 3, "rank 2, which is furthest behind, for rank 3");
    rows[0] = rows[1] = row_new(RCMI_ROW_NOT_ASKED, false);
    check(rows, 3, "rank 2, which is furthest behind, for rank 3");
}

/* The chain ends at one that had no time to look; who does not answer at all stands behind it. */
static void test_silent_behind_busy(void **state) {
    (void)state;
    struct rcmi_hang_row rows[N] = {row_waiting(1), row_new(RCMI_ROW_BUSY, true), row_waiting(1),
                                    row_new(RCMI_ROW_SILENT, false)};
    check(rows, 3, "does not answer");
    rows[3] = row_new(RCMI_ROW_NOT_ASKED, false);
    check(rows, 1, "is waited for, and at work");
    rows[1] = row_between(RCMI_ROW_BUSY);
    check(rows, 1, "has not begun all_reduce number 7");
}

/* Off the chain, with nobody busy on it, silence means nothing. */
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
    check(rows, 1, "is waited for, and at work");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_stopped_behind),
        cmocka_unit_test(test_stopped_elsewhere),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_receives),
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_silent_behind_busy),
        cmocka_unit_test(test_silent_elsewhere),
        cmocka_unit_test(test_circle),
    };
    return cmocka_run_group_tests_name("conclude", tests, NULL, NULL);
}
