/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan by recursive doubling (Hillis and Steele 1986). In round i each rank sends its
 * sum to the rank 2^i after it, and puts the sum of the rank 2^i before it in front of its own.
 * After i rounds it has the sum of the last 2^i ranks, or of all ranks up to itself.
 *
 *      p = 5        rank 0    rank 1    rank 2    rank 3    rank 4
 *                   a         b         c         d         e
 *      distance 1   a         ab        bc        cd        de
 *      distance 2   a         ab        abc       abcd      bcde
 *      distance 4   a         ab        abc       abcd      abcde
 *
 * A received sum is always of lower ranks and is the left operand, so operands keep rank order.
 *
 * scan: the step that makes a sum also sends it; once nothing more is received, OUT is sent.
 * exscan: a rank keeps the sum without its own vector in scratch, because IN is needed until the
 * last message was sent and OUT may be the same memory. For the same reason no step may count as
 * early there. For each message the rank adds its own vector.
 *
 * Cost: ceil(log2 p) rounds. At most floor(log2 p) messages are in a row, because each goes at
 * least twice as far as the one before. In round i all but the last 2^i ranks send the whole
 * vector. Good for small vectors.
 */
#include "algorithm.h"

/* The number of powers of two that are at most x, which is the number of rounds with a partner at
 * most x away. */
static uint32_t rounds_within(uint32_t x) {
    return x == 0 ? 0 : rcmi_log2_floor(x) + 1;
}

/* The number of rounds in which a rank receives, and in which it sends; always the first rounds. */
struct rounds {
    uint32_t from, to;
};

static struct rounds rounds_of(const struct rcmi_shape *shape, int rank) {
    return (struct rounds){rounds_within((uint32_t)rank),
                           rounds_within((uint32_t)(shape->nranks - 1 - rank))};
}

static struct rcmi_operand from_round(struct rcmi_builder *b, int rank, uint32_t round) {
    return rcmi_from(b, 0, rank - (1 << round), 0);
}

static uint32_t to_round(struct rcmi_builder *b, int rank, uint32_t round) {
    return rcmi_to(b, 0, rank + (1 << round), 0);
}

static void send_in_rounds(struct rcmi_builder *b, int rank, struct rcmi_operand sum,
                           uint32_t round, uint32_t end) {
    for (; round < end; round++)
        rcmi_send(b, 0, 0, sum, to_round(b, rank, round));
}

/* ---- Scan ------------------------------------------------------------------------------------ */

static void scan_steps(struct rcmi_builder *b, int rank, struct rounds rounds) {
    struct rcmi_operand have = rcmi_in(0);
    send_in_rounds(b, rank, have, 0, rounds.to > 0);
    for (uint32_t i = 0; i < rounds.from; i++) {
        const struct rcmi_operand srcs[] = {from_round(b, rank, i), have};
        rcmi_reduce(b, 0, 0, srcs, 2, rcmi_out(0),
                    i + 1 < rounds.to ? to_round(b, rank, i + 1) : RCMI_NO_CHANNEL);
        have = rcmi_out(0);
    }
    send_in_rounds(b, rank, have, rounds.from + 1, rounds.to);
    if (rounds.from == 0)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
}

static rcm_status scan_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                            int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    scan_steps(b, rank, rounds_of(shape, rank));
    return rcmi_plan_finish(b, ret_plan);
}

/* ---- Exscan ---------------------------------------------------------------------------------- */

static void exscan_receive(struct rcmi_builder *b, int rank, uint32_t round,
                           struct rcmi_operand dst) {
    const struct rcmi_operand srcs[] = {from_round(b, rank, round), rcmi_scratch(0)};
    if (round == 0)
        rcmi_recv(b, 0, 0, srcs[0], dst);
    else
        rcmi_reduce(b, 0, 0, srcs, 2, dst, RCMI_NO_CHANNEL);
}

/* Sends the sum including this rank's own vector to the rank of the next round; keeps it if it is
 * sent again. */
