/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The builder: the layout of plans, detected mistakes of emitters, the stable flags, and out of
 * memory at any point, which must be an error without a leak. Linked with --wrap for malloc, calloc
 * and realloc.
 */
#include "shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "error.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long allocations_left = -1; /* -1: no limit */

static bool allocation_fails(void) {
    if (allocations_left < 0)
        return false;
    if (allocations_left == 0)
        return true;
    allocations_left--;
    return false;
}

void *__wrap_malloc(size_t size) {
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    return allocation_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size) {
    return allocation_fails() ? NULL : __real_realloc(old, size);
}

static struct test_shape space;

static struct rcmi_builder *begin(int nranks, int nhosts, uint32_t nchunks) {
    struct rcmi_builder *b = NULL;
    const struct rcmi_shape *shape = test_shape_dealt(&space, nranks, nhosts);
    assert_int_equal(rcmi_plan_begin("test", RCM_ALL_REDUCE, shape, 0, 0, nchunks, 1, &b), RCM_OK);
    assert_non_null(b);
    return b;
}

static void expect_failure(struct rcmi_builder *b, const char *text) {
    struct rcmi_plan *plan = NULL;
    assert_int_equal(rcmi_plan_finish(b, &plan), RCM_ERR_INTERNAL);
    assert_null(plan);
    if (!strstr(rcmi_last_error()->text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, rcmi_last_error()->text);
}

static void test_layout(void **state) {
    (void)state;
    struct rcmi_builder *b = begin(4, 1, 3);
    struct rcmi_plan *plan;
    /* Lanes in any order. A repeated channel is the same channel. */
    rcmi_recv(b, 2, 1, rcmi_from(b, 2, 3, 0), rcmi_out(1));
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 3, 0));
    rcmi_recv(b, 2, 2, rcmi_from(b, 2, 3, 0), rcmi_scratch(4));
    rcmi_send(b, 0, 2, rcmi_in(2), rcmi_to(b, 0, 3, 1));
    rcmi_send(b, 0, 1, rcmi_in(1), rcmi_to(b, 0, 3, 0));
    assert_int_equal(rcmi_plan_finish(b, &plan), RCM_OK);
    assert_int_equal(plan->nlanes, 3);
    assert_int_equal(plan->nsteps, 5);
    assert_int_equal(plan->lanes[0].first_step, 0);
    assert_int_equal(plan->lanes[0].nsteps, 3);
    assert_int_equal(plan->lanes[1].nsteps, 0);
    assert_int_equal(plan->lanes[2].first_step, 3);
    assert_int_equal(plan->lanes[2].nsteps, 2);
    assert_int_equal(plan->nchannels, 3);
    assert_int_equal(plan->nscratch, 5);
    assert_int_equal(plan->steps[0].out, plan->steps[2].out);
    assert_int_not_equal(plan->steps[0].out, plan->steps[1].out);
    assert_int_equal(plan->channels[plan->steps[1].out].number, 1);
    assert_int_equal(plan->steps[4].chunk, 2);
    rcmi_plan_free(plan);
}

