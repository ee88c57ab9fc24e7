/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding algorithms by name and by cost, and the plan cache. */
#include "shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "error.h"

static struct test_shape one, two;

static void test_find(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&one, 8);
    const struct rcmi_algorithm *found;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        const struct rcmi_algorithm *a = rcmi_algorithms[i];
        found = NULL;
        assert_int_equal(rcmi_algorithm_find(a->collective, a->name, shape, &found), RCM_OK);
        assert_ptr_equal(found, a);
        assert_true(strlen(a->description) > 10);
    }
    found = NULL;
    assert_int_equal(rcmi_algorithm_find(RCM_ALL_REDUCE, "rong", shape, &found), RCM_ERR_INVALID);
    for (size_t i = 0; rcmi_algorithms[i]; i++)
        if (rcmi_algorithms[i]->collective == RCM_ALL_REDUCE)
            assert_non_null(strstr(rcmi_last_error()->text, rcmi_algorithms[i]->name));
    assert_non_null(strstr(rcmi_last_error()->text, "\"rong\""));
    assert_null(strstr(rcmi_last_error()->text, "dissemination"));
    assert_int_equal(rcmi_algorithm_find(RCM_BARRIER, "ring", shape, &found), RCM_ERR_INVALID);
    assert_int_equal(rcmi_algorithm_find(RCM_BARRIER, NULL, shape, &found), RCM_ERR_INVALID);
    assert_int_equal(
        rcmi_algorithm_find(RCM_ALL_REDUCE, "one_shot", test_shape_dealt(&two, 8, 2), &found),
        RCM_ERR_UNSUPPORTED);
    assert_non_null(strstr(rcmi_last_error()->text, "8 ranks on 2 hosts"));
    assert_null(found);
}

/* Of operators that do not commute: some row for any ranks and hosts, also where many are cheaper.
 */
static void test_ordered(void **state) {
    static const enum rcm_collective all[] = {RCM_ALL_REDUCE,       RCM_REDUCE, RCM_REDUCE_SCATTER,
                                              RCM_REDUCE_SCATTER_V, RCM_SCAN,   RCM_EXSCAN};
    (void)state;
    for (size_t c = 0; c < sizeof(all) / sizeof(all[0]); c++)
        for (int p = 1; p <= 100; p += 11)
            for (size_t bytes = 8; bytes < (size_t)1 << 30; bytes *= 64) {
                const struct rcmi_shape *shape =
                    p % 2 ? test_shape_one_host(&one, p) : test_shape_dealt(&two, p, 2);
                const struct rcmi_algorithm *a = rcmi_algorithm_select(all[c], shape, bytes, true);
                assert_non_null(a);
                assert_true(a->supports(shape) && rcmi_algorithm_is_ordered(a));
                assert_int_equal(rcmi_algorithm_check_order(a, "compose"), RCM_OK);
            }
    const struct rcmi_algorithm *ring = test_algorithm(RCM_ALL_REDUCE, "ring");
    assert_int_equal(rcmi_algorithm_check_order(ring, "compose"), RCM_ERR_UNSUPPORTED);
    assert_non_null(strstr(rcmi_last_error()->text, "compose is not commutative, and all_reduce"));
}

static const char *selected(enum rcm_collective collective, const struct rcmi_shape *shape,
                            size_t bytes) {
    const struct rcmi_algorithm *a = rcmi_algorithm_select(collective, shape, bytes, false);
    assert_non_null(a);
    assert_true(a->supports(shape));
    return a->name;
}

