/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms by name and by cost, and the plan cache. */
#include "shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "choice.h"
#include "cost.h"
#include "error.h"
#include "price.h"

static struct test_shape one, two;

static void test_find(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&one, 8);
    const struct rcmi_algorithm *found;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        const struct rcmi_algorithm *a = rcmi_algorithms[i];
        const struct rcmi_shape *fits = a->supports(shape) ? shape : test_shape_dealt(&two, 8, 2);
        found = NULL;
        assert_int_equal(rcmi_algorithm_find(a->collective, a->name, fits, &found), RCM_OK);
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

/* Some algorithm keeps the order of ranks at every size. */
static void check_ordered(enum rcm_collective collective, const struct rcmi_shape *shape) {
    struct rcmi_selection *selection = NULL;
    assert_int_equal(rcmi_selection_create(shape, &selection), RCM_OK);
    for (size_t bytes = 8; bytes < (size_t)1 << 30; bytes *= 64) {
        const struct rcmi_algorithm *a = NULL;
        assert_int_equal(rcmi_algorithm_select(selection, collective, bytes, true, &a), RCM_OK);
        assert_true(a->supports(shape) && rcmi_algorithm_is_ordered(a));
        assert_int_equal(rcmi_algorithm_check_order(a, "compose"), RCM_OK);
    }
    rcmi_selection_free(selection);
}

/* For operators that do not commute, with any ranks and hosts, even if other algorithms cost
 * less. */
static void test_ordered(void **state) {
    static const enum rcm_collective all[] = {RCM_ALL_REDUCE,       RCM_REDUCE, RCM_REDUCE_SCATTER,
                                              RCM_REDUCE_SCATTER_V, RCM_SCAN,   RCM_EXSCAN};
    (void)state;
    for (size_t c = 0; c < sizeof(all) / sizeof(all[0]); c++)
        for (int p = 1; p <= 100; p += 11)
            check_ordered(all[c],
                          p % 2 ? test_shape_one_host(&one, p) : test_shape_dealt(&two, p, 2));
    const struct rcmi_algorithm *ring = test_algorithm(RCM_ALL_REDUCE, "ring");
    assert_int_equal(rcmi_algorithm_check_order(ring, "compose"), RCM_ERR_UNSUPPORTED);
    assert_non_null(strstr(rcmi_last_error()->text, "compose is not commutative, but all_reduce"));
}

static const char *selected(enum rcm_collective collective, const struct rcmi_shape *shape,
                            size_t bytes) {
    struct rcmi_selection *selection = NULL;
    const struct rcmi_algorithm *a = NULL;
    assert_int_equal(rcmi_selection_create(shape, &selection), RCM_OK);
    assert_int_equal(rcmi_algorithm_select(selection, collective, bytes, false, &a), RCM_OK);
    rcmi_selection_free(selection);
    assert_non_null(a);
    assert_true(a->supports(shape));
    return a->name;
}

/* Several hosts, some with several ranks. */
static void test_select_two_level(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_dealt(&two, 64, 2);
    assert_string_equal(selected(RCM_BARRIER, shape, 0), "two_level");
    assert_string_equal(selected(RCM_BROADCAST, shape, 1 << 20), "two_level");
    shape = test_shape_dealt(&two, 64, 7);
    assert_string_equal(selected(RCM_ALL_TO_ALL, shape, 1 << 12), "two_level");
}

