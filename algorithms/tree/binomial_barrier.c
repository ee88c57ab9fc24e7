/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barrier up and down a binomial tree: a rank signals its parent after all its children have
 * signalled it. When rank 0 has all signals, it releases the others down the tree.
 *
 *      p = 4      1 --> 0, 3 --> 2      2 --> 0      0 --> 2      2 --> 3, 0 --> 1
 *
 * Cost: 2 floor(log2 p) signals in a row, 2 (p - 1) in all, where dissemination has p log p: good
 * if ranks share processors.
 */
#include "algorithm.h"

static rcm_status binomial_barrier_emit(const struct rcmi_algorithm *row,
                                        const struct rcmi_shape *shape, int rank, int root,
                                        struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks, v = (uint32_t)rank;
    const int parent = (int)rcmi_binomial_parent(v);
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    for (uint32_t i = 0; i < rcmi_binomial_children(v, p); i++)
        rcmi_wait(b, 0, rcmi_from(b, 0, (int)(v + (UINT32_C(1) << i)), 0));
    if (v != 0) {
        rcmi_signal(b, 0, rcmi_to(b, 0, parent, 0));
        rcmi_wait(b, 0, rcmi_from(b, 0, parent, 0));
    }
    for (uint32_t bit = rcmi_binomial_first_bit(v, p); bit != 0; bit >>= 1)
        if (v + bit < p)
            rcmi_signal(b, 0, rcmi_to(b, 0, (int)(v + bit), 0));
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula binomial_barrier_formula(const struct rcmi_algorithm *row,
                                                    const struct rcmi_shape *shape, int rank,
                                                    int root) {
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = 2 * rcmi_log2_floor((uint32_t)shape->nranks)};
}

static void binomial_barrier_count(struct rcmi_tally *t) {
    rcmi_tally_binomial(t, true, true, 0);
}

const struct rcmi_algorithm rcmi_binomial_barrier = {
    .name = "binomial",
    .description = "signals up and down a binomial tree; for ranks that share processors",
    .collective = RCM_BARRIER,
    .supports = rcmi_supports_all,
    .emit = binomial_barrier_emit,
    .formula = binomial_barrier_formula,
    .count = binomial_barrier_count,
};
