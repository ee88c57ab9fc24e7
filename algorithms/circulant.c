/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter on a circulant graph (Traeff 2025), for any number of ranks without folding, and
 * the all-reduce whose first half it is. A rank numbers the blocks (for all-reduce: chunks) from
 * its own on: 0 is its own, i that of the rank i after it. In each round it sends the upper half of
 * the remaining blocks to a rank that has them as its lower half, and adds what it receives. At the
 * end block 0 remains and is the whole sum.
 *
 *      p = 5           remaining  sent                     received
 *      distance 3      0 1 2 3 4  3 4, to rank + 3         0 1, from rank - 3
 *      distance 2      0 1 2      2, to rank + 2           0, from rank - 2
 *      distance 1      0 1        1, to rank + 1           0, from rank - 1
 *
 * For all-reduce, the results then travel back: the same messages reversed, the last first.
 *
 *      distance 1      0          0, to rank - 1           1, from rank + 1
 *      distance 2      0 1        0, to rank - 2           2, from rank + 2
 *      distance 3      0 1 2      0 1, to rank - 3         3 4, from rank + 3
 *
 * Sums are kept in scratch at the rank's own numbers, so they never wrap around; the blocks of IN
 * do. An all-reduce keeps them at their final position in OUT. With an odd number of blocks,
 * nothing is added to the middle block in the first round. It is sent in the second round, and is
 * copied next to the other blocks of that message. Each result is summed by one rank, in one order
 * on every run.
 *
 * Cost: ceil(log2 p) messages in a row, and as many per rank (several messages for more than
 * RCMI_SPAN_MAX blocks). Each rank sends p - 1 blocks, the minimum; twice that for all-reduce. Good
 * for small blocks, and for vectors of middle size, on many ranks, even if p is no power of two.
 */
#include "algorithm.h"

static uint32_t upper_half(uint32_t p) {
    return p - p / 2;
}

/* This rank's block i as a position of IN, and as a chunk. */
static uint32_t block_of(uint32_t p, uint32_t rank, uint32_t i) {
    return (rank + i) % p;
}

/* Is there a middle block that is sent together with others? */
static bool copies_middle(uint32_t p) {
    return p % 2 == 1 && p > 5;
}

struct circulant {
    struct rcmi_builder *b;
    uint32_t p, rank;
    bool all; /* all-reduce */
};

/* Where the sum of block i is kept. */
static struct rcmi_operand kept(const struct circulant *c, uint32_t i) {
    return c->all ? rcmi_out(block_of(c->p, c->rank, i)) : rcmi_scratch(i);
}

/* Where block i is now: in IN before anything was added to it. */
static struct rcmi_operand sum_of(const struct circulant *c, uint32_t i, bool first) {
    const bool middle = c->p % 2 == 1 && i == c->p / 2 && !copies_middle(c->p);
    return first || middle ? rcmi_in(block_of(c->p, c->rank, i)) : kept(c, i);
}

static struct rcmi_operand from_before(const struct circulant *c, uint32_t distance) {
    return rcmi_from(c->b, 0, (int)((c->rank + c->p - distance) % c->p), 0);
}

static struct rcmi_operand from_after(const struct circulant *c, uint32_t distance) {
    return rcmi_from(c->b, 0, (int)((c->rank + distance) % c->p), 0);
}

/* Sends n of the upper-half blocks, from number distance + at on, and adds as many received blocks
 * from number `at` on. */
static void send_and_add(const struct circulant *c, uint32_t distance, uint32_t at, uint32_t n,
                         bool first) {
    const uint32_t up = distance + at, got = block_of(c->p, c->rank, at);
    const int to = (int)((c->rank + distance) % c->p);
    const struct rcmi_operand srcs[] = {from_before(c, distance), sum_of(c, at, first)};
    const bool result = distance == 1 && !c->all;
    rcmi_send(c->b, 0, block_of(c->p, c->rank, up), sum_of(c, up, first), rcmi_to(c->b, 0, to, 0));
    rcmi_span_of(c->b, 0, n);
    rcmi_reduce(c->b, 0, got, srcs, 2, result ? rcmi_out(0) : kept(c, at), RCMI_NO_CHANNEL);
    rcmi_span_of(c->b, 0, n);
}

