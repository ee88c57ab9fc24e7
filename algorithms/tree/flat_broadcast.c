/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast in one round through shared memory: the root publishes the vector once, all other ranks
 * copy it from there.
 *
 *      root publishes x --+--> rank 1 copies
 *                         +--> rank 2 copies
 *                         +--> rank 3 copies
 *
 * Cost: 1 message in a row, sent once. Each rank reads and writes the vector once, slice by slice,
 * while the root publishes the next slice. Good for all sizes on one host.
 */
#include "algorithm.h"

static rcm_status flat_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                            int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (shape->nranks == 2) /* one reader */
        rcmi_plan_gets(b, RCMI_GETS_STAR);
    if (rank == root) {
        if (shape->nranks > 1)
            rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to_host(b, 0, 0));
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    } else {
        rcmi_recv(b, 0, 0, rcmi_from_host(b, 0, root, 0), rcmi_out(0));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula flat_formula(const struct rcmi_algorithm *row,
                                        const struct rcmi_shape *shape, int rank, int root) {
    const bool alone = shape->nranks == 1;
    (void)row;
    return (struct rcmi_formula){.rounds = !alone, .chunks_sent = !alone && rank == root};
}

static void flat_count(struct rcmi_tally *t) {
    rcmi_tally_multicast(t, t->root, 1, 1);
    rcmi_tally_local(t, t->root, 1, 0);
}

const struct rcmi_algorithm rcmi_flat_broadcast = {
    .name = "flat",
    .description = "the root publishes the vector and all copy it; for all sizes on one host",
    .collective = RCM_BROADCAST,
    .supports = rcmi_supports_one_host,
    .emit = flat_emit,
    .formula = flat_formula,
    .count = flat_count,
};
