/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of elements; see bench_values.h. Every result is exact in every type, in any order of the
 * operands. Sums and extremes use small integers, products of floats use powers of two with signs,
 * and products of integers use odd numbers. A table has the limits of each type. No code of the
 * library is used.
 */
#include "bench_values.h"

#include <math.h>
#include <string.h>

enum values_kind { VALUES_INTS, VALUES_TRUTH, VALUES_REALS, VALUES_COMPLEX, VALUES_PAIRS };

struct values_type {
    rcm_dtype dtype;
    enum values_kind kind;
    bool is_signed;
    bool reals;     /* of pairs: their values */
    int bits;       /* of a value that is not summed */
    int sum_bits;   /* of a value that is summed */
    int sum_ranks;  /* ranks with a nonzero value at a position of a sum */
    int prod_ranks; /* ranks with a factor other than +-1 */
};

#define MANY 1000000

static const struct values_type types[] = {
    {RCM_INT8, VALUES_INTS, true, false, 8, 5, MANY, MANY},
    {RCM_INT16, VALUES_INTS, true, false, 16, 5, MANY, MANY},
    {RCM_INT32, VALUES_INTS, true, false, 20, 5, MANY, MANY},
    {RCM_INT64, VALUES_INTS, true, false, 20, 5, MANY, MANY},
    {RCM_UINT8, VALUES_INTS, false, false, 8, 5, MANY, MANY},
    {RCM_UINT16, VALUES_INTS, false, false, 16, 5, MANY, MANY},
    {RCM_UINT32, VALUES_INTS, false, false, 20, 5, MANY, MANY},
    {RCM_UINT64, VALUES_INTS, false, false, 20, 5, MANY, MANY},
    {RCM_BOOL, VALUES_TRUTH, false, false, 1, 1, MANY, MANY},
    {RCM_FLOAT32, VALUES_REALS, true, true, 20, 5, MANY, 100},
    {RCM_FLOAT64, VALUES_REALS, true, true, 20, 5, MANY, 100},
    {RCM_FLOAT16, VALUES_REALS, true, true, 11, 5, 100, 12},
    {RCM_BFLOAT16, VALUES_REALS, true, true, 8, 5, 16, 100},
    {RCM_FLOAT8_E4M3FN, VALUES_REALS, true, true, 4, 2, 8, 6},
    {RCM_FLOAT8_E5M2, VALUES_REALS, true, true, 3, 2, 4, 12},
    {RCM_COMPLEX64, VALUES_COMPLEX, true, true, 20, 5, MANY, 100},
    {RCM_COMPLEX128, VALUES_COMPLEX, true, true, 20, 5, MANY, 100},
    {RCM_FLOAT32_INT32, VALUES_PAIRS, true, true, 3, 3, MANY, MANY},
    {RCM_FLOAT64_INT32, VALUES_PAIRS, true, true, 3, 3, MANY, MANY},
    {RCM_INT32_INT32, VALUES_PAIRS, true, false, 3, 3, MANY, MANY},
    {RCM_INT64_INT32, VALUES_PAIRS, true, false, 3, 3, MANY, MANY},
};

static const struct values_type *type_of(rcm_dtype dtype) {
    size_t i = 0;
    while (i + 1 < sizeof(types) / sizeof(types[0]) && types[i].dtype != dtype)
        i++;
    return &types[i];
}

static uint32_t rank_multiplier(int rank) {
    return (2 * (uint32_t)rank + 1) * 0x9e3779b1u; /* odd, so all ranks differ */
}

/* ---- one rank's values --------------------------------------------------------------------- */

static bool op_is_logical(rcm_op op) {
    return op == RCM_LAND || op == RCM_LOR || op == RCM_LXOR;
}

/* Whether the rank is one of the `most` ranks that take part at this position. */
static bool rank_takes_part(const struct bench_point *point, int rank, uint64_t position,
                            int most) {
    return (position + (uint64_t)rank) % (uint64_t)point->nranks < (uint64_t)most;
}

