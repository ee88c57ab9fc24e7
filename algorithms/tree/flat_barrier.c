/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barrier in one round through shared memory: every rank raises a flag that all others see, then
 * waits for the flags of all others.
 *
 *      rank 0 raises --+--> 1 and 2 see it
 *      rank 1 raises --+--> 0 and 2 see it
 *      rank 2 raises --+--> 0 and 1 see it
 *
 * Cost: 1 signal in a row, p-1 flags to check. Good for few ranks on one host, and if ranks share
 * cores, because no rank has to be woken twice.
 */
#include "algorithm.h"

static rcm_status flat_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                            int rank, int root, struct rcmi_plan **ret_plan) {
    const int p = shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (p > 1)
        rcmi_signal(b, 0, rcmi_to_host(b, 0, 0));
    for (int i = 1; i < p; i++)
        rcmi_wait(b, 0, rcmi_from_host(b, 0, (rank + i) % p, 0));
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula flat_formula(const struct rcmi_algorithm *row,
                                        const struct rcmi_shape *shape, int rank, int root) {
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = shape->nranks > 1};
}

static void flat_count(struct rcmi_tally *t) {
    for (int r = 0; r < t->shape->nranks; r++)
        rcmi_tally_multicast(t, r, 1, 0);
}

const struct rcmi_algorithm rcmi_flat_barrier = {
    .name = "flat",
    .description = "every rank raises a flag and waits for all others' flags; for one host",
    .collective = RCM_BARRIER,
    .supports = rcmi_supports_one_host,
    .emit = flat_emit,
    .formula = flat_formula,
    .count = flat_count,
};
