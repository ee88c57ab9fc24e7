/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meaning of each collective: one entry of a table for each, read by the public calls, the call
 * log, the builder, the executor, the verifier and the tools. The algorithm files define how a
 * collective is done.
 *
 * A collective moves blocks, numbered over all ranks. A rank's buffers IN and OUT hold some of
 * them:
 *
 *                    blocks   IN holds              OUT holds
 *   all_reduce       1        it                    it
 *   broadcast        1        it, at the root       it
 *   reduce           1        it                    it, at the root
 *   scatter          p        all, at the root      the rank's own
 *   gather           p        the rank's own        all, at the root
 *   all_gather       p        the rank's own        all
 *   reduce_scatter   p        all                   the rank's own
 *   all_to_all       p * p    a*p .. a*p + p-1      b, p + b, 2p + b, ...   (from a to b: a*p + b)
 *   scan             1        it                    it
 *   exscan           1        it                    it, but at rank 0
 *   barrier          1        nothing               nothing
 *
 * Blocks have one length and are contiguous. In the forms with _v each block has its own length and
 * address (struct rcmi_block, exec.h). Most of these use the plans of the collective that they are
 * `like`.
 *
 * A result of a reduction contains the contributions of all ranks; for scan and exscan those of the
 * ranks up to or before its own, each once and in rank order. A rank whose result has no
 * contributions has no OUT.
 *
 * In place, OUT begins where IN does. If one buffer holds one block of many, it is that block of
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

/* Which ranks have the length of a block. */
enum rcmi_counts {
    RCMI_COUNTS_SAME, /* all ranks: all blocks have one length */
    RCMI_COUNTS_ALL,  /* all ranks have the length of each block */
    RCMI_COUNTS_PAIR  /* only the ranks that have the block in IN or OUT */
};

enum rcmi_blocks_total { RCMI_TOTAL_ONE, RCMI_TOTAL_RANKS, RCMI_TOTAL_PAIRS };

struct rcmi_collective {
    enum rcm_collective id;
    const char *name;
    const char *guarantee; /* what the verifier proves of results, as text */
    enum rcmi_blocks_total total;
    enum rcmi_blocks_kind in, out;
    bool in_at_root, out_at_root; /* only the root has that buffer */
    bool reduces;
    enum rcm_contributors contributors; /* to a result, if it reduces */
    enum rcmi_counts counts;
    enum rcm_collective like;     /* the collective whose algorithms do it: itself or another one */
    bool apart;                   /* never in place */
    bool drains;                  /* starts on each rank after its earlier works are complete */
    double bus_one, bus_per_rank; /* see struct rcm_collective_info */
};

#define RCMI_COLLECTIVES 17 /* above all numbers of enum rcm_collective */

/* NULL for an unknown number. Static memory. */
const struct rcmi_collective *rcmi_collective_at(int id);
/* Entry i of the table; NULL past the last. */
const struct rcmi_collective *rcmi_collective_row(size_t i);
/* NULL for an unknown name. */
const struct rcmi_collective *rcmi_collective_by_name(const char *name);
/* "?" for an unknown number. */
const char *rcmi_collective_name(enum rcm_collective id);
/* May a reduction use this operator? RCM_ERR_INVALID with an error text. */
rcm_status rcmi_collective_check_op(const struct rcmi_collective *collective, rcm_op op,
                                    rcm_dtype dtype);
bool rcmi_collective_is_rooted(const struct rcmi_collective *collective);

/* The blocks of one buffer of one rank: local block i is block first + i * stride. */
struct rcmi_blocks {
    uint32_t n, first, stride;
    uint32_t at; /* in place: block of the other buffer where it begins; else 0 */
};
/* The local number of a block; blocks->n if the buffer does not have it. */
uint32_t rcmi_blocks_find(const struct rcmi_blocks *blocks, uint32_t block);
/* The number of blocks of the collective. */
uint64_t rcmi_collective_total(const struct rcmi_collective *collective, int nranks);
struct rcmi_blocks rcmi_collective_in(const struct rcmi_collective *collective, int nranks,
                                      int rank, int root);
struct rcmi_blocks rcmi_collective_out(const struct rcmi_collective *collective, int nranks,
                                       int rank, int root);
/* The number n of ranks 0..n-1 that contribute to a rank's result of a reduction. */
uint32_t rcmi_collective_contributors(const struct rcmi_collective *collective, int nranks,
                                      int rank);
/* Blocks of the largest buffer of any rank, equal on all ranks: the unit behind `bytes` of a
 * collective. At least 1. */
uint32_t rcmi_collective_larger(const struct rcmi_collective *collective, int nranks);
/* The rank that owns the data of a block, for a collective that does not reduce. */
int rcmi_collective_source(const struct rcmi_collective *collective, int nranks, int root,
                           uint32_t block);

#endif
