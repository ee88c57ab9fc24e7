/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verifies every algorithm: all rank counts up to 34 and some up to 130, all roots up to 17 ranks
 * and some beyond, in place and not, on one host and, if plans differ there, on several. Fewer
 * ranks under a sanitizer. Also determines which algorithms keep the order of ranks.
 *
 *     test_plan_sweep            a sample
 *     test_plan_sweep all        all rank counts up to 130, all roots up to 40 ranks
 *     test_plan_sweep NAME       likewise, only the plans of the algorithms of that name
 */
#include "shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "error.h"

#define RANKS_MAX     (TEST_SANITIZED ? 36 : 130)
#define ALL_ROOTS_MAX (TEST_SANITIZED ? 9 : all ? 40 : 17)

static bool all;         /* all rank counts and roots */
static long verified;    /* verified sets of plans */
static const char *only; /* algorithms of this name; NULL: all */

/* The sample: counts near powers of two, and some multiples of 16. */
static bool is_counted(int nranks) {
    return all || nranks <= 34 || nranks % 16 <= 1 || nranks >= RANKS_MAX - 2;
}

static bool is_swept(const struct rcmi_algorithm *algorithm) {
    return !only || strcmp(algorithm->name, only) == 0;
}

/* ---- The order of ranks ---------------------------------------------------------------------- */

#define ROWS_MAX 128

/* The algorithms of the table. Each counts as ordered until a plan breaks the order. */
static struct rcmi_algorithm claims[ROWS_MAX];

static int claims_make(void **state) {
    (void)state;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        assert_in_range(i, 0, ROWS_MAX - 1);
        claims[i] = *rcmi_algorithms[i];
        claims[i].ordered = true;
    }
    return 0;
}

static struct rcmi_algorithm *claim_of(const struct rcmi_algorithm *algorithm) {
    size_t i = 0;
    while (rcmi_algorithms[i] != algorithm)
        i++;
    return &claims[i];
}

static rcm_status claim_verify(struct rcmi_algorithm *claim, const struct rcmi_shape *shape,
                               struct rcmi_plan **plans) {
    const rcm_status status = test_plans_verify(shape, plans, claim, test_counts(claim));
    if (status == RCM_OK || !claim->ordered)
        return status;
    claim->ordered = false;
    return test_plans_verify(shape, plans, claim, test_counts(claim));
}