/* The operation follows from the operands. */
static void test_reduce_ops(void **state) {
    (void)state;
    struct rcmi_builder *b = begin(4, 1, 1);
    struct rcmi_plan *plan;
    const struct rcmi_operand from1 = rcmi_from(b, 0, 1, 0), from2 = rcmi_from(b, 0, 2, 0);
    const uint32_t to = rcmi_to(b, 0, 3, 0);
    const struct rcmi_operand a[] = {from1, rcmi_in(0)}, c[] = {rcmi_out(0), from1};
    const struct rcmi_operand two[] = {from1, from2}, buffers[] = {rcmi_in(0), rcmi_out(0)};
    rcmi_reduce(b, 0, 0, a, 2, rcmi_out(0), RCMI_NO_CHANNEL);
    rcmi_reduce(b, 0, 0, c, 2, rcmi_nowhere(), to);
    rcmi_reduce(b, 0, 0, c, 2, rcmi_out(0), to);
    rcmi_reduce(b, 0, 0, two, 2, rcmi_out(0), to);
    rcmi_reduce(b, 0, 0, buffers, 2, rcmi_out(0), RCMI_NO_CHANNEL);
    rcmi_reduce(b, 0, 0, a, 1, rcmi_out(0), RCMI_NO_CHANNEL);
    assert_int_equal(rcmi_plan_finish(b, &plan), RCM_OK);
    const uint8_t ops[] = {RCMI_STEP_RECV_REDUCE,      RCMI_STEP_RECV_REDUCE_SEND,
                           RCMI_STEP_RECV_REDUCE_SEND, RCMI_STEP_REDUCE_N,
                           RCMI_STEP_REDUCE_N,         RCMI_STEP_REDUCE_N};
    for (size_t i = 0; i < sizeof(ops); i++)
        assert_int_equal(plan->steps[i].op, ops[i]);
    rcmi_plan_free(plan);
}

static void test_mistakes(void **state) {
    (void)state;
    struct rcmi_operand many[RCMI_SOURCES_MAX + 1];
    for (uint32_t i = 0; i <= RCMI_SOURCES_MAX; i++)
        many[i] = rcmi_in(0);

    struct rcmi_builder *b = begin(4, 2, 3);
    rcmi_from(b, 0, 1, 0);
    rcmi_from(b, 1, 1, 0);
    expect_failure(b, "uses one channel end from two lanes; its peer is 1");
    b = begin(4, 2, 3);
    rcmi_to(b, 0, 0, 0);
    expect_failure(b, "for rank 0 of 4 cannot have a channel with rank 0");
    b = begin(4, 2, 3);
    rcmi_to(b, 0, 4, 0);
    expect_failure(b, "cannot have a channel with rank 4");
    b = begin(4, 2, 3);
    rcmi_to(b, 0, 1, RCMI_CHANNEL_NUMBERS);
    expect_failure(b, "has no channel number 8");
    b = begin(4, 2, 3);
    rcmi_from_host(b, 0, 1, 0);
    expect_failure(b, "reads the multicast of another host's rank 1");
    b = begin(4, 2, 3);
    rcmi_copy_chunk(b, 0, 3, rcmi_in(0), rcmi_out(0));
    expect_failure(b, "has no chunk 3");
    b = begin(4, 2, 3);
    rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(7));
    expect_failure(b, "has no chunk 7");
    b = begin(4, 2, 3);
    rcmi_copy_chunk(b, 64, 0, rcmi_in(0), rcmi_out(0));
    expect_failure(b, "has no lane 64");
    b = begin(4, 2, 3);
    rcmi_reduce(b, 0, 0, many, RCMI_SOURCES_MAX + 1, rcmi_out(0), RCMI_NO_CHANNEL);
    expect_failure(b, "too many sources in one step: 17");
}

