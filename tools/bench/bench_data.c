/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbers that ringcomm-bench sends, and the expected results. An element's value is derived
 * from a multiplicative hash of rank, position and iteration. bench_values.c converts hashes to
 * values and combines values. The expected result is computed element by element.
 */
#include "bench.h"

#include <string.h>
#include "bench_values.h"

static uint32_t data_hash(uint64_t position, uint64_t iteration) {
    uint32_t h = (uint32_t)position * 0x9e3779b1u + (uint32_t)(position >> 32) * 0x27d4eb2fu +
                 (uint32_t)iteration * 0x85ebca6bu + 0x165667b1u;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    return h ^ (h >> 12);
}

/* ---- blocks -------------------------------------------------------------------------------- */

static bool has_block_per_rank(int blocks) {
    return blocks == RCM_BLOCK_PER_RANK;
}

/* Elements of the first n blocks; uneven ones have count * n * n / p. */
static size_t blocks_before(const struct bench_point *point, size_t n) {
    const size_t p = (size_t)point->nranks;
    if (!point->info.uneven)
        return point->count * n;
    return point->count / p * n * n + point->count % p * n * n / p;
}

/* The number of the first block of a rank's larger buffer. */
static size_t blocks_rotation(const struct bench_point *point, int rank) {
    const bool pairs =
        has_block_per_rank(point->info.send_blocks) && has_block_per_rank(point->info.recv_blocks);
    return pairs && point->info.uneven ? (size_t)rank : 0;
}

size_t bench_block_first(const struct bench_point *point, int rank, int i) {
    const size_t p = (size_t)point->nranks, from = blocks_rotation(point, rank);
    const size_t to = from + (size_t)i;
    const size_t wrapped =
        to > p ? blocks_before(point, p) + blocks_before(point, to - p) : blocks_before(point, to);
    return wrapped - blocks_before(point, from);
}

size_t bench_block_count(const struct bench_point *point, int rank, int i) {
    return bench_block_first(point, rank, i + 1) - bench_block_first(point, rank, i);
}

static size_t buffer_count(const struct bench_point *point, int blocks, int rank) {
    if (has_block_per_rank(blocks))
        return bench_block_first(point, rank, point->nranks);
    return point->info.uneven ? bench_block_count(point, rank, rank) : point->count;
}

size_t bench_in_count(const struct bench_point *point, int rank) {
    return buffer_count(point, point->info.send_blocks, rank);
}

size_t bench_out_count(const struct bench_point *point, int rank) {
    return buffer_count(point, point->info.recv_blocks, rank);
}

/* The block of an element of a rank's result, its position there, and the elements left from it. */
struct block_position {
    int block;
    size_t at, left;
};

static struct block_position data_position(const struct bench_point *point, int rank,
                                           size_t position) {
    struct block_position pos = {.block = rank, .at = position};
    if (has_block_per_rank(point->info.recv_blocks)) {
        pos.block = 0;
        while (position >= bench_block_first(point, rank, pos.block + 1))
            pos.block++;
        pos.at = position - bench_block_first(point, rank, pos.block);
        pos.left = bench_block_count(point, rank, pos.block) - pos.at;
    } else {
        pos.left = bench_out_count(point, rank) - position;
    }
    return pos;
}

/* Returns the input position from which `rank` gets a result. *ret_rank: the rank of that input;
 * -1: all contributing ranks. */
static size_t data_source(const struct bench_point *point, int rank,
                          const struct block_position *pos, int *ret_rank) {
    *ret_rank = point->info.send_at_root ? point->root : pos->block;
    if (point->what == BENCH_SENDRECV)
        *ret_rank = 1 - rank;
    if (point->info.reduces)
        *ret_rank = -1;
    if (!has_block_per_rank(point->info.send_blocks))
        return pos->at;
    return bench_block_first(point, *ret_rank < 0 ? 0 : *ret_rank, rank) + pos->at;
}

/* The number of ranks, from 0 on, that contribute to a rank's result of a reduction. */
static int data_contributors(const struct bench_point *point, int rank) {
    return point->info.contributors == RCM_CONTRIBUTORS_UP_TO    ? rank + 1
           : point->info.contributors == RCM_CONTRIBUTORS_BEFORE ? rank
                                                                 : point->nranks;
}

