/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the algorithm files share: neighbours on a ring, the reduction over all ranks of a host,
 * and how work is counted (cost.h). Only algorithm files and table.c include it.
 */
#ifndef RCMI_ALGORITHM_COMMON_H
#define RCMI_ALGORITHM_COMMON_H

#include "cost.h"
#include "plan.h"

bool rcmi_supports_all(const struct rcmi_shape *shape);
bool rcmi_supports_one_host(const struct rcmi_shape *shape);

/* Floor and ceiling of log2 for x >= 1. */
uint32_t rcmi_log2_floor(uint32_t x);
uint32_t rcmi_log2_ceil(uint32_t x);

/* Rings and chains visit the ranks host by host, so that each host is entered and left once even
 * where ranks are dealt out to hosts like cards. place 0 belongs to the lowest rank of host 0. */
struct rcmi_ring_place {
    uint32_t place; /* of this rank, 0..nranks-1 */
    int prev, next; /* ranks */
};
struct rcmi_ring_place rcmi_ring_place_of(const struct rcmi_shape *shape, int rank);
/* The rank at each place. Caller frees. */
rcm_status rcmi_ring_order(const struct rcmi_shape *shape, int **ret_rank_at);

/* The binomial tree over 0..p-1, rooted at 0 (the picture is in binomial.c): the parent of v is v
 * without its lowest set bit; its children are v + bit for the bits below that one, as far as they
 * are below p. With each v goes the run of numbers from v to v + its lowest bit. The first of these
 * is the bit of the child with the largest run, whether that child exists or not; 0: none. */
uint32_t rcmi_binomial_first_bit(uint32_t v, uint32_t p);
static inline uint32_t rcmi_binomial_parent(uint32_t v) {
    return v & (v - 1);
}
/* How many of them exist. */
uint32_t rcmi_binomial_children(uint32_t v, uint32_t p);
/* A message with `vectors` along each of its edges, up, down or both, the tree being rooted at
 * t->root. */
void rcmi_tally_binomial(struct rcmi_tally *t, bool up, bool down, double vectors);

/* Folding of p ranks to a core of 2^floor(log2 p): the first 2 * pairs ranks fold in pairs, of
 * which the odd one goes on for both. Of a rank that goes on, and of its number in the core: */
struct rcmi_folding {
    uint32_t core, pairs;
};
struct rcmi_folding rcmi_fold(uint32_t p);
static inline uint32_t rcmi_fold_core_of(struct rcmi_folding f, uint32_t rank) {
    return rank < 2 * f.pairs ? rank / 2 : rank - f.pairs;
}
static inline uint32_t rcmi_fold_rank_of(struct rcmi_folding f, uint32_t core) {
    return core < f.pairs ? 2 * core + 1 : core + f.pairs;
}

/* One message in a row: the root sends a chunk to each other rank; or every rank does. */
struct rcmi_formula rcmi_formula_root_sends(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root);
struct rcmi_formula rcmi_formula_all_send(const struct rcmi_algorithm *row,
                                          const struct rcmi_shape *shape, int rank, int root);

/* A reduction with any number of sources, in the order in which they are added: more than
 * RCMI_SOURCES_MAX go in groups through scratch chunk 0, so that IN stays whole until its turn even
 * where OUT is the same memory. Begins as {.b, .lane, .chunk}. */
struct rcmi_summands {
    struct rcmi_builder *b;
    int lane;
    uint32_t chunk;
    int n;
    struct rcmi_operand srcs[RCMI_SOURCES_MAX];
};
void rcmi_summands_add(struct rcmi_summands *summands, struct rcmi_operand src);
/* The step itself, as rcmi_reduce; one source alone is sent. */
void rcmi_summands_reduce(const struct rcmi_summands *summands, struct rcmi_operand dst,
                          uint32_t out);

/* Reduces, of ranks 0..n-1, own IN[chunk] and what every other one sent on channel 0 (its
 * multicast, or its pair channel), strictly in rank order, to dst and out. */
void rcmi_reduce_in_rank_order(struct rcmi_builder *b, int lane, uint32_t chunk, int n, int rank,
                               bool multicast, struct rcmi_operand dst, uint32_t out);

#endif
