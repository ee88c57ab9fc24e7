/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce along a chain that ends at the root: each rank adds its own vector to what it receives
 * from the previous rank, and forwards the sum, slice by slice.
 *
 *      first --> ... --> next to last --> root
 *
 *      time ->   rank 1   s0 s1 s2 s3
 *                rank 2      s0 s1 s2 s3              every link carries a different slice
 *                root           s0 s1 s2 s3
 *
 * The chain visits the ranks host by host from the rank after the root on, in ring order.
 *
 * Cost: p-1 messages in a row; each rank but the root sends the vector once. A vector of k slices
 * takes the time of p-2+k slices. Good for large vectors on any hosts.
 */
#include "algorithm.h"

static rcm_status chain_reduce_emit(const struct rcmi_algorithm *row,
                                    const struct rcmi_shape *shape, int rank, int root,
                                    struct rcmi_plan **ret_plan) {
    const struct rcmi_ring_position ring = rcmi_ring_position_of(shape, rank);
    const bool first = ring.prev == root, last = rank == root;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (shape->nranks == 1) {
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    } else if (first) {
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, ring.next, 0));
    } else {
        const struct rcmi_operand srcs[] = {rcmi_from(b, 0, ring.prev, 0), rcmi_in(0)};
        rcmi_reduce(b, 0, 0, srcs, 2, last ? rcmi_out(0) : rcmi_nowhere(),
                    last ? RCMI_NO_CHANNEL : rcmi_to(b, 0, ring.next, 0));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula chain_reduce_formula(const struct rcmi_algorithm *row,
                                                const struct rcmi_shape *shape, int rank,
                                                int root) {
    (void)row;
    return (struct rcmi_formula){.rounds = (uint32_t)shape->nranks - 1,
                                 .chunks_sent = rank != root};
}

static void chain_reduce_count(struct rcmi_tally *t) {
    const int first = rcmi_ring_position_of(t->shape, t->root).next;
    rcmi_tally_ring(t, 1, 1);
    rcmi_tally_send(t, t->root, first, -1, -1); /* this edge of the ring is unused */
    rcmi_tally_local_all(t, 0, 1);
    rcmi_tally_local(t, first, 0, -1);
    rcmi_tally_chain(t, t->shape->nranks - 1);
}

const struct rcmi_algorithm rcmi_chain_reduce = {
    .name = "chain",
    .description = "passes partial sums from rank to rank; for large vectors, any ranks and hosts",
    .collective = RCM_REDUCE,
    .supports = rcmi_supports_all,
    .emit = chain_reduce_emit,
    .formula = chain_reduce_formula,
    .count = chain_reduce_count,
};
