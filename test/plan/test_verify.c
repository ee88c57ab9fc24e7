/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans with one known mistake each, and the verifier's error for it. (test_mutation.c puts many
 * mistakes into good plans. The mistakes here result from no single mutation.)
 */
#include "shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "error.h"

#define NONE RCMI_NO_CHANNEL

static struct test_shape space;

static void expect(const struct rcmi_shape *shape, struct rcmi_plan **plans,
                   const struct rcmi_verify_options *options, const char *text) {
    const rcm_status status = rcmi_verify(shape, (const struct rcmi_plan *const *)plans, options);
    assert_int_equal(status, RCM_ERR_INTERNAL);
    if (!strstr(rcmi_last_error()->text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, rcmi_last_error()->text);
}

/* Makes one plan per rank by calling fill. */
typedef void (*fill_fn)(struct rcmi_builder *b, int rank);

static struct rcmi_plan **make(const struct rcmi_shape *shape, enum rcm_collective collective,
                               uint32_t nchunks, fill_fn fill) {
    struct rcmi_plan **plans = calloc((size_t)shape->nranks, sizeof(struct rcmi_plan *));
    assert_non_null(plans);
    for (int r = 0; r < shape->nranks; r++) {
        struct rcmi_builder *b;
        assert_int_equal(rcmi_plan_begin("wrong", collective, shape, r, 0, nchunks, 1, &b), RCM_OK);
        fill(b, r);
        assert_int_equal(rcmi_plan_finish(b, &plans[r]), RCM_OK);
    }
    return plans;
}

static void expect_made(int nranks, enum rcm_collective collective, uint32_t nchunks, fill_fn fill,
                        bool in_place, const char *text) {
    const struct rcmi_shape *shape = test_shape_one_host(&space, nranks);
    struct rcmi_plan **plans = make(shape, collective, nchunks, fill);
    expect(shape, plans, &(struct rcmi_verify_options){.in_place = in_place}, text);
    test_plans_free(plans, nranks);
}

/* ---- Deadlock -------------------------------------------------------------------------------- */

static void fill_receive_first(struct rcmi_builder *b, int rank) {
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1 - rank, 0), rcmi_out(0));
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1 - rank, 0));
}

/* Needs two slots: both ranks send twice before they receive. */
static void fill_send_twice(struct rcmi_builder *b, int rank) {
    for (uint32_t chunk = 0; chunk < 2; chunk++)
        rcmi_send(b, 0, chunk, rcmi_in(chunk), rcmi_to(b, 0, 1 - rank, 0));
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        const struct rcmi_operand srcs[] = {rcmi_in(chunk), rcmi_from(b, 0, 1 - rank, 0)};
        rcmi_reduce(b, 0, chunk, rank == 0 ? srcs : (struct rcmi_operand[]){srcs[1], srcs[0]}, 2,
                    rcmi_out(chunk), NONE);
    }
}

static void test_deadlock(void **state) {
    (void)state;
    expect_made(2, RCM_ALL_REDUCE, 1, fill_receive_first, false, "deadlocks with 1 slots: rank");
    expect_made(2, RCM_ALL_REDUCE, 2, fill_send_twice, false, "4 steps in a circle");

    const struct rcmi_shape *shape = test_shape_one_host(&space, 2);
    struct rcmi_plan **plans = make(shape, RCM_ALL_REDUCE, 2, fill_send_twice);
    const struct rcmi_verify_options enough = {.slots = 2};
    assert_int_equal(rcmi_verify(shape, (const struct rcmi_plan *const *)plans, &enough), RCM_OK);
    test_plans_free(plans, 2);
}

static void test_ring_needs_two_slots(void **state) {
    const struct rcmi_algorithm *ring = test_algorithm(RCM_ALL_REDUCE, "ring");
    (void)state;
    for (int p = 3; p < 20; p++) {
        const struct rcmi_shape *shape = test_shape_one_host(&space, p);
        struct rcmi_plan **plans = test_plans_emit(ring, shape, 0);
        expect(shape, plans, &(struct rcmi_verify_options){.slots = 1}, "deadlocks with 1 slots");
        for (uint32_t slots = 2; slots < 6; slots++)
            assert_int_equal(rcmi_verify(shape, (const struct rcmi_plan *const *)plans,
                                         &(struct rcmi_verify_options){.slots = slots}),
                             RCM_OK);
        test_plans_free(plans, p);
    }
}

/* ---- Order of operands ----------------------------------------------------------------------- */

/* (a op b) op c on rank 0, in two steps; a op (b op c) on the others, where one call combines all
 * sources of a step. */
static void fill_other_steps(struct rcmi_builder *b, int rank) {
    struct rcmi_operand srcs[3];
    for (int r = 0; r < 3; r++)
        if (r != rank)
            rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, r, 0));
    for (int r = 0; r < 3; r++)
        srcs[r] = r == rank ? rcmi_in(0) : rcmi_from(b, 0, r, 0);
    if (rank > 0) {
        rcmi_reduce(b, 0, 0, srcs, 3, rcmi_out(0), NONE);
        return;
    }
    rcmi_reduce(b, 0, 0, srcs, 2, rcmi_scratch(0), NONE);
    srcs[1] = rcmi_scratch(0);
    rcmi_reduce(b, 0, 0, srcs + 1, 2, rcmi_out(0), NONE);
}