static void test_select(void **state) {
    (void)state;
    const size_t large = (size_t)64 << 20;
    for (int p = 3; p <= 16; p++) {
        const struct rcmi_shape *here = test_shape_one_host(&one, p);
        const struct rcmi_shape *there = test_shape_dealt(&two, p, p);
        assert_string_equal(selected(RCM_ALL_REDUCE, here, 8), "one_shot");
        assert_string_equal(selected(RCM_ALL_REDUCE, here, large), "two_shot");
        assert_string_equal(selected(RCM_ALL_REDUCE, there, 8), "recursive_doubling");
        assert_string_equal(selected(RCM_ALL_REDUCE, there, large), "ring");
        assert_string_equal(selected(RCM_BROADCAST, here, large), "flat");
        assert_string_equal(selected(RCM_BARRIER, there, 0), "dissemination");
        if (p > 4)
            assert_string_equal(selected(RCM_BROADCAST, there, large), "double_tree");
        if (p > 4 && p < 9)
            assert_string_equal(selected(RCM_BROADCAST, there, 8), "binomial");
        if (p <= 8)
            assert_string_equal(selected(RCM_BARRIER, here, 0), "flat");
        if (p < 8)
            assert_string_equal(selected(RCM_SCAN, here, 8), "direct");
        if (p > 4) {
            assert_string_equal(selected(RCM_ALL_GATHER, here, 64), "flat");
            assert_string_equal(selected(RCM_ALL_GATHER, there, 64), "bruck");
            assert_string_equal(selected(RCM_ALL_GATHER, there, large), "ring");
            assert_string_equal(selected(RCM_REDUCE_SCATTER, here, 64), "direct");
        }
        if (p > 10) {
            assert_string_equal(selected(RCM_REDUCE_SCATTER, there, 64), "circulant");
            assert_string_equal(selected(RCM_SCAN, here, large), "chain");
            assert_string_equal(selected(RCM_EXSCAN, there, large), "chain");
        }
    }
    assert_string_equal(selected(RCM_ALL_REDUCE, test_shape_one_host(&one, 33), large), "ring");
}

/* Ranks that share CPUs and memory: a round costs a turn of all ranks, a message costs little.
 * Values measured with 2 CPUs of that family. */
static void test_select_oversubscribed_memory(void **state) {
    (void)state;
    struct rcmi_shape shape = *test_shape_one_host(&one, 64);
    shape.nranks = 8;
    shape.prices = rcmi_prices_of(RCMI_CPU_ZEN_5);
    shape.ranks_per_cpu = 4;
    assert_string_equal(selected(RCM_REDUCE_SCATTER, &shape, 32), "direct");
    assert_string_equal(selected(RCM_REDUCE_SCATTER, &shape, 4096), "direct");
    assert_string_equal(selected(RCM_REDUCE_SCATTER, &shape, 256 << 10), "direct");
    assert_string_equal(selected(RCM_ALL_REDUCE, &shape, 16 << 10), "two_shot");
    shape.nranks = 16;
    shape.ranks_per_cpu = 8;
    assert_string_equal(selected(RCM_ALL_REDUCE, &shape, 128), "one_shot");
    assert_string_equal(selected(RCM_ALL_GATHER, &shape, 128), "flat");
    assert_string_equal(selected(RCM_SCAN, &shape, 128), "recursive_doubling");
    shape.nranks = 64;
    shape.ranks_per_cpu = 32;
    assert_string_equal(selected(RCM_ALL_REDUCE, &shape, 32 << 10), "binomial");
}

/* Ranks that share CPUs and one kernel for all messages: few messages in total are better than few
 * in sequence. */
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
    assert_string_equal(selected(RCM_BROADCAST, &shape, (size_t)64 << 20), "double_tree");
    for (int p = 2; p <= 4; p += 2) { /* two CPUs */
        struct rcmi_shape few = *test_shape_dealt(&one, p, p);
        few.loopback = true;
        few.ranks_per_cpu = p / 2.0;
        const bool alone = p == 2;
        assert_string_equal(selected(RCM_ALL_REDUCE, &few, 8),
                            alone ? "recursive_doubling" : "binomial");
        assert_string_equal(selected(RCM_BARRIER, &few, 0), alone ? "dissemination" : "binomial");
        assert_string_equal(selected(RCM_ALL_REDUCE, &few, (size_t)64 << 20),
                            alone ? "ring" : "double_tree");
    }
}

/* A collective with all its algorithms, counted for a shape. */
struct market {
    const struct rcmi_shape *shape;
    struct rcmi_cost costs[128];
};

