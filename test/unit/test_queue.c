/* SPDX-License-Identifier: BSD-3-Clause */
/* The start queue (api/work/queue.h) on its own: which works start when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "queue.h"
#include "work.h"

enum { WORKS = RCMI_RUNNING_MAX + 10 };

static struct rcmi_queue queue;
static struct rcm_work works[WORKS];

static int setup(void **state) {
    (void)state;
    rcmi_queue_init(&queue);
    for (int i = 0; i < WORKS; i++) {
        works[i] = (struct rcm_work){.sequence = (uint64_t)i};
        rcmi_queue_add(&queue, &works[i]);
    }
    return 0;
}

/* Starts all works that may start. Returns the number of the next one. */
static int start_all(void) {
    const struct rcm_work *work;
    int next = 0;
    while ((work = rcmi_queue_next(&queue)) != NULL) {
        next = (int)work->sequence + 1;
        rcmi_queue_start(&queue);
    }
    return next;
}

/* The list's pointer to a work. */
static struct rcm_work **at(int i) {
    struct rcm_work **at = &queue.first;
    while (*at && *at != &works[i])
        at = &(*at)->next;
    assert_ptr_equal(*at, &works[i]);
    return at;
}

static void finish(int i) {
    assert_ptr_equal(rcmi_queue_remove(&queue, at(i)), &works[i]);
}

static void test_bound(void **state) {
    (void)state;
    assert_int_equal(start_all(), RCMI_RUNNING_MAX);
    finish(5);
    finish(RCMI_RUNNING_MAX - 1); /* the last started one: waiting works now follow another one */
    finish(0);
    assert_int_equal(start_all(), RCMI_RUNNING_MAX + 3);
    assert_int_equal(queue.running, RCMI_RUNNING_MAX);
}

/* Two works that each hold half of the allowed bytes, and one that holds more. */
static void test_bytes(void **state) {
    const size_t half = RCMI_RUNNING_BYTES / 2;
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(rcmi_queue_next(&queue), &works[i]);
        rcmi_queue_start(&queue);
        rcmi_queue_weigh(&queue, &works[i], half);
    }
    assert_null(rcmi_queue_next(&queue));
    rcmi_queue_weigh(&queue, &works[1], 1); /* another stage */
    assert_ptr_equal(rcmi_queue_next(&queue), &works[2]);
    rcmi_queue_start(&queue);
    rcmi_queue_weigh(&queue, &works[2], 2 * RCMI_RUNNING_BYTES);
    finish(0);
    finish(1);
    assert_null(rcmi_queue_next(&queue));
    finish(2);
    assert_int_equal(queue.bytes, 0);
    assert_ptr_equal(rcmi_queue_next(&queue), &works[3]); /* whatever it holds */
}

static void test_drains(void **state) {
    (void)state;
    works[2].drains = true;
    assert_int_equal(start_all(), 2);
    finish(1);
    assert_int_equal(start_all(), 0);
    finish(0);
    assert_int_equal(start_all(), RCMI_RUNNING_MAX + 2); /* the draining work and those after it */
}

/* Tickets of all stages precede those of works issued later. */
static void test_stages(void **state) {
    struct rcmi_stages stages = {.next = NULL};
    (void)state;
    works[3].stages = &stages;
    works[5].stages = &stages;
    assert_int_equal(start_all(), 4);
    finish(0);
    assert_int_equal(start_all(), 0);
    rcmi_queue_release(&queue);
    assert_int_equal(start_all(), 6);
    finish(5); /* ends before its last stage */
    assert_int_equal(start_all(), RCMI_RUNNING_MAX + 2);
}

/* A work that cannot start is removed from the middle. */
static void test_refused(void **state) {
    (void)state;
    assert_int_equal(start_all(), RCMI_RUNNING_MAX);
    finish(RCMI_RUNNING_MAX);
    assert_int_equal(queue.running, RCMI_RUNNING_MAX);
    assert_ptr_equal(*queue.waiting, &works[RCMI_RUNNING_MAX + 1]);
}

static void test_emptied(void **state) {
    struct rcm_work more = {.drains = true};
    (void)state;
    (void)start_all();
    for (int i = WORKS - 1; i >= 0; i--)
        finish(i);
    assert_null(queue.first);
    assert_null(rcmi_queue_next(&queue));
    rcmi_queue_add(&queue, &more);
    assert_ptr_equal(rcmi_queue_next(&queue), &more);
    assert_ptr_equal(queue.first, &more);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_bound, setup),   cmocka_unit_test_setup(test_drains, setup),
        cmocka_unit_test_setup(test_bytes, setup),   cmocka_unit_test_setup(test_stages, setup),
        cmocka_unit_test_setup(test_refused, setup), cmocka_unit_test_setup(test_emptied, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