static void test_select(void **state) {
    (void)state;
    const size_t large = (size_t)64 << 20;
    for (int p = 3; p <= 16; p++) {
        const struct rcmi_shape *here = test_shape_one_host(&one, p);
        const struct rcmi_shape *there = test_shape_dealt(&two, p, 2);
        assert_string_equal(selected(RCM_ALL_REDUCE, here, 8), "one_shot");
        assert_string_equal(selected(RCM_ALL_REDUCE, here, large), "two_shot");
        assert_string_equal(selected(RCM_ALL_REDUCE, there, 8), "recursive_doubling");
        assert_string_equal(selected(RCM_ALL_REDUCE, there, large), "ring");
        assert_string_equal(selected(RCM_BROADCAST, here, large), "flat");
        assert_string_equal(selected(RCM_BARRIER, there, 0), "dissemination");
        if (p > 4) {
            assert_string_equal(selected(RCM_BROADCAST, there, 8), "binomial");
            assert_string_equal(selected(RCM_BROADCAST, there, large), "chain");
        }
        if (p <= 8)
            assert_string_equal(selected(RCM_BARRIER, here, 0), "flat");
        if (p < 8)
            assert_string_equal(selected(RCM_SCAN, here, 8), "direct");
        if (p > 15) {
            assert_string_equal(selected(RCM_SCAN, here, 8), "recursive_doubling");
            assert_string_equal(selected(RCM_EXSCAN, there, 8), "recursive_doubling");
        }
        if (p > 4) {
            assert_string_equal(selected(RCM_ALL_GATHER, here, 64), "flat");
            assert_string_equal(selected(RCM_ALL_GATHER, there, 64), "bruck");
            assert_string_equal(selected(RCM_ALL_GATHER, there, large), "ring");
            assert_string_equal(selected(RCM_REDUCE_SCATTER, here, 64), "direct");
        }
        if (p > 6) {
            assert_string_equal(selected(RCM_REDUCE_SCATTER, there, 64), "circulant");
            assert_string_equal(selected(RCM_SCAN, here, large), "chain");
            assert_string_equal(selected(RCM_EXSCAN, there, large), "chain");
        }
    }
    assert_string_equal(selected(RCM_ALL_REDUCE, test_shape_one_host(&one, 33), large), "ring");
}

/* Where ranks share processors and all messages go through one kernel, few messages in all are
 * better than few in a row. */
static void test_select_oversubscribed(void **state) {
    (void)state;
    struct rcmi_shape shape = *test_shape_dealt(&one, 8, 8);
    shape.loopback = true;
    shape.ranks_per_cpu = 1;
    assert_string_equal(selected(RCM_ALL_REDUCE, &shape, 8), "recursive_doubling");
    assert_string_equal(selected(RCM_BARRIER, &shape, 0), "dissemination");
    shape.ranks_per_cpu = 4;
    assert_string_equal(selected(RCM_ALL_REDUCE, &shape, 8), "binomial");
    assert_string_equal(selected(RCM_BARRIER, &shape, 0), "binomial");
    assert_string_equal(selected(RCM_ALL_REDUCE, &shape, (size_t)64 << 20), "binomial");
    assert_string_equal(selected(RCM_BROADCAST, &shape, (size_t)64 << 20), "binomial");
    shape.ranks_per_cpu = 1;
    assert_string_equal(selected(RCM_ALL_REDUCE, &shape, (size_t)64 << 20), "ring");
    assert_string_equal(selected(RCM_BROADCAST, &shape, (size_t)64 << 20), "chain");
    for (int p = 2; p <= 4; p++) { /* two processors */
        struct rcmi_shape few = *test_shape_dealt(&one, p, p);
        few.loopback = true;
        few.ranks_per_cpu = p / 2.0;
        const bool alone = p == 2;
        assert_string_equal(selected(RCM_ALL_REDUCE, &few, 8),
                            alone ? "recursive_doubling" : "binomial");
        assert_string_equal(selected(RCM_BARRIER, &few, 0), alone ? "dissemination" : "binomial");
        assert_string_equal(selected(RCM_ALL_REDUCE, &few, (size_t)64 << 20),
                            alone ? "recursive_doubling" : "binomial");
    }
}

/* Something is always there, never dearer with fewer bytes, and never a negative price. */
static void test_costs_are_sane(void **state) {
    (void)state;
    for (int p = 1; p <= 130; p++) {
        for (int nhosts = 1; nhosts <= 3; nhosts++) {
            const struct rcmi_shape *shape = test_shape_dealt(&one, p, nhosts);
            for (size_t i = 0; rcmi_algorithms[i]; i++) {
                const struct rcmi_algorithm *a = rcmi_algorithms[i];
                double before = 0;
                for (size_t bytes = 0; a->supports(shape) && bytes < (size_t)1 << 40;
                     bytes = bytes * 4 + 1) {
                    const double us = a->cost_us(a, shape, bytes);
                    assert_true(us >= before);
                    assert_true(p == 1 ? us == 0 : us > 0);
                    before = us;
                }
            }
            selected(RCM_ALL_REDUCE, shape, 1000);
            selected(RCM_BROADCAST, shape, 1000);
            selected(RCM_BARRIER, shape, 0);
        }
    }
}

