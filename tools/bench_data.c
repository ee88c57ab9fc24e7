/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbers that ringcomm-bench sends, and what must come out. An element's value depends on
 * rank, position and iteration through a multiplicative hash. Values are chosen so that every
 * result is exact in every type whatever the order of the operands: small integers for sums and
 * extremes; for products of floats powers of two and signs, for products of integers odd numbers.
 * The expected result is computed here element by element, with none of the library's code.
 */
#include "bench.h"

#include <string.h>

#define DATA_BLOCK 512 /* elements computed at a time */

/* At most so many factors other than +-1 in a product of floats: 2^+-100 is within float32. */
#define DATA_MAX_FACTORS 100

/* Either member is used, by whether the type is a floating one. */
union data_block {
    int64_t ints[DATA_BLOCK];
    double reals[DATA_BLOCK];
};

static bool dtype_is_real(rcm_dtype dtype) {
    return dtype == RCM_FLOAT32 || dtype == RCM_FLOAT64;
}

static uint32_t data_hash(uint64_t position, uint64_t iteration) {
    uint32_t h = (uint32_t)position * 0x9e3779b1u + (uint32_t)(position >> 32) * 0x27d4eb2fu +
                 (uint32_t)iteration * 0x85ebca6bu + 0x165667b1u;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    return h ^ (h >> 12);
}

static uint32_t rank_multiplier(int rank) {
    return (2 * (uint32_t)rank + 1) * 0x9e3779b1u; /* odd, so no two ranks are alike */
}

/* ---- one rank's values --------------------------------------------------------------------- */

/* Integers, as themselves or to be converted to a floating type. */
static void values_make_ints(const struct bench_point *point, int rank, const uint32_t *hashes,
                             size_t n, int64_t *ret_values) {
    const uint32_t multiplier = rank_multiplier(rank);
    const bool reduce = point->info.reduces;
    const bool is_prod = reduce && point->op == RCM_PROD;
    const bool is_small = is_prod || (reduce && point->op == RCM_SUM);
    const bool is_signed = point->dtype != RCM_UINT8;
    const int shift = is_small ? 27 : is_signed ? 12 : 24; /* 5, 20 or 8 bits are left */
    const int32_t bias = is_signed ? (int32_t)(1u << (31 - shift)) : 0;
    const int32_t odd = is_prod ? 1 : 0;
    for (size_t i = 0; i < n; i++)
        ret_values[i] = (((int32_t)((hashes[i] * multiplier) >> shift)) - bias) | odd;
}

/* Factors for products of floats: 2, 1/2, 1 and their negatives. With very many ranks only some
 * of them, others at each position, have a factor other than +-1. */
static void values_make_factors(const struct bench_point *point, int rank, uint64_t first,
                                const uint32_t *hashes, size_t n, double *ret_values) {
    static const double table[8] = {1, -1, 2, -2, 0.5, -0.5, 2, -0.5};
    const uint32_t multiplier = rank_multiplier(rank);
    const uint64_t nranks = (uint64_t)point->nranks;
    for (size_t i = 0; i < n; i++) {
        bool plain = (first + i + (uint64_t)rank) % nranks >= DATA_MAX_FACTORS;
        uint32_t which = (hashes[i] * multiplier) >> 29;
        ret_values[i] = table[plain ? which & 1 : which];
    }
}

static void values_make(const struct bench_point *point, int rank, uint64_t first,
                        const uint32_t *hashes, size_t n, union data_block *ret_values) {
    if (!dtype_is_real(point->dtype)) {
        values_make_ints(point, rank, hashes, n, ret_values->ints);
        return;
    }
    if (point->info.reduces && point->op == RCM_PROD) {
        values_make_factors(point, rank, first, hashes, n, ret_values->reals);
        return;
    }
    int64_t ints[DATA_BLOCK];
    values_make_ints(point, rank, hashes, n, ints);
    for (size_t i = 0; i < n; i++)
        ret_values->reals[i] = (double)ints[i];
}

/* ---- combining ----------------------------------------------------------------------------- */

