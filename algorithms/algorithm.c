/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the algorithm files; see algorithm.h. */
#include "algorithm.h"
#include <stdlib.h>
#include "error.h"

bool rcmi_supports_all(const struct rcmi_shape *shape) {
    return shape->nranks >= 1;
}

bool rcmi_supports_one_host(const struct rcmi_shape *shape) {
    return shape->nhosts == 1;
}

uint32_t rcmi_log2_floor(uint32_t x) {
    uint32_t log = 0;
    while (x >>= 1)
        log++;
    return log;
}

uint32_t rcmi_log2_ceil(uint32_t x) {
    return x <= 1 ? 0 : rcmi_log2_floor(x - 1) + 1;
}

uint32_t rcmi_binomial_first_bit(uint32_t v, uint32_t p) {
    const uint32_t lowest = v == 0 ? UINT32_C(1) << rcmi_log2_ceil(p) : v & (0 - v);
    return lowest >> 1;
}

uint32_t rcmi_binomial_children(uint32_t v, uint32_t p) {
    uint32_t children = 0;
    for (uint32_t bit = rcmi_binomial_first_bit(v, p); bit != 0; bit >>= 1)
        children += v + bit < p;
    return children;
}

static int tree_rank(const struct rcmi_tally *t, uint32_t v) {
    return (int)((v + (uint32_t)t->root) % (uint32_t)t->shape->nranks);
}

/* The number of edges between hosts on the path from v to the root. */
static uint32_t tree_crossings(const struct rcmi_tally *t, uint32_t v) {
    const int *host_of = t->shape->host_of;
    uint32_t crossings = 0;
    for (; v != 0; v = rcmi_binomial_parent(v))
        crossings += host_of[tree_rank(t, v)] != host_of[tree_rank(t, rcmi_binomial_parent(v))];
    return crossings;
}

void rcmi_tally_binomial(struct rcmi_tally *t, bool up, bool down, double vectors) {
    const uint32_t p = (uint32_t)t->shape->nranks, directions = (uint32_t)up + down;
    uint32_t between = 0;
    for (uint32_t v = 1; v < p; v++) {
        const int rank = tree_rank(t, v), parent = tree_rank(t, rcmi_binomial_parent(v));
        const uint32_t crossings = tree_crossings(t, v);
        between = crossings > between ? crossings : between;
        rcmi_tally_send(t, rank, parent, up, up * vectors);
        rcmi_tally_send(t, parent, rank, down, down * vectors);
    }
    rcmi_tally_between(t, directions * between);
    rcmi_tally_chain(t, directions * rcmi_log2_floor(p) * vectors);
}

/* The first rank after `rank` (before it, if step is -1) on its own host, else on the nearest host
 * in that direction. */
static int ring_neighbour(const struct rcmi_shape *shape, int rank, int step) {
    const int p = shape->nranks;
    int host = shape->host_of[rank];
    int from = rank + step;
    for (int hosts = 0; hosts <= shape->nhosts; hosts++) {
        for (int r = from; r >= 0 && r < p; r += step)
            if (shape->host_of[r] == host)
                return r;
        host = (host + step + shape->nhosts) % shape->nhosts;
        from = step > 0 ? 0 : p - 1;
    }
    return rank;
}

struct rcmi_ring_position rcmi_ring_position_of(const struct rcmi_shape *shape, int rank) {
    const int host = shape->host_of[rank];
    uint32_t index = 0;
    for (int r = 0; r < shape->nranks; r++)
        index += shape->host_of[r] < host || (shape->host_of[r] == host && r < rank);
    return (struct rcmi_ring_position){
        .index = index,
        .prev = ring_neighbour(shape, rank, -1),
        .next = ring_neighbour(shape, rank, +1),
    };
}

rcm_status rcmi_ring_order(const struct rcmi_shape *shape, int **ret_rank_at) {
    int *rank_at = calloc((size_t)shape->nranks, sizeof(*rank_at));
    int *next =
        calloc((size_t)shape->nhosts + 1, sizeof(*next)); /* ring index of each host's next rank */
    if (!rank_at || !next) {
        free(rank_at);
        free(next);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a ring of %d ranks", shape->nranks);
    }
    for (int r = 0; r < shape->nranks; r++)
        next[shape->host_of[r] + 1]++;
    for (int host = 0; host < shape->nhosts; host++)
        next[host + 1] += next[host];
    for (int r = 0; r < shape->nranks; r++)
        rank_at[next[shape->host_of[r]]++] = r;
    free(next);
    *ret_rank_at = rank_at;
    return RCM_OK;
}

void rcmi_summands_add(struct rcmi_summands *s, struct rcmi_operand src) {
    if (s->n == RCMI_SOURCES_MAX) {
        rcmi_reduce(s->b, s->lane, s->chunk, s->srcs, s->n, rcmi_scratch(0), RCMI_NO_CHANNEL);
        s->srcs[0] = rcmi_scratch(0);
        s->n = 1;
    }
    s->srcs[s->n++] = src;
}

void rcmi_summands_reduce(const struct rcmi_summands *s, struct rcmi_operand dst, uint32_t out) {
    if (s->n == 1 && s->srcs[0].where == RCMI_IN && dst.where == RCMI_NOWHERE)
        rcmi_send(s->b, s->lane, s->chunk, s->srcs[0], out);
    else
        rcmi_reduce(s->b, s->lane, s->chunk, s->srcs, s->n, dst, out);
}

void rcmi_reduce_in_rank_order(struct rcmi_builder *b, int lane, uint32_t chunk, int nranks,
                               int rank, bool multicast, struct rcmi_operand dst, uint32_t out) {
    struct rcmi_summands summands = {.b = b, .lane = lane, .chunk = chunk};
    for (int r = 0; r < nranks; r++)
        rcmi_summands_add(&summands, r == rank   ? rcmi_in(chunk)
                                     : multicast ? rcmi_from_host(b, lane, r, 0)
                                                 : rcmi_from(b, lane, r, 0));
    rcmi_summands_reduce(&summands, dst, out);
}

struct rcmi_folding rcmi_fold(uint32_t p) {
    const uint32_t core = UINT32_C(1) << rcmi_log2_floor(p);
    return (struct rcmi_folding){.core = core, .pairs = p - core};
}

struct rcmi_formula rcmi_formula_root_sends(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t others = (uint32_t)shape->nranks - 1;
    (void)row;
    return (struct rcmi_formula){.rounds = others > 0, .chunks_sent = rank == root ? others : 0};
}

struct rcmi_formula rcmi_formula_all_send(const struct rcmi_algorithm *row,
                                          const struct rcmi_shape *shape, int rank, int root) {
    (void)root;
    return rcmi_formula_root_sends(row, shape, rank, rank);
}
