/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct plans of rooted collectives: the root exchanges messages with every rank.
 *
 *      scatter   root --> 1, 2, 3      block r to rank r
 *      gather    1, 2, 3 --> root      each block to its position
 *      reduce    1, 2, 3 --> root      sums all in rank order, 16 at a time
 *
 * Cost: 1 message in a row; the root sends, receives or sums p - 1 blocks. No algorithm moves fewer
 * bytes through the root of a scatter or gather. Good for all sizes on few ranks.
 */
#include "algorithm.h"

static struct rcmi_formula leaves_send_formula(const struct rcmi_algorithm *row,
                                               const struct rcmi_shape *shape, int rank, int root) {
    (void)row;
    return (struct rcmi_formula){.rounds = shape->nranks > 1, .chunks_sent = rank != root};
}

/* ---- Scatter --------------------------------------------------------------------------------- */

static rcm_status scatter_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                               int rank, int root, struct rcmi_plan **ret_plan) {
    const int p = shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_gets(b, RCMI_GETS_STAR);
    for (int i = 1; i < p && rank == root; i++) {
        const int to = (root + i) % p;
        rcmi_send(b, 0, (uint32_t)to, rcmi_in((uint32_t)to), rcmi_to(b, 0, to, 0));
    }
    if (rank == root)
        rcmi_copy_chunk(b, 0, (uint32_t)rank, rcmi_in((uint32_t)rank), rcmi_out(0));
    else
        rcmi_recv(b, 0, (uint32_t)rank, rcmi_from(b, 0, root, 0), rcmi_out(0));
    return rcmi_plan_finish(b, ret_plan);
}

static void scatter_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    for (int r = 0; r < t->shape->nranks; r++)
        if (r != t->root)
            rcmi_tally_send(t, t->root, r, 1, 1 / p);
    rcmi_tally_local(t, t->root, 1 / p, 0);
    rcmi_tally_chain(t, 1 / p);
}

const struct rcmi_algorithm rcmi_direct_scatter = {
    .name = "direct",
    .description = "the root sends each rank its block; for all sizes, any ranks and hosts",
    .collective = RCM_SCATTER,
    .by_step = true,
    .supports = rcmi_supports_all,
    .emit = scatter_emit,
    .formula = rcmi_formula_root_sends,
    .count = scatter_count,
};

/* ---- Gather ---------------------------------------------------------------------------------- */

static rcm_status gather_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                              int rank, int root, struct rcmi_plan **ret_plan) {
    const int p = shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_gets(b, RCMI_GETS_STAR);
    if (rank != root)
        rcmi_send(b, 0, (uint32_t)rank, rcmi_in(0), rcmi_to(b, 0, root, 0));
    else
        rcmi_copy_chunk(b, 0, (uint32_t)rank, rcmi_in(0), rcmi_out((uint32_t)rank));
    for (int i = 1; i < p && rank == root; i++) {
        const int from = (root + i) % p;
        rcmi_recv(b, 0, (uint32_t)from, rcmi_from(b, 0, from, 0), rcmi_out((uint32_t)from));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static void gather_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    for (int r = 0; r < t->shape->nranks; r++)
        if (r != t->root)
            rcmi_tally_send(t, r, t->root, 1, 1 / p);
    rcmi_tally_local(t, t->root, 1 / p, 0);
    rcmi_tally_chain(t, 1 / p);
}

const struct rcmi_algorithm rcmi_direct_gather = {
    .name = "direct",
    .description = "each rank sends its block to the root; for all sizes, any ranks and hosts",
    .collective = RCM_GATHER,
    .by_step = true,
    .supports = rcmi_supports_all,
    .emit = gather_emit,
    .formula = leaves_send_formula,
    .count = gather_count,
};

/* ---- Reduce ---------------------------------------------------------------------------------- */

static rcm_status reduce_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                              int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (rank != root)
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, root, 0));
    else if (shape->nranks == 1)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        rcmi_reduce_in_rank_order(b, 0, 0, shape->nranks, rank, false, rcmi_out(0),
                                  RCMI_NO_CHANNEL);
    return rcmi_plan_finish(b, ret_plan);
}

static void reduce_count(struct rcmi_tally *t) {
    for (int r = 0; r < t->shape->nranks; r++)
        if (r != t->root)
            rcmi_tally_send(t, r, t->root, 1, 1);
    rcmi_tally_local(t, t->root, 0, t->shape->nranks - 1);
    rcmi_tally_chain(t, 1);
}

const struct rcmi_algorithm rcmi_direct_reduce = {
    .name = "direct",
    .description = "every rank sends its vector to the root, which sums them; for few ranks, any "
                   "hosts",
    .collective = RCM_REDUCE,
    .ordered = true,
    .supports = rcmi_supports_all,
    .emit = reduce_emit,
    .formula = leaves_send_formula,
    .count = reduce_count,
};