static void market_open(struct market *m, const struct rcmi_shape *shape) {
    m->shape = shape;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        assert_true(i < 128);
        if (rcmi_algorithms[i]->supports(shape))
            assert_int_equal(rcmi_cost_count(rcmi_algorithms[i], shape, 0, &m->costs[i]), RCM_OK);
    }
}

static double market_price(const struct market *m, size_t i, size_t bytes) {
    const struct rcmi_price price =
        rcmi_price(&m->costs[i], rcmi_shape_prices(m->shape), m->shape, bytes);
    return rcmi_price_us(&price);
}

/* 16 sizes per octave. */
static size_t size_after(size_t bytes) {
    return bytes + bytes / 16 + 1;
}

/* Costs never fall as vectors grow. None is negative or zero. */
static void check_prices(const struct market *m) {
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        double before = 0;
        if (!rcmi_algorithms[i]->supports(m->shape))
            continue;
        for (size_t bytes = 0; bytes < (size_t)1 << 40; bytes = bytes * 4 + 1) {
            const double us = market_price(m, i, bytes);
            assert_true(us >= before);
            assert_true(m->shape->nranks == 1 ? us == 0 : us > 0);
            before = us;
        }
    }
}

/* The lowest cost does not fall, and the choice changes less often than there are algorithms. */
static void check_choice(const struct market *m, enum rcm_collective collective) {
    struct rcmi_selection *selection = NULL;
    const struct rcmi_algorithm *last = NULL, *now = NULL;
    double before = 0;
    int changes = 0, candidates = 0;
    for (size_t i = 0; rcmi_algorithms[i]; i++)
        candidates += rcmi_algorithm_does(rcmi_algorithms[i], collective) &&
                      rcmi_algorithms[i]->supports(m->shape);
    assert_int_equal(rcmi_selection_create(m->shape, &selection), RCM_OK);
    for (size_t bytes = 0; bytes < (size_t)1 << 32; bytes = size_after(bytes)) {
        assert_int_equal(rcmi_algorithm_select(selection, collective, bytes, false, &now), RCM_OK);
        size_t i = 0;
        while (rcmi_algorithms[i] != now)
            i++;
        const double us = market_price(m, i, bytes);
        assert_true(us >= before);
        before = us;
        changes += last && last != now;
        last = now;
    }
    rcmi_selection_free(selection);
    assert_true(changes <= candidates);
}

static void test_prices(void **state) {
    (void)state;
    static struct market market;
    for (int p = 1; p <= 130; p = p < 20 ? p + 1 : p + 22) {
        for (int kind = 0; kind < 12; kind++) {
            struct rcmi_shape shape = *test_shape_dealt(&one, p, kind % 3 + 1);
            shape.loopback = kind >= 6;
            shape.ranks_per_cpu = kind / 3 % 2 ? p / 2.0 : 0.5;
            market_open(&market, &shape);
            check_prices(&market);
            for (int c = 1; c < RCMI_COLLECTIVES && p % 3 == 2; c++)
                if (rcmi_collective_at(c))
                    check_choice(&market, (enum rcm_collective)c);
        }
    }
}