/* Spans by list: the positions of their chunks, and invalid ones. */
static void test_lists(void **state) {
    (void)state;
    const struct rcmi_listed list[] = {{.chunk = 4, .scratch = 2}, {.chunk = 1, .scratch = 7}};
    struct rcmi_builder *b = begin(4, 1, 5);
    struct rcmi_plan *plan;
    rcmi_plan_spans(b, 2);
    rcmi_copy_chunk(b, 0, 4, rcmi_in(4), rcmi_scratch(1));
    rcmi_span_list(b, 0, list, 2);
    rcmi_send(b, 0, 4, rcmi_out(4), rcmi_to(b, 0, 1, 0));
    rcmi_span_list(b, 0, list, 2);
    assert_int_equal(rcmi_plan_finish(b, &plan), RCM_OK);
    const struct rcmi_step *step = &plan->steps[0];
    assert_int_equal(plan->nscratch, 9);
    assert_int_equal(rcmi_step_chunk(plan, step, 1), 1);
    assert_int_equal(rcmi_span_operand(plan, step, step->dst, 0).index, 3);
    assert_int_equal(rcmi_span_operand(plan, step, step->dst, 1).index, 8);
    assert_int_equal(rcmi_span_operand(plan, step, plan->operands[0], 1).index, 1);
    char text[64];
    rcmi_step_describe(plan, 1, text, sizeof(text));
    assert_string_equal(text, "send chunks 4,1: out.4 -> to 1");
    rcmi_plan_free(plan);

    b = begin(4, 1, 5);
    rcmi_plan_spans(b, 2);
    rcmi_copy_chunk(b, 0, 3, rcmi_in(3), rcmi_out(3));
    rcmi_span_list(b, 0, list, 2);
    expect_failure(b, "has a list that does not begin with its step's chunk but with 4");
    b = begin(4, 1, 5);
    rcmi_copy_chunk(b, 0, 4, rcmi_in(4), rcmi_out(4));
    rcmi_span_list(b, 0, list, 2);
    expect_failure(b, "has no spans of 2");
    b = begin(4, 1, 5);
    rcmi_plan_spans(b, 2);
    rcmi_copy_chunk(b, 0, 4, rcmi_in(4), rcmi_out(4));
    rcmi_span_list(b, 0, (const struct rcmi_listed[]){{4, 0}, {9, 0}}, 2);
    expect_failure(b, "has no chunk 9");
}

/* Runs: how they are treated, and invalid ones. */
static void test_runs(void **state) {
    (void)state;
    struct rcmi_builder *b = begin(4, 1, 5);
    struct rcmi_plan *plan;
    rcmi_plan_spans(b, 3);
    rcmi_send(b, 0, 3, rcmi_in(3), rcmi_to(b, 0, 1, 0)); /* 0: out.0 is written later */
    rcmi_span_of(b, 0, 3);
    rcmi_send(b, 0, 3, rcmi_in(3), rcmi_to(b, 0, 1, 0)); /* 1: neither out.3 nor out.4 */
    rcmi_span_of(b, 0, 2);
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1, 0), rcmi_out(0)); /* early, out.0 to out.2 */
    rcmi_span_of(b, 0, 3);
    rcmi_send(b, 0, 4, rcmi_scratch(2), rcmi_to(b, 0, 1, 0)); /* 3: scratch.2 and 3 */
    rcmi_span_of(b, 0, 2);
    assert_int_equal(rcmi_plan_finish(b, &plan), RCM_OK);
    assert_int_equal(plan->nscratch, 4);
    assert_int_equal(plan->longest_span, 3);
    assert_true(plan->steps[0].stable && !plan->steps[0].stable_in_place);
    assert_true(plan->steps[1].stable && plan->steps[1].stable_in_place);
    assert_true(plan->steps[2].early && plan->steps[2].lasting && !plan->steps[3].stable);
    char text[64];
    rcmi_step_describe(plan, 0, text, sizeof(text));
    assert_string_equal(text, "send chunks 3..0: in.3 -> to 1");
    rcmi_plan_free(plan);

    b = begin(4, 1, 5);
    rcmi_plan_spans(b, RCMI_SPAN_MAX + 1);
    expect_failure(b, "may not have spans of 65");
    b = begin(4, 1, 5);
    rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    rcmi_span_of(b, 0, 2);
    expect_failure(b, "has no spans of 2");
    b = begin(4, 1, 5);
    rcmi_plan_spans(b, 6);
    rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_scratch(0));
    rcmi_span_of(b, 0, 6);
    expect_failure(b, "has a buffer without room for a span of 6");
    b = begin(4, 1, 5);
    rcmi_span_of(b, 0, 1);
    expect_failure(b, "empty lane, 0");
}

