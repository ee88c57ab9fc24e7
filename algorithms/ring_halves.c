/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two halves of the ring algorithm (ring.c) as separate collectives.
 *
 *      reduce_scatter   block b starts after its rank and travels once around; every rank adds its
 *                       part, and the whole sum ends at rank b
 *      all_gather       every rank's block travels once around, and all ranks keep a copy
 *
 * Each block is summed along one path, hence in one order on every run. Steps that receive and send
 * need two slots, see ring.c. Cost: p - 1 messages in a row; each rank sends p - 1 blocks, the
 * minimum. Good for large blocks; the ring visits the ranks host by host.
 */
#include "algorithm.h"
#include <stdlib.h>

/* A rank's neighbours, and the rank at each ring index. */
struct order {
    struct rcmi_ring_position self;
    int *rank_at; /* by ring index */
};

static rcm_status order_make(const struct rcmi_shape *shape, int rank, struct order *ret_order) {
    ret_order->self = rcmi_ring_position_of(shape, rank);
    return rcmi_ring_order(shape, &ret_order->rank_at);
}

/* The block of the rank `back` ring indices before this one. */
static uint32_t block_before(const struct order *order, uint32_t p, uint32_t back) {
    return (uint32_t)order->rank_at[(order->self.index + p - back % p) % p];
}

typedef void half_steps(struct rcmi_builder *b, const struct order *order, uint32_t p,
                        uint32_t rank);

static rcm_status half_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                            int rank, int root, half_steps *steps, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    struct order order;
    rcm_status status = order_make(shape, rank, &order);
    if (status != RCM_OK)
        return status;
    status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 2, &b);
    if (status == RCM_OK) {
        if (shape->nranks == 1)
            rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
        else
            steps(b, &order, (uint32_t)shape->nranks, (uint32_t)rank);
        status = rcmi_plan_finish(b, ret_plan);
    }
    free(order.rank_at);
    return status;
}

static struct rcmi_formula half_formula(const struct rcmi_algorithm *row,
                                        const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = p - 1, .chunks_sent = p - 1};
}

/* ---- All-gather ------------------------------------------------------------------------------ */

static void all_gather_steps(struct rcmi_builder *b, const struct order *order, uint32_t p,
                             uint32_t rank) {
    const struct rcmi_operand from = rcmi_from(b, 0, order->self.prev, 0);
    const uint32_t to = rcmi_to(b, 0, order->self.next, 0);
    rcmi_send(b, 0, rank, rcmi_in(0), to);
    rcmi_copy_chunk(b, 0, rank, rcmi_in(0), rcmi_out(rank));
    for (uint32_t i = 1; i < p; i++) {
        const uint32_t block = block_before(order, p, i);
        if (i + 1 < p)
            rcmi_recv_copy_send(b, 0, block, from, rcmi_out(block), to);
        else
            rcmi_recv(b, 0, block, from, rcmi_out(block));
    }
}

static rcm_status all_gather_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                  int rank, int root, struct rcmi_plan **ret_plan) {
    return half_emit(row, shape, rank, root, all_gather_steps, ret_plan);
}

static void all_gather_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_ring(t, p - 1, (p - 1) / p);
    rcmi_tally_local_all(t, 1 / p, 0);
}

const struct rcmi_algorithm rcmi_ring_all_gather = {
    .name = "ring",
    .description = "passes blocks around a ring; for large blocks, any ranks and hosts",
    .collective = RCM_ALL_GATHER,
    .supports = rcmi_supports_all,
    .emit = all_gather_emit,
    .formula = half_formula,
    .count = all_gather_count,
};

/* ---- Reduce-scatter -------------------------------------------------------------------------- */

static void reduce_scatter_steps(struct rcmi_builder *b, const struct order *order, uint32_t p,
                                 uint32_t rank) {
    (void)rank; /* the rank's own block is the last */
    const struct rcmi_operand from = rcmi_from(b, 0, order->self.prev, 0);
    const uint32_t to = rcmi_to(b, 0, order->self.next, 0);
    const uint32_t first = block_before(order, p, 1);
    rcmi_send(b, 0, first, rcmi_in(first), to);
    for (uint32_t i = 2; i <= p; i++) {
        const bool own = i == p;
        const uint32_t block = block_before(order, p, i);
        const struct rcmi_operand srcs[] = {from, rcmi_in(block)};
        rcmi_reduce(b, 0, block, srcs, 2, own ? rcmi_out(0) : rcmi_nowhere(),
                    own ? RCMI_NO_CHANNEL : to);
    }
}

static rcm_status reduce_scatter_emit(const struct rcmi_algorithm *row,
                                      const struct rcmi_shape *shape, int rank, int root,
                                      struct rcmi_plan **ret_plan) {
    return half_emit(row, shape, rank, root, reduce_scatter_steps, ret_plan);
}

static void reduce_scatter_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_ring(t, p - 1, (p - 1) / p);
    rcmi_tally_local_all(t, 0, (p - 1) / p);
}

const struct rcmi_algorithm rcmi_ring_reduce_scatter = {
    .name = "ring",
    .description = "sums blocks around a ring; for large blocks, any ranks and hosts",
    .collective = RCM_REDUCE_SCATTER,
    .supports = rcmi_supports_all,
    .emit = reduce_scatter_emit,
    .formula = half_formula,
    .count = reduce_scatter_count,
};
