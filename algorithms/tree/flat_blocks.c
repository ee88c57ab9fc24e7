/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather and reduce-scatter in one round.
 *
 *      all_gather       on one host: every rank publishes its block once, and reads all others
 *      reduce_scatter   every rank sends block r to rank r, which sums its p blocks in rank order
 *
 * Sending and summing are separate lanes, so blocks of the next slice are sent while those of this
 * one are summed.
 *
 * Cost: 1 message in a row; a rank sends 1 block to all, or p - 1 blocks to one rank each. Good for
 * small blocks; on one host for large ones too.
 */
#include "algorithm.h"

/* ---- All-gather ------------------------------------------------------------------------------ */

static rcm_status all_gather_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                  int rank, int root, struct rcmi_plan **ret_plan) {
    const int p = shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_stripes(b, p <= 4 ? 2 : 1); /* memory: p channels of several slots each */
    if (p > 1)
        rcmi_send(b, 0, (uint32_t)rank, rcmi_in(0), rcmi_to_host(b, 0, 0));
    rcmi_copy_chunk(b, 0, (uint32_t)rank, rcmi_in(0), rcmi_out((uint32_t)rank));
    for (int i = 1; i < p; i++) {
        const int from = (rank + i) % p;
        rcmi_recv(b, 0, (uint32_t)from, rcmi_from_host(b, 0, from, 0), rcmi_out((uint32_t)from));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula all_gather_formula(const struct rcmi_algorithm *row,
                                              const struct rcmi_shape *shape, int rank, int root) {
    const bool alone = shape->nranks == 1;
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = !alone, .chunks_sent = !alone};
}

static void all_gather_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    for (int r = 0; r < t->shape->nranks; r++)
        rcmi_tally_multicast(t, r, 1, 1 / p);
    rcmi_tally_local_all(t, 1 / p, 0);
}

const struct rcmi_algorithm rcmi_flat_all_gather = {
    .name = "flat",
    .description = "every rank publishes its block and all copy it; for all sizes on one host",
    .collective = RCM_ALL_GATHER,
    .supports = rcmi_supports_one_host,
    .emit = all_gather_emit,
    .formula = all_gather_formula,
    .count = all_gather_count,
};

/* ---- Reduce-scatter -------------------------------------------------------------------------- */

/* Above this, the p(p-1) channels cost more memory than the speed is worth, as in two_shot.c. */
#define RANKS_MAX 32

enum { LANE_SEND, LANE_SUM };

static bool reduce_scatter_supports(const struct rcmi_shape *shape) {
    return shape->nranks <= RANKS_MAX;
}

static rcm_status reduce_scatter_emit(const struct rcmi_algorithm *row,
                                      const struct rcmi_shape *shape, int rank, int root,
                                      struct rcmi_plan **ret_plan) {
    const int p = shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_stripes(b, p <= 4 ? 2 : 1);
    for (int i = 1; i < p; i++) {
        const int to = (rank + i) % p;
        rcmi_send(b, LANE_SEND, (uint32_t)to, rcmi_in((uint32_t)to), rcmi_to(b, LANE_SEND, to, 0));
    }
    if (p == 1)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        rcmi_reduce_in_rank_order(b, LANE_SUM, (uint32_t)rank, shape->nranks, rank, false,
                                  rcmi_out(0), RCMI_NO_CHANNEL);
    return rcmi_plan_finish(b, ret_plan);
}

static void reduce_scatter_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_everyone(t, 1, 1 / p);
    rcmi_tally_local_all(t, 0, (p - 1) / p);
}

const struct rcmi_algorithm rcmi_direct_reduce_scatter = {
    .name = "direct",
    .description = "each rank receives its block of every vector and sums them; for small blocks, "
                   "on one host for all sizes, up to 32 ranks",
    .collective = RCM_REDUCE_SCATTER,
    .ordered = true,
    .supports = reduce_scatter_supports,
    .emit = reduce_scatter_emit,
    .formula = rcmi_formula_all_send,
    .count = reduce_scatter_count,
};