/* A chunk of a span that another step writes or reads too. */
static void test_runs_in_part(void **state) {
    (void)state;
    struct rcmi_builder *b = begin(4, 1, 5);
    struct rcmi_plan *plan;
    rcmi_plan_spans(b, 3);
    rcmi_recv(b, 0, 4, rcmi_from(b, 0, 1, 0), rcmi_out(4));
    rcmi_span_of(b, 0, 2);                                /* 0: out.4, out.0 */
    rcmi_send(b, 0, 0, rcmi_out(0), rcmi_to(b, 0, 1, 0)); /* 1: before out.1's last write */
    rcmi_span_of(b, 0, 2);
    rcmi_recv(b, 0, 1, rcmi_from(b, 0, 2, 0), rcmi_out(1)); /* 2 */
    assert_int_equal(rcmi_plan_finish(b, &plan), RCM_OK);
    assert_true(!plan->steps[0].early && plan->steps[0].lasting);
    assert_true(!plan->steps[1].stable);
    assert_true(!plan->steps[2].early && plan->steps[2].lasting);
    rcmi_plan_free(plan);
}

/* The first failure is kept, and later calls have no effect. */
static void test_first_failure(void **state) {
    (void)state;
    struct rcmi_builder *b = begin(2, 1, 1);
    rcmi_copy_chunk(b, 0, 5, rcmi_in(0), rcmi_out(0));
    rcmi_copy_chunk(b, 0, 6, rcmi_in(0), rcmi_out(0));
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1, 0));
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1, 0), rcmi_out(0));
    expect_failure(b, "has no chunk 5");
}

static void test_begin_arguments(void **state) {
    (void)state;
    struct rcmi_builder *b = NULL;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 4);
    assert_int_equal(rcmi_plan_begin("t", RCM_BARRIER, shape, 4, 0, 1, 1, &b), RCM_ERR_INVALID);
    assert_int_equal(rcmi_plan_begin("t", RCM_BARRIER, shape, -1, 0, 1, 1, &b), RCM_ERR_INVALID);
    assert_int_equal(rcmi_plan_begin("t", RCM_BARRIER, shape, 0, 4, 1, 1, &b), RCM_ERR_INVALID);
    assert_int_equal(rcmi_plan_begin("t", RCM_BARRIER, shape, 0, 0, 0, 1, &b), RCM_ERR_INVALID);
    assert_int_equal(rcmi_plan_begin("t", RCM_BARRIER, shape, 0, 0, 1, 0, &b), RCM_ERR_INVALID);
    assert_null(b);
}

static void test_stable(void **state) {
    (void)state;
    struct rcmi_builder *b = begin(3, 1, 3);
    struct rcmi_plan *plan;
    const uint32_t to = rcmi_to(b, 0, 1, 0);
    rcmi_send(b, 0, 0, rcmi_in(0), to);                /* 0: out.0 is written later, in this lane */
    rcmi_send(b, 0, 1, rcmi_in(1), to);                /* no step writes out.1 */
    rcmi_copy_chunk(b, 0, 0, rcmi_in(1), rcmi_out(0)); /* 2 */
    rcmi_send(b, 0, 0, rcmi_out(0), to);               /* 3: after the last write */
    rcmi_send(b, 0, 2, rcmi_in(2), to);                /* 4: another lane writes out.2 */
    rcmi_send(b, 0, 2, rcmi_out(2), to);               /* 5: the same */
    rcmi_copy_chunk(b, 0, 1, rcmi_in(1), rcmi_scratch(0));  /* 6 */
    rcmi_send(b, 0, 1, rcmi_scratch(0), to);                /* scratch never is stable */
    rcmi_recv(b, 1, 2, rcmi_from(b, 1, 2, 0), rcmi_out(2)); /* has no buffer */
    assert_int_equal(rcmi_plan_finish(b, &plan), RCM_OK);
    const bool stable[] = {true, true, true, true, true, false, true, false, false};
    const bool in_place[] = {false, true, true, true, false, false, true, false, false};
    const bool lasting[] = {false, false, true, false, false, false, false, false, true};
    for (uint32_t i = 0; i < plan->nsteps; i++) {
        assert_int_equal(plan->steps[i].lasting, lasting[i]);
        assert_int_equal(plan->steps[i].stable, stable[i]);
        assert_int_equal(plan->steps[i].stable_in_place, in_place[i]);
    }
    rcmi_plan_free(plan);
}