static void reduce_scatter_steps(const struct circulant *c) {
    const uint32_t middle = c->p / 2, chunk = block_of(c->p, c->rank, middle);
    for (uint32_t left = c->p; left > 1; left = upper_half(left)) {
        const uint32_t distance = upper_half(left), n = left - distance;
        for (uint32_t at = 0; at < n; at += RCMI_SPAN_MAX)
            send_and_add(c, distance, at, rcmi_span_length(n, at), left == c->p);
        if (left == c->p && copies_middle(c->p))
            rcmi_copy_chunk(c->b, 0, chunk, rcmi_in(chunk), kept(c, middle));
    }
}

/* The reversed round in which `left` blocks remained, after the reversed rounds that followed
 * it. */
static void all_gather_steps(const struct circulant *c, uint32_t left) {
    const uint32_t distance = upper_half(left), n = left - distance;
    const int to = (int)((c->rank + c->p - distance) % c->p);
    if (left <= 1)
        return;
    all_gather_steps(c, distance);
    for (uint32_t at = 0; at < n; at += RCMI_SPAN_MAX) {
        const uint32_t sent = block_of(c->p, c->rank, at);
        const uint32_t got = block_of(c->p, c->rank, distance + at);
        rcmi_send(c->b, 0, sent, rcmi_out(sent), rcmi_to(c->b, 0, to, 0));
        rcmi_span_of(c->b, 0, rcmi_span_length(n, at));
        rcmi_recv(c->b, 0, got, from_after(c, distance), rcmi_out(got));
        rcmi_span_of(c->b, 0, rcmi_span_length(n, at));
    }
}

static rcm_status circulant_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                 int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct circulant c = {.p = p, .rank = (uint32_t)rank, .all = row->collective == RCM_ALL_REDUCE};
    rcm_status status =
        rcmi_plan_begin(row->name, row->collective, shape, rank, root, c.all ? p : 1, 1, &c.b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_spans(c.b, rcmi_span_length(p > 2 ? p / 2 : 1, 0));
    if (p == 1)
        rcmi_copy_chunk(c.b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        reduce_scatter_steps(&c);
    if (c.all)
        all_gather_steps(&c, p);
    return rcmi_plan_finish(c.b, ret_plan);
}

static uint32_t circulant_messages(uint32_t p) {
    uint32_t messages = 0;
    for (uint32_t left = p; left > 1; left = upper_half(left))
        messages += rcmi_spans(left / 2);
    return messages;
}

/* Passes over the messages of a reduce-scatter: one, or two for all-reduce. */
static uint32_t halves_of(const struct rcmi_algorithm *row) {
    return row->collective == RCM_ALL_REDUCE ? 2 : 1;
}

static struct rcmi_formula circulant_formula(const struct rcmi_algorithm *row,
                                             const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks, halves = halves_of(row);
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = halves * circulant_messages(p),
                                 .chunks_sent = halves * (p - 1)};
}

static void circulant_count(struct rcmi_tally *t) {
    const uint32_t p = (uint32_t)t->shape->nranks;
    for (uint32_t left = p; left > 1; left = upper_half(left)) {
        const uint32_t n = left / 2, distance = left - n;
        for (uint32_t r = 0; r < p; r++) {
            const int ahead = (int)((r + distance) % p);
            rcmi_tally_spans(t, (int)r, ahead, n, 1.0 / p);
            if (halves_of(t->row) > 1)
                rcmi_tally_spans(t, ahead, (int)r, n, 1.0 / p);
        }
        rcmi_tally_local_all(t, 0, (double)n / p);
    }
    rcmi_tally_local_all(t, copies_middle(p) ? 1.0 / p : 0, 0);
}

const struct rcmi_algorithm rcmi_circulant = {
    .name = "circulant",
    .description = "halves the blocks left to sum in every round; for small blocks and many ranks, "
                   "any hosts",
    .collective = RCM_REDUCE_SCATTER,
    .supports = rcmi_supports_all,
    .spans = true,
    .emit = circulant_emit,
    .formula = circulant_formula,
    .count = circulant_count,
};

const struct rcmi_algorithm rcmi_circulant_all_reduce = {
    .name = "circulant",
    .description = "halves the chunks left to sum in every round, then passes results back; for "
                   "vectors of middle size and many ranks, any hosts",
    .collective = RCM_ALL_REDUCE,
    .supports = rcmi_supports_all,
    .spans = true,
    .emit = circulant_emit,
    .formula = circulant_formula,
    .count = circulant_count,
};
