/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dissemination barrier (Hensgen, Finkel and Manber 1988): in round i each rank signals the rank
 * 2^i after it and waits for the rank 2^i before it. After round i it has received signals,
 * directly or indirectly, from the 2^(i+1) - 1 ranks before it; after the last round from all.
 *
 *      p = 5, ranks whose signals reach rank 0      round 0: 4     round 1: 3 2     round 2: 1
 *
 * Cost: ceil(log2 p) signals in a row. Good on any hosts.
 */
#include "algorithm.h"

static rcm_status dissemination_emit(const struct rcmi_algorithm *row,
                                     const struct rcmi_shape *shape, int rank, int root,
                                     struct rcmi_plan **ret_plan) {
    const int p = shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    for (int64_t distance = 1; distance < p; distance *= 2) {
        rcmi_signal(b, 0, rcmi_to(b, 0, (int)((rank + distance) % p), 0));
        rcmi_wait(b, 0, rcmi_from(b, 0, (int)((rank - distance + p) % p), 0));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula dissemination_formula(const struct rcmi_algorithm *row,
                                                 const struct rcmi_shape *shape, int rank,
                                                 int root) {
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = rcmi_log2_ceil((uint32_t)shape->nranks)};
}

static void dissemination_count(struct rcmi_tally *t) {
    const int p = t->shape->nranks;
    for (int64_t distance = 1; distance < p; distance *= 2)
        for (int r = 0; r < p; r++)
            rcmi_tally_send(t, r, (int)((r + distance) % p), 1, 0);
}

const struct rcmi_algorithm rcmi_dissemination = {
    .name = "dissemination",
    .description = "signals ranks at distance 1, 2, 4...; any ranks and hosts",
    .collective = RCM_BARRIER,
    .supports = rcmi_supports_all,
    .emit = dissemination_emit,
    .formula = dissemination_formula,
    .count = dissemination_count,
};
