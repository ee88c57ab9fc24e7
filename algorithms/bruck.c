/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather by Bruck, Ho, Kipnis, Upfal and Weathersby (1997), arranged so that no final rotation
 * is needed. In round i each rank sends all that it has, the blocks of 2^i ranks from its own on,
 * to the rank 2^i before it. It receives the blocks of the 2^i ranks that follow; in the last round
 * only the missing ones.
 *
 *      p = 5        rank 0    rank 1    rank 2    rank 3    rank 4
 *                   0         1         2         3         4
 *      distance 1   01        12        23        34        40
 *      distance 2   0123      1234      2340      3401      4012
 *      distance 4   01234     12340     23401     34012     40123
 *
 * Every block is received at its final position in OUT. The blocks of a message are neighbours
 * there, or wrap around the end of OUT. They form a span, which is one message (plan.h), or several
 * for more than RCMI_SPAN_MAX blocks.
 *
 * Cost: ceil(log2 p) messages in a row, and as many per rank; each rank sends p - 1 blocks. Good
 * for small blocks on many ranks.
 */
#include "algorithm.h"

/* The number of blocks in a message of the round with this distance. */
static uint32_t round_blocks(uint32_t p, uint32_t distance) {
    return distance < p - distance ? distance : p - distance;
}

static void send_and_receive(struct rcmi_builder *b, uint32_t p, uint32_t rank, uint32_t distance,
                             uint32_t at, uint32_t n) {
    const uint32_t sent = (rank + at) % p, got = (rank + distance + at) % p;
    const uint32_t to = (rank + p - distance) % p, from = (rank + distance) % p;
    rcmi_send(b, 0, sent, distance == 1 ? rcmi_in(0) : rcmi_out(sent), rcmi_to(b, 0, (int)to, 0));
    rcmi_span_of(b, 0, n);
    rcmi_recv(b, 0, got, rcmi_from(b, 0, (int)from, 0), rcmi_out(got));
    rcmi_span_of(b, 0, n);
}

static rcm_status bruck_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                             int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks, r = (uint32_t)rank;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_spans(b, rcmi_span_length(p > 2 ? p / 2 : 1, 0));
    rcmi_copy_chunk(b, 0, r, rcmi_in(0), rcmi_out(r));
    for (uint32_t distance = 1; distance < p; distance *= 2) {
        const uint32_t n = round_blocks(p, distance);
        for (uint32_t at = 0; at < n; at += RCMI_SPAN_MAX)
            send_and_receive(b, p, r, distance, at, rcmi_span_length(n, at));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static uint32_t bruck_messages(uint32_t p) {
    uint32_t messages = 0;
    for (uint32_t distance = 1; distance < p; distance *= 2)
        messages += rcmi_spans(round_blocks(p, distance));
    return messages;
}

static struct rcmi_formula bruck_formula(const struct rcmi_algorithm *row,
                                         const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = bruck_messages(p), .chunks_sent = p - 1};
}

static void bruck_count(struct rcmi_tally *t) {
    const uint32_t p = (uint32_t)t->shape->nranks;
    for (uint32_t distance = 1; distance < p; distance *= 2) {
        const uint32_t n = round_blocks(p, distance);
        for (uint32_t r = 0; r < p; r++)
            rcmi_tally_spans(t, (int)r, (int)((r + p - distance) % p), n, 1.0 / p);
    }
    rcmi_tally_local_all(t, 1.0 / p, 0);
}

const struct rcmi_algorithm rcmi_bruck = {
    .name = "bruck",
    .description =
        "doubles what each rank has in every round; for small blocks and many ranks, any "
        "hosts",
    .collective = RCM_ALL_GATHER,
    .supports = rcmi_supports_all,
    .emit = bruck_emit,
    .formula = bruck_formula,
    .count = bruck_count,
};