/* The formulas, as numbers that a reader can check. */
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
        {RCM_BROADCAST, "direct", 0, 1, 5},
        {RCM_BROADCAST, "direct", 5, 1, 0},
        {RCM_ALL_GATHER, "direct", 3, 1, 5},
        {RCM_BARRIER, "dissemination", 0, 3, 0},
        {RCM_BARRIER, "binomial", 5, 4, 0},
        {RCM_BARRIER, "flat", 0, 1, 0},
        {RCM_ALL_GATHER, "bruck", 3, 3, 5},
        {RCM_REDUCE_SCATTER, "circulant", 3, 3, 5},
        {RCM_ALL_REDUCE, "halving_doubling", 0, 6, 4},
        {RCM_ALL_REDUCE, "halving_doubling", 1, 6, 10},
        {RCM_ALL_REDUCE, "halving_doubling", 5, 6, 6},
        {RCM_ALL_REDUCE, "circulant", 3, 6, 10},
        {RCM_SCATTER, "binomial", 0, 2, 5},
        {RCM_SCATTER, "binomial", 4, 2, 1},
        {RCM_GATHER, "binomial", 4, 2, 2},
        {RCM_GATHER, "binomial", 0, 2, 0},
        {RCM_ALL_TO_ALL, "pairwise", 3, 6, 5},
        {RCM_ALL_TO_ALL, "pairwise_8", 3, 1, 5},
        {RCM_REDUCE, "chain", 2, 5, 1},
        {RCM_REDUCE, "two_shot", 2, 2, 6},
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

/* Out of memory: an incomplete count has no cost. */
static void count_fails(struct rcmi_tally *tally) {
    tally->failed = true;
}

static struct rcmi_formula formula_fails(const struct rcmi_algorithm *row,
                                         const struct rcmi_shape *shape, int rank, int root) {
    (void)row;
    (void)shape;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){0};
}

static void test_count_fails(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_dealt(&one, 8, 2);
    struct rcmi_algorithm a = *test_algorithm(RCM_ALL_REDUCE, "two_level");
    struct rcmi_cost cost;
    assert_int_equal(rcmi_cost_count(&a, shape, 0, &cost), RCM_OK);
    a.formula = formula_fails;
    assert_int_equal(rcmi_cost_count(&a, shape, 0, &cost), RCM_ERR_NOMEM);
    a = *test_algorithm(RCM_ALL_REDUCE, "two_level");
    a.count = count_fails;
    assert_int_equal(rcmi_cost_count(&a, shape, 0, &cost), RCM_ERR_NOMEM);
    assert_non_null(strstr(rcmi_last_error()->text, "two_level"));
}

/* ---- By name --------------------------------------------------------------------------------- */

static rcm_status choices_of(const char *text, const struct rcmi_shape *shape, bool lenient,
                             struct rcmi_choices *choices) {
    rcmi_choices_free(choices);
    return rcmi_choices_read(choices, text, "TEXT", shape, lenient);
}

static const char *named(const struct rcmi_choices *choices, enum rcm_collective collective,
                         size_t bytes) {
    const struct rcmi_algorithm *a = rcmi_choices_find(choices, collective, bytes, false);
    return a ? a->name : "";
}

static void test_choices(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&one, 4);
    struct rcmi_choices choices = {.n = 0}, kept = {.n = 0};
    assert_int_equal(choices_of("all_reduce = binomial:0-32K,ring:33K-, broadcast=chain", shape,
                                false, &choices),
                     RCM_OK);
    assert_string_equal(named(&choices, RCM_ALL_REDUCE, 0), "binomial");
    assert_string_equal(named(&choices, RCM_ALL_REDUCE, 32 << 10), "binomial");
    assert_string_equal(named(&choices, RCM_ALL_REDUCE, (32 << 10) + 1), "");
    assert_string_equal(named(&choices, RCM_ALL_REDUCE, 33 << 10), "ring");
    assert_string_equal(named(&choices, RCM_BROADCAST, 5), "chain");
    assert_string_equal(named(&choices, RCM_SCAN, 5), "");
    assert_int_equal(
        choices_of("all_reduce=ring,one_shot:0-8,two_shot:64-", shape, false, &choices), RCM_OK);
    assert_string_equal(named(&choices, RCM_ALL_REDUCE, 8), "one_shot");
    assert_string_equal(named(&choices, RCM_ALL_REDUCE, 9), "ring");
    const struct rcmi_shape *there = test_shape_dealt(&two, 4, 2);
    assert_int_equal(rcmi_choices_keep(&choices, there, &kept), RCM_OK);
    assert_string_equal(named(&kept, RCM_ALL_REDUCE, 8), "ring");
    assert_int_equal(choices_of("all_reduce=one_shot", there, false, &choices),
                     RCM_ERR_UNSUPPORTED);
    assert_int_equal(choices_of("all_reduce=one_shot", there, true, &choices), RCM_OK);
    assert_string_equal(named(&choices, RCM_ALL_REDUCE, 8), "");
    assert_int_equal(choices_of("all_reduce=one_shot,ring:9-", shape, true, &choices), RCM_OK);
    assert_string_equal(rcmi_choices_find(&choices, RCM_ALL_REDUCE, 9, true)->name, "one_shot");
    assert_int_equal(choices_of("all_reduce=one_shot,ring:9-", shape, false, &choices), RCM_OK);
    assert_string_equal(rcmi_choices_find(&choices, RCM_ALL_REDUCE, 9, true)->name, "ring");
    assert_int_equal(choices_of("ring", shape, false, &choices), RCM_OK);
    assert_string_equal(named(&choices, RCM_ALL_GATHER, 8), "ring");
    assert_string_equal(named(&choices, RCM_ALL_REDUCE, 8), "ring");
    rcmi_choices_free(&choices);
    rcmi_choices_free(&kept);
}