/* A rank's operands of a reduction, after its scale. */
static void contribution(const struct bench_point *point, int rank, uint64_t first,
                         const uint32_t *hashes, size_t n, struct bench_block *ret_block) {
    bench_values_make(point, rank, first, hashes, n, ret_block);
    if (point->op == BENCH_PREMUL_SUM)
        bench_values_scale(point, rank, n, ret_block);
}

/* The n expected results for the input elements from position `first` on: of rank `from`, or, if
 * that is -1, of the first `contributors` ranks. */
static void block_expect(const struct bench_point *point, int from, int contributors,
                         uint64_t first, const uint32_t *hashes, size_t n,
                         struct bench_block *ret_block) {
    if (from >= 0) {
        bench_values_make(point, from, first, hashes, n, ret_block);
    } else {
        struct bench_block more;
        contribution(point, 0, first, hashes, n, ret_block);
        for (int r = 1; r < contributors; r++) {
            contribution(point, r, first, hashes, n, &more);
            bench_values_combine(point, ret_block, &more, n);
        }
        if (point->op == RCM_AVG)
            bench_values_divide(point, ret_block, n, contributors);
    }
}

/* ---- the interface ------------------------------------------------------------------------- */

size_t bench_blocks(const struct rcm_collective_info *info, int nranks) {
    const bool many =
        has_block_per_rank(info->send_blocks) || has_block_per_rank(info->recv_blocks);
    return many ? (size_t)nranks : 1;
}

/* Hashes up to `left` elements from position `first` on. */
static size_t block_hash(size_t first, size_t left, uint64_t iteration, uint32_t *ret_hashes) {
    size_t n = left < BENCH_BLOCK ? left : BENCH_BLOCK;
    for (size_t i = 0; i < n; i++)
        ret_hashes[i] = data_hash(first + i, iteration);
    return n;
}

void bench_fill(const struct bench_point *point, int rank, uint64_t iteration, void *dst) {
    const size_t width = rcm_dtype_size(point->dtype);
    uint32_t hashes[BENCH_BLOCK];
    struct bench_block values;
    const size_t count = bench_in_count(point, rank);
    for (size_t first = 0, n; first < count; first += n) {
        n = block_hash(first, count - first, iteration, hashes);
        bench_values_make(point, rank, first, hashes, n, &values);
        bench_values_store(point, &values, n, (char *)dst + first * width);
    }
}

void bench_poison(const struct bench_point *point, void *dst) {
    /* A tiny float or a huge integer. A single byte may equal a result by chance. */
    memset(dst, 0xa5, point->bytes);
}

bool bench_has_result(const struct bench_point *point, int rank) {
    if (point->what == BENCH_SENDRECV)
        return rank < 2;
    return point->info.recv_blocks != 0 && (!point->info.recv_at_root || rank == point->root) &&
           data_contributors(point, rank) > 0;
}

bool bench_op_fits(const struct rcm_collective_info *info, rcm_op op) {
    return !info->reduces || op != RCM_AVG || info->contributors == RCM_CONTRIBUTORS_ALL;
}

bool bench_has_input(const struct bench_point *point, int rank) {
    if (point->what == BENCH_SENDRECV)
        return rank < 2;
    return point->info.send_blocks != 0 && (!point->info.send_at_root || rank == point->root);
}

size_t bench_count_wrong(const struct bench_point *point, int rank, uint64_t iteration,
                         const void *got) {
    const size_t width = rcm_dtype_size(point->dtype);
    uint32_t hashes[BENCH_BLOCK];
    struct bench_block values;
    _Alignas(16) char expected[BENCH_BLOCK * 16];
    size_t wrong = 0;
    const size_t count = bench_out_count(point, rank);
    for (size_t first = 0, n; first < count; first += n) {
        const char *now = (const char *)got + first * width;
        int from;
        const struct block_position pos = data_position(point, rank, first);
        const size_t source = data_source(point, rank, &pos, &from);
        n = block_hash(source, pos.left, iteration, hashes);
        block_expect(point, from, data_contributors(point, rank), source, hashes, n, &values);
        bench_values_store(point, &values, n, expected);
        if (memcmp(now, expected, n * width) == 0)
            continue;
        for (size_t i = 0; i < n; i++)
            wrong += bench_values_differ(point, now + i * width, expected + i * width);
    }
    return wrong;
}
