/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast along a chain: the root sends to the next rank, which keeps a copy and forwards it.
 *
 *      root --> next --> next --> ... --> last        slice by slice:
 *
 *      time ->   rank 0   s0 s1 s2 s3
 *                rank 1      s0 s1 s2 s3              every link carries a different slice
 *                rank 2         s0 s1 s2 s3
 *
 * The chain visits the ranks host by host from the root on, in ring order.
 *
 * Cost: p-1 messages in a row; each rank but the last sends the vector once. A vector of k slices
 * takes the time of p-2+k slices. Good for large vectors on any hosts.
 */
#include "algorithm.h"

static rcm_status chain_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                             int rank, int root, struct rcmi_plan **ret_plan) {
    const struct rcmi_ring_position ring = rcmi_ring_position_of(shape, rank);
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (shape->nranks == 2) { /* one message, and nothing to forward */
        rcmi_plan_whole(b);
        rcmi_plan_gets(b, RCMI_GETS_STAR);
    }
    if (rank == root) {
        if (shape->nranks > 1)
            rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, ring.next, 0));
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    } else if (ring.next == root) {
        rcmi_recv(b, 0, 0, rcmi_from(b, 0, ring.prev, 0), rcmi_out(0));
    } else {
        rcmi_recv_copy_send(b, 0, 0, rcmi_from(b, 0, ring.prev, 0), rcmi_out(0),
                            rcmi_to(b, 0, ring.next, 0));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula chain_formula(const struct rcmi_algorithm *row,
                                         const struct rcmi_shape *shape, int rank, int root) {
    const bool last = rcmi_ring_position_of(shape, rank).next == root;
    (void)row;
    return (struct rcmi_formula){.rounds = (uint32_t)shape->nranks - 1, .chunks_sent = !last};
}

static void chain_count(struct rcmi_tally *t) {
    rcmi_tally_ring(t, 1, 1);
    rcmi_tally_send(t, rcmi_ring_position_of(t->shape, t->root).prev, t->root, -1, -1); /* unused */
    rcmi_tally_local(t, t->root, 1, 0);
    rcmi_tally_chain(t, t->shape->nranks - 1);
}

const struct rcmi_algorithm rcmi_chain = {
    .name = "chain",
    .description = "passes slices from rank to rank; for large vectors, any ranks and hosts",
    .collective = RCM_BROADCAST,
    .supports = rcmi_supports_all,
    .emit = chain_emit,
    .formula = chain_formula,
    .count = chain_count,
};
