/* SPDX-License-Identifier: BSD-3-Clause */
/* Scalar reductions and test data; see reference.h. */
#include "reference.h"
#include "reference_small.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REFERENCE_INT(name, type, wide)                                                            \
    static type combine_##name(rcm_op op, type a, type b) {                                        \
        switch (op) {                                                                              \
        case RCM_SUM:                                                                              \
            return (type)((wide)a + (wide)b);                                                      \
        case RCM_PROD:                                                                             \
            return (type)((wide)a * (wide)b);                                                      \
        case RCM_MIN:                                                                              \
            return b < a ? b : a;                                                                  \
        case RCM_MAX:                                                                              \
            return b > a ? b : a;                                                                  \
        case RCM_BAND:                                                                             \
            return (type)(a & b);                                                                  \
        case RCM_BOR:                                                                              \
            return (type)(a | b);                                                                  \
        case RCM_BXOR:                                                                             \
            return (type)(a ^ b);                                                                  \
        case RCM_LAND:                                                                             \
            return a && b;                                                                         \
        case RCM_LOR:                                                                              \
            return a || b;                                                                         \
        case RCM_LXOR:                                                                             \
            return !a != !b;                                                                       \
        default:                                                                                   \
            assert(0);                                                                             \
            return 0;                                                                              \
        }                                                                                          \
    }

/* Of two equal values, which may be zeros of both signs, min returns the negative one. */
#define REFERENCE_FLOAT(name, type, bits, nan_bits)                                                \
    static type canonical_##name(type r) {                                                         \
        const bits canonical = (nan_bits);                                                         \
        if (isnan(r))                                                                              \
            memcpy(&r, &canonical, sizeof r);                                                      \
        return r;                                                                                  \
    }                                                                                              \
    static type combine_##name(rcm_op op, type a, type b) {                                        \
        type r = 0;                                                                                \
        if (isnan(a) || isnan(b))                                                                  \
            return canonical_##name(isnan(a) ? a : b);                                             \
        if (op == RCM_SUM)                                                                         \
            r = a + b;                                                                             \
        else if (op == RCM_PROD)                                                                   \
            r = a * b;                                                                             \
        else if (op == RCM_MIN)                                                                    \
            r = a < b || (a == b && signbit(a)) ? a : b;                                           \
        else                                                                                       \
            r = a > b || (a == b && !signbit(a)) ? a : b;                                          \
        return canonical_##name(r);                                                                \
    }

#define REFERENCE_COMPLEX(name, part, type)                                                        \
    static struct type combine_##name(rcm_op op, struct type a, struct type b) {                   \
        struct type r = {a.real + b.real, a.imaginary + b.imaginary};                              \
        if (op == RCM_PROD) {                                                                      \
            const part ac = a.real * b.real, bd = a.imaginary * b.imaginary;                       \
            const part ad = a.real * b.imaginary, bc = a.imaginary * b.real;                       \
            r.real = ac - bd;                                                                      \
            r.imaginary = ad + bc;                                                                 \
        }                                                                                          \
        return r;                                                                                  \
    }

/* Order with the smallest value first: 1 if a precedes b, -1 if it follows, else 0. NaN, then -0,
 * then +0. */
static int order(double a, double b) {
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? 0 : isnan(a) ? 1 : -1;
    if (a == b)
        return a != 0 || !signbit(a) == !signbit(b) ? 0 : signbit(a) ? 1 : -1;
    return a < b ? 1 : -1;
}

static int order_int(int64_t a, int64_t b) {
    return a == b ? 0 : a < b ? 1 : -1;
}

/* A NaN comes first in both directions. */
static int turn(rcm_op op, int first, bool nan) {
    return op == RCM_MAXLOC && !nan ? -first : first;
}

/* True if the second operand wins. */
#define REFERENCE_LOCATION(name, type, order, is_nan, canonical)                                   \
    static bool combine_##name##_second(rcm_op op, struct type a, struct type b) {                 \
        const int first = turn(op, order(a.value, b.value), is_nan(a.value) || is_nan(b.value));   \
        return first < 0 || (first == 0 && a.index > b.index);                                     \
    }                                                                                              \
    static struct type combine_##name(rcm_op op, struct type a, struct type b) {                   \
        struct type r = combine_##name##_second(op, a, b) ? b : a;                                 \
        r.value = canonical(r.value);                                                              \
        return r;                                                                                  \
    }
#define NEVER(value) ((void)(value), false)
#define SAME(value)  (value)