static void exscan_send(struct rcmi_builder *b, int rank, uint32_t round, bool again) {
    const struct rcmi_operand srcs[] = {rcmi_scratch(0), rcmi_in(0)};
    rcmi_reduce(b, 0, 0, srcs, 2, again ? rcmi_scratch(1) : rcmi_nowhere(),
                to_round(b, rank, round));
}

/* The steps of a rank that has a result. */
static void exscan_steps(struct rcmi_builder *b, int rank, struct rounds rounds) {
    const bool sends_last = rounds.to > rounds.from;
    send_in_rounds(b, rank, rcmi_in(0), 0, rounds.to > 0);
    for (uint32_t i = 0; i < rounds.from; i++) {
        const bool final = i + 1 == rounds.from;
        exscan_receive(b, rank, i, final && !sends_last ? rcmi_out(0) : rcmi_scratch(0));
        if (i + 1 < rounds.to)
            exscan_send(b, rank, i + 1, final && i + 2 < rounds.to);
    }
    send_in_rounds(b, rank, rcmi_scratch(1), rounds.from + 1, rounds.to);
    if (sends_last)
        rcmi_copy_chunk(b, 0, 0, rcmi_scratch(0), rcmi_out(0));
}

static rcm_status exscan_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                              int rank, int root, struct rcmi_plan **ret_plan) {
    const struct rounds rounds = rounds_of(shape, rank);
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_late_in_place(b);
    if (rounds.from > 0)
        exscan_steps(b, rank, rounds);
    else
        send_in_rounds(b, rank, rcmi_in(0), 0, rounds.to);
    return rcmi_plan_finish(b, ret_plan);
}

/* ---- Both ------------------------------------------------------------------------------------ */

static struct rcmi_formula doubling_formula(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    (void)row;
    (void)root;
    return (struct rcmi_formula){.rounds = rcmi_log2_floor((uint32_t)shape->nranks),
                                 .chunks_sent = rounds_of(shape, rank).to};
}

static void doubling_sends(struct rcmi_tally *t) {
    const int p = t->shape->nranks;
    for (int64_t distance = 1; distance < p; distance *= 2)
        for (int r = 0; r + distance < p; r++)
            rcmi_tally_send(t, r, (int)(r + distance), 1, 1);
    rcmi_tally_chain(t, rcmi_log2_floor((uint32_t)p));
}

static void scan_count(struct rcmi_tally *t) {
    doubling_sends(t);
    for (int r = 0; r < t->shape->nranks; r++)
        rcmi_tally_local(t, r, r == 0, rounds_of(t->shape, r).from);
}

static void exscan_count(struct rcmi_tally *t) {
    doubling_sends(t);
    for (int r = 1; r < t->shape->nranks; r++) {
        const struct rounds rounds = rounds_of(t->shape, r);
        const uint32_t passed = rounds.to > 0 ? rounds.to - 1 : 0;
        const bool sends_last = rounds.to > rounds.from;
        rcmi_tally_local(t, r, sends_last, rounds.from - 1 + (sends_last ? rounds.from : passed));
    }
}

#define DESCRIPTION                                                                                \
    "sends sums of 1, 2, 4... ranks to the rank as far ahead; for small vectors, any ranks and "   \
    "hosts"

const struct rcmi_algorithm rcmi_recursive_doubling_scan = {
    .name = "recursive_doubling",
    .description = DESCRIPTION,
    .collective = RCM_SCAN,
    .supports = rcmi_supports_all,
    .emit = scan_emit,
    .formula = doubling_formula,
    .count = scan_count,
};

const struct rcmi_algorithm rcmi_recursive_doubling_exscan = {
    .name = "recursive_doubling",
    .description = DESCRIPTION,
    .collective = RCM_EXSCAN,
    .supports = rcmi_supports_all,
    .emit = exscan_emit,
    .formula = doubling_formula,
    .count = exscan_count,
};