static int64_t int_combine(rcm_op op, int64_t a, int64_t b) {
    switch (op) {
    case RCM_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case RCM_MIN:
        return a < b ? a : b;
    case RCM_MAX:
        return a > b ? a : b;
    case RCM_SUM:
        break;
    }
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static double real_combine(rcm_op op, double a, double b) {
    switch (op) {
    case RCM_PROD:
        return a * b;
    case RCM_MIN:
        return a < b ? a : b;
    case RCM_MAX:
        return a > b ? a : b;
    case RCM_SUM:
        break;
    }
    return a + b;
}

static void block_combine(const struct bench_point *point, union data_block *acc,
                          const union data_block *more, size_t n) {
    if (dtype_is_real(point->dtype)) {
        for (size_t i = 0; i < n; i++)
            acc->reals[i] = real_combine(point->op, acc->reals[i], more->reals[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            acc->ints[i] = int_combine(point->op, acc->ints[i], more->ints[i]);
    }
}

/* ---- blocks -------------------------------------------------------------------------------- */

static bool has_block_per_rank(int blocks) {
    return blocks == RCM_BLOCK_PER_RANK;
}

/* Elements of the first n blocks: count * n * n / p of uneven ones. */
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

/* Element `position` of a rank's result: in which block, where in it, and how many are left of it.
 */
struct place {
    int block;
    size_t at, left;
};

static struct place data_place(const struct bench_point *point, int rank, size_t position) {
    struct place place = {.block = rank, .at = position};
    if (has_block_per_rank(point->info.recv_blocks)) {
        place.block = 0;
        while (position >= bench_block_first(point, rank, place.block + 1))
            place.block++;
        place.at = position - bench_block_first(point, rank, place.block);
        place.left = bench_block_count(point, rank, place.block) - place.at;
    } else {
        place.left = bench_out_count(point, rank) - position;
    }
    return place;
}

/* Where `rank` gets the result at a place from: from that position of a rank's input, or, if
 * *ret_rank is -1, from those of the contributing ranks together. */
static size_t data_source(const struct bench_point *point, int rank, const struct place *place,
                          int *ret_rank) {
    *ret_rank = point->info.send_at_root ? point->root : place->block;
    if (point->what == BENCH_SENDRECV)
        *ret_rank = 1 - rank;
    if (point->info.reduces)
        *ret_rank = -1;
    if (!has_block_per_rank(point->info.send_blocks))
        return place->at;
    return bench_block_first(point, *ret_rank < 0 ? 0 : *ret_rank, rank) + place->at;
}

/* So many ranks, from 0 on, contribute to a rank's result of a reduction. */
static int data_contributors(const struct bench_point *point, int rank) {
    return point->info.contributors == RCM_CONTRIBUTORS_UP_TO    ? rank + 1
           : point->info.contributors == RCM_CONTRIBUTORS_BEFORE ? rank
                                                                 : point->nranks;
}

/* The n results that come from position `first` of inputs on: of rank `from`, or, if that is -1, of
 * the `contributors` first ranks. */
static void block_expect(const struct bench_point *point, int from, int contributors,
                         uint64_t first, const uint32_t *hashes, size_t n,
                         union data_block *ret_block) {
    if (from >= 0) {
        values_make(point, from, first, hashes, n, ret_block);
    } else {
        union data_block more;
        values_make(point, 0, first, hashes, n, ret_block);
        for (int r = 1; r < contributors; r++) {
            values_make(point, r, first, hashes, n, &more);
            block_combine(point, ret_block, &more, n);
        }
    }
}

/* Converts n values to the point's type. Integers wrap. */
static void block_store(const struct bench_point *point, const union data_block *block, size_t n,
                        void *dst) {
    float *floats = dst;
    double *doubles = dst;
    uint8_t *bytes = dst;
    int32_t *words = dst;
    switch (point->dtype) {
    case RCM_FLOAT32:
        for (size_t i = 0; i < n; i++)
            floats[i] = (float)block->reals[i];
        break;
    case RCM_FLOAT64:
        for (size_t i = 0; i < n; i++)
            doubles[i] = block->reals[i];
        break;
    case RCM_UINT8:
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)block->ints[i];
        break;
    case RCM_INT32:
        for (size_t i = 0; i < n; i++)
            words[i] = (int32_t)(uint32_t)block->ints[i];
        break;
    case RCM_INT64:
        memcpy(dst, block->ints, n * sizeof(int64_t));
        break;
    }
}

/* ---- the interface ------------------------------------------------------------------------- */

size_t bench_blocks(const struct rcm_collective_info *info, int nranks) {
    const bool many =
        has_block_per_rank(info->send_blocks) || has_block_per_rank(info->recv_blocks);
    return many ? (size_t)nranks : 1;
}

/* Up to `left` elements from position `first` on. */
static size_t block_hash(size_t first, size_t left, uint64_t iteration, uint32_t *ret_hashes) {
    size_t n = left < DATA_BLOCK ? left : DATA_BLOCK;
    for (size_t i = 0; i < n; i++)
        ret_hashes[i] = data_hash(first + i, iteration);
    return n;
}

void bench_fill(const struct bench_point *point, int rank, uint64_t iteration, void *dst) {
    const size_t width = rcm_dtype_size(point->dtype);
    uint32_t hashes[DATA_BLOCK];
    union data_block values;
    const size_t count = bench_in_count(point, rank);
    for (size_t first = 0, n; first < count; first += n) {
        n = block_hash(first, count - first, iteration, hashes);
        values_make(point, rank, first, hashes, n, &values);
        block_store(point, &values, n, (char *)dst + first * width);
    }
}

void bench_poison(const struct bench_point *point, void *dst) {
    /* As a float tiny, as an integer huge; a byte of it may be right by chance. */
    memset(dst, 0xa5, point->bytes);
}

bool bench_has_result(const struct bench_point *point, int rank) {
    if (point->what == BENCH_SENDRECV)
        return rank < 2;
    return point->info.recv_blocks != 0 && (!point->info.recv_at_root || rank == point->root) &&
           data_contributors(point, rank) > 0;
}

bool bench_has_input(const struct bench_point *point, int rank) {
    if (point->what == BENCH_SENDRECV)
        return rank < 2;
    return point->info.send_blocks != 0 && (!point->info.send_at_root || rank == point->root);
}

size_t bench_count_wrong(const struct bench_point *point, int rank, uint64_t iteration,
                         const void *got) {
    const size_t width = rcm_dtype_size(point->dtype);
    uint32_t hashes[DATA_BLOCK];
    union data_block values;
    _Alignas(8) char expected[DATA_BLOCK * 8];
    size_t wrong = 0;
    const size_t count = bench_out_count(point, rank);
    for (size_t first = 0, n; first < count; first += n) {
        const char *now = (const char *)got + first * width;
        int from;
        const struct place place = data_place(point, rank, first);
        const size_t source = data_source(point, rank, &place, &from);
        n = block_hash(source, place.left, iteration, hashes);
        block_expect(point, from, data_contributors(point, rank), source, hashes, n, &values);
        block_store(point, &values, n, expected);
        if (memcmp(now, expected, n * width) == 0)
            continue;
        for (size_t i = 0; i < n; i++)
            wrong += memcmp(now + i * width, expected + i * width, width) != 0;
    }
    return wrong;
}
