/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast down a binomial tree: the number of ranks that have the data doubles in every round.
 * Ranks are counted from the root. A rank's parent is its number without the lowest set bit. The
 * child with the largest subtree is served first.
 *
 *      p = 8, root 0          0 --> 4 --> 6 --> 7
 *                             |     +---> 5
 *                             +---> 2 --> 3
 *                             +---> 1
 *
 * Cost: floor(log2 p) messages in a row, ceil(log2 p) sends by the root one after the other; each
 * carries the whole vector. Good for small vectors on any hosts.
 */
#include "algorithm.h"

static uint32_t binomial_from_root(const struct rcmi_shape *shape, int rank, int root) {
    return (uint32_t)((rank - root + shape->nranks) % shape->nranks);
}

static int binomial_rank(const struct rcmi_shape *shape, uint32_t v, int root) {
    return (int)((v + (uint32_t)root) % (uint32_t)shape->nranks);
}

static void binomial_steps(struct rcmi_builder *b, const struct rcmi_shape *shape, uint32_t v,
                           int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct rcmi_operand have = rcmi_in(0);
    bool received = v == 0;
    struct rcmi_operand from = rcmi_nowhere();
    if (v != 0)
        from = rcmi_from(b, 0, binomial_rank(shape, rcmi_binomial_parent(v), root), 0);
    for (uint32_t bit = rcmi_binomial_first_bit(v, p); bit != 0; bit >>= 1) {
        if (v + bit >= p)
            continue;
        const uint32_t to = rcmi_to(b, 0, binomial_rank(shape, v + bit, root), 0);
        if (received) {
            rcmi_send(b, 0, 0, have, to);
        } else {
            rcmi_recv_copy_send(b, 0, 0, from, rcmi_out(0), to);
            have = rcmi_out(0);
            received = true;
        }
    }
    if (!received)
        rcmi_recv(b, 0, 0, from, rcmi_out(0));
}

static rcm_status binomial_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (shape->nranks == 2) { /* one message, and nothing to forward */
        rcmi_plan_whole(b);
        rcmi_plan_gets(b, RCMI_GETS_STAR);
    }
    binomial_steps(b, shape, binomial_from_root(shape, rank, root), root);
    if (rank == root)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula binomial_formula(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    const uint32_t v = binomial_from_root(shape, rank, root);
    (void)row;
    return (struct rcmi_formula){.rounds = rcmi_log2_floor(p),
                                 .chunks_sent = rcmi_binomial_children(v, p)};
}

static void binomial_count(struct rcmi_tally *t) {
    rcmi_tally_binomial(t, false, true, 1);
    rcmi_tally_local(t, t->root, 1, 0);
}

const struct rcmi_algorithm rcmi_binomial = {
    .name = "binomial",
    .description = "passes the vector down a binomial tree; for small vectors, any ranks and hosts",
    .collective = RCM_BROADCAST,
    .supports = rcmi_supports_all,
    .emit = binomial_emit,
    .formula = binomial_formula,
    .count = binomial_count,
};
