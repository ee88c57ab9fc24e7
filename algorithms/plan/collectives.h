/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each collective means: one row of a table for each, read by the front doors, the call log's
 * texts, the builder, the executor, the verifier and the tools. How a collective is done is not
 * here: that is the algorithm files'.
 *
 * A collective moves blocks, numbered over all ranks. A rank's buffers IN and OUT hold some of
 * them:
 *
 *                    blocks   IN holds              OUT holds
 *   all_reduce       1        it                    it
 *   broadcast        1        it, at the root       it
 *   reduce           1        it                    it, at the root
 *   scatter          p        all, at the root      that of the rank's number
 *   gather           p        that of its number    all, at the root
 *   all_gather       p        that of its number    all
 *   reduce_scatter   p        all                   that of its number
 *   all_to_all       p * p    a*p .. a*p + p-1      b, p + b, 2p + b, ...   (from a to b: a*p + b)
 *   scan             1        it                    it
 *   exscan           1        it                    it, but at rank 0
 *   barrier          1        nothing               nothing
 *
 * Blocks are of one length, and lie one after the other, but in the forms with _v, whose blocks
 * have each a length and an address of their own (struct rcmi_block, exec.h). Most of these are
 * done by the plans of the collective that they are `like`.
 *
 * A result of a reduction holds the contributions of all ranks, or of those up to or before the one
 * that has it (scan, exscan): each once, and then in rank order. A rank of whose result there are
 * no contributions has no OUT.
 *
 * In place, OUT begins where IN does; of buffers that hold one block of many, it is that block of
 * the other buffer.
 */
#ifndef RCMI_COLLECTIVES_H
#define RCMI_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>
#include "ringcomm.h"

enum rcmi_blocks_kind {
    RCMI_BLOCKS_NONE,
    RCMI_BLOCKS_ALL,  /* all of the collective */
    RCMI_BLOCKS_OWN,  /* block `rank` */
    RCMI_BLOCKS_FROM, /* nranks blocks: from this rank to each */
    RCMI_BLOCKS_TO    /* nranks blocks: from each to this rank */
};

/* Which ranks know how long a block is. */
enum rcmi_counts {
    RCMI_COUNTS_SAME, /* all blocks are of one length, which all ranks know */
    RCMI_COUNTS_ALL,  /* all ranks know the length of each */
    RCMI_COUNTS_PAIR  /* only a rank that has it in IN or in OUT does */
};

enum rcmi_blocks_total { RCMI_TOTAL_ONE, RCMI_TOTAL_RANKS, RCMI_TOTAL_PAIRS };

struct rcmi_collective {
    enum rcm_collective id;
    const char *name;
    const char *promise; /* what the verifier proves of results, for people */
    enum rcmi_blocks_total total;
    enum rcmi_blocks_kind in, out;
    bool in_at_root, out_at_root; /* only the root has that buffer */
    bool reduces;
    enum rcm_contributors contributors; /* to a result, where it reduces */
    enum rcmi_counts counts;
    enum rcm_collective like; /* the collective whose algorithms do it: itself or another one */
    bool apart;               /* never in place */
    bool drains;              /* on each rank, starts when all that it issued before are complete */
    double bus_one, bus_per_rank; /* see struct rcm_collective_info */
};

#define RCMI_COLLECTIVES 17 /* above all numbers of enum rcm_collective */

/* NULL for a number that is none. Static memory. */
const struct rcmi_collective *rcmi_collective_at(int id);
/* The i-th row; NULL past the last. */
const struct rcmi_collective *rcmi_collective_row(size_t i);
/* NULL if there is none of that name. */
const struct rcmi_collective *rcmi_collective_by_name(const char *name);
/* "?" for a number that is none. */
const char *rcmi_collective_name(enum rcm_collective id);
/* May a reduction be called with it? RCM_ERR_INVALID with a sentence. */
rcm_status rcmi_collective_check_op(const struct rcmi_collective *collective, rcm_op op,
                                    rcm_dtype dtype);
bool rcmi_collective_is_rooted(const struct rcmi_collective *collective);

/* Blocks of one buffer of one rank: local block i is block first + i * stride. */
struct rcmi_blocks {
    uint32_t n, first, stride;
    uint32_t at; /* in place: it begins at this block of the other buffer, or both at 0 */
};
/* Local number of a block; blocks->n if it is not among them. */
uint32_t rcmi_blocks_find(const struct rcmi_blocks *blocks, uint32_t block);
/* Blocks in all. */
uint64_t rcmi_collective_total(const struct rcmi_collective *collective, int nranks);
struct rcmi_blocks rcmi_collective_in(const struct rcmi_collective *collective, int nranks,
                                      int rank, int root);
struct rcmi_blocks rcmi_collective_out(const struct rcmi_collective *collective, int nranks,
                                       int rank, int root);
/* Ranks 0..n-1 contribute to what a rank gets of a reduction: n. */
uint32_t rcmi_collective_contributors(const struct rcmi_collective *collective, int nranks,
                                      int rank);
/* Blocks of the larger buffer of any rank: what `bytes` of a collective means, on all ranks alike.
 * At least 1. */
uint32_t rcmi_collective_larger(const struct rcmi_collective *collective, int nranks);
/* The rank whose data a block is, of a collective that does not reduce. */
int rcmi_collective_source(const struct rcmi_collective *collective, int nranks, int root,
                           uint32_t block);

#endif