static void test_order_in_steps(void **state) {
    (void)state;
    expect_made(3, RCM_ALL_REDUCE, 1, fill_other_steps, false,
                "ranks 0 and 1 add up chunk 0 in different orders");
}

/* A rank's plan with the first two sources of a reduction exchanged. (A sum that only one rank
 * computes may be in any order: chunks of a ring, folded pairs of recursive doubling.) */
static void test_order_of_operands(void **state) {
    static const char *const names[] = {"one_shot", "recursive_doubling"};
    (void)state;
    int exchanged = 0;
    for (int p = 2; p < 20; p++) {
        const struct rcmi_shape *shape = test_shape_one_host(&space, p);
        for (int i = 0; i < ((p & (p - 1)) == 0 ? 2 : 1); i++) {
            struct rcmi_plan **plans =
                test_plans_emit(test_algorithm(RCM_ALL_REDUCE, names[i]), shape, 0);
            struct rcmi_plan *plan = plans[p / 2];
            for (uint32_t k = 0; k < plan->nsteps; k++) {
                struct rcmi_operand *srcs = &plan->operands[plan->steps[k].first_src];
                if (plan->steps[k].nsrcs < 2)
                    continue;
                const struct rcmi_operand first = srcs[0];
                srcs[0] = srcs[1];
                srcs[1] = first;
                expect(shape, plans, &(struct rcmi_verify_options){.in_place = false},
                       "in different orders");
                srcs[1] = srcs[0];
                srcs[0] = first;
                exchanged++;
            }
            test_plans_free(plans, p);
        }
    }
    assert_true(exchanged > 25);
}

/* In scans every sum must be in rank order. */
static void test_rank_order(void **state) {
    static const char *const names[] = {"chain", "recursive_doubling", "direct"};
    (void)state;
    for (int i = 0; i < 6; i++) {
        const enum rcm_collective scan = i / 3 ? RCM_EXSCAN : RCM_SCAN;
        const struct rcmi_shape *shape = test_shape_one_host(&space, 9);
        struct rcmi_plan **plans = test_plans_emit(test_algorithm(scan, names[i % 3]), shape, 0);
        int exchanged = 0;
        for (int r = 0; r < 9; r++) {
            for (uint32_t k = 0; k < plans[r]->nsteps; k++) {
                struct rcmi_operand *srcs = &plans[r]->operands[plans[r]->steps[k].first_src];
                if (plans[r]->steps[k].nsrcs < 2)
                    continue;
                const struct rcmi_operand first = srcs[0];
                srcs[0] = srcs[1];
                srcs[1] = first;
                expect(shape, plans, &(struct rcmi_verify_options){.in_place = false},
                       "does not add up chunk 0 in rank order");
                srcs[1] = srcs[0];
                srcs[0] = first;
                exchanged++;
            }
        }
        assert_true(exchanged >= 7);
        test_plans_free(plans, 9);
    }
}

/* ---- Hazards --------------------------------------------------------------------------------- */

/* Right if IN and OUT are different memory. In place, lane 1 may overwrite what lane 0 still
 * sends. */
static void fill_two_lanes(struct rcmi_builder *b, int rank) {
    const uint32_t mine = (uint32_t)rank, other = 1 - mine;
    rcmi_send(b, 0, other, rcmi_in(other), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_send(b, 0, mine, rcmi_in(mine), rcmi_to(b, 0, 1 - rank, 0));
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t chunk = i == 0 ? mine : other;
        struct rcmi_operand srcs[2];
        srcs[rank] = rcmi_in(chunk);
        srcs[1 - rank] = rcmi_from(b, 1, 1 - rank, 0);
        rcmi_reduce(b, 1, chunk, srcs, 2, rcmi_out(chunk), NONE);
    }
}

static void test_hazard(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 2);
    struct rcmi_plan **plans = make(shape, RCM_ALL_REDUCE, 2, fill_two_lanes);
    const struct rcmi_verify_options apart = {.in_place = false};
    assert_int_equal(rcmi_verify(shape, (const struct rcmi_plan *const *)plans, &apart), RCM_OK);
    test_plans_free(plans, 2);
    expect_made(2, RCM_ALL_REDUCE, 2, fill_two_lanes, true,
                "touch the same chunk (in place) in no order");
}

/* Rank 0's lane 1 overwrites what its lane 0 sends. With one slot it cannot, because rank 1 reaches
 * the last message only after lane 0 has received the first. With two slots it can, and plans must
 * also be right with more slots than the minimum. */
static void fill_ordered_by_credit(struct rcmi_builder *b, int rank) {
    if (rank == 0) {
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1, 1));
        rcmi_recv(b, 0, 1, rcmi_from(b, 0, 1, 0), rcmi_out(1));
        rcmi_recv(b, 0, 1, rcmi_from(b, 0, 1, 0), rcmi_out(1));
        rcmi_recv(b, 1, 0, rcmi_from(b, 1, 1, 2), rcmi_out(0));
    } else {
        rcmi_send(b, 0, 1, rcmi_in(1), rcmi_to(b, 0, 0, 0));
        rcmi_send(b, 0, 1, rcmi_in(1), rcmi_to(b, 0, 0, 0));
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 0, 2));
        rcmi_recv(b, 1, 0, rcmi_from(b, 1, 0, 1), rcmi_scratch(0));
    }
}

