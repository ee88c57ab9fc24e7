/* SPDX-License-Identifier: BSD-3-Clause */
/* Scalar reductions and test data; see reference.h. */
#include "reference.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
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
        }                                                                                          \
        assert(0);                                                                                 \
        return 0;                                                                                  \
    }

/* Of two equal values (which may be zeros of both signs) min takes the negative one. */
#define REFERENCE_FLOAT(name, type, bits, nan_bits)                                                \
    static type combine_##name(rcm_op op, type a, type b) {                                        \
        const bits canonical = (nan_bits);                                                         \
        type nan, r = 0;                                                                           \
        memcpy(&nan, &canonical, sizeof nan);                                                      \
        if (isnan(a) || isnan(b))                                                                  \
            return nan;                                                                            \
        if (op == RCM_SUM)                                                                         \
            r = a + b;                                                                             \
        else if (op == RCM_PROD)                                                                   \
            r = a * b;                                                                             \
        else if (op == RCM_MIN)                                                                    \
            r = a < b || (a == b && signbit(a)) ? a : b;                                           \
        else                                                                                       \
            r = a > b || (a == b && !signbit(a)) ? a : b;                                          \
        return isnan(r) ? nan : r;                                                                 \
    }

REFERENCE_INT(UINT8, uint8_t, uint32_t)
REFERENCE_INT(INT32, int32_t, uint32_t)
REFERENCE_INT(INT64, int64_t, uint64_t)
REFERENCE_FLOAT(FLOAT32, float, uint32_t, 0x7fc00000)
REFERENCE_FLOAT(FLOAT64, double, uint64_t, 0x7ff8000000000000)

void reference_combine(rcm_dtype dtype, rcm_op op, void *acc, const void *src, size_t count) {
#define REFERENCE_CASE(name, number, bytes, ctype)                                                 \
    case RCM_##name:                                                                               \
        for (size_t i = 0; i < count; i++)                                                         \
            ((ctype *)acc)[i] = combine_##name(op, ((ctype *)acc)[i], ((const ctype *)src)[i]);    \
        break;
    switch (dtype) { RCM_DTYPE_MAP(REFERENCE_CASE) }
}

static uint64_t random_next(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* Zeros are frequent, or two would never meet at one place; the others are rare, or every result
 * of many sources would be a NaN. */
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

void reference_fill(rcm_dtype dtype, void *buf, size_t count, unsigned seed, int specials) {
    if (dtype == RCM_FLOAT32)
        fill_float32(buf, count, seed, specials);
    else if (dtype == RCM_FLOAT64)
        fill_float64(buf, count, seed, specials);
    else
        fill_bytes(buf, count * rcm_dtype_size(dtype), seed);
}
