/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce in two rounds: rank c is responsible for chunk c of p. First every rank sends chunk c of
 * its vector to rank c, which sums them in rank order. Then the root receives all sums. The
 * summing, which `direct` leaves to the root alone, is spread over all ranks.
 *
 *      p = 3, root 0, seen from rank 1
 *      lane 1   send c1 to 2, a1 to 0
 *      lane 2   b0 from 0 + b1 own + b2 from 2  -->  to 0
 *
 *      and from the root
 *      lane 0   the sum of b from 1, that of c from 2
 *      lane 1   send b0 to 1, c0 to 2
 *      lane 2   a0 own + a1 from 1 + a2 from 2  -->  result
 *
 * In place, lane 0 overwrites chunk c, which lane 1 must have sent and rank c must have read
 * before. That holds because rank c could not have sent the sum otherwise.
 *
 * Cost: 2 messages in a row; each rank sends p-1 chunks, and one more if it is not the root. Good
 * for large vectors on one host. Above 32 ranks the p(p-1) channels cost more memory than the speed
 * is worth.
 */
#include "algorithm.h"

#define RANKS_MAX 32

enum { LANE_GATHER, LANE_SEND, LANE_SUM };

/* The root receives chunks and sums on different channels. */
enum { CHANNEL_CHUNKS, CHANNEL_SUMS };

static bool two_shot_supports(const struct rcmi_shape *shape) {
    return shape->nranks <= RANKS_MAX;
}

static void two_shot_steps(struct rcmi_builder *b, int p, int rank, int root) {
    const bool last = rank == root;
    for (int i = 1; i < p; i++) {
        const int c = (rank + i) % p;
        rcmi_send(b, LANE_SEND, (uint32_t)c, rcmi_in((uint32_t)c),
                  rcmi_to(b, LANE_SEND, c, CHANNEL_CHUNKS));
        rcmi_stable_in_place(b, LANE_SEND);
    }
    rcmi_reduce_in_rank_order(b, LANE_SUM, (uint32_t)rank, p, rank, false,
                              last ? rcmi_out((uint32_t)rank) : rcmi_nowhere(),
                              last ? RCMI_NO_CHANNEL : rcmi_to(b, LANE_SUM, root, CHANNEL_SUMS));
    rcmi_completes(b, LANE_SUM);
    for (int i = 1; i < p && last; i++) {
        const int c = (rank + i) % p;
        rcmi_recv(b, LANE_GATHER, (uint32_t)c, rcmi_from(b, LANE_GATHER, c, CHANNEL_SUMS),
                  rcmi_out((uint32_t)c));
    }
}

static rcm_status two_shot_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, p, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_stripes(b, p <= 4 ? 2 : 1); /* memory: p channels of several slots each */
    rcmi_plan_halves(b);
    if (p == 1)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        two_shot_steps(b, shape->nranks, rank, root);
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula two_shot_formula(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t others = (uint32_t)shape->nranks - 1;
    (void)row;
    return (struct rcmi_formula){.rounds = others > 0 ? 2 : 0,
                                 .chunks_sent = others > 0 ? others + (rank != root) : 0};
}

static void two_shot_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_everyone(t, 1, 1 / p);
    rcmi_tally_local_all(t, 0, (p - 1) / p);
    for (int r = 0; r < t->shape->nranks; r++)
        if (r != t->root)
            rcmi_tally_send(t, r, t->root, 1, 1 / p);
    rcmi_tally_chain(t, 2 / p);
}

const struct rcmi_algorithm rcmi_two_shot_reduce = {
    .name = "two_shot",
    .description = "each rank sums one chunk of all vectors and sends it to the root; for large "
                   "vectors on one host of up to 32 ranks",
    .collective = RCM_REDUCE,
    .ordered = true,
    .supports = two_shot_supports,
    .emit = two_shot_emit,
    .formula = two_shot_formula,
    .count = two_shot_count,
};