static void test_credits_are_no_order(void **state) {
    (void)state;
    expect_made(2, RCM_ALL_REDUCE, 2, fill_ordered_by_credit, true,
                "touch the same chunk (in place) in no order");
}

static void test_wrong_stable(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 4);
    struct rcmi_plan **plans =
        test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "recursive_doubling"), shape, 0);
    assert_true(plans[2]->steps[0].stable);
    assert_false(plans[2]->steps[0].stable_in_place);
    plans[2]->steps[0].stable_in_place = true;
    expect(shape, plans, &(struct rcmi_verify_options){.in_place = true}, "is marked stable, but");
    test_plans_free(plans, 4);
}

/* In two_shot, a lane overwrites in place what another lane sends, after its reader has read it. So
 * the stable flags are right. */
static void test_stable_until_read(void **state) {
    const struct rcmi_verify_options in_place = {.in_place = true};
    (void)state;
    for (int p = 2; p < 6; p++) {
        const struct rcmi_shape *shape = test_shape_one_host(&space, p);
        struct rcmi_plan **plans =
            test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "two_shot"), shape, 0);
        struct rcmi_plan *plan = plans[p - 1];
        const struct rcmi_step *send = &plan->steps[plan->lanes[1].first_step];
        assert_int_equal(send->op, RCMI_STEP_SEND);
        assert_true(send->stable && send->stable_in_place);
        assert_int_equal(rcmi_verify(shape, (const struct rcmi_plan *const *)plans, &in_place),
                         RCM_OK);
        test_plans_free(plans, p);
    }
}

/* Overwrites what it sent when it receives from the other side, which may not have read it. */
static void fill_overwrites(struct rcmi_builder *b, int rank) {
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_stable_in_place(b, 0);
    const struct rcmi_operand mine = rcmi_in(0), other = rcmi_from(b, 0, 1 - rank, 0);
    rcmi_reduce(b, 0, 0, (struct rcmi_operand[]){rank ? other : mine, rank ? mine : other}, 2,
                rcmi_out(0), NONE);
}

static void test_wrong_stable_of_algorithm(void **state) {
    (void)state;
    expect_made(2, RCM_ALL_REDUCE, 1, fill_overwrites, true, "is marked stable, but");
}

/* In place, each rank receives into what it sends. The other rank's message may be in flight before
 * the send. */
static void fill_early(struct rcmi_builder *b, int rank) {
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1 - rank, 0), rcmi_out(0));
}

static void test_early(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 3);
    struct rcmi_plan **plans =
        test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "two_shot"), shape, 0);
    assert_true(plans[1]->steps[0].early);
    test_plans_free(plans, 3);
    expect_made(2, RCM_ALL_REDUCE, 1, fill_early, true, "is marked early, but");
}

static void test_wrong_lasting(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 4);
    struct rcmi_plan **plans =
        test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "recursive_doubling"), shape, 0);
    assert_false(plans[2]->steps[1].lasting); /* the next step adds to this sum, in place */
    assert_true(plans[2]->steps[2].lasting);
    plans[2]->steps[1].lasting = true;
    expect(shape, plans, &(struct rcmi_verify_options){0}, "is marked lasting, but");
    test_plans_free(plans, 4);
}

/* A sum that is complete too early, never, and twice. */
static void test_completes(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 4);
    struct rcmi_plan **plans =
        test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "recursive_doubling"), shape, 0);
    assert_true(plans[2]->steps[2].completes && !plans[2]->steps[1].completes);
    plans[2]->steps[1].completes = true;
    expect(shape, plans, &(struct rcmi_verify_options){0},
           "adds to, or completes, a complete value");
    plans[2]->steps[1].completes = plans[2]->steps[2].completes = false;
    expect(shape, plans, &(struct rcmi_verify_options){0},
           "went through no step that completes it");
    test_plans_free(plans, 4);
    plans = test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "ring"), shape, 0);
    struct rcmi_step *last = &plans[1]->steps[plans[1]->nsteps - 1];
    assert_true(last->op == RCMI_STEP_RECV && !last->completes);
    last->completes = true;
    expect(shape, plans, &(struct rcmi_verify_options){0},
           "adds to, or completes, a complete value");
    test_plans_free(plans, 4);
    plans = test_plans_emit(test_algorithm(RCM_SCAN, "chain"), shape, 0);
    plans[3]->steps[0].completes = true;
    expect(shape, plans, &(struct rcmi_verify_options){0}, "should not have gone through a step");
    test_plans_free(plans, 4);
}

/* ---- Results --------------------------------------------------------------------------------- */

static void fill_counts_twice(struct rcmi_builder *b, int rank) {
    const struct rcmi_operand srcs[] = {rcmi_from(b, 0, 1 - rank, 0), rcmi_in(0), rcmi_in(0)};
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_reduce(b, 0, 0, srcs, 3, rcmi_out(0), NONE);
}

static void fill_keeps_own(struct rcmi_builder *b, int rank) {
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1 - rank, 0), rcmi_out(0));
}

static void fill_one_way(struct rcmi_builder *b, int rank) {
    if (rank == 0)
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1, 0));
    else
        rcmi_recv(b, 0, 0, rcmi_from(b, 0, 0, 0), rcmi_out(0));
}

