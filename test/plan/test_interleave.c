/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The unmodified plans, executed in random order by the interpreter: odd sizes, several slices, the
 * minimum of slots and more, in place and not.
 *
 *     test_plan_interleave [all]     without "all", a third of the runs
 */
#include "interpreter.h"
#include "shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const int rank_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 21, 32, 33};
#define COUNTS    (sizeof(rank_counts) / sizeof(rank_counts[0]))
#define RANKS_MAX (TEST_SANITIZED ? 13 : 33)
static const size_t counts[] = {0, 1, 2, 3, 17, 64, 101, 257};
#define PLAYS 3 /* per number of elements */

static bool all;
static long runs_done;

/* uneven: also blocks of unequal lengths, if the plan supports them, and then in the order of steps
 * if allowed. */
static void play_one(struct player *player, const struct rcmi_plan *plan, enum rcmi_counts uneven,
                     size_t count, uint64_t seed) {
    const struct play_options options = {
        .count = count,
        .uneven = uneven != RCMI_COUNTS_SAME && seed / 4 % 2,
        .by_step = uneven == RCMI_COUNTS_PAIR && seed / 4 % 2,
        .slot = 1 + seed % 11,
        .slots = plan->min_slots + (uint32_t)(seed % 2 ? 0 : seed % 5),
        .in_place = seed / 2 % 2 && !rcmi_collective_at((int)plan->collective)->apart,
        .seed = seed,
    };
    const enum play_outcome outcome = player_play(player, &options);
    if (outcome != PLAY_DONE || !player_right(player))
        fail_msg("%s, %d ranks, root %d, %zu elements, slots of %zu, %u of them, in place %d, "
                 "uneven %d: outcome %d",
                 plan->algorithm, plan->nranks, plan->root, count, options.slot, options.slots,
                 options.in_place, options.uneven, outcome);
    runs_done++;
}

static void play_plans(const struct rcmi_algorithm *algorithm, const struct rcmi_shape *shape,
                       int root) {
    struct rcmi_plan **plans = test_plans_emit(algorithm, shape, root);
    const bool once = shape->nhosts > 1 && test_plans_as_on_one_host(algorithm, shape, plans);
    struct player *player = player_create(shape, plans);
    for (size_t i = 0; !once && i < sizeof(counts) / sizeof(counts[0]); i++)
        for (uint64_t seed = 0; seed < PLAYS; seed++)
            if (all || seed == i % PLAYS)
                play_one(player, plans[0], test_counts(algorithm), counts[i],
                         seed + PLAYS * i + 7 * (uint64_t)shape->nranks);
    player_free(player);
    test_plans_free(plans, shape->nranks);
}

static void play_shape(const struct rcmi_shape *shape) {
    for (size_t i = 0; rcmi_algorithms[i]; i++)
        if (rcmi_algorithms[i]->supports(shape))
            play_plans(rcmi_algorithms[i], shape, test_root(rcmi_algorithms[i], shape->nranks / 2));
}

static void test_play_all(void **state) {
    static struct test_shape s;
    (void)state;
    for (size_t i = 0; i < COUNTS && rank_counts[i] <= RANKS_MAX; i++) {
        play_shape(test_shape_one_host(&s, rank_counts[i]));
        if (rank_counts[i] > 2)
            play_shape(test_shape_uneven(&s, rank_counts[i]));
        if (rank_counts[i] > 2)
            play_shape(test_shape_dealt(&s, rank_counts[i], 3));
    }
    printf("# %ld runs, all right\n", runs_done);
}

/* The declared minimum of slots is needed: with fewer the interpreter deadlocks too. */
static void test_minimum_is_needed(void **state) {
    static struct test_shape s;
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&s, 5);
    struct rcmi_plan **plans = test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "ring"), shape, 0);
    struct player *player = player_create(shape, plans);
    const struct play_options options = {.count = 40, .slot = 3, .slots = 1, .seed = 1};
    assert_int_equal(plans[0]->min_slots, 2);
    assert_int_equal(player_play(player, &options), PLAY_DEADLOCK);
    player_free(player);
    test_plans_free(plans, 5);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_play_all),
        cmocka_unit_test(test_minimum_is_needed),
    };
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests_name("plans interleaved", tests, NULL, NULL);
}
