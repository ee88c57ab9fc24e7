/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all by pairs: in round k ranks r and (k - r) mod p exchange their two blocks; a rank that
 * is its own partner copies its block.
 *
 *      p = 4     k = 0   1-3  0 2      k = 1   0-1  2-3      k = 2   0-2  1 3      k = 3   0-3  1-2
 *
 * Every pair meets once, and both send before they receive. A received block goes where the block
 * just sent to the same partner was, so the algorithm works in place, with one slot per channel.
 * With a window of w, a rank sends in round k what it receives in round k + w - 1: w exchanges are
 * in flight, and the rank waits for a message only once in w rounds.
 *
 * Cost: p / w messages in a row; each rank sends p - 1 blocks, one to each other rank. Good for
 * large blocks; with a window for blocks of middle size between hosts.
 */
#include "algorithm.h"

static uint32_t partner_in(uint32_t p, uint32_t rank, uint32_t k) {
    return (k + p - rank) % p;
}

static void send_block(struct rcmi_builder *b, uint32_t p, uint32_t rank, uint32_t k) {
    const uint32_t partner = partner_in(p, rank, k);
    if (partner == rank)
        rcmi_copy_chunk(b, 0, rank * p + rank, rcmi_in(rank), rcmi_out(rank));
    else
        rcmi_send(b, 0, rank * p + partner, rcmi_in(partner), rcmi_to(b, 0, (int)partner, 0));
}

static void receive_block(struct rcmi_builder *b, uint32_t p, uint32_t rank, uint32_t k) {
    const uint32_t partner = partner_in(p, rank, k);
    if (partner != rank)
        rcmi_recv(b, 0, partner * p + rank, rcmi_from(b, 0, (int)partner, 0), rcmi_out(partner));
}

static uint32_t window_of(const struct rcmi_algorithm *row, uint32_t p) {
    return row->parameter < p ? row->parameter : p;
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
    rcmi_plan_stripes(b, p <= 4 ? 2 : 1); /* memory: p channels of several slots each */
    const uint32_t window = window_of(row, p);
    for (uint32_t k = 0; k < p + window - 1; k++) {
        if (k < p)
            send_block(b, p, (uint32_t)rank, k);
        if (k + 1 >= window)
            receive_block(b, p, (uint32_t)rank, k + 1 - window);
    }
    return rcmi_plan_finish(b, ret_plan);
}

/* A chain of messages has one message in every round, or in every w-th. Exception: with two ranks,
 * each is its own partner in one round. */
static uint32_t pairwise_rounds(const struct rcmi_algorithm *row, uint32_t p) {
    const uint32_t window = window_of(row, p);
    return p > 2 ? (p + window - 1) / window : p - 1;
}

static struct rcmi_formula pairwise_formula(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = pairwise_rounds(row, p), .chunks_sent = p - 1};
}

static void pairwise_count(struct rcmi_tally *t) {
    const uint32_t p = (uint32_t)t->shape->nranks;
    rcmi_tally_everyone(t, 1, 1.0 / p);
    rcmi_tally_local_all(t, 1.0 / p, 0);
    rcmi_tally_chain(t, (double)pairwise_rounds(t->row, p) / p); /* a block in every round */
}

const struct rcmi_algorithm rcmi_pairwise = {
    .name = "pairwise",
    .description = "ranks exchange blocks pair by pair; for all sizes, any ranks and hosts",
    .collective = RCM_ALL_TO_ALL,
    .parameter = 1,
    .supports = rcmi_supports_all,
    .emit = pairwise_emit,
    .formula = pairwise_formula,
    .count = pairwise_count,
};

const struct rcmi_algorithm rcmi_pairwise_8 = {
    .name = "pairwise_8",
    .description = "pair by pair, with eight exchanges in flight; for blocks of middle "
                   "size, any ranks and hosts",
    .collective = RCM_ALL_TO_ALL,
    .parameter = 8,
    .supports = rcmi_supports_all,
    .emit = pairwise_emit,
    .formula = pairwise_formula,
    .count = pairwise_count,
};
