/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce on a ring (Patarasuk and Yuan 2009). Start reading algorithms here.
 *
 * The vector is cut into p chunks. Every rank exchanges messages with its two neighbours only.
 * First each chunk travels once around the ring: chunk c starts at ring index c, and every rank on
 * its path adds its own part. After p-1 messages the rank before the start has the whole sum of
 * that chunk. Then the sums travel around once more, and every rank keeps a copy. All p chunks
 * travel concurrently, so every link is busy all the time.
 *
 *      p = 3, chunks a b c; 012 = sum of the parts of ranks 0, 1 and 2
 *
 *      rank 0   a0  b0  c0        a0  b0  c20       a0  b120 c20       a012 b120 c201
 *      rank 1   a1  b1  c1   -->  a01 b1  c1   -->  a01 b1   c201 -->  a012 b120 c201
 *      rank 2   a2  b2  c2        a2  b12 c2        a012 b12 c2        a012 b120 c201
 *
 * Each chunk is summed along one path, hence in one order, and every rank gets the same bits. A
 * step that receives, computes and sends keeps its input slot until an output slot is free. With
 * one slot per channel, all ranks would hold one slot and wait for another: a channel needs two.
 *
 * Cost: 2(p-1) messages in a row; each rank sends 2(p-1) chunks, 2(p-1)/p of the vector, the
 * minimum for any algorithm. Good for large vectors; the ring visits the ranks host by host.
 */
#include "algorithm.h"

/* The chunk in a rank's message number `back`; message 0 has its own chunk. */
static uint32_t ring_chunk(uint32_t index, uint32_t back, uint32_t p) {
    return (index + p - back) % p;
}

/* Ends with the sum of the chunk after this rank's own, in OUT and sent to the next rank. */
static void ring_reduce_scatter(struct rcmi_builder *b, uint32_t p, uint32_t index,
                                struct rcmi_operand from, uint32_t to) {
    rcmi_send(b, 0, index, rcmi_in(index), to);
    for (uint32_t i = 1; i < p; i++) {
        const uint32_t chunk = ring_chunk(index, i, p);
        const struct rcmi_operand srcs[] = {from, rcmi_in(chunk)};
        const bool last = i == p - 1;
        rcmi_reduce(b, 0, chunk, srcs, 2, last ? rcmi_out(chunk) : rcmi_nowhere(), to);
    }
}

static void ring_all_gather(struct rcmi_builder *b, uint32_t p, uint32_t index,
                            struct rcmi_operand from, uint32_t to) {
    for (uint32_t i = 0; i + 2 < p; i++) {
        const uint32_t chunk = ring_chunk(index, i, p);
        rcmi_recv_copy_send(b, 0, chunk, from, rcmi_out(chunk), to);
    }
    const uint32_t last = ring_chunk(index, p - 2, p);
    rcmi_recv(b, 0, last, from, rcmi_out(last));
}

static rcm_status ring_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                            int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct rcmi_builder *b;
    /* p chunks; channels of at least 2 slots */
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, p, 2, &b);
    if (status != RCM_OK)
        return status;
    if (p == 1) {
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    } else {
        const struct rcmi_ring_position ring = rcmi_ring_position_of(shape, rank);
        /* Phase 0 of the plan, and the first channel of each pair. */
        const struct rcmi_operand from = rcmi_from(b, 0, ring.prev, 0);
        const uint32_t to = rcmi_to(b, 0, ring.next, 0);
        ring_reduce_scatter(b, p, ring.index, from, to);
        ring_all_gather(b, p, ring.index, from, to);
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula ring_formula(const struct rcmi_algorithm *row,
                                        const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    (void)row;
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = 2 * (p - 1), .chunks_sent = 2 * (p - 1)};
}

static void ring_count(struct rcmi_tally *t) {
    const double p = t->shape->nranks;
    rcmi_tally_ring(t, 2 * (p - 1), 2 * (p - 1) / p);
    rcmi_tally_local_all(t, 0, (p - 1) / p);
}

const struct rcmi_algorithm rcmi_ring = {
    .name = "ring",
    .description = "sums chunks around a ring, then passes the sums around; for large vectors, "
                   "any ranks and hosts",
    .collective = RCM_ALL_REDUCE,
    .supports = rcmi_supports_all,
    .emit = ring_emit,
    .formula = ring_formula,
    .count = ring_count,
};
