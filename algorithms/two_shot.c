/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce in two rounds through shared memory: rank c is responsible for chunk c of p. First
 * every rank sends chunk c of its vector to rank c, which sums them in rank order. Then rank c
 * publishes the sum, and every rank reads all sums.
 *
 *      p = 3, seen from rank 1
 *      lane 0   read the sum of c from 2, that of a from 0
 *      lane 1   send c1 to 2, a1 to 0
 *      lane 2   b0 from 0 + b1 own + b2 from 2  ->  result, and published to all
 *
 * The three parts are separate lanes, so slices overlap: chunks of the next slice are sent while
 * sums of this one are in flight. In place, lane 0 overwrites chunk c, which lane 1 must have sent
 * and rank c must have read before. That holds because rank c could not have published the sum
 * otherwise.
 *
 * Between two ranks, the sum returns in the slot of the summand: the sender gets back the cache
 * lines that the other core just wrote, and needs no others.
 *
 * Each chunk is summed by one rank, so all ranks get the same bits.
 *
 * Cost: 2 messages in a row; each rank sends p-1 chunks to one rank each and 1 to all, and moves
 * (5p-2)/p vectors through memory. Good for large vectors on one host. Above 32 ranks the p(p-1)
 * pair channels cost more memory than the speed is worth.
 */
#include "algorithm.h"

#define RANKS_MAX 32

/* The gathering lane is first: it posts its receives, so that the others' sums can go straight to
 * their destination. */
enum { LANE_GATHER, LANE_SEND, LANE_SUM };

static bool two_shot_supports(const struct rcmi_shape *shape) {
    return rcmi_supports_one_host(shape) && shape->nranks <= RANKS_MAX;
}

/* Every rank starts with its right neighbour, so that not all access rank 0 at once. */
static void two_shot_steps(struct rcmi_builder *b, const struct rcmi_shape *shape, int rank) {
    const int p = shape->nranks;
    for (int i = 1; i < p; i++) {
        const int c = (rank + i) % p;
        rcmi_send(b, LANE_SEND, (uint32_t)c, rcmi_in((uint32_t)c), rcmi_to(b, LANE_SEND, c, 0));
        rcmi_stable_in_place(b, LANE_SEND);
    }
    rcmi_reduce_in_rank_order(b, LANE_SUM, (uint32_t)rank, shape->nranks, rank, false,
                              rcmi_out((uint32_t)rank), rcmi_to_host(b, LANE_SUM, 0));
    if (p == 2)
        rcmi_answers(b, LANE_SUM, rcmi_from(b, LANE_SUM, 1 - rank, 0).index);
    for (int i = 1; i < p; i++) {
        const int c = (rank + i) % p;
        rcmi_recv(b, LANE_GATHER, (uint32_t)c, rcmi_from_host(b, LANE_GATHER, c, 0),
                  rcmi_out((uint32_t)c));
    }
    if (p == 2)
        rcmi_answers(b, LANE_GATHER, rcmi_to(b, LANE_SEND, 1 - rank, 0));
}

static rcm_status two_shot_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, p, 1, &b);
    if (status != RCM_OK)
        return status;
    /* Memory: p channels of several slots each. Fewer stripes trade overlap for memory. */
    rcmi_plan_stripes(b, p <= 4 ? 2 : 1);
    rcmi_plan_halves(b);
    if (p == 1)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        two_shot_steps(b, shape, rank);
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula two_shot_formula(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = p == 1 ? 0 : 2, .chunks_sent = p == 1 ? 0 : p};
}

static void two_shot_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_everyone(t, 1, 1 / p);
    rcmi_tally_local_all(t, 0, (p - 1) / p);
    for (int r = 0; r < t->shape->nranks; r++)
        rcmi_tally_multicast(t, r, 1, 1 / p);
}

const struct rcmi_algorithm rcmi_two_shot = {
    .name = "two_shot",
    .description = "each rank sums one chunk of all vectors and publishes it; for large vectors "
                   "on one host of up to 32 ranks",
    .collective = RCM_ALL_REDUCE,
    .ordered = true,
    .supports = two_shot_supports,
    .emit = two_shot_emit,
    .formula = two_shot_formula,
    .count = two_shot_count,
};
