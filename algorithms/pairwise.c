/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all by pairs: in round k ranks r and (k - r) mod p exchange their two blocks; a rank that
 * is its own partner copies its block.
 *
 *      p = 4     k = 0   1-3  0 2      k = 1   0-1  2-3      k = 2   0-2  1 3      k = 3   0-3  1-2
 *
 * Every pair meets once, both send before they receive, and what a rank receives from its partner
 * takes the place of what it has just sent to it: so it works in place, with one slot per channel.
 *
 * Cost: p messages in a row; each rank sends p - 1 blocks, one to each other rank. Good for large
 * blocks.
 */
#include "algorithm.h"

static void exchange(struct rcmi_builder *b, uint32_t p, uint32_t rank, uint32_t partner) {
    if (partner == rank) {
        rcmi_copy_chunk(b, 0, rank * p + rank, rcmi_in(rank), rcmi_out(rank));
        return;
    }
    rcmi_send(b, 0, rank * p + partner, rcmi_in(partner), rcmi_to(b, 0, (int)partner, 0));
    rcmi_recv(b, 0, partner * p + rank, rcmi_from(b, 0, (int)partner, 0), rcmi_out(partner));
}

static rcm_status pairwise_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_late_in_place(b);
    rcmi_plan_gets(b, RCMI_GETS_HELD);
    rcmi_plan_stripes(b, p <= 4 ? 2 : 1); /* p channels of several slots each */
    for (uint32_t k = 0; k < p; k++)
        exchange(b, p, (uint32_t)rank, (k + p - (uint32_t)rank) % p);
    return rcmi_plan_finish(b, ret_plan);
}

/* A chain of messages has one in every round, but where both ranks of two are alone in one. */
static struct rcmi_formula pairwise_formula(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = p > 2 ? p : p - 1, .chunks_sent = p - 1};
}

static void pairwise_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_everyone(t, 1, 1 / p);
    rcmi_tally_local_all(t, 1 / p, 0);
    rcmi_tally_chain(t, p > 2 ? 1 : 0.5); /* a block in every round */
}

const struct rcmi_algorithm rcmi_pairwise = {
    .name = "pairwise",
    .description = "ranks exchange blocks pair by pair; for all sizes, any ranks and hosts",
    .collective = RCM_ALL_TO_ALL,
    .supports = rcmi_supports_all,
    .emit = pairwise_emit,
    .formula = pairwise_formula,
    .count = pairwise_count,
};
