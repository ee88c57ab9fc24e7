/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter on a circulant graph (Traeff 2025), for any number of ranks without a detour. A
 * rank numbers the blocks from its own on: 0 is its own, i that of the rank i after it. In each
 * round the upper half of those that are left is sent to where it is the lower one, and what comes
 * is added there, until block 0 is left and is the whole sum.
 *
 *      p = 5           left       sent                     comes
 *      distance 3      0 1 2 3 4  3 4, to rank + 3         0 1, from rank - 3
 *      distance 2      0 1 2      2, to rank + 2           0, from rank - 2
 *      distance 1      0 1        1, to rank + 1           0, from rank - 1
 *
 * Sums are kept in scratch, by the rank's own numbers, so they never wrap around; the blocks of IN
 * do. Of an odd number of blocks nothing is added to the middle one in the first round; it goes out
 * in the second one, and is copied to the others that do. Each result is summed by one rank, in one
 * order on every run.
 *
 * Cost: ceil(log2 p) messages in a row, for each rank as many (of more than RCMI_SPAN_MAX blocks
 * several); each rank sends p - 1 blocks, the least there is. Good for small blocks on many ranks.
 */
#include "algorithm.h"

static uint32_t upper_half(uint32_t p) {
    return p - p / 2;
}

/* This rank's block i as a position of IN, and as a chunk. */
static uint32_t block_of(uint32_t p, uint32_t rank, uint32_t i) {
    return (rank + i) % p;
}

/* Is there a middle one that is sent with others? */
static bool copies_middle(uint32_t p) {
    return p % 2 == 1 && p > 5;
}

/* In the first round nothing is in scratch yet. */
static struct rcmi_operand sum_of(uint32_t p, uint32_t rank, uint32_t i, bool first) {
    const bool middle = p % 2 == 1 && i == p / 2 && !copies_middle(p);
    return first || middle ? rcmi_in(block_of(p, rank, i)) : rcmi_scratch(i);
}

/* n blocks from number `at` on, of those from `distance` on, go out, and as many come. */
static void send_and_add(struct rcmi_builder *b, uint32_t p, uint32_t rank, uint32_t distance,
                         uint32_t at, uint32_t n, bool first) {
    const uint32_t up = distance + at, got = block_of(p, rank, at);
    const int to = (int)((rank + distance) % p), from = (int)((rank + p - distance) % p);
    const struct rcmi_operand srcs[] = {rcmi_from(b, 0, from, 0), sum_of(p, rank, at, first)};
    rcmi_send(b, 0, block_of(p, rank, up), sum_of(p, rank, up, first), rcmi_to(b, 0, to, 0));
    rcmi_span_of(b, 0, n);
    rcmi_reduce(b, 0, got, srcs, 2, distance == 1 ? rcmi_out(0) : rcmi_scratch(at),
                RCMI_NO_CHANNEL);
    rcmi_span_of(b, 0, n);
}

static void circulant_steps(struct rcmi_builder *b, uint32_t p, uint32_t rank) {
    const uint32_t middle = p / 2;
    for (uint32_t left = p; left > 1; left = upper_half(left)) {
        const uint32_t distance = upper_half(left), n = left - distance;
        for (uint32_t at = 0; at < n; at += RCMI_SPAN_MAX)
            send_and_add(b, p, rank, distance, at, rcmi_span_length(n, at), left == p);
        if (left == p && copies_middle(p))
            rcmi_copy_chunk(b, 0, block_of(p, rank, middle), rcmi_in(block_of(p, rank, middle)),
                            rcmi_scratch(middle));
    }
}

static rcm_status circulant_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                 int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_spans(b, rcmi_span_length(p > 2 ? p / 2 : 1, 0));
    if (p == 1)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        circulant_steps(b, p, (uint32_t)rank);
    return rcmi_plan_finish(b, ret_plan);
}

static uint32_t circulant_messages(uint32_t p) {
    uint32_t messages = 0;
    for (uint32_t left = p; left > 1; left = upper_half(left))
        messages += rcmi_spans(left / 2);
    return messages;
}

static struct rcmi_formula circulant_formula(const struct rcmi_algorithm *row,
                                             const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = circulant_messages(p), .chunks_sent = p - 1};
}

static void circulant_count(struct rcmi_tally *t) {
    const uint32_t p = (uint32_t)t->shape->nranks;
    for (uint32_t left = p; left > 1; left = upper_half(left)) {
        const uint32_t n = left / 2, distance = left - n;
        for (uint32_t r = 0; r < p; r++)
            rcmi_tally_spans(t, (int)r, (int)((r + distance) % p), n, 1.0 / p);
        rcmi_tally_local_all(t, 0, (double)n / p);
    }
    rcmi_tally_local_all(t, copies_middle(p) ? 1.0 / p : 0, 0);
}

const struct rcmi_algorithm rcmi_circulant = {
    .name = "circulant",
    .description = "halves what is left to sum in every round; for small blocks and many ranks, "
                   "any hosts",
    .collective = RCM_REDUCE_SCATTER,
    .supports = rcmi_supports_all,
    .emit = circulant_emit,
    .formula = circulant_formula,
    .count = circulant_count,
};
