/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all of blocks of unequal length: every rank sends each other rank its block, to the next
 * higher rank first, and receives from lower ranks in a separate lane.
 *
 *      p = 4, rank 1    lane 0   to 2, to 3, to 0         lane 1   copy, from 0, from 3, from 2
 *
 * The k-th message that a rank sends is the k-th that its receiver receives. Whatever the lengths,
 * both ends of the unfinished message with the lowest k are therefore working on it. Not in place:
 * a received block could overwrite one that was not sent yet.
 *
 * Cost: 1 message in a row; each rank sends p - 1 blocks. Good for all sizes.
 */
#include "algorithm.h"

static rcm_status direct_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                              int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks, self = (uint32_t)rank;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_stripes(b, 1);
    for (uint32_t k = 1; k < p; k++) {
        const uint32_t to = (self + k) % p;
        rcmi_send(b, 0, self * p + to, rcmi_in(to), rcmi_to(b, 0, (int)to, 0));
    }
    rcmi_copy_chunk(b, 1, self * p + self, rcmi_in(self), rcmi_out(self));
    for (uint32_t k = 1; k < p; k++) {
        const uint32_t from = (self + p - k) % p;
        rcmi_recv(b, 1, from * p + self, rcmi_from(b, 1, (int)from, 0), rcmi_out(from));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static void direct_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_everyone(t, 1, 1 / p);
    rcmi_tally_local_all(t, 1 / p, 0);
}

const struct rcmi_algorithm rcmi_direct_all_to_all = {
    .name = "direct",
    .description = "every rank sends each other rank its block; for all sizes, any ranks and hosts",
    .collective = RCM_ALL_TO_ALL_V,
    .by_step = true,
    .supports = rcmi_supports_all,
    .emit = direct_emit,
    .formula = rcmi_formula_all_send,
    .count = direct_count,
};