static void fill_reads_early(struct rcmi_builder *b, int rank) {
    rcmi_send(b, 0, 0, rcmi_out(0), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1 - rank, 0), rcmi_out(0));
}

static void test_results(void **state) {
    (void)state;
    expect_made(2, RCM_ALL_REDUCE, 1, fill_counts_twice, false,
                "rank 0's out.0 holds the contribution of rank 0 once too often");
    expect_made(2, RCM_ALL_REDUCE, 1, fill_keeps_own, false,
                "rank 0's out.0 lacks the contribution of rank 0");
    expect_made(2, RCM_BROADCAST, 1, fill_one_way, false, "rank 0's out.0 was never written");
    expect_made(2, RCM_ALL_REDUCE, 1, fill_reads_early, false,
                "reads a chunk that no step has written");
}

static void fill_chain_of_signals(struct rcmi_builder *b, int rank) {
    if (rank > 0)
        rcmi_wait(b, 0, rcmi_from(b, 0, rank - 1, 0));
    if (rank < 2)
        rcmi_signal(b, 0, rcmi_to(b, 0, rank + 1, 0));
}

/* All ranks depend on all others, but rank 2 only through a signal that it sends too early. Rank 1
 * waits for rank 2 before it signals rank 0, yet rank 2 never depends on rank 0. */
static void fill_signal_early(struct rcmi_builder *b, int rank) {
    if (rank == 2) {
        rcmi_signal(b, 0, rcmi_to(b, 0, 1, 0));
        rcmi_wait(b, 0, rcmi_from(b, 0, 1, 0));
    } else if (rank == 1) {
        rcmi_wait(b, 0, rcmi_from(b, 0, 2, 0));
        rcmi_signal(b, 0, rcmi_to(b, 0, 2, 0));
        rcmi_signal(b, 0, rcmi_to(b, 0, 0, 0));
        rcmi_wait(b, 0, rcmi_from(b, 0, 0, 0));
    } else {
        rcmi_wait(b, 0, rcmi_from(b, 0, 1, 0));
        rcmi_signal(b, 0, rcmi_to(b, 0, 1, 0));
    }
}

static void test_barrier(void **state) {
    (void)state;
    expect_made(3, RCM_BARRIER, 1, fill_chain_of_signals, false,
                "rank 0 can leave the barrier before rank 1 has entered it");
    expect_made(3, RCM_BARRIER, 1, fill_signal_early, false,
                "rank 2 can leave the barrier before rank 0 has entered it");
}

/* ---- Matching -------------------------------------------------------------------------------- */

static void fill_deaf_to_multicast(struct rcmi_builder *b, int rank) {
    if (rank == 0)
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to_host(b, 0, 0));
    if (rank == 1)
        rcmi_recv(b, 0, 0, rcmi_from_host(b, 0, 0, 0), rcmi_out(0));
}

static void fill_wrong_number(struct rcmi_builder *b, int rank) {
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1 - rank, rank));
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1 - rank, rank), rcmi_out(0));
}

static void fill_other_chunk(struct rcmi_builder *b, int rank) {
    const uint32_t sent = (uint32_t)rank, got = sent;
    rcmi_send(b, 0, sent, rcmi_in(sent), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_recv(b, 0, got, rcmi_from(b, 0, 1 - rank, 0), rcmi_out(got));
}

static void fill_signal_received(struct rcmi_builder *b, int rank) {
    rcmi_signal(b, 0, rcmi_to(b, 0, 1 - rank, 0));
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1 - rank, 0), rcmi_out(0));
}

static void fill_too_many(struct rcmi_builder *b, int rank) {
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1 - rank, 0), rcmi_out(0));
    if (rank == 1)
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 0, 0));
}

static void test_matching(void **state) {
    (void)state;
    expect_made(3, RCM_BROADCAST, 1, fill_deaf_to_multicast, false,
                "is not read by all its readers");
    expect_made(2, RCM_ALL_REDUCE, 1, fill_wrong_number, false, "is not read by all its readers");
    expect_made(2, RCM_ALL_REDUCE, 2, fill_other_chunk, false,
                "is received as message 0 by rank 1");
    expect_made(2, RCM_ALL_REDUCE, 1, fill_signal_received, false, "is received as message 0");
    expect_made(2, RCM_ALL_REDUCE, 1, fill_too_many, false,
                "rank 1 sends 2 messages on a channel to rank 0, which receives 1");
}

static void test_mixed_plans(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 3);
    struct rcmi_plan **plans = test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "ring"), shape, 0);
    const struct rcmi_verify_options options = {.slots = 0};
    struct rcmi_plan *kept = plans[1];
    plans[1] = test_plan_emit(test_algorithm(RCM_ALL_REDUCE, "one_shot"), shape, 1, 0);
    expect(shape, plans, &options, "ranks 0 and 1 have plans of all_reduce ring and");
    rcmi_plan_free(plans[1]);
    plans[1] = plans[2];
    expect(shape, plans, &options, "plan 1 of 3 is for rank 2 of 3");
    plans[1] = kept;
    kept->whole = !kept->whole;
    expect(shape, plans, &options, "stripes and slicing must be the same");
    kept->whole = !kept->whole;
    kept->stripes++;
    expect(shape, plans, &options, "stripes and slicing must be the same");
    test_plans_free(plans, 3);
}

/* ---- Form ------------------------------------------------------------------------------------ */