/* What the formulas are, in numbers that a reader can check. */
static void test_formulas(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&one, 6);
    const struct {
        enum rcm_collective collective;
        const char *name;
        int rank;
        uint32_t rounds;
        uint64_t sent;
    } want[] = {
        {RCM_ALL_REDUCE, "ring", 3, 10, 10},
        {RCM_ALL_REDUCE, "recursive_doubling", 0, 3, 1},
        {RCM_ALL_REDUCE, "recursive_doubling", 1, 3, 3},
        {RCM_ALL_REDUCE, "recursive_doubling", 5, 3, 2},
        {RCM_ALL_REDUCE, "binomial", 0, 4, 3},
        {RCM_ALL_REDUCE, "binomial", 2, 4, 2},
        {RCM_ALL_REDUCE, "binomial", 5, 4, 1},
        {RCM_ALL_REDUCE, "one_shot", 2, 1, 1},
        {RCM_ALL_REDUCE, "two_shot", 2, 2, 6},
        {RCM_BROADCAST, "binomial", 0, 2, 3},
        {RCM_BROADCAST, "binomial", 4, 2, 1},
        {RCM_BROADCAST, "binomial", 5, 2, 0},
        {RCM_BROADCAST, "chain", 5, 5, 0},
        {RCM_BROADCAST, "flat", 0, 1, 1},
        {RCM_BARRIER, "dissemination", 0, 3, 0},
        {RCM_BARRIER, "binomial", 5, 4, 0},
        {RCM_BARRIER, "flat", 0, 1, 0},
        {RCM_ALL_GATHER, "bruck", 3, 3, 5},
        {RCM_REDUCE_SCATTER, "circulant", 3, 3, 5},
        {RCM_ALL_TO_ALL, "bruck", 3, 3, 7},
        {RCM_ALL_TO_ALL, "bruck_4", 3, 2, 6},
        {RCM_SCAN, "direct", 1, 1, 4},
        {RCM_SCAN, "chain", 0, 5, 1},
        {RCM_SCAN, "chain", 5, 5, 0},
        {RCM_SCAN, "recursive_doubling", 0, 2, 3},
        {RCM_SCAN, "recursive_doubling", 2, 2, 2},
        {RCM_SCAN, "recursive_doubling", 5, 2, 0},
        {RCM_EXSCAN, "recursive_doubling", 4, 2, 1},
    };
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const struct rcmi_algorithm *row = test_algorithm(want[i].collective, want[i].name);
        const struct rcmi_formula got = row->formula(row, shape, want[i].rank, 0);
        assert_int_equal(got.rounds, want[i].rounds);
        assert_int_equal(got.chunks_sent, want[i].sent);
    }
}

static void test_cache(void **state) {
    (void)state;
    struct rcmi_plan_cache *cache = NULL;
    const struct rcmi_plan *plan, *again;
    struct rcmi_shape *shape = test_shape_one_host(&one, 5);
    const struct rcmi_algorithm *chain = test_algorithm(RCM_BROADCAST, "chain");
    const struct rcmi_algorithm *flat = test_algorithm(RCM_BROADCAST, "flat");

    assert_int_equal(rcmi_plan_cache_create(shape, 5, &cache), RCM_ERR_INVALID);
    assert_int_equal(rcmi_plan_cache_create(shape, 3, &cache), RCM_OK);
    memset(&one, 0xAB, sizeof(one)); /* the cache keeps its own shape */
    for (int root = 0; root < 5; root++) {
        assert_int_equal(rcmi_plan_cache_get(cache, chain, root, &plan), RCM_OK);
        assert_int_equal(plan->root, root);
        assert_int_equal(plan->rank, 3);
        assert_int_equal(plan->nranks, 5);
        assert_string_equal(plan->algorithm, "chain");
        assert_int_equal(rcmi_plan_cache_get(cache, chain, root, &again), RCM_OK);
        assert_ptr_equal(plan, again);
        assert_int_equal(rcmi_plan_cache_get(cache, flat, root, &again), RCM_OK);
        assert_ptr_not_equal(plan, again);
        assert_string_equal(again->algorithm, "flat");
    }
    assert_int_equal(rcmi_plan_cache_get(cache, chain, 5, &plan), RCM_ERR_INVALID);
    assert_int_equal(rcmi_plan_cache_get(cache, chain, -1, &plan), RCM_ERR_INVALID);
    rcmi_plan_cache_free(cache);
    rcmi_plan_cache_free(NULL);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(rcmi_collective_name(RCM_ALL_REDUCE), "all_reduce");
    assert_string_equal(rcmi_collective_name(RCM_BROADCAST), "broadcast");
    assert_string_equal(rcmi_collective_name(RCM_BARRIER), "barrier");
    assert_string_equal(rcmi_collective_name((enum rcm_collective)99), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),           cmocka_unit_test(test_ordered),
        cmocka_unit_test(test_select),         cmocka_unit_test(test_select_oversubscribed),
        cmocka_unit_test(test_costs_are_sane), cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_cache),          cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("plan selection", tests, NULL, NULL);
}