/* Integers, also for conversion to a floating type. */
static void make_ints(const struct bench_point *point, int rank, uint64_t first,
                      const uint32_t *hashes, size_t n, int64_t *ret_values) {
    const struct values_type *type = type_of(point->dtype);
    const uint32_t multiplier = rank_multiplier(rank);
    const bool is_prod = point->info.reduces && point->op == RCM_PROD;
    const bool is_sum = point->info.reduces && (point->op == RCM_SUM || point->op == RCM_AVG ||
                                                point->op == BENCH_PREMUL_SUM);
    const bool has_zeros = point->info.reduces && op_is_logical(point->op);
    const bool truth = type->kind == VALUES_TRUTH;
    const int shift = 32 - (truth ? 1 : is_prod ? 5 : is_sum ? type->sum_bits : type->bits);
    const int32_t bias = type->is_signed ? (int32_t)(1u << (31 - shift)) : 0;
    const int32_t odd = is_prod && !truth ? 1 : 0;
    for (size_t i = 0; i < n; i++)
        ret_values[i] = ((int32_t)(hashes[i] * multiplier >> shift) - bias) | odd;
    for (size_t i = 0; has_zeros && i < n; i++)
        ret_values[i] *= hashes[i] * multiplier >> 30 != 0;
    for (size_t i = 0; is_sum && type->sum_ranks < point->nranks && i < n; i++)
        ret_values[i] *= rank_takes_part(point, rank, first + i, type->sum_ranks);
}

/* Powers of two that differ only in sign (or by i), so that sums stay exact. */
struct bench_scale bench_scale_of(int rank, bool is_complex) {
    const double half = rank % 2 ? -0.5 : 0.5;
    const bool turned = is_complex && rank % 3 == 1;
    return (struct bench_scale){turned ? 0 : half, turned ? half : 0};
}

void bench_values_scale(const struct bench_point *point, int rank, size_t n,
                        struct bench_block *block) {
    const bool is_complex = type_of(point->dtype)->kind == VALUES_COMPLEX;
    const struct bench_scale scale = bench_scale_of(rank, is_complex);
    for (size_t i = 0; i < n; i++) {
        const double re = block->first.reals[i], im = is_complex ? block->second.reals[i] : 0;
        block->first.reals[i] = is_complex ? scale.re * re - scale.im * im : scale.re * re;
        block->second.reals[i] = scale.re * im + scale.im * re;
    }
}

/* x -> x + b or -x + b. */
static void make_functions(const uint32_t *hashes, int rank, size_t n,
                           struct bench_block *ret_block) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t hash = hashes[i] * rank_multiplier(rank);
        ret_block->first.reals[i] = hash & 1 ? 1 : -1;
        ret_block->second.reals[i] = hash >> 28;
    }
}

/* Factors for products of floats: 2, 1/2, 1 and their negatives; for complex numbers also these
 * times i. With very many ranks only prod_ranks of them, different ones at each position, have a
 * factor other than +-1. */
static void make_factors(const struct bench_point *point, int rank, uint64_t first,
                         const uint32_t *hashes, size_t n, struct bench_block *ret_block) {
    static const double table[8] = {1, -1, 2, -2, 0.5, -0.5, 2, -0.5};
    const struct values_type *type = type_of(point->dtype);
    const uint32_t multiplier = rank_multiplier(rank);
    for (size_t i = 0; i < n; i++) {
        const bool plain = !rank_takes_part(point, rank, first + i, type->prod_ranks);
        const uint32_t which = (hashes[i] * multiplier) >> 29;
        const bool turned = type->kind == VALUES_COMPLEX && hashes[i] & 1;
        const double value = table[plain ? which & 1 : which];
        ret_block->first.reals[i] = turned ? 0 : value;
        ret_block->second.reals[i] = turned ? value : 0;
    }
}

static void part_to_reals(union bench_part *part, size_t n) {
    for (size_t i = 0; i < n; i++)
        part->reals[i] = (double)part->ints[i];
}

