/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter along the chain of ranks, for any number of ranks, in rank order. The vector
 * travels from rank 0 to the last but one rank block by block, and each rank adds its own block on
 * the right. From there a block goes to the rank that owns it. The last rank sends its blocks there
 * as well, and they are added there.
 *
 *      p = 4     a0 --> a01 --> a012 --> 0      block a, then b, c and d in the same way:
 *                                 a3 --> 0      every link carries a different block
 *
 * A separate lane receives the result, so nothing on the chain waits for it. The last addition is
 * done at the result's owner, as for every result.
 *
 * Cost: p - 1 messages in a row; each rank sends at most p blocks, one more than on a ring. Good
 * for operators that do not commute, on more ranks than `direct` supports.
 */
#include "algorithm.h"

enum { LANE_CHAIN, LANE_RESULT };

/* The steps for one block at rank `self` of 0..end, where `end` is the last but one of all
 * ranks. */
static void chain_block(struct rcmi_builder *b, uint32_t block, uint32_t self, uint32_t end) {
    struct rcmi_operand srcs[3];
    int n = 0;
    if (self > 0)
        srcs[n++] = rcmi_from(b, LANE_CHAIN, (int)self - 1, 0);
    srcs[n++] = rcmi_in(block);
    if (self == end && block == self) {
        srcs[n++] = rcmi_from(b, LANE_CHAIN, (int)end + 1, 1);
        rcmi_reduce(b, LANE_CHAIN, block, srcs, n, rcmi_out(0), RCMI_NO_CHANNEL);
        return;
    }
    const uint32_t to = self < end ? rcmi_to(b, LANE_CHAIN, (int)self + 1, 0)
                                   : rcmi_to(b, LANE_CHAIN, (int)block, 1);
    if (n == 1)
        rcmi_send(b, LANE_CHAIN, block, srcs[0], to);
    else
        rcmi_reduce(b, LANE_CHAIN, block, srcs, n, rcmi_nowhere(), to);
}

/* Adds the sum of ranks 0..end and the last rank's block. */
static void result_steps(struct rcmi_builder *b, uint32_t self, uint32_t end) {
    const bool last = self == end + 1;
    const struct rcmi_operand srcs[] = {rcmi_from(b, LANE_RESULT, (int)end, 1),
                                        last ? rcmi_in(self)
                                             : rcmi_from(b, LANE_RESULT, (int)end + 1, 1)};
    rcmi_reduce(b, LANE_RESULT, self, srcs, 2, rcmi_out(0), RCMI_NO_CHANNEL);
}

static void chain_steps(struct rcmi_builder *b, uint32_t p, uint32_t self) {
    const uint32_t end = p - 2;
    for (uint32_t block = 0; block < p; block++) {
        if (self <= end)
            chain_block(b, block, self, end);
        else if (block != self)
            rcmi_send(b, LANE_CHAIN, block, rcmi_in(block), rcmi_to(b, LANE_CHAIN, (int)block, 1));
    }
    if (self != end)
        result_steps(b, self, end);
}

static rcm_status chain_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                             int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (p == 1)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        chain_steps(b, p, (uint32_t)rank);
    return rcmi_plan_finish(b, ret_plan);
}

/* With two ranks, one sends after it has received. */
static struct rcmi_formula chain_formula(const struct rcmi_algorithm *row,
                                         const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    (void)row;
    (void)root;
    return (struct rcmi_formula){.rounds = p == 2 ? 2 : p - 1,
                                 .chunks_sent = p - ((uint32_t)rank + 2 >= p)};
}

static void chain_count(struct rcmi_tally *t) {
    const int p = t->shape->nranks, end = p - 2;
    for (int r = 0; r < end; r++)
        rcmi_tally_send(t, r, r + 1, p, 1);
    for (int r = 0; r < p; r++) {
        if (r != end)
            rcmi_tally_send(t, end, r, 1, 1.0 / p);
        if (r != end + 1)
            rcmi_tally_send(t, end + 1, r, 1, 1.0 / p);
        rcmi_tally_local(t, r, 0, 1.0 / p + (r > 0 && r <= end));
    }
    rcmi_tally_chain(t, p == 2 ? 1 : (p - 1.0) / p);
}

const struct rcmi_algorithm rcmi_chain_reduce_scatter = {
    .name = "chain",
    .description =
        "adds blocks along the chain of ranks; keeps the order of ranks for any number of "
        "them, any hosts",
    .collective = RCM_REDUCE_SCATTER,
    .ordered = true,
    .supports = rcmi_supports_all,
    .emit = chain_emit,
    .formula = chain_formula,
    .count = chain_count,
};