REFERENCE_INT(UINT8, uint8_t, uint32_t)
REFERENCE_INT(INT8, int8_t, uint32_t)
REFERENCE_INT(UINT16, uint16_t, uint32_t)
REFERENCE_INT(INT16, int16_t, uint32_t)
REFERENCE_INT(UINT32, uint32_t, uint32_t)
REFERENCE_INT(INT32, int32_t, uint32_t)
REFERENCE_INT(UINT64, uint64_t, uint64_t)
REFERENCE_INT(INT64, int64_t, uint64_t)
REFERENCE_FLOAT(FLOAT32, float, uint32_t, 0x7fc00000)
REFERENCE_FLOAT(FLOAT64, double, uint64_t, 0x7ff8000000000000)
REFERENCE_COMPLEX(COMPLEX64, float, rcm_complex64)
REFERENCE_COMPLEX(COMPLEX128, double, rcm_complex128)
REFERENCE_LOCATION(FLOAT32_INT32, rcm_float32_int32, order, isnan, canonical_FLOAT32)
REFERENCE_LOCATION(FLOAT64_INT32, rcm_float64_int32, order, isnan, canonical_FLOAT64)
REFERENCE_LOCATION(INT32_INT32, rcm_int32_int32, order_int, NEVER, SAME)
REFERENCE_LOCATION(INT64_INT32, rcm_int64_int32, order_int, NEVER, SAME)

/* Sum, product, min, max and others are logical operations on truth values. */
static uint8_t combine_BOOL(rcm_op op, uint8_t a, uint8_t b) {
    if (op == RCM_SUM || op == RCM_MAX || op == RCM_BOR || op == RCM_LOR)
        return a || b;
    if (op == RCM_BXOR || op == RCM_LXOR)
        return !a != !b;
    return a && b;
}

static struct rcm_complex64 canonical_COMPLEX64(struct rcm_complex64 r) {
    return (struct rcm_complex64){canonical_FLOAT32(r.real), canonical_FLOAT32(r.imaginary)};
}

static struct rcm_complex128 canonical_COMPLEX128(struct rcm_complex128 r) {
    return (struct rcm_complex128){canonical_FLOAT64(r.real), canonical_FLOAT64(r.imaginary)};
}

/* One element: `value` is kept from one source to the next, `shown` is stored. */
#define REDUCE(type, combine, shown)                                                               \
    for (size_t i = 0; i < count; i++) {                                                           \
        type value = ((const type *)srcs[0])[i];                                                   \
        memcpy((type *)results[0] + i, (const type *)srcs[0] + i, sizeof value);                   \
        for (int k = 1; k < n; k++) {                                                              \
            const type next = ((const type *)srcs[k])[i];                                          \
            value = combine(op, value, next);                                                      \
            const type stored = shown(value);                                                      \
            memcpy((type *)results[k] + i, &stored, sizeof stored);                                \
        }                                                                                          \
    }                                                                                              \
    return;

/* The same for a pair: all bytes are those of the winning source, except for a NaN. */
#define REDUCE_PAIR(type, combine)                                                                 \
    for (size_t i = 0; i < count; i++) {                                                           \
        type value = ((const type *)srcs[0])[i];                                                   \
        int from = 0;                                                                              \
        for (int k = 0; k < n; k++) {                                                              \
            const type *next = &((const type *)srcs[k])[i];                                        \
            type *stored = (type *)results[k] + i;                                                 \
            const type winner = k == 0 ? value : combine(op, value, *next);                        \
            if (k > 0 && combine##_second(op, value, *next))                                       \
                from = k;                                                                          \
            value = winner;                                                                        \
            memcpy(stored, (const type *)srcs[from] + i, sizeof *stored);                          \
            memcpy(&stored->value, &value.value, sizeof value.value);                              \
        }                                                                                          \
    }                                                                                              \
    return;

static uint32_t code_at(rcm_dtype dtype, const void *buffer, size_t i) {
    return rcm_dtype_size(dtype) == 2 ? ((const uint16_t *)buffer)[i]
                                      : ((const uint8_t *)buffer)[i];
}

static void code_put(rcm_dtype dtype, void *buffer, size_t i, uint32_t code) {
    if (rcm_dtype_size(dtype) == 2)
        ((uint16_t *)buffer)[i] = (uint16_t)code;
    else
        ((uint8_t *)buffer)[i] = (uint8_t)code;
}

/* Accumulated in float32, rounded when stored. */
static void small_reduce(rcm_dtype dtype, rcm_op op, const void *const *srcs, void *const *results,
                         int n, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value = small_decode(dtype, code_at(dtype, srcs[0], i));
        code_put(dtype, results[0], i, code_at(dtype, srcs[0], i));
        for (int k = 1; k < n; k++) {
            value = combine_FLOAT32(op, value, small_decode(dtype, code_at(dtype, srcs[k], i)));
            code_put(dtype, results[k], i, small_encode(dtype, value));
        }
    }
}

