/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the scale of a scaled sum from memory, as an element of any float or complex type. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "kernels.h"

/* An element of a short float: its sign, exponent and mantissa. finite: as in float8_e4m3fn, the
 * largest exponent has numbers, and only all ones is a NaN. */
static double small_float(uint32_t bits, int exponent_bits, int mantissa_bits, bool finite) {
    const uint32_t mantissas = UINT32_C(1) << mantissa_bits;
    const uint32_t largest = (UINT32_C(1) << exponent_bits) - 1;
    const uint32_t exponent = bits >> mantissa_bits & largest, mantissa = bits & (mantissas - 1);
    const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    int shift = (int)(exponent > 0 ? exponent : 1) - (int)(largest / 2) - mantissa_bits;
    double value = mantissa + (exponent > 0 ? mantissas : 0);
    if (exponent == largest && (finite ? mantissa == mantissas - 1 : mantissa != 0))
        return (double)NAN;
    if (exponent == largest && !finite)
        return sign * (double)INFINITY;
    for (; shift > 0; shift--)
        value *= 2;
    for (; shift < 0; shift++)
        value /= 2;
    return sign * value;
}

static double read_short(const void *element, rcm_dtype dtype) {
    uint16_t two = 0;
    uint8_t one = 0;
    if (rcm_dtype_size(dtype) == 2)
        memcpy(&two, element, sizeof two);
    else
        memcpy(&one, element, sizeof one);
    return dtype == RCM_FLOAT16         ? small_float(two, 5, 10, false)
           : dtype == RCM_BFLOAT16      ? small_float(two, 8, 7, false)
           : dtype == RCM_FLOAT8_E4M3FN ? small_float(one, 4, 3, true)
                                        : small_float(one, 5, 2, false);
}

void rcmi_scale_read(const void *element, rcm_dtype dtype, double ret_scale[2]) {
    const bool twice = dtype == RCM_FLOAT64 || dtype == RCM_COMPLEX128;
    const bool once = dtype == RCM_FLOAT32 || dtype == RCM_COMPLEX64;
    const size_t parts = dtype == RCM_COMPLEX64 || dtype == RCM_COMPLEX128 ? 2 : 1;
    float single[2];
    ret_scale[1] = 0;
    if (twice)
        memcpy(ret_scale, element, parts * sizeof ret_scale[0]);
    else if (once)
        memcpy(single, element, parts * sizeof single[0]);
    for (size_t i = 0; i < parts && !twice; i++)
        ret_scale[i] = once ? (double)single[i] : read_short(element, dtype);
}