void bench_values_make(const struct bench_point *point, int rank, uint64_t first,
                       const uint32_t *hashes, size_t n, struct bench_block *ret_block) {
    const struct values_type *type = type_of(point->dtype);
    if (point->info.reduces && point->op == RCM_PROD &&
        (type->kind == VALUES_REALS || type->kind == VALUES_COMPLEX)) {
        make_factors(point, rank, first, hashes, n, ret_block);
        return;
    }
    if (point->info.reduces && point->op == BENCH_USER) {
        make_functions(hashes, rank, n, ret_block);
        return;
    }
    make_ints(point, rank, first, hashes, n, ret_block->first.ints);
    if (type->reals)
        part_to_reals(&ret_block->first, n);
    if (type->kind == VALUES_COMPLEX)
        for (size_t i = 0; i < n; i++)
            ret_block->second.reals[i] = (double)((hashes[i] * rank_multiplier(rank)) % 16) - 8;
    if (type->kind == VALUES_PAIRS)
        for (size_t i = 0; i < n; i++)
            ret_block->second.ints[i] = (hashes[i] * rank_multiplier(rank + 1000)) >> 4;
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
    case RCM_BAND:
        return a & b;
    case RCM_BOR:
        return a | b;
    case RCM_BXOR:
        return a ^ b;
    case RCM_LAND:
        return a && b;
    case RCM_LOR:
        return a || b;
    case RCM_LXOR:
        return !a != !b;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

static int64_t truth_combine(rcm_op op, int64_t a, int64_t b) {
    return op == RCM_SUM ? a | b : op == RCM_PROD ? a & b : int_combine(op, a, b);
}

static double real_combine(rcm_op op, double a, double b) {
    switch (op) {
    case RCM_PROD:
        return a * b;
    case RCM_MIN:
        return a < b ? a : b;
    case RCM_MAX:
        return a > b ? a : b;
    default:
        return a + b;
    }
}

static void complex_combine(rcm_op op, struct bench_block *acc, const struct bench_block *more,
                            size_t i) {
    double *re = &acc->first.reals[i], *im = &acc->second.reals[i];
    const double a = *re, b = *im, c = more->first.reals[i], d = more->second.reals[i];
    *re = op == RCM_PROD ? a * c - b * d : op == BENCH_USER ? a * c : a + c;
    *im = op == RCM_PROD ? a * d + b * c : op == BENCH_USER ? a * d + b : b + d;
}

static void pair_combine(const struct bench_point *point, struct bench_block *acc,
                         const struct bench_block *more, size_t i) {
    const bool reals = type_of(point->dtype)->reals;
    const double a = reals ? acc->first.reals[i] : (double)acc->first.ints[i];
    const double b = reals ? more->first.reals[i] : (double)more->first.ints[i];
    const bool better = point->op == RCM_MINLOC ? b < a : b > a;
    if (better || (a == b && more->second.ints[i] < acc->second.ints[i])) {
        acc->first.ints[i] = more->first.ints[i]; /* copies reals too */
        acc->second.ints[i] = more->second.ints[i];
    }
}

void bench_values_combine(const struct bench_point *point, struct bench_block *acc,
                          const struct bench_block *more, size_t n) {
    int64_t *ints = acc->first.ints;
    double *reals = acc->first.reals;
    const enum values_kind kind = type_of(point->dtype)->kind;
    if (kind == VALUES_INTS && point->op == RCM_SUM) { /* fast path, for huge vectors */
        for (size_t i = 0; i < n; i++)
            ints[i] = (int64_t)((uint64_t)ints[i] + (uint64_t)more->first.ints[i]);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        switch (kind) {
        case VALUES_INTS:
            ints[i] = int_combine(point->op, ints[i], more->first.ints[i]);
            break;
        case VALUES_TRUTH:
            ints[i] = truth_combine(point->op, ints[i], more->first.ints[i]);
            break;
        case VALUES_REALS:
            reals[i] = real_combine(point->op, reals[i], more->first.reals[i]);
            break;
        case VALUES_COMPLEX:
            complex_combine(point->op, acc, more, i);
            break;
        case VALUES_PAIRS:
            pair_combine(point, acc, more, i);
            break;
        }
    }
}

/* Divides an exact sum; in float32 if the type is not longer than that. */
static double real_divide(rcm_dtype dtype, double sum, int nranks) {
    if (dtype == RCM_FLOAT64 || dtype == RCM_COMPLEX128)
        return sum / nranks;
    return (double)((float)sum / (float)nranks);
}

/* Divides the sum after wrapping it to the type. */
static int64_t int_divide(const struct values_type *type, int64_t sum, int nranks) {
    const int unused = 64 - 8 * (int)rcm_dtype_size(type->dtype);
    const uint64_t wrapped = (uint64_t)sum << unused;
    return type->is_signed ? ((int64_t)wrapped >> unused) / nranks
                           : (int64_t)((wrapped >> unused) / (uint64_t)nranks);
}

void bench_values_divide(const struct bench_point *point, struct bench_block *sums, size_t n,
                         int nranks) {
    const struct values_type *type = type_of(point->dtype);
    for (size_t i = 0; i < n; i++) {
        if (type->kind == VALUES_INTS)
            sums->first.ints[i] = int_divide(type, sums->first.ints[i], nranks);
        else
            sums->first.reals[i] = real_divide(point->dtype, sums->first.reals[i], nranks);
        if (type->kind == VALUES_COMPLEX)
            sums->second.reals[i] = real_divide(point->dtype, sums->second.reals[i], nranks);
    }
}

/* ---- storing ------------------------------------------------------------------------------- */

/* Encodes a finite number in the range of the type, rounded to nearest. */
static uint32_t small_encode(double value, int mantissa, int bias, int width) {
    const double magnitude = fabs(value);
    int exponent = magnitude > 0 ? ilogb(magnitude) : 1 - bias;
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    const uint32_t units = (uint32_t)nearbyint(ldexp(magnitude, mantissa - exponent));
    const uint32_t code = units + ((uint32_t)(exponent + bias - 1) << mantissa);
    return code | (signbit(value) ? 1u << (width - 1) : 0);
}

static void store_small(rcm_dtype dtype, double value, void *dst) {
    const int mantissa = dtype == RCM_FLOAT16         ? 10
                         : dtype == RCM_BFLOAT16      ? 7
                         : dtype == RCM_FLOAT8_E4M3FN ? 3
                                                      : 2;
    const int bias = dtype == RCM_BFLOAT16 ? 127 : dtype == RCM_FLOAT8_E4M3FN ? 7 : 15;
    const size_t size = rcm_dtype_size(dtype);
    const uint32_t code = small_encode(value, mantissa, bias, 8 * (int)size);
    const uint16_t half = (uint16_t)code;
    const uint8_t quarter = (uint8_t)code;
    memcpy(dst, size == 2 ? (const void *)&half : &quarter, size);
}

static void store_one(rcm_dtype dtype, const struct bench_block *block, size_t i, char *dst) {
    const int64_t whole = block->first.ints[i];
    const double real = block->first.reals[i];
    const float single = (float)real;
    const double both[2] = {real, block->second.reals[i]};
    const float singles[2] = {single, (float)block->second.reals[i]};
    const int32_t index = (int32_t)block->second.ints[i];
    const size_t size = rcm_dtype_size(dtype);
    memset(dst, 0, size);
    switch (dtype) {
    case RCM_FLOAT32:
        memcpy(dst, &single, sizeof(single));
        break;
    case RCM_FLOAT64:
        memcpy(dst, &real, sizeof(real));
        break;
    case RCM_COMPLEX64:
        memcpy(dst, singles, sizeof(singles));
        break;
    case RCM_COMPLEX128:
        memcpy(dst, both, sizeof(both));
        break;
    case RCM_FLOAT16:
    case RCM_BFLOAT16:
    case RCM_FLOAT8_E4M3FN:
    case RCM_FLOAT8_E5M2:
        store_small(dtype, real, dst);
        break;
    case RCM_FLOAT32_INT32:
        memcpy(dst, &single, sizeof(single));
        memcpy(dst + sizeof(single), &index, sizeof(index));
        break;
    case RCM_FLOAT64_INT32:
        memcpy(dst, &real, sizeof(real));
        memcpy(dst + sizeof(real), &index, sizeof(index));
        break;
    case RCM_INT32_INT32: {
        const int32_t value = (int32_t)whole;
        memcpy(dst, &value, sizeof(value));
        memcpy(dst + sizeof(value), &index, sizeof(index));
        break;
    }
    case RCM_INT64_INT32:
        memcpy(dst, &whole, sizeof(whole));
        memcpy(dst + sizeof(whole), &index, sizeof(index));
        break;
    default: { /* integers: the lowest bytes */
        const uint8_t b = (uint8_t)whole;
        const uint16_t s = (uint16_t)whole;
        const uint32_t w = (uint32_t)whole;
        memcpy(dst,
               size == 1   ? (const void *)&b
               : size == 2 ? (const void *)&s
               : size == 4 ? (const void *)&w
                           : &whole,
               size);
    }
    }
}

/* With fast paths for the frequent types. */
void bench_values_store(const struct bench_point *point, const struct bench_block *block, size_t n,
                        void *dst) {
    const size_t size = rcm_dtype_size(point->dtype);
    if (point->dtype == RCM_FLOAT32) {
        for (size_t i = 0; i < n; i++)
            ((float *)dst)[i] = (float)block->first.reals[i];
        return;
    }
    if (point->dtype == RCM_UINT8) {
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)dst)[i] = (uint8_t)block->first.ints[i];
        return;
    }
    for (size_t i = 0; i < n; i++)
        store_one(point->dtype, block, i, (char *)dst + i * size);
}

bool bench_values_differ(const struct bench_point *point, const void *a, const void *b) {
    float x[2], y[2];
    double v[2], w[2];
    if (point->dtype == RCM_COMPLEX64) {
        memcpy(x, a, sizeof(x));
        memcpy(y, b, sizeof(y));
        return !(x[0] == y[0] && x[1] == y[1]);
    }
    if (point->dtype == RCM_COMPLEX128) {
        memcpy(v, a, sizeof(v));
        memcpy(w, b, sizeof(w));
        return !(v[0] == w[0] && v[1] == w[1]);
    }
    return memcmp(a, b, rcm_dtype_size(point->dtype)) != 0;
}