static void break_op(struct rcmi_plan *p) {
    p->steps[1].op = 77;
}
static void break_kind(struct rcmi_plan *p) {
    p->steps[0].op = RCMI_STEP_RECV;
}
static void break_result(struct rcmi_plan *p) {
    p->steps[0].dst = rcmi_out(p->steps[0].chunk);
}
static void break_chunk(struct rcmi_plan *p) {
    p->steps[0].chunk = p->nchunks;
}
static void break_operand(struct rcmi_plan *p) {
    p->operands[p->steps[0].first_src].index ^= 1;
}
static void break_where(struct rcmi_plan *p) {
    p->operands[p->steps[0].first_src].where = 9;
}
static void break_scratch(struct rcmi_plan *p) {
    p->operands[p->steps[0].first_src] = rcmi_scratch(0);
}
static void break_sources(struct rcmi_plan *p) {
    p->steps[0].first_src = p->noperands;
}
static void break_channel(struct rcmi_plan *p) {
    p->steps[0].out = p->nchannels;
}
static void break_direction(struct rcmi_plan *p) {
    for (uint32_t i = 0; i < p->nchannels; i++)
        if (!p->channels[i].outgoing)
            p->steps[0].out = i;
}
static void break_lane_of_end(struct rcmi_plan *p) {
    p->channels[0].lane = 1;
}
static void break_input(struct rcmi_plan *p) {
    p->steps[p->nsteps - 1].dst.where = RCMI_IN;
}
static void break_lanes(struct rcmi_plan *p) {
    p->lanes[0].nsteps--;
}
static void break_lane_start(struct rcmi_plan *p) {
    p->lanes[0].first_step++;
}
static void break_peer(struct rcmi_plan *p) {
    p->channels[0].peer = p->nranks;
}
static void break_self(struct rcmi_plan *p) {
    p->channels[0].peer = p->rank;
}
static void break_number(struct rcmi_plan *p) {
    p->channels[0].number = RCMI_CHANNEL_NUMBERS;
}
static void break_double(struct rcmi_plan *p) {
    p->channels[0] = p->channels[1];
}

static void test_form(void **state) {
    const struct {
        void (*damage)(struct rcmi_plan *);
        const char *text;
    } cases[] = {
        {break_op, "no such kind of step"},
        {break_kind, "are not those of its kind"},
        {break_result, "its results are not those of its kind"},
        {break_chunk, "no such chunk"},
        {break_operand, "an operand is another chunk"},
        {break_where, "an operand is neither IN, OUT nor scratch"},
        {break_scratch, "no such scratch chunk"},
        {break_sources, "sources outside of the plan"},
        {break_channel, "no such channel"},
        {break_direction, "a channel in the wrong direction"},
        {break_lane_of_end, "belongs to a lane that does not exist"},
        {break_input, "writes its input"},
        {break_lanes, "steps outside of lanes"},
        {break_lane_start, "lane 0 does not follow the lane before"},
        {break_peer, "has a peer that does not exist"},
        {break_self, "has a peer that does not exist"},
        {break_number, "its number is too large"},
        {break_double, "a channel in the wrong direction"},
    };
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 4);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rcmi_plan **plans =
            test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "ring"), shape, 0);
        cases[i].damage(plans[1]);
        expect(shape, plans, &(struct rcmi_verify_options){.slots = 0}, cases[i].text);
        test_plans_free(plans, 4);
    }
}

/* Plans that wrongly declare that their messages may be read by get. */
static void test_form_of_got(void **state) {
    const struct {
        enum rcm_collective collective;
        const char *algorithm;
        enum rcmi_gets gets;
        const char *text;
    } cases[] = {
        {RCM_ALL_REDUCE, "ring", RCMI_GETS_HELD, "sums, forwards, answers or moves a span where"},
        {RCM_BROADCAST, "chain", RCMI_GETS_HELD, "sums, forwards, answers or moves a span"},
        {RCM_ALL_GATHER, "bruck", RCMI_GETS_HELD, "sums, forwards, answers or moves a span"},
        {RCM_BROADCAST, "flat", RCMI_GETS_HELD, "sends to several readers where messages may"},
        {RCM_ALL_TO_ALL, "pairwise", RCMI_GETS_STAR, "rank 1 has 6 channels where each has one"},
    };
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 4);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rcmi_plan **plans =
            test_plans_emit(test_algorithm(cases[i].collective, cases[i].algorithm), shape, 0);
        plans[1]->gets = RCMI_GETS_STAR;
        expect(shape, plans, &(struct rcmi_verify_options){.slots = 0}, "must be the same");
        for (int r = 0; r < 4; r++)
            plans[r]->gets = cases[i].gets;
        expect(shape, plans, &(struct rcmi_verify_options){.slots = 0}, cases[i].text);
        test_plans_free(plans, 4);
    }
}

/* The plan of rank 3 of 5: step 3 sends 3..4 from OUT, step 4 receives 0..1 there. */
static void break_run(struct rcmi_plan *p) {
    p->steps[3].nchunks = 0;
}
static void break_long_run(struct rcmi_plan *p) {
    p->steps[3].nchunks = 3;
}
static void break_runs(struct rcmi_plan *p) {
    p->longest_span = 4;
}
static void break_run_first(struct rcmi_plan *p) {
    p->steps[3].chunk = 2;
}
static void break_run_length(struct rcmi_plan *p) {
    p->steps[3].nchunks = 1;
}
static void break_run_buffer(struct rcmi_plan *p) {
    p->operands[p->steps[3].first_src] = rcmi_in(0);
}
static void break_run_scratch(struct rcmi_plan *p) {
    p->nscratch = 1;
    p->steps[4].dst = rcmi_scratch(0);
}
static void break_span_answer(struct rcmi_plan *p) {
    p->steps[4].answer = p->steps[3].out;
}