/* The root's copy of its buffer to itself is not a write, so a broadcast may be sent in place. */
static void test_broadcast_is_stable(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 8);
    for (int r = 0; r < 8; r++) {
        struct rcmi_plan *plan =
            test_plan_emit(test_algorithm(RCM_BROADCAST, "binomial"), shape, r, 0);
        for (uint32_t i = 0; i < plan->nsteps; i++)
            if (plan->steps[i].op == RCMI_STEP_SEND)
                assert_true(plan->steps[i].stable && plan->steps[i].stable_in_place);
        rcmi_plan_free(plan);
    }
}

static void test_out_of_memory(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 40);
    long failures = 0;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        const struct rcmi_algorithm *a = rcmi_algorithms[i];
        if (!a->supports(shape))
            continue;
        rcm_status status = RCM_ERR_NOMEM;
        for (long limit = 0; status != RCM_OK; limit++) {
            struct rcmi_plan *plan = NULL;
            allocations_left = limit;
            status = a->emit(a, shape, 3, 0, &plan);
            allocations_left = -1;
            if (status != RCM_OK) {
                assert_int_equal(status, RCM_ERR_NOMEM);
                assert_null(plan);
                failures++;
            }
            rcmi_plan_free(plan);
            assert_true(limit < 1000);
        }
    }
    assert_true(failures > 30);
}

/* The same in the verifier and the cache. */
static void test_out_of_memory_elsewhere(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 5);
    const struct rcmi_algorithm *a = test_algorithm(RCM_ALL_REDUCE, "two_shot");
    struct rcmi_plan **plans = test_plans_emit(a, shape, 0);
    long failures = 0;
    for (rcm_status status = RCM_ERR_NOMEM; status != RCM_OK; failures++) {
        allocations_left = failures;
        status = test_plans_verify(shape, plans, a, test_counts(a));
        allocations_left = -1;
        assert_true(status == RCM_OK || status == RCM_ERR_NOMEM);
    }
    assert_true(failures > 20);
    test_plans_free(plans, 5);

    failures = 0;
    for (rcm_status status = RCM_ERR_NOMEM; status != RCM_OK; failures++) {
        struct rcmi_plan_cache *cache = NULL;
        const struct rcmi_plan *plan = NULL;
        allocations_left = failures;
        status = rcmi_plan_cache_create(shape, 2, &cache);
        if (status == RCM_OK)
            status = rcmi_plan_cache_get(cache, a, 0, &plan);
        allocations_left = -1;
        assert_true(status == RCM_OK || status == RCM_ERR_NOMEM);
        rcmi_plan_cache_free(cache);
    }
    assert_true(failures > 5);
}

static void test_describe(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 4);
    struct rcmi_plan *plan = test_plan_emit(test_algorithm(RCM_ALL_REDUCE, "ring"), shape, 1, 0);
    char text[128], small[10];
    rcmi_step_describe(plan, 0, text, sizeof(text));
    assert_string_equal(text, "send chunk 1: in.1 -> to 2");
    rcmi_step_describe(plan, 3, text, sizeof(text));
    assert_string_equal(text, "recv_reduce_send chunk 2: from 0 + in.2 -> out.2, to 2");
    rcmi_step_describe(plan, 3, small, sizeof(small));
    assert_string_equal(small, "recv_redu");
    assert_string_equal(rcmi_step_name(0), "?");
    assert_string_equal(rcmi_step_name(200), "?");
    rcmi_plan_free(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),        cmocka_unit_test(test_reduce_ops),
        cmocka_unit_test(test_mistakes),      cmocka_unit_test(test_lists),
        cmocka_unit_test(test_runs),          cmocka_unit_test(test_runs_in_part),
        cmocka_unit_test(test_first_failure), cmocka_unit_test(test_begin_arguments),
        cmocka_unit_test(test_stable),        cmocka_unit_test(test_broadcast_is_stable),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_out_of_memory_elsewhere),
        cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests_name("plan builder", tests, NULL, NULL);
}
