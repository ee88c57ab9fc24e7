/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce up and down a binomial tree: sums go to rank 0, the result returns along the same
 * edges (Kielmann et al. 1999 describe both halves). It has twice as many messages in a row as
 * recursive doubling, but little more than half as many in all. If ranks share processors, and each
 * message costs a system call, the total work counts, not the longest chain.
 *
 *      p = 8      up: 1 --> 0, 3 --> 2, 5 --> 4, 7 --> 6      2 --> 0, 6 --> 4      4 --> 0
 *                 down: the same arrows reversed, the largest subtree first
 *
 * A rank represents a run of consecutive ranks, and the lower run's sum is the left operand. All
 * sums are computed once, so all ranks get the same bits.
 *
 * Cost: 2 floor(log2 p) messages in a row, 2 (p - 1) in all; each carries the whole vector. Good
 * for small vectors.
 */
#include "algorithm.h"

/* Receives from the children, the smallest subtree first. The step that makes the last sum also
 * sends it: to the parent, or at rank 0 as the result to the first child. */
static void up_emit(struct rcmi_builder *b, uint32_t v, uint32_t p, uint32_t last_out) {
    struct rcmi_operand have = rcmi_in(0);
    const uint32_t nchildren = rcmi_binomial_children(v, p);
    if (nchildren == 0)
        rcmi_send(b, 0, 0, have, last_out);
    for (uint32_t i = 0; i < nchildren; i++) {
        const bool last = i + 1 == nchildren;
        const struct rcmi_operand srcs[] = {have,
                                            rcmi_from(b, 0, (int)(v + (UINT32_C(1) << i)), 0)};
        rcmi_reduce(b, 0, 0, srcs, 2, rcmi_out(0), last ? last_out : RCMI_NO_CHANNEL);
        have = rcmi_out(0);
    }
}

/* Forwards the result. Rank 0 sent it to its first child with the last sum. */
static void down_emit(struct rcmi_builder *b, uint32_t v, uint32_t p) {
    bool first = true;
    for (uint32_t bit = rcmi_binomial_first_bit(v, p); bit != 0; bit >>= 1) {
        if (v + bit >= p)
            continue;
        const uint32_t to = rcmi_to(b, 0, (int)(v + bit), 0);
        if (!first)
            rcmi_send(b, 0, 0, rcmi_out(0), to);
        else if (v != 0)
            rcmi_recv_copy_send(b, 0, 0, rcmi_from(b, 0, (int)rcmi_binomial_parent(v), 0),
                                rcmi_out(0), to);
        first = false;
    }
    if (first)
        rcmi_recv(b, 0, 0, rcmi_from(b, 0, (int)rcmi_binomial_parent(v), 0), rcmi_out(0));
}

static uint32_t largest_child(uint32_t v, uint32_t p) {
    uint32_t bit = rcmi_binomial_first_bit(v, p);
    while (v + bit >= p)
        bit >>= 1;
    return v + bit;
}

static rcm_status binomial_all_reduce_emit(const struct rcmi_algorithm *row,
                                           const struct rcmi_shape *shape, int rank, int root,
                                           struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks, v = (uint32_t)rank;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (p == 1) {
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    } else {
        const uint32_t next = v == 0 ? largest_child(0, p) : rcmi_binomial_parent(v);
        up_emit(b, v, p, rcmi_to(b, 0, (int)next, 0));
        down_emit(b, v, p);
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula binomial_all_reduce_formula(const struct rcmi_algorithm *row,
                                                       const struct rcmi_shape *shape, int rank,
                                                       int root) {
    const uint32_t p = (uint32_t)shape->nranks, v = (uint32_t)rank;
    (void)row;
    (void)root;
    return (struct rcmi_formula){.rounds = 2 * rcmi_log2_floor(p),
                                 .chunks_sent = rcmi_binomial_children(v, p) + (v != 0)};
}

static void binomial_all_reduce_count(struct rcmi_tally *t) {
    rcmi_tally_binomial(t, true, true, 1);
    for (uint32_t v = 1; v < (uint32_t)t->shape->nranks; v++)
        rcmi_tally_local(t, (int)rcmi_binomial_parent(v), 0, 1);
}

const struct rcmi_algorithm rcmi_binomial_all_reduce = {
    .name = "binomial",
    .description = "sums up a binomial tree and passes the result down; for small vectors where "
                   "ranks share processors",
    .collective = RCM_ALL_REDUCE,
    .ordered = true,
    .supports = rcmi_supports_all,
    .emit = binomial_all_reduce_emit,
    .formula = binomial_all_reduce_formula,
    .count = binomial_all_reduce_count,
};