static void fill_over_itself(struct rcmi_builder *b, int rank) {
    (void)rank;
    rcmi_plan_spans(b, 2);
    rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_scratch(0));
    rcmi_span_of(b, 0, 2);
    rcmi_copy_chunk(b, 0, 0, rcmi_scratch(0), rcmi_scratch(1));
    rcmi_span_of(b, 0, 2);
}

static void test_form_of_runs(void **state) {
    const struct {
        void (*damage)(struct rcmi_plan *);
        const char *text;
    } cases[] = {
        {break_run, "moves no chunk, or too many"},
        {break_long_run, "moves no chunk, or too many"},
        {break_runs, "chunks, slots, stripes and slicing must be the same"},
        {break_run_first, "an operand is another chunk"},
        {break_run_length, "is received as message 0 by"},
        {break_run_buffer, "an operand is outside of its buffer"},
        {break_run_scratch, "no such scratch chunk"},
        {break_span_answer, "a span cannot be an answer"},
    };
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 5);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rcmi_plan **plans =
            test_plans_emit(test_algorithm(RCM_ALL_GATHER, "bruck"), shape, 0);
        cases[i].damage(plans[3]);
        expect(shape, plans, &(struct rcmi_verify_options){.slots = 0}, cases[i].text);
        test_plans_free(plans, 5);
    }
    expect_made(1, RCM_ALL_REDUCE, 2, fill_over_itself, false, "a span is written over itself");
}

/* Chunk 1 is unordered with its receive in another lane, even though the span begins with another
 * chunk. */
static void fill_run_in_lanes(struct rcmi_builder *b, int rank) {
    const int peer = 1 - rank;
    rcmi_plan_spans(b, 2);
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, peer, 0));
    rcmi_span_of(b, 0, 2);
    for (uint32_t i = 0; i < 2; i++) {
        struct rcmi_operand srcs[2];
        srcs[rank] = rcmi_in(i);
        srcs[peer] = rcmi_from(b, 1, peer, 1);
        if (i == 0)
            rcmi_send(b, 0, 1, rcmi_in(1), rcmi_to(b, 0, peer, 1));
        else
            rcmi_reduce(b, 1, 1, srcs, 2, rcmi_out(1), NONE);
    }
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, peer, 0), rcmi_scratch(0));
    rcmi_span_of(b, 0, 2);
}

static void test_hazard_of_runs(void **state) {
    (void)state;
    expect_made(2, RCM_ALL_REDUCE, 2, fill_run_in_lanes, true,
                "touch the same chunk (in place) in no order");
}

static void fill_scratch_in_lanes(struct rcmi_builder *b, int rank) {
    (void)rank;
    rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_scratch(0));
    rcmi_copy_chunk(b, 1, 0, rcmi_scratch(0), rcmi_out(0));
}

/* Right without scaling. In place, the second copy would scale again. */
static void fill_input_after_copy(struct rcmi_builder *b, int rank) {
    (void)rank;
    rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_scratch(0));
    rcmi_copy_chunk(b, 0, 0, rcmi_scratch(0), rcmi_out(0));
}

/* In place, the input is read as OUT, which is not scaled. */
static void fill_input_as_result(struct rcmi_builder *b, int rank) {
    (void)rank;
    rcmi_copy_chunk(b, 0, 0, rcmi_out(0), rcmi_scratch(0));
    rcmi_copy_chunk(b, 0, 0, rcmi_scratch(0), rcmi_out(0));
}

/* In place, one lane scales what the other lane sends scaled. */
static void fill_input_in_lanes(struct rcmi_builder *b, int rank) {
    if (rank == 0) {
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
        rcmi_send(b, 1, 0, rcmi_in(0), rcmi_to(b, 1, 1, 0));
    } else {
        const struct rcmi_operand srcs[] = {rcmi_from(b, 0, 0, 0), rcmi_in(0)};
        rcmi_reduce(b, 0, 0, srcs, 2, rcmi_out(0), NONE);
    }
}

/* Each contribution is scaled once, wherever IN is a source. */
static void test_scaled_once(void **state) {
    (void)state;
    expect_made(1, RCM_SCAN, 1, fill_input_after_copy, true,
                "reads its contribution after that was scaled");
    expect_made(1, RCM_SCAN, 1, fill_input_as_result, true,
                "reads a contribution that was never scaled");
    expect_made(2, RCM_SCAN, 1, fill_input_in_lanes, true,
                "touch the same chunk (in place) in no order");
}

static void fill_reads_twice(struct rcmi_builder *b, int rank) {
    const struct rcmi_operand from = rcmi_from(b, 0, 1 - rank, 0);
    const struct rcmi_operand srcs[] = {from, from};
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1 - rank, 0));
    rcmi_reduce(b, 0, 0, srcs, 2, rcmi_out(0), NONE);
}

