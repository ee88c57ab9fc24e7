/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast and all-gather on one host by one message to each rank, which the receiver may get out
 * of the sender's memory. Data are then copied once, by all receivers concurrently. The flat
 * algorithms (flat_broadcast.c, flat_blocks.c) copy them into slots and out again.
 *
 *      broadcast    root --> 1, 2, 3      the vector to each
 *      all_gather   every rank --> the next, the one after it, ...    its block to each
 *
 * Cost: 1 message in a row; the root, or every rank, sends p - 1 messages. If messages are not got
 * (transport/protocol.h), each is a copy through slots, and the flat algorithms are cheaper. The
 * prices assume that, so these algorithms run only on request. Up to 32 ranks.
 */
#include "algorithm.h"

/* Above this, the channels cost more memory than the speed is worth, as in two_shot.c. */
#define RANKS_MAX 32

static bool supports(const struct rcmi_shape *shape) {
    return rcmi_supports_one_host(shape) && shape->nranks <= RANKS_MAX;
}

/* ---- Broadcast ------------------------------------------------------------------------------- */

static rcm_status broadcast_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                 int rank, int root, struct rcmi_plan **ret_plan) {
    const int p = shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_gets(b, RCMI_GETS_STAR);
    for (int i = 1; i < p && rank == root; i++)
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, (root + i) % p, 0));
    if (rank == root)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        rcmi_recv(b, 0, 0, rcmi_from(b, 0, root, 0), rcmi_out(0));
    return rcmi_plan_finish(b, ret_plan);
}

static void broadcast_count(struct rcmi_tally *t) {
    for (int r = 0; r < t->shape->nranks; r++)
        if (r != t->root)
            rcmi_tally_send(t, t->root, r, 1, 1);
    rcmi_tally_local(t, t->root, 1, 0);
    rcmi_tally_chain(t, 1);
}

const struct rcmi_algorithm rcmi_direct_broadcast = {
    .name = "direct",
    .description = "the root sends the vector to each rank, which may copy it out of the root's "
                   "memory; on one host of up to 32 ranks",
    .collective = RCM_BROADCAST,
    .supports = supports,
    .emit = broadcast_emit,
    .formula = rcmi_formula_root_sends,
    .count = broadcast_count,
};

/* ---- All-gather ------------------------------------------------------------------------------ */

static rcm_status all_gather_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                  int rank, int root, struct rcmi_plan **ret_plan) {
    const int p = shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_gets(b, RCMI_GETS_HELD);
    rcmi_plan_stripes(b, p <= 4 ? 2 : 1); /* memory: p channels of several slots each */
    for (int i = 1; i < p; i++)
        rcmi_send(b, 0, (uint32_t)rank, rcmi_in(0), rcmi_to(b, 0, (rank + i) % p, 0));
    rcmi_copy_chunk(b, 0, (uint32_t)rank, rcmi_in(0), rcmi_out((uint32_t)rank));
    for (int i = 1; i < p; i++) {
        const int from = (rank + p - i) % p;
        rcmi_recv(b, 0, (uint32_t)from, rcmi_from(b, 0, from, 0), rcmi_out((uint32_t)from));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static void all_gather_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_everyone(t, 1, 1 / p);
    rcmi_tally_local_all(t, 1 / p, 0);
    rcmi_tally_chain(t, 1 / p);
}

const struct rcmi_algorithm rcmi_direct_all_gather = {
    .name = "direct",
    .description = "every rank sends its block to each other one, which may copy it out of its "
                   "memory; on one host of up to 32 ranks",
    .collective = RCM_ALL_GATHER,
    .supports = supports,
    .emit = all_gather_emit,
    .formula = rcmi_formula_all_send,
    .count = all_gather_count,
};
