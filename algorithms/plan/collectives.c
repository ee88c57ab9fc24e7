/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of collectives and what follows from its entries; see collectives.h. */
#include "collectives.h"
#include <string.h>
#include "error.h"

#define SAME_SUMS                                                                                  \
    "every contribution is in every result exactly once, in the same order on all ranks"
#define IN_RANK_ORDER(which)                                                                       \
    "each rank's result holds the contributions of the ranks " which ", each once, in rank order"

/* Common to the forms with equal and with unequal blocks. */
#define SCATTER_ROW                                                                                \
    .guarantee = "every rank ends with its block of the root's data", .total = RCMI_TOTAL_RANKS,   \
    .in = RCMI_BLOCKS_ALL, .in_at_root = true, .out = RCMI_BLOCKS_OWN, .bus_one = 1,               \
    .bus_per_rank = -1
#define GATHER_ROW                                                                                 \
    .guarantee = "the root ends with the blocks of all ranks", .total = RCMI_TOTAL_RANKS,          \
    .in = RCMI_BLOCKS_OWN, .out = RCMI_BLOCKS_ALL, .out_at_root = true, .bus_one = 1,              \
    .bus_per_rank = -1
#define ALL_GATHER_ROW                                                                             \
    .guarantee = "every rank ends with the blocks of all ranks", .total = RCMI_TOTAL_RANKS,        \
    .in = RCMI_BLOCKS_OWN, .out = RCMI_BLOCKS_ALL, .bus_one = 1, .bus_per_rank = -1
#define REDUCE_SCATTER_ROW                                                                         \
    .guarantee = "every contribution is in its result exactly once", .total = RCMI_TOTAL_RANKS,    \
    .in = RCMI_BLOCKS_ALL, .out = RCMI_BLOCKS_OWN, .reduces = true, .bus_one = 1,                  \
    .bus_per_rank = -1
#define ALL_TO_ALL_ROW                                                                             \
    .guarantee = "every rank ends with its block of each rank's data", .total = RCMI_TOTAL_PAIRS,  \
    .in = RCMI_BLOCKS_FROM, .out = RCMI_BLOCKS_TO, .bus_one = 1, .bus_per_rank = -1

static const struct rcmi_collective table[] = {
    {.id = RCM_ALL_REDUCE,
     .like = RCM_ALL_REDUCE,
     .name = "all_reduce",
     .guarantee = SAME_SUMS,
     .in = RCMI_BLOCKS_ALL,
     .out = RCMI_BLOCKS_ALL,
     .reduces = true,
     .bus_one = 2,
     .bus_per_rank = -2},
    {.id = RCM_BROADCAST,
     .like = RCM_BROADCAST,
     .name = "broadcast",
     .guarantee = "every rank ends with the root's data",
     .in = RCMI_BLOCKS_ALL,
     .in_at_root = true,
     .out = RCMI_BLOCKS_ALL,
     .bus_one = 1},
    {.id = RCM_BARRIER,
     .like = RCM_BARRIER,
     .name = "barrier",
     .guarantee = "no rank leaves before all have entered",
     .drains = true},
    {.id = RCM_REDUCE,
     .like = RCM_REDUCE,
     .name = "reduce",
     .guarantee = "every contribution is in the root's result exactly once",
     .in = RCMI_BLOCKS_ALL,
     .out = RCMI_BLOCKS_ALL,
     .out_at_root = true,
     .reduces = true,
     .bus_one = 1},
    {.id = RCM_SCATTER, .like = RCM_SCATTER, .name = "scatter", SCATTER_ROW},
    {.id = RCM_GATHER, .like = RCM_GATHER, .name = "gather", GATHER_ROW},
    {.id = RCM_ALL_GATHER, .like = RCM_ALL_GATHER, .name = "all_gather", ALL_GATHER_ROW},
    {.id = RCM_REDUCE_SCATTER,
     .like = RCM_REDUCE_SCATTER,
     .name = "reduce_scatter",
     REDUCE_SCATTER_ROW},
    {.id = RCM_ALL_TO_ALL, .like = RCM_ALL_TO_ALL, .name = "all_to_all", ALL_TO_ALL_ROW},
    {.id = RCM_SCAN,
     .like = RCM_SCAN,
     .name = "scan",
     .guarantee = IN_RANK_ORDER("up to it"),
     .in = RCMI_BLOCKS_ALL,
     .out = RCMI_BLOCKS_ALL,
     .reduces = true,
     .contributors = RCM_CONTRIBUTORS_UP_TO,
     .bus_one = 1},
    {.id = RCM_EXSCAN,
     .like = RCM_EXSCAN,
     .name = "exscan",
     .guarantee = IN_RANK_ORDER("before it"),
     .in = RCMI_BLOCKS_ALL,
     .out = RCMI_BLOCKS_ALL,
     .reduces = true,
     .contributors = RCM_CONTRIBUTORS_BEFORE,
     .bus_one = 1},
    {.id = RCM_SCATTER_V,
     .like = RCM_SCATTER,
     .name = "scatter_v",
     .counts = RCMI_COUNTS_PAIR,
     SCATTER_ROW},
    {.id = RCM_GATHER_V,
     .like = RCM_GATHER,
     .name = "gather_v",
     .counts = RCMI_COUNTS_PAIR,
     GATHER_ROW},
    {.id = RCM_ALL_GATHER_V,
     .like = RCM_ALL_GATHER,
     .name = "all_gather_v",
     .counts = RCMI_COUNTS_ALL,
     ALL_GATHER_ROW},
    {.id = RCM_REDUCE_SCATTER_V,
     .like = RCM_REDUCE_SCATTER,
     .name = "reduce_scatter_v",
     .counts = RCMI_COUNTS_ALL,
     REDUCE_SCATTER_ROW},
    {.id = RCM_ALL_TO_ALL_V,
     .like = RCM_ALL_TO_ALL_V,
     .name = "all_to_all_v",
     .counts = RCMI_COUNTS_PAIR,
     .apart = true,
     ALL_TO_ALL_ROW},
};
#define ROWS (sizeof(table) / sizeof(table[0]))