static void test_form_of_made(void **state) {
    (void)state;
    expect_made(1, RCM_ALL_REDUCE, 1, fill_scratch_in_lanes, false,
                "uses a scratch chunk of another lane");
    expect_made(2, RCM_ALL_REDUCE, 1, fill_reads_twice, false, "reads one channel twice");
}

/* A multicast is limited to its host: plans made for one host, verified on two. */
static void test_multicast_across_hosts(void **state) {
    static struct test_shape other;
    (void)state;
    const struct rcmi_shape *one = test_shape_one_host(&space, 4);
    struct rcmi_plan **plans = test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "one_shot"), one, 0);
    const struct rcmi_verify_options options = {.slots = 0};
    expect(test_shape_dealt(&other, 4, 2), plans, &options, "a multicast from another host");
    expect(test_shape_dealt(&other, 4, 4), plans, &options, "without readers");
    test_plans_free(plans, 4);
}

/* ---- Replies --------------------------------------------------------------------------------- */

/* The first step of a plan that replies, or that receives a reply. */
static struct rcmi_step *step_of_answer(struct rcmi_plan *p, bool receives) {
    uint32_t i = 0;
    while (p->steps[i].answer == NONE || (p->steps[i].out == NONE) != receives)
        i++;
    return &p->steps[i];
}
static void break_answer(struct rcmi_plan *p) {
    step_of_answer(p, false)->answer = NONE;
}
static void break_receipt(struct rcmi_plan *p) {
    step_of_answer(p, true)->answer = NONE;
}
static void break_index(struct rcmi_plan *p) {
    step_of_answer(p, true)->answer = p->nchannels;
}
static void break_question(struct rcmi_plan *p) {
    step_of_answer(p, false)->answer = step_of_answer(p, false)->out;
}
static void break_asked(struct rcmi_plan *p) {
    step_of_answer(p, true)->answer = step_of_answer(p, false)->answer;
}
static void break_kept(struct rcmi_plan *p) {
    uint32_t i = 0;
    while (!p->steps[i].answered)
        i++;
    p->steps[i].answered = false;
}

/* Needs two slots, because the first one is kept for its reply. */
static void fill_two_replies(struct rcmi_builder *b, int rank) {
    const int other = 1 - rank;
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t theirs = (uint32_t)other * 2 + i, ours = (uint32_t)rank * 2 + i;
        const struct rcmi_operand from = rcmi_from(b, 1, other, 0);
        const struct rcmi_operand srcs[] = {rank == 0 ? rcmi_in(ours) : from,
                                            rank == 0 ? from : rcmi_in(ours)};
        rcmi_send(b, 0, theirs, rcmi_in(theirs), rcmi_to(b, 0, other, 0));
        rcmi_reduce(b, 1, ours, srcs, 2, rcmi_out(ours), rcmi_to(b, 1, other, 1));
        rcmi_answers(b, 1, from.index);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t theirs = (uint32_t)other * 2 + i;
        rcmi_recv(b, 0, theirs, rcmi_from(b, 0, other, 1), rcmi_out(theirs));
        rcmi_answers(b, 0, rcmi_to(b, 0, other, 0));
    }
}

static void test_answers(void **state) {
    const struct {
        void (*damage)(struct rcmi_plan *);
        const char *text;
    } cases[] = {
        {break_answer, "receives a message that does not answer message 0"},
        {break_receipt, "0 of 1 messages on its channel are answered"},
        {break_index, "answers on no channel"},
        {break_question, "answers what it does not receive"},
        {break_asked, "cannot receive an answer"},
        {break_kept, "has a wrong flag answered"},
    };
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rcmi_plan **plans =
            test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "two_shot"), shape, 0);
        cases[i].damage(plans[1]);
        expect(shape, plans, &(struct rcmi_verify_options){.slots = 0}, cases[i].text);
        test_plans_free(plans, 2);
    }
    struct rcmi_plan **plans = make(shape, RCM_ALL_REDUCE, 4, fill_two_replies);
    expect(shape, plans, &(struct rcmi_verify_options){.slots = 1}, "deadlocks with 1 slots");
    for (uint32_t slots = 2; slots < 5; slots++)
        assert_int_equal(rcmi_verify(shape, (const struct rcmi_plan *const *)plans,
                                     &(struct rcmi_verify_options){.slots = slots}),
                         RCM_OK);
    test_plans_free(plans, 2);

    struct rcmi_builder *b;
    struct rcmi_plan *plan;
    assert_int_equal(rcmi_plan_begin("wrong", RCM_ALL_REDUCE, shape, 0, 0, 1, 1, &b), RCM_OK);
    rcmi_answers(b, 0, 0); /* there is no step yet */
    assert_int_equal(rcmi_plan_finish(b, &plan), RCM_ERR_INTERNAL);
}

/* ---- Blocks of unequal length ---------------------------------------------------------------- */

/* Rank 2's block reaches the root through rank 1, which does not have its length. */
static void fill_gather_by_way_of_1(struct rcmi_builder *b, int rank) {
    const uint32_t own = (uint32_t)rank;
    if (rank == 2)
        rcmi_send(b, 0, own, rcmi_in(0), rcmi_to(b, 0, 1, 0));
    if (rank == 1) {
        rcmi_send(b, 0, own, rcmi_in(0), rcmi_to(b, 0, 0, 0));
        rcmi_recv_copy_send(b, 1, 2, rcmi_from(b, 1, 2, 0), rcmi_scratch(0), rcmi_to(b, 1, 0, 1));
    }
    if (rank == 0) {
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
        rcmi_recv(b, 0, 1, rcmi_from(b, 0, 1, 0), rcmi_out(1));
        rcmi_recv(b, 0, 2, rcmi_from(b, 0, 1, 1), rcmi_out(2));
    }
}