void reference_reduce(rcm_dtype dtype, rcm_op op, const void *const *srcs, void *const *results,
                      int n, size_t count) {
#define REDUCE_CASE(name, ctype, shown)                                                            \
    case RCM_##name:                                                                               \
        REDUCE(ctype, combine_##name, shown)
    switch (dtype) {
        REDUCE_CASE(UINT8, uint8_t, SAME)
        REDUCE_CASE(INT8, int8_t, SAME)
        REDUCE_CASE(UINT16, uint16_t, SAME)
        REDUCE_CASE(INT16, int16_t, SAME)
        REDUCE_CASE(UINT32, uint32_t, SAME)
        REDUCE_CASE(INT32, int32_t, SAME)
        REDUCE_CASE(UINT64, uint64_t, SAME)
        REDUCE_CASE(INT64, int64_t, SAME)
        REDUCE_CASE(BOOL, uint8_t, SAME)
        REDUCE_CASE(FLOAT32, float, SAME)
        REDUCE_CASE(FLOAT64, double, SAME)
        REDUCE_CASE(COMPLEX64, struct rcm_complex64, canonical_COMPLEX64)
        REDUCE_CASE(COMPLEX128, struct rcm_complex128, canonical_COMPLEX128)
    case RCM_FLOAT32_INT32:
        REDUCE_PAIR(struct rcm_float32_int32, combine_FLOAT32_INT32)
    case RCM_FLOAT64_INT32:
        REDUCE_PAIR(struct rcm_float64_int32, combine_FLOAT64_INT32)
    case RCM_INT32_INT32:
        REDUCE_PAIR(struct rcm_int32_int32, combine_INT32_INT32)
    case RCM_INT64_INT32:
        REDUCE_PAIR(struct rcm_int64_int32, combine_INT64_INT32)
    case RCM_OPAQUE: /* has no built-in operator */
        abort();
    case RCM_FLOAT16:
    case RCM_BFLOAT16:
    case RCM_FLOAT8_E4M3FN:
    case RCM_FLOAT8_E5M2:
        small_reduce(dtype, op, srcs, results, n, count);
    }
}

/* ---- Scaled sums ----------------------------------------------------------------------------- */

static bool dtype_is_complex(rcm_dtype dtype) {
    return dtype == RCM_COMPLEX64 || dtype == RCM_COMPLEX128;
}

/* Real and imaginary part of element i, in float32 unless the type is longer. */
struct parts {
    double re, im;
};

static struct parts parts_at(rcm_dtype dtype, const void *buffer, size_t i) {
    if (dtype == RCM_FLOAT64)
        return (struct parts){((const double *)buffer)[i], 0};
    if (dtype == RCM_FLOAT32)
        return (struct parts){(double)((const float *)buffer)[i], 0};
    if (dtype == RCM_COMPLEX128)
        return (struct parts){((const double *)buffer)[2 * i], ((const double *)buffer)[2 * i + 1]};
    if (dtype == RCM_COMPLEX64)
        return (struct parts){(double)((const float *)buffer)[2 * i],
                              (double)((const float *)buffer)[2 * i + 1]};
    return (struct parts){(double)small_decode(dtype, code_at(dtype, buffer, i)), 0};
}

/* One operation with more than twice as many bits, rounded to float32 afterwards, has the same
 * result as in float32. */
static double rounded(rcm_dtype dtype, double value) {
    const bool is_double = dtype == RCM_FLOAT64 || dtype == RCM_COMPLEX128;
    return is_double ? value : (double)(float)value;
}

static void part_put(rcm_dtype dtype, void *buffer, size_t i, double value) {
    if (dtype == RCM_FLOAT64 || dtype == RCM_COMPLEX128)
        ((double *)buffer)[i] = canonical_FLOAT64(value);
    else if (dtype == RCM_FLOAT32 || dtype == RCM_COMPLEX64)
        ((float *)buffer)[i] = canonical_FLOAT32((float)value);
    else
        code_put(dtype, buffer, i, small_encode(dtype, (float)value));
}

static struct parts parts_scale(rcm_dtype dtype, struct parts v, const double *by) {
    const double re = rounded(dtype, by[0]), im = rounded(dtype, by[1]);
    if (rcm_dtype_size(dtype) < 4) /* rounded as stored */
        return (struct parts){(double)small_decode(dtype, small_encode(dtype, (float)(v.re * re))),
                              0};
    if (!dtype_is_complex(dtype))
        return (struct parts){rounded(dtype, v.re * re), 0};
    return (struct parts){rounded(dtype, rounded(dtype, re * v.re) - rounded(dtype, im * v.im)),
                          rounded(dtype, rounded(dtype, re * v.im) + rounded(dtype, im * v.re))};
}

static void float_scaled_sum(rcm_dtype dtype, const struct reference_scaling *scaling,
                             const void *const *srcs, void *const *results, int n, size_t i) {
    struct parts sum = {0, 0};
    for (int k = 0; k < n; k++) {
        struct parts next = parts_at(dtype, srcs[k], i);
        if (scaling->scaled >> k & 1)
            next = parts_scale(dtype, next, scaling->scale);
        sum.re = k == 0 ? next.re : rounded(dtype, sum.re + next.re);
        sum.im = k == 0 ? next.im : rounded(dtype, sum.im + next.im);
        const double re = rounded(dtype, sum.re / scaling->divisor);
        const size_t wide = dtype_is_complex(dtype) ? 2 : 1;
        part_put(dtype, results[k], wide * i, re);
        if (wide == 2)
            part_put(dtype, results[k], 2 * i + 1, rounded(dtype, sum.im / scaling->divisor));
    }
}

#define DIVIDE_CASE(name, ctype, wide)                                                             \
    case RCM_##name:                                                                               \
        for (int k = 0; k < n; k++)                                                                \
            for (size_t i = 0; i < count; i++)                                                     \
                ((ctype *)results[k])[i] =                                                         \
                    (ctype)((wide)((ctype *)results[k])[i] / (wide)divisor);                       \
        break;

static void results_divide(rcm_dtype dtype, void *const *results, int n, size_t count,
                           unsigned divisor) {
    switch (dtype) {
        DIVIDE_CASE(UINT8, uint8_t, uint64_t)
        DIVIDE_CASE(INT8, int8_t, int64_t)
        DIVIDE_CASE(UINT16, uint16_t, uint64_t)
        DIVIDE_CASE(INT16, int16_t, int64_t)
        DIVIDE_CASE(UINT32, uint32_t, uint64_t)
        DIVIDE_CASE(INT32, int32_t, int64_t)
        DIVIDE_CASE(UINT64, uint64_t, uint64_t)
        DIVIDE_CASE(INT64, int64_t, int64_t)
    default:
        assert(0);
    }
}

static bool dtype_is_integer(rcm_dtype dtype) {
    return dtype <= RCM_UINT64 || dtype == RCM_UINT16;
}

static bool dtype_is_pair(rcm_dtype dtype) {
    return dtype >= RCM_FLOAT32_INT32;
}

void reference_scaled_sum(rcm_dtype dtype, const struct reference_scaling *scaling,
                          const void *const *srcs, void *const *results, int n, size_t count) {
    if (dtype_is_integer(dtype)) {
        reference_reduce(dtype, RCM_SUM, srcs, results, n, count);
        results_divide(dtype, results, n, count, scaling->divisor);
        return;
    }
    for (size_t i = 0; i < count; i++)
        float_scaled_sum(dtype, scaling, srcs, results, n, i);
}

/* ---- Defined combinations -------------------------------------------------------------------- */

bool reference_defines(rcm_dtype dtype, rcm_op op) {
    const bool sums = op == RCM_SUM || op == RCM_PROD, orders = op == RCM_MIN || op == RCM_MAX;
    const bool locates = op == RCM_MINLOC || op == RCM_MAXLOC;
    if (dtype_is_pair(dtype) || locates)
        return dtype_is_pair(dtype) && locates;
    if (dtype == RCM_BOOL)
        return op != RCM_AVG;
    if (dtype_is_integer(dtype) || op == RCM_AVG)
        return true;
    return sums || (orders && !dtype_is_complex(dtype));
}

/* ---- Data ------------------------------------------------------------------------------------ */

static uint64_t random_next(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* Zeros are frequent, because two must meet at one position. Other specials are rare, or every
 * result of many sources would be a NaN. */
static double special_value(uint64_t random) {
    static const double rare[] = {INFINITY, -INFINITY, 1e-310, -1e-310, 1e-42, 3e38, -1e308};
    if (random % 4 != 0)
        return random % 8 < 4 ? 0.0 : -0.0;
    return rare[random / 8 % (sizeof rare / sizeof rare[0])];
}

static void fill_float32(float *buf, size_t count, uint64_t state, int specials) {
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7fc12345, 0x7f800001, 0xffffffff};
    for (size_t i = 0; i < count; i++) {
        uint64_t r = random_next(&state);
        buf[i] = (float)((double)(int32_t)r / 1e6);
        if (specials && r >> 60 == 0)
            buf[i] = (float)special_value(r >> 8);
        if (specials && r >> 56 == 0xff)
            memcpy(&buf[i], &nans[r % 5], sizeof buf[i]);
    }
}

static void fill_float64(double *buf, size_t count, uint64_t state, int specials) {
    static const uint64_t nans[] = {0x7ff8000000000000, 0xfff8000000000000, 0x7ff8000000012345,
                                    0x7ff0000000000001, 0xffffffffffffffff};
    for (size_t i = 0; i < count; i++) {
        uint64_t r = random_next(&state);
        buf[i] = (double)(int64_t)r / 1e15;
        if (specials && r >> 60 == 0)
            buf[i] = special_value(r >> 8);
        if (specials && r >> 56 == 0xff)
            memcpy(&buf[i], &nans[r % 5], sizeof buf[i]);
    }
}

static void fill_bytes(uint8_t *buf, size_t len, uint64_t state) {
    for (size_t i = 0; i < len; i++)
        buf[i] = (uint8_t)random_next(&state);
}

/* Numbers that do not all round to the same result. */
static void fill_small(rcm_dtype dtype, void *buf, size_t count, uint64_t state, int specials) {
    for (size_t i = 0; i < count; i++) {
        const uint64_t r = random_next(&state);
        const float value = (float)((double)(int32_t)r / (r >> 40 & 1 ? 5e8 : 1e7));
        const bool special = specials && r >> 60 == 0;
        if (specials && r >> 56 == 0xff)
            code_put(dtype, buf, i, (uint32_t)(r >> 20));
        else
            code_put(dtype, buf, i,
                     small_encode(dtype, special ? (float)special_value(r >> 8) : value));
    }
}

/* Few different values, so that equal ones meet. */
static double location_value(uint64_t r, int specials) {
    if (specials && r >> 56 == 0xff)
        return r & 1 ? NAN : -NAN;
    if (specials && r >> 61 == 0)
        return special_value(r >> 8);
    return (double)(int64_t)(r % 7) - 3;
}

#define FILL_LOCATION(name, type, value_of)                                                        \
    case RCM_##name:                                                                               \
        memset(buf, (int)seed, count * sizeof(struct type));                                       \
        for (size_t i = 0; i < count; i++) {                                                       \
            const uint64_t r = random_next(&state);                                                \
            ((struct type *)buf)[i].value = value_of;                                              \
            ((struct type *)buf)[i].index = (int32_t)(r >> 32) % 100;                              \
        }                                                                                          \
        break;

void reference_fill(rcm_dtype dtype, void *buf, size_t count, unsigned seed, int specials) {
    uint64_t state = seed;
    switch (dtype) {
    case RCM_FLOAT32:
    case RCM_COMPLEX64:
        fill_float32(buf, count * (rcm_dtype_size(dtype) / 4), seed, specials);
        break;
    case RCM_FLOAT64:
    case RCM_COMPLEX128:
        fill_float64(buf, count * (rcm_dtype_size(dtype) / 8), seed, specials);
        break;
    case RCM_FLOAT16:
    case RCM_BFLOAT16:
    case RCM_FLOAT8_E4M3FN:
    case RCM_FLOAT8_E5M2:
        fill_small(dtype, buf, count, seed, specials);
        break;
        FILL_LOCATION(FLOAT32_INT32, rcm_float32_int32, (float)location_value(r, specials))
        FILL_LOCATION(FLOAT64_INT32, rcm_float64_int32, location_value(r, specials))
        FILL_LOCATION(INT32_INT32, rcm_int32_int32, (int32_t)location_value(r, 0))
        FILL_LOCATION(INT64_INT32, rcm_int64_int32, (int64_t)location_value(r, 0))
    default:
        fill_bytes(buf, count * rcm_dtype_size(dtype), seed);
        if (dtype == RCM_BOOL || specials) /* some zeros */
            for (size_t i = 0; i < count * rcm_dtype_size(dtype); i++)
                ((uint8_t *)buf)[i] &= (uint8_t)(((uint8_t *)buf)[i] % 3 == 0 ? 0 : 0xff);
    }
}
