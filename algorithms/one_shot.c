/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce in one round through shared memory: every rank publishes its vector once, readable by
 * all others, and every rank sums all vectors in rank order.
 *
 *      rank 0  publishes x0 --+--> 0 reads x1 x2: x0+x1+x2
 *      rank 1  publishes x1 --+--> 1 reads x0 x2: x0+x1+x2
 *      rank 2  publishes x2 --+--> 2 reads x0 x1: x0+x1+x2
 *
 * All ranks compute the same expression in the same order, so all get the same bits.
 *
 * Cost: 1 message in a row; each rank sends its vector once, and reads and sums p vectors: (p+3)
 * vectors through memory. Good for small vectors on one host.
 */
#include "algorithm.h"

static rcm_status one_shot_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (shape->nranks == 1) {
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    } else {
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to_host(b, 0, 0));
        rcmi_reduce_in_rank_order(b, 0, 0, shape->nranks, rank, true, rcmi_out(0), RCMI_NO_CHANNEL);
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula one_shot_formula(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    const bool alone = shape->nranks == 1;
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = !alone, .chunks_sent = !alone};
}

static void one_shot_count(struct rcmi_tally *t) {
    for (int r = 0; r < t->shape->nranks; r++)
        rcmi_tally_multicast(t, r, 1, 1);
    rcmi_tally_local_all(t, 0, t->shape->nranks - 1);
}

const struct rcmi_algorithm rcmi_one_shot = {
    .name = "one_shot",
    .description = "every rank publishes its vector and sums all of them itself; for small "
                   "vectors on one host",
    .collective = RCM_ALL_REDUCE,
    .ordered = true,
    .supports = rcmi_supports_one_host,
    .emit = one_shot_emit,
    .formula = one_shot_formula,
    .count = one_shot_count,
};
