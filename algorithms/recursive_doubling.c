/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by recursive doubling (with folding to a power of two as in Thakur, Rabenseifner and
 * Gropp 2005). In round i each rank exchanges its sum with the rank whose number differs in bit i,
 * so after i rounds 2^i ranks share one sum.
 *
 *      p = 4      0 <-> 1    2 <-> 3         sums 01, 01, 23, 23
 *                 0 <---> 2  1 <---> 3       sum 0123 everywhere
 *
 *      p = 6      0 -> 1, 2 -> 3             the first 2(p - p') ranks fold in pairs
 *                 (1, 3, 4, 5) as above      p' = 2^floor(log p) ranks go on
 *                 1 -> 0, 3 -> 2             the even ones get the result back
 *
 * In a pair the even rank sends its vector to its odd neighbour.
 *
 * A rank always represents a run of consecutive ranks, and the lower run's sum is the left operand.
 * So every rank computes the same tree and gets the same bits. The first round reads IN directly;
 * later rounds read the sum in OUT. The step that makes a sum also sends it.
 *
 * Cost: floor(log2 p) messages in a row, 1 or 2 more if p is no power of two; each carries the
 * whole vector. Good for small vectors.
 */
#include "algorithm.h"

static bool fold_hands_over(struct rcmi_folding f, uint32_t rank) {
    return rank < 2 * f.pairs && rank % 2 == 0;
}

static void even_emit(struct rcmi_builder *b, uint32_t rank) {
    rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, (int)rank + 1, 0));
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, (int)rank + 1, 0), rcmi_out(0));
}

/* Receives from the peers in order. The step for peer i also sends its sum to peer i+1; the last
 * sum goes to `result_to` if there is such a rank. */
static void core_emit(struct rcmi_builder *b, uint32_t rank, const int *peers, uint32_t npeers,
                      int result_to) {
    struct rcmi_operand have = rcmi_in(0);
    for (uint32_t i = 0; i < npeers; i++) {
        const struct rcmi_operand from = rcmi_from(b, 0, peers[i], 0);
        const bool lower = peers[i] < (int)rank;
        const struct rcmi_operand srcs[] = {lower ? from : have, lower ? have : from};
        const int to = i + 1 < npeers ? peers[i + 1] : result_to;
        rcmi_reduce(b, 0, 0, srcs, 2, rcmi_out(0), to < 0 ? RCMI_NO_CHANNEL : rcmi_to(b, 0, to, 0));
        have = rcmi_out(0);
    }
}

static rcm_status recursive_doubling_emit(const struct rcmi_algorithm *row,
                                          const struct rcmi_shape *shape, int rank, int root,
                                          struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks, r = (uint32_t)rank;
    const struct rcmi_folding f = rcmi_fold(p);
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (p == 1) {
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    } else if (fold_hands_over(f, r)) {
        even_emit(b, r);
    } else {
        const bool folded = r < 2 * f.pairs;
        int peers[33]; /* the even neighbour, then one per bit */
        uint32_t n = 0;
        if (folded)
            peers[n++] = rank - 1;
        for (uint32_t bit = 1; bit < f.core; bit <<= 1)
            peers[n++] = (int)rcmi_fold_rank_of(f, rcmi_fold_core_of(f, r) ^ bit);
        if (!folded)
            rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, peers[0], 0));
        core_emit(b, r, peers, n, folded ? rank - 1 : -1);
    }
    return rcmi_plan_finish(b, ret_plan);
}

/* The longest chain starts at an even rank that folds and crosses all bits. If it also ends at such
 * a rank, it crosses only bits in which the numbers of the folded pairs differ. */
static uint32_t recursive_doubling_rounds(uint32_t p) {
    const uint32_t pairs = rcmi_fold(p).pairs, bits = rcmi_log2_floor(p);
    if (pairs == 0)
        return bits;
    const uint32_t both = 2 + rcmi_log2_ceil(pairs);
    return both > bits + 1 ? both : bits + 1;
}

static struct rcmi_formula recursive_doubling_formula(const struct rcmi_algorithm *row,
                                                      const struct rcmi_shape *shape, int rank,
                                                      int root) {
    const uint32_t p = (uint32_t)shape->nranks, r = (uint32_t)rank;
    const struct rcmi_folding f = rcmi_fold(p);
    uint64_t sent = rcmi_log2_floor(p);
    (void)row;
    (void)root;
    if (r < 2 * f.pairs)
        sent = fold_hands_over(f, r) ? 1 : sent + 1;
    return (struct rcmi_formula){.rounds = recursive_doubling_rounds(p), .chunks_sent = sent};
}

static void recursive_doubling_count(struct rcmi_tally *t) {
    const uint32_t p = (uint32_t)t->shape->nranks;
    const struct rcmi_folding f = rcmi_fold(p);
    for (uint32_t core = 0; core < f.core; core++) {
        const int rank = (int)rcmi_fold_rank_of(f, core);
        for (uint32_t bit = 1; bit < f.core; bit <<= 1)
            rcmi_tally_send(t, rank, (int)rcmi_fold_rank_of(f, core ^ bit), 1, 1);
        rcmi_tally_local(t, rank, 0, rcmi_log2_floor(p) + (core < f.pairs));
    }
    for (int even = 0; even < 2 * (int)f.pairs; even += 2) {
        rcmi_tally_send(t, even, even + 1, 1, 1);
        rcmi_tally_send(t, even + 1, even, 1, 1);
    }
    rcmi_tally_chain(t, recursive_doubling_rounds(p));
}

const struct rcmi_algorithm rcmi_recursive_doubling = {
    .name = "recursive_doubling",
    .description = "exchanges whole vectors with ranks at distance 1, 2, 4...; for small vectors, "
                   "any ranks and hosts",
    .collective = RCM_ALL_REDUCE,
    .ordered = true,
    .supports = rcmi_supports_all,
    .emit = recursive_doubling_emit,
    .formula = recursive_doubling_formula,
    .count = recursive_doubling_count,
};
