/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce up a binomial tree, counted from the root (picture in binomial.c, arrows reversed). Each
 * rank adds its children's sums to its own vector, the smallest subtree first, and sends the sum to
 * its parent. Only the root writes OUT; others keep sums in scratch.
 *
 * Cost: floor(log2 p) messages in a row, one sent by each rank but the root; each carries the whole
 * vector. Good for small vectors on many ranks.
 */
#include "algorithm.h"

static uint32_t from_root(const struct rcmi_shape *shape, int rank, int root) {
    return (uint32_t)((rank - root + shape->nranks) % shape->nranks);
}

static int rank_of(const struct rcmi_shape *shape, uint32_t v, int root) {
    return (int)((v + (uint32_t)root) % (uint32_t)shape->nranks);
}

static void binomial_reduce_steps(struct rcmi_builder *b, const struct rcmi_shape *shape,
                                  uint32_t v, int root) {
    const uint32_t nchildren = rcmi_binomial_children(v, (uint32_t)shape->nranks);
    const uint32_t parent =
        v == 0 ? RCMI_NO_CHANNEL : rcmi_to(b, 0, rank_of(shape, rcmi_binomial_parent(v), root), 0);
    const struct rcmi_operand sum = v == 0 ? rcmi_out(0) : rcmi_scratch(0);
    struct rcmi_operand have = rcmi_in(0);
    if (nchildren == 0)
        rcmi_send(b, 0, 0, have, parent);
    for (uint32_t i = 0; i < nchildren; i++) {
        const bool sends = v != 0 && i + 1 == nchildren;
        const int child = rank_of(shape, v + (UINT32_C(1) << i), root);
        const struct rcmi_operand srcs[] = {have, rcmi_from(b, 0, child, 0)};
        rcmi_reduce(b, 0, 0, srcs, 2, sends ? rcmi_nowhere() : sum,
                    sends ? parent : RCMI_NO_CHANNEL);
        have = sum;
    }
}

static rcm_status binomial_reduce_emit(const struct rcmi_algorithm *row,
                                       const struct rcmi_shape *shape, int rank, int root,
                                       struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (shape->nranks == 1)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        binomial_reduce_steps(b, shape, from_root(shape, rank, root), root);
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula binomial_reduce_formula(const struct rcmi_algorithm *row,
                                                   const struct rcmi_shape *shape, int rank,
                                                   int root) {
    (void)row;
    return (struct rcmi_formula){.rounds = rcmi_log2_floor((uint32_t)shape->nranks),
                                 .chunks_sent = rank != root};
}

static void binomial_reduce_count(struct rcmi_tally *t) {
    rcmi_tally_binomial(t, true, false, 1);
    for (uint32_t v = 1; v < (uint32_t)t->shape->nranks; v++)
        rcmi_tally_local(t, rank_of(t->shape, rcmi_binomial_parent(v), t->root), 0, 1);
}

const struct rcmi_algorithm rcmi_binomial_reduce = {
    .name = "binomial",
    .description = "sums up a binomial tree; for small vectors and many ranks, any hosts",
    .collective = RCM_REDUCE,
    .supports = rcmi_supports_all,
    .emit = binomial_reduce_emit,
    .formula = binomial_reduce_formula,
    .count = binomial_reduce_count,
};