static void test_lengths_unknown(void **state) {
    (void)state;
    const struct rcmi_shape *shape = test_shape_one_host(&space, 3);
    struct rcmi_plan **plans = make(shape, RCM_GATHER, 1, fill_gather_by_way_of_1);
    const struct rcmi_verify_options same = {.counts = RCMI_COUNTS_SAME};
    assert_int_equal(rcmi_verify(shape, (const struct rcmi_plan *const *)plans, &same), RCM_OK);
    expect(shape, plans, &(struct rcmi_verify_options){.counts = RCMI_COUNTS_ALL},
           "rank 1 step 1 (recv_copy_send chunk 2: from 2 -> scratch.0, to 0 #1) moves a block "
           "whose length");
    test_plans_free(plans, 3);
}

/* Both ranks send before they receive: right with a slot per message, and with messages no longer
 * than the slots. */
static void test_lengths_deadlock(void **state) {
    const struct {
        enum rcm_collective collective;
        const char *name;
    } cases[] = {{RCM_ALL_TO_ALL, "pairwise"}, {RCM_ALL_GATHER, "ring"}};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int p = 2; p < 10; p++) {
            const struct rcmi_shape *shape = test_shape_one_host(&space, p);
            struct rcmi_plan **plans =
                test_plans_emit(test_algorithm(cases[i].collective, cases[i].name), shape, 0);
            const struct rcmi_verify_options all = {.counts = RCMI_COUNTS_ALL};
            assert_int_equal(rcmi_verify(shape, (const struct rcmi_plan *const *)plans, &all),
                             RCM_OK);
            expect(shape, plans, &(struct rcmi_verify_options){.counts = RCMI_COUNTS_PAIR},
                   "deadlocks if messages are longer than all slots together");
            test_plans_free(plans, p);
        }
}

/* ---- Formula --------------------------------------------------------------------------------- */

static void test_wrong_formula(void **state) {
    (void)state;
    const struct rcmi_algorithm *ring = test_algorithm(RCM_ALL_REDUCE, "ring");
    const struct rcmi_shape *shape = test_shape_one_host(&space, 4);
    struct rcmi_plan **plans = test_plans_emit(ring, shape, 0);
    struct rcmi_algorithm wrong = *ring;
    wrong.formula = test_algorithm(RCM_ALL_REDUCE, "one_shot")->formula;
    expect(shape, plans, &(struct rcmi_verify_options){.formula = &wrong},
           "the longest chain has 6 messages, but the formula gives 1");
    test_plans_free(plans, 4);

    plans = test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "ring"), shape, 0);
    wrong = *test_algorithm(RCM_ALL_REDUCE, "ring");
    wrong.ordered = true;
    expect(shape, plans, &(struct rcmi_verify_options){.formula = &wrong},
           "rank 0 does not add up chunk 1 in rank order");
    test_plans_free(plans, 4);

    plans = test_plans_emit(test_algorithm(RCM_ALL_REDUCE, "halving_doubling"), shape, 0);
    wrong = *test_algorithm(RCM_ALL_REDUCE, "halving_doubling");
    wrong.spans = false;
    expect(shape, plans, &(struct rcmi_verify_options){.formula = &wrong},
           "a message has 2 chunks, but at most 1 are declared");
    test_plans_free(plans, 4);

    plans = test_plans_emit(test_algorithm(RCM_BROADCAST, "chain"), shape, 0);
    wrong.formula = test_algorithm(RCM_BROADCAST, "chain")->formula;
    wrong.name = "chain";
    for (int r = 0; r < 4; r++)
        plans[r]->root = 1; /* so the formula treats rank 0 as the last one */
    expect(shape, plans, &(struct rcmi_verify_options){.formula = &wrong}, "rank 0");
    test_plans_free(plans, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_ring_needs_two_slots),
        cmocka_unit_test(test_order_of_operands),
        cmocka_unit_test(test_order_in_steps),
        cmocka_unit_test(test_rank_order),
        cmocka_unit_test(test_form_of_runs),
        cmocka_unit_test(test_form_of_got),
        cmocka_unit_test(test_hazard_of_runs),
        cmocka_unit_test(test_hazard),
        cmocka_unit_test(test_credits_are_no_order),
        cmocka_unit_test(test_wrong_stable),
        cmocka_unit_test(test_stable_until_read),
        cmocka_unit_test(test_wrong_stable_of_algorithm),
        cmocka_unit_test(test_early),
        cmocka_unit_test(test_wrong_lasting),
        cmocka_unit_test(test_completes),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_scaled_once),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_matching),
        cmocka_unit_test(test_mixed_plans),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_form_of_made),
        cmocka_unit_test(test_multicast_across_hosts),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_lengths_unknown),
        cmocka_unit_test(test_lengths_deadlock),
        cmocka_unit_test(test_wrong_formula),
    };
    return cmocka_run_group_tests_name("verifier", tests, NULL, NULL);
}