const struct rcmi_collective *rcmi_collective_row(size_t i) {
    return i < ROWS ? &table[i] : NULL;
}

const struct rcmi_collective *rcmi_collective_at(int id) {
    for (size_t i = 0; i < ROWS; i++)
        if ((int)table[i].id == id)
            return &table[i];
    return NULL;
}

const struct rcmi_collective *rcmi_collective_by_name(const char *name) {
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *rcmi_collective_name(enum rcm_collective id) {
    const struct rcmi_collective *collective = rcmi_collective_at((int)id);
    return collective ? collective->name : "?";
}

bool rcmi_collective_is_rooted(const struct rcmi_collective *collective) {
    return collective->in_at_root || collective->out_at_root;
}

rcm_status rcmi_collective_check_op(const struct rcmi_collective *collective, rcm_op op,
                                    rcm_dtype dtype) {
    const rcm_status status = rcm_op_defined(op, dtype);
    if (status == RCM_OK && op == RCM_AVG && collective->contributors != RCM_CONTRIBUTORS_ALL)
        return rcmi_fail(
            RCM_ERR_INVALID, 0,
            "avg is not defined for %s, whose results contain the contributions of some "
            "ranks only",
            collective->name);
    return status;
}

uint64_t rcmi_collective_total(const struct rcmi_collective *collective, int nranks) {
    const uint64_t p = (uint32_t)nranks;
    switch (collective->total) {
    case RCMI_TOTAL_RANKS:
        return p;
    case RCMI_TOTAL_PAIRS:
        return p * p;
    default:
        return 1;
    }
}

static struct rcmi_blocks blocks_of(enum rcmi_blocks_kind kind, uint32_t total, uint32_t p,
                                    uint32_t rank) {
    switch (kind) {
    case RCMI_BLOCKS_ALL:
        return (struct rcmi_blocks){.n = total, .stride = 1};
    case RCMI_BLOCKS_OWN:
        return (struct rcmi_blocks){.n = 1, .first = rank, .stride = 1, .at = rank};
    case RCMI_BLOCKS_FROM:
        return (struct rcmi_blocks){.n = p, .first = rank * p, .stride = 1};
    case RCMI_BLOCKS_TO:
        return (struct rcmi_blocks){.n = p, .first = rank, .stride = p};
    case RCMI_BLOCKS_NONE:
        break;
    }
    return (struct rcmi_blocks){.stride = 1};
}

static struct rcmi_blocks blocks_at(const struct rcmi_collective *c, enum rcmi_blocks_kind kind,
                                    bool only_root, int nranks, int rank, int root) {
    if (only_root && rank != root)
        kind = RCMI_BLOCKS_NONE;
    return blocks_of(kind, (uint32_t)rcmi_collective_total(c, nranks), (uint32_t)nranks,
                     (uint32_t)rank);
}

struct rcmi_blocks rcmi_collective_in(const struct rcmi_collective *collective, int nranks,
                                      int rank, int root) {
    return blocks_at(collective, collective->in, collective->in_at_root, nranks, rank, root);
}

struct rcmi_blocks rcmi_collective_out(const struct rcmi_collective *collective, int nranks,
                                       int rank, int root) {
    const bool any = rcmi_collective_contributors(collective, nranks, rank) > 0;
    return blocks_at(collective, any ? collective->out : RCMI_BLOCKS_NONE, collective->out_at_root,
                     nranks, rank, root);
}

uint32_t rcmi_collective_contributors(const struct rcmi_collective *collective, int nranks,
                                      int rank) {
    switch (collective->contributors) {
    case RCM_CONTRIBUTORS_UP_TO:
        return (uint32_t)rank + 1;
    case RCM_CONTRIBUTORS_BEFORE:
        return (uint32_t)rank;
    case RCM_CONTRIBUTORS_ALL:
        break;
    }
    return (uint32_t)nranks;
}

uint32_t rcmi_collective_larger(const struct rcmi_collective *collective, int nranks) {
    const struct rcmi_blocks in = blocks_at(collective, collective->in, false, nranks, 0, 0);
    const struct rcmi_blocks out = blocks_at(collective, collective->out, false, nranks, 0, 0);
    const uint32_t larger = in.n > out.n ? in.n : out.n;
    return larger > 0 ? larger : 1;
}

int rcmi_collective_source(const struct rcmi_collective *collective, int nranks, int root,
                           uint32_t block) {
    if (collective->in_at_root)
        return root;
    return collective->total == RCMI_TOTAL_PAIRS ? (int)(block / (uint32_t)nranks) : (int)block;
}

uint32_t rcmi_blocks_find(const struct rcmi_blocks *blocks, uint32_t block) {
    const uint32_t behind = block - blocks->first; /* huge if it lies before */
    return behind % blocks->stride == 0 && behind / blocks->stride < blocks->n
               ? behind / blocks->stride
               : blocks->n;
}