/* The error contains the wrong piece and its position. */
static void test_choices_wrong(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&one, 4);
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {"all_reduce=ring:0-8,binomial:9", "'binomial:9'"},
        {"all_reduce=ring:9-8", "'ring:9-8'"},
        {"all_reduce=", "''"},
        {"all_reduce=ring,rong:4-", "\"rong\""},
        {"all_sum=ring", "all_sum, which is not a collective"},
        {"rong", "rong, which is not an algorithm"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct rcmi_choices choices = {.n = 0};
        assert_int_not_equal(choices_of(wrong[i].text, shape, true, &choices), RCM_OK);
        assert_non_null(strstr(rcmi_last_error()->text, wrong[i].part));
        assert_non_null(strstr(rcmi_last_error()->text, "TEXT"));
        rcmi_choices_free(&choices);
    }
}

static bool price_take(const char *text, struct rcmi_prices *prices) {
    struct rcmi_item item;
    assert_true(rcmi_item_next(&text, &item));
    return rcmi_prices_take(&item, "TEXT", prices) == RCM_OK;
}

/* Printed costs read back with the same bits. */
static void test_price_text(void **state) {
    (void)state;
    static char text[RCMI_PRICES_TEXT];
    const char *at = text;
    struct rcmi_prices prices = *rcmi_prices_of(RCMI_CPU_OTHER), again = {{{.shm_hop = 77}}};
    struct rcmi_item item;
    assert_true(price_take("shm_hop.roomy = 0.305", &prices));
    assert_true(price_take("wire_mib=8738.25", &prices));
    assert_true(prices.of[RCMI_ROOMY].shm_hop == 0.305);
    assert_true(prices.of[RCMI_OVERSUBSCRIBED].shm_hop != 0.305);
    assert_true(prices.of[RCMI_OVERSUBSCRIBED].wire_mib == 8738.25);
    rcmi_prices_write(&prices, text);
    while (rcmi_item_next(&at, &item))
        assert_int_equal(rcmi_prices_take(&item, "TEXT", &again), RCM_OK);
    assert_memory_equal(&again, &prices, sizeof(prices));
    static const char *const wrong[] = {"shm_hop",     "shm_hop=",     "shm_hop=-1",
                                        "shm_hop=1e3", "shm_hop=1..2", "shm_hop.all=1",
                                        "shm=1",       "shm_hop=.5",   "shm_hop=99999999999"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(price_take(wrong[i], &prices));
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
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_ordered),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_select_oversubscribed),
        cmocka_unit_test(test_prices),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_count_fails),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_choices_wrong),
        cmocka_unit_test(test_price_text),
        cmocka_unit_test(test_select_two_level),
        cmocka_unit_test(test_select_oversubscribed_memory),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("plan selection", tests, NULL, NULL);
}
