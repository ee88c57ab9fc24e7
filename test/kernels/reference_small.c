/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short floats without bit arithmetic. For each type the values of all unsigned codes are listed
 * once. They ascend with the codes, so a value is found by search.
 */
#include "reference_small.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct small {
    rcm_dtype dtype;
    int width, mantissa, bias;
    uint32_t numbers; /* codes 0..numbers-1 are finite */
    uint32_t nan, beyond;
    double *values;
};

static double float16_values[0x7c00], bfloat16_values[0x7f80], e4m3fn_values[0x7f],
    e5m2_values[0x7c];
static struct small smalls[] = {
    {RCM_FLOAT16, 16, 10, 15, 0x7c00, 0x7e00, 0x7c00, float16_values},
    {RCM_BFLOAT16, 16, 7, 127, 0x7f80, 0x7fc0, 0x7f80, bfloat16_values},
    {RCM_FLOAT8_E4M3FN, 8, 3, 7, 0x7f, 0x7f, 0x7e, e4m3fn_values},
    {RCM_FLOAT8_E5M2, 8, 2, 15, 0x7c, 0x7f, 0x7c, e5m2_values},
};

static double number_of(const struct small *small, uint32_t code) {
    const int exponent = (int)(code >> small->mantissa);
    const double fraction = ldexp((double)(code & ((1u << small->mantissa) - 1)), -small->mantissa);
    return exponent == 0 ? ldexp(fraction, 1 - small->bias)
                         : ldexp(1 + fraction, exponent - small->bias);
}

static const struct small *small_of(rcm_dtype dtype) {
    for (size_t i = 0; i < sizeof smalls / sizeof smalls[0]; i++) {
        struct small *small = &smalls[i];
        if (small->dtype != dtype)
            continue;
        if (small->values[1] == 0)
            for (uint32_t code = 0; code < small->numbers; code++)
                small->values[code] = number_of(small, code);
        return small;
    }
    return NULL;
}

bool small_is(rcm_dtype dtype) {
    return small_of(dtype) != NULL;
}

float small_decode(rcm_dtype dtype, uint32_t code) {
    const struct small *small = small_of(dtype);
    const uint32_t sign = 1u << (small->width - 1), magnitude = code & (sign - 1);
    double value = NAN;
    if (magnitude < small->numbers)
        value = small->values[magnitude];
    else if (magnitude == small->beyond)
        value = INFINITY;
    return (float)(code & sign ? -value : value);
}

/* The last code whose value is not greater. */
static uint32_t code_below(const struct small *small, double value) {
    uint32_t low = 0, high = small->numbers;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        *(small->values[middle] <= value ? &low : &high) = middle;
    }
    return low;
}

static uint32_t code_near(const struct small *small, double value) {
    const uint32_t low = code_below(small, value);
    const double next = number_of(small, low + 1); /* after the last number: infinity */
    const double down = value - small->values[low], up = next - value;
    const uint32_t code = down < up || (down == up && low % 2 == 0) ? low : low + 1;
    return code < small->numbers ? code : small->beyond;
}

uint32_t small_encode(rcm_dtype dtype, float value) {
    const struct small *small = small_of(dtype);
    const uint32_t sign = signbit(value) ? 1u << (small->width - 1) : 0;
    if (isnan(value))
        return small->nan;
    return (isinf(value) ? small->beyond : code_near(small, fabs((double)value))) | sign;
}
