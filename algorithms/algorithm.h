/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for the algorithm files: ring neighbours, binomial trees, folding, reductions over all
 * ranks of a host. Included only by algorithm files and table.c.
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

/* Rings and chains visit the ranks host by host, so that each host is entered and left once even if
 * ranks are assigned to hosts round-robin. Index 0 is the lowest rank of host 0. */
struct rcmi_ring_position {
    uint32_t index; /* of this rank in ring order, 0..nranks-1 */
    int prev, next; /* ranks */
};
struct rcmi_ring_position rcmi_ring_position_of(const struct rcmi_shape *shape, int rank);
/* The rank at each ring index. The caller frees it. */
rcm_status rcmi_ring_order(const struct rcmi_shape *shape, int **ret_rank_at);

/* The binomial tree over 0..p-1, rooted at 0 (picture in binomial.c). The parent of v is v without
 * its lowest set bit. Its children are v + bit for each bit below the lowest set bit, if the sum is
 * below p. The subtree of v is the run from v to v + (lowest bit) - 1.
 *
 * rcmi_binomial_first_bit returns the bit of the child with the largest run, even if that child
 * does not exist; 0 if v is a leaf. */
uint32_t rcmi_binomial_first_bit(uint32_t v, uint32_t p);
static inline uint32_t rcmi_binomial_parent(uint32_t v) {
    return v & (v - 1);
}
/* The number of existing children. */
uint32_t rcmi_binomial_children(uint32_t v, uint32_t p);
/* Counts a message of `vectors` vectors along each edge of the tree rooted at t->root: upwards,
 * downwards or both. */
void rcmi_tally_binomial(struct rcmi_tally *t, bool up, bool down, double vectors);

/* Folding of p ranks to a core of 2^floor(log2 p): the first 2 * pairs ranks fold in pairs, and the
 * odd rank of each pair continues for both. rcmi_fold_core_of maps a continuing rank to its number
 * in the core, rcmi_fold_rank_of maps back. */
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

/* The formula of one round: the root sends a chunk to each other rank, or every rank does. */
struct rcmi_formula rcmi_formula_root_sends(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root);
struct rcmi_formula rcmi_formula_all_send(const struct rcmi_algorithm *row,
                                          const struct rcmi_shape *shape, int rank, int root);

/* A reduction with any number of sources, added in order. More than RCMI_SOURCES_MAX sources are
 * reduced in groups through scratch chunk 0. IN therefore stays unmodified until its turn, even if
 * OUT is the same memory. Initialise as {.b, .lane, .chunk}. */
struct rcmi_summands {
    struct rcmi_builder *b;
    int lane;
    uint32_t chunk;
    int n;
    struct rcmi_operand srcs[RCMI_SOURCES_MAX];
};
void rcmi_summands_add(struct rcmi_summands *summands, struct rcmi_operand src);
/* Emits the step, like rcmi_reduce. A single source that is IN, with no dst, is sent. */
void rcmi_summands_reduce(const struct rcmi_summands *summands, struct rcmi_operand dst,
                          uint32_t out);

/* Reduces over ranks 0..n-1, strictly in rank order, to dst and out. The sources are this rank's
 * IN[chunk] and what each other rank sent on channel 0 (its multicast or its pair channel). */
void rcmi_reduce_in_rank_order(struct rcmi_builder *b, int lane, uint32_t chunk, int n, int rank,
                               bool multicast, struct rcmi_operand dst, uint32_t out);

#endif