/* After all plans: an algorithm must be marked as ordered exactly if no plan broke the order. */
static void test_order(void **state) {
    int wrong = 0;
    (void)state;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        const struct rcmi_algorithm *a = rcmi_algorithms[i];
        const struct rcmi_collective *row = rcmi_collective_at((int)a->collective);
        const bool matters = row->reduces && row->contributors == RCM_CONTRIBUTORS_ALL;
        if (!is_swept(a) || a->ordered == (matters && claims[i].ordered))
            continue;
        printf("# %s %s: ordered is %d\n", row->name, a->name, a->ordered);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* ---- Sets of plans --------------------------------------------------------------------------- */

static void verify_root(const struct rcmi_algorithm *algorithm, const struct rcmi_shape *shape,
                        int root) {
    struct rcmi_plan **plans = test_plans_emit(algorithm, shape, root);
    const bool seen = shape->nhosts > 1 && shape->nranks <= RANKS_MAX &&
                      test_plans_as_on_one_host(algorithm, shape, plans);
    if (!seen && claim_verify(claim_of(algorithm), shape, plans) != RCM_OK)
        fail_msg("%s %s, %d ranks on %d hosts, root %d: %s",
                 rcmi_collective_name(algorithm->collective), algorithm->name, shape->nranks,
                 shape->nhosts, root, rcmi_last_error()->text);
    test_plans_free(plans, shape->nranks);
    verified += !seen;
}

static void verify_roots(const struct rcmi_algorithm *algorithm, const struct rcmi_shape *shape) {
    const int p = shape->nranks;
    const int some[] = {0, 1, p / 2, p - 1};
    if (!rcmi_collective_is_rooted(rcmi_collective_at((int)algorithm->collective))) {
        verify_root(algorithm, shape, 0);
    } else if (p <= ALL_ROOTS_MAX) {
        for (int root = 0; root < p; root++)
            verify_root(algorithm, shape, root);
    } else {
        for (int i = 0; i < 4; i++)
            verify_root(algorithm, shape, some[i]);
    }
}

static void verify_shape(const struct rcmi_shape *shape) {
    for (size_t i = 0; rcmi_algorithms[i]; i++)
        if (is_swept(rcmi_algorithms[i]) && rcmi_algorithms[i]->supports(shape))
            verify_roots(rcmi_algorithms[i], shape);
}

static void test_one_host(void **state) {
    static struct test_shape s;
    (void)state;
    for (int p = 1; p <= RANKS_MAX; p++)
        if (is_counted(p))
            verify_shape(test_shape_one_host(&s, p));
    printf("# %ld sets of plans verified\n", verified);
    assert_true(verified > 0);
}

static void verify_hosts(int p) {
    static struct test_shape s;
    verify_shape(test_shape_uneven(&s, p));
    verify_shape(test_shape_dealt(&s, p, 2));
    if (p > 3)
        verify_shape(test_shape_dealt(&s, p, 3));
    verify_shape(test_shape_dealt(&s, p, p));
}

static void test_several_hosts(void **state) {
    (void)state;
    for (int p = 2; p <= RANKS_MAX / 2; p++)
        if (is_counted(p))
            verify_hosts(p);
    printf("# %ld sets of plans verified\n", verified);
}

/* The algorithms for one host reject several hosts. The others accept everything. */
static void test_supports(void **state) {
    static struct test_shape one, two;
    (void)state;
    const struct rcmi_shape *here = test_shape_one_host(&one, 8);
    const struct rcmi_shape *there = test_shape_dealt(&two, 8, 2);
    const struct {
        enum rcm_collective collective;
        const char *name;
        bool several_hosts;
    } want[] = {{RCM_ALL_REDUCE, "one_shot", false},
                {RCM_ALL_REDUCE, "two_shot", false},
                {RCM_ALL_REDUCE, "ring", true},
                {RCM_ALL_REDUCE, "recursive_doubling", true},
                {RCM_BROADCAST, "flat", false},
                {RCM_BROADCAST, "binomial", true},
                {RCM_BROADCAST, "chain", true},
                {RCM_BROADCAST, "direct", false},
                {RCM_ALL_GATHER, "direct", false},
                {RCM_BARRIER, "flat", false},
                {RCM_BARRIER, "dissemination", true},
                {RCM_BARRIER, "binomial", true},
                {RCM_ALL_REDUCE, "binomial", true},
                {RCM_REDUCE, "direct", true},
                {RCM_REDUCE, "binomial", true},
                {RCM_REDUCE, "chain", true},
                {RCM_REDUCE, "two_shot", true},
                {RCM_ALL_REDUCE, "halving_doubling", true},
                {RCM_ALL_REDUCE, "circulant", true},
                {RCM_SCATTER, "binomial", true},
                {RCM_GATHER, "binomial", true},
                {RCM_ALL_TO_ALL, "pairwise_8", true},
                {RCM_SCATTER, "direct", true},
                {RCM_GATHER, "direct", true},
                {RCM_ALL_GATHER, "flat", false},
                {RCM_ALL_GATHER, "ring", true},
                {RCM_REDUCE_SCATTER, "direct", true},
                {RCM_REDUCE_SCATTER, "ring", true},
                {RCM_ALL_TO_ALL, "pairwise", true},
                {RCM_ALL_TO_ALL, "bruck", true},
                {RCM_ALL_TO_ALL, "bruck_4", true},
                {RCM_ALL_GATHER, "bruck", true},
                {RCM_REDUCE_SCATTER, "circulant", true},
                {RCM_REDUCE_SCATTER, "chain", true},
                {RCM_SCAN, "direct", true},
                {RCM_EXSCAN, "direct", true},
                {RCM_SCAN, "chain", true},
                {RCM_SCAN, "recursive_doubling", true},
                {RCM_EXSCAN, "chain", true},
                {RCM_EXSCAN, "recursive_doubling", true}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const struct rcmi_algorithm *a = test_algorithm(want[i].collective, want[i].name);
        assert_true(a->supports(here));
        assert_int_equal(a->supports(there), want[i].several_hosts);
    }
    const struct rcmi_algorithm *two_level = test_algorithm(RCM_ALL_REDUCE, "two_level");
    assert_false(two_level->supports(here));
    assert_true(two_level->supports(there));
    assert_false(two_level->supports(test_shape_dealt(&two, 8, 8)));
    assert_false(
        test_algorithm(RCM_ALL_REDUCE, "two_shot")->supports(test_shape_one_host(&one, 33)));
}

/* More ranks than are verified pair by pair. */
static void test_many_ranks(void **state) {
    static struct test_shape s;
    const int p = TEST_SANITIZED ? 200 : 3001;
    const char *names[] = {"binomial", "chain"};
    (void)state;
    for (int i = 0; i < 2; i++)
        verify_root(test_algorithm(RCM_BROADCAST, names[i]), test_shape_uneven(&s, p), p / 3);
    verify_root(test_algorithm(RCM_ALL_REDUCE, "recursive_doubling"), test_shape_dealt(&s, p, 16),
                0);
    verify_root(test_algorithm(RCM_BARRIER, "dissemination"), test_shape_dealt(&s, p, 16), 0);
    verify_root(test_algorithm(RCM_ALL_REDUCE, "binomial"), test_shape_dealt(&s, p, 16), 0);
    verify_root(test_algorithm(RCM_BARRIER, "binomial"), test_shape_dealt(&s, p, 16), 0);
    const int few = p < 400 ? p : 400; /* each rank moves as many blocks as there are ranks */
    verify_root(test_algorithm(RCM_ALL_GATHER, "bruck"), test_shape_dealt(&s, few, 16), 0);
    verify_root(test_algorithm(RCM_REDUCE_SCATTER, "circulant"), test_shape_dealt(&s, few, 16), 0);
    verify_root(test_algorithm(RCM_ALL_REDUCE, "halving_doubling"), test_shape_dealt(&s, few, 16),
                0);
    verify_root(test_algorithm(RCM_ALL_REDUCE, "circulant"), test_shape_dealt(&s, few, 16), 0);
    verify_root(test_algorithm(RCM_SCATTER, "binomial"), test_shape_dealt(&s, few, 16), 99);
    verify_root(test_algorithm(RCM_GATHER, "binomial"), test_shape_dealt(&s, few, 16), 99);
    verify_root(test_algorithm(RCM_ALL_TO_ALL, "bruck_4"), test_shape_dealt(&s, 150, 16), 0);
    verify_root(test_algorithm(RCM_ALL_TO_ALL, "two_level"), test_shape_uneven(&s, 150), 0);
    for (int i = 0; i < 2; i++) {
        const enum rcm_collective scan = i ? RCM_EXSCAN : RCM_SCAN;
        verify_root(test_algorithm(scan, "recursive_doubling"), test_shape_dealt(&s, p, 16), 0);
        verify_root(test_algorithm(scan, "chain"), test_shape_dealt(&s, p, 16), 0);
    }
}

static size_t plan_bytes(const struct rcmi_plan *plan) {
    return sizeof(*plan) + plan->nsteps * sizeof(*plan->steps) +
           plan->noperands * sizeof(*plan->operands) + plan->nlanes * sizeof(*plan->lanes) +
           plan->nchannels * sizeof(*plan->channels) + plan->nlisted * sizeof(*plan->listed);
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Ranks with few peers have few steps: a few per peer, or per full span that they move in a
 * round. */
static void scale_one(const struct rcmi_algorithm *a, const struct rcmi_shape *shape, int rank) {
    const uint32_t p = (uint32_t)shape->nranks, log = 14; /* ceil(log2 10000) */
    const double before = now_ms();
    struct rcmi_plan *plan = test_plan_emit(a, shape, rank, test_root(a, 1));
    const double ms = now_ms() - before;
    const uint32_t spans = plan->longest_span > 1 ? 1 + p / RCMI_SPAN_MAX : 1;
    const bool few = plan->nchannels <= 7 * log && a->formula(a, shape, rank, 0).rounds < p / 16;
    if (rank > 1)
        printf("# %-14s %-18s %6u steps %4u channels %6zu KiB %6.2f ms%s\n",
               rcmi_collective_name(a->collective), a->name, plan->nsteps, plan->nchannels,
               plan_bytes(plan) / 1024, ms, few ? "" : ", as many as ranks");
    assert_true(plan_bytes(plan) < (size_t)8 << 20);
    if (few)
        assert_in_range(plan->nsteps, 0, 4 * log * spans);
    rcmi_plan_free(plan);
}

/* Plans of one rank of ten thousand. */
static void test_scale(void **state) {
    static struct test_shape s;
    const struct rcmi_shape *shape = test_shape_dealt(&s, 10000, 1250);
    int tried = 0;
    (void)state;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        if (!rcmi_algorithms[i]->supports(shape))
            continue;
        scale_one(rcmi_algorithms[i], shape, 0);
        scale_one(rcmi_algorithms[i], shape, 1);
        scale_one(rcmi_algorithms[i], shape, 8191);
        tried++;
    }
    assert_true(tried > 15);
}

int main(int argc, char **argv) {
    const struct CMUnitTest some[] = {cmocka_unit_test(test_one_host),
                                      cmocka_unit_test(test_several_hosts),
                                      cmocka_unit_test(test_order)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_host), cmocka_unit_test(test_several_hosts),
        cmocka_unit_test(test_supports), cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_order),    cmocka_unit_test(test_scale),
    };
    all = argc > 1;
    only = argc > 1 && strcmp(argv[1], "all") != 0 ? argv[1] : NULL;
    if (only)
        return cmocka_run_group_tests_name(only, some, claims_make, NULL);
    return cmocka_run_group_tests_name("plan sweep", tests, claims_make, NULL);
}
