/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors of floats shorter than float32, which are combined as float32: load_T and store_T
 * (vector.h) convert, and vec_T is two vectors of float32. The conversion to float32 is exact. The
 * conversion back rounds to nearest, ties to even. Stored values have passed through the finish of
 * an operator (ops.h), so a NaN is 0x7fc00000, and becomes the NaN of the type.
 *
 *      type            bits of mantissa   bias   NaN     beyond the largest
 *      float16         10                 15     7e00    infinity
 *      bfloat16        7                  127    7fc0    infinity
 *      float8_e5m2     2                  15     7f      infinity
 *      float8_e4m3fn   3                  7      7f      +-448, also of an infinity
 *
 * The CPU's own conversions are used if it has them: they give the same bits. There are no
 * non-temporal stores: kernels of these types are lean (reduce_loop.h).
 */
#ifndef RCMI_VECTOR_SMALL_H
#define RCMI_VECTOR_SMALL_H

#include "vector.h"

/* Half, and a quarter, of a vector: as many elements as a vector of float32. */
typedef uint16_t half_vec __attribute__((vector_size(RCMI_VECTOR_BYTES / 2)));
typedef uint16_t half_mem
    __attribute__((vector_size(RCMI_VECTOR_BYTES / 2), aligned(1), may_alias));
typedef uint8_t quarter_vec __attribute__((vector_size(RCMI_VECTOR_BYTES / 4)));
typedef uint8_t quarter_mem
    __attribute__((vector_size(RCMI_VECTOR_BYTES / 4), aligned(1), may_alias));

RCMI_INLINE vec_uint32 half_widen(half_vec v) {
#if defined(__SSE2__) && RCMI_VECTOR_BYTES == 64
    return (vec_uint32)_mm512_cvtepu16_epi32((__m256i)v);
#elif defined(__SSE2__) && RCMI_VECTOR_BYTES == 32
    return (vec_uint32)_mm256_cvtepu16_epi32((__m128i)v);
#else
    return __builtin_convertvector(v, vec_uint32);
#endif
}

/* The lower halves of the lanes; the upper halves are 0. */
RCMI_INLINE half_vec half_narrow(vec_uint32 v) {
#if defined(__SSE2__) && RCMI_VECTOR_BYTES == 64
    return (half_vec)_mm512_cvtepi32_epi16((__m512i)v);
#else
    return __builtin_convertvector(v, half_vec);
#endif
}

RCMI_INLINE vec_uint32 quarter_widen(quarter_vec v) {
#if defined(__SSE2__) && RCMI_VECTOR_BYTES == 64
    return (vec_uint32)_mm512_cvtepu8_epi32((__m128i)v);
#else
    return __builtin_convertvector(v, vec_uint32);
#endif
}

RCMI_INLINE quarter_vec quarter_narrow(vec_uint32 v) {
#if defined(__SSE2__) && RCMI_VECTOR_BYTES == 64
    return (quarter_vec)_mm512_cvtepi32_epi8((__m512i)v);
#else
    return __builtin_convertvector(v, quarter_vec);
#endif
}

RCMI_INLINE vec_uint32 select_uint32(bits_uint32 mask, vec_uint32 a, vec_uint32 b) {
    return (a & (vec_uint32)mask) | (b & ~(vec_uint32)mask);
}

/* ---- Any of these formats -------------------------------------------------------------------- */

/* The bits of the float32 with value 2^exponent. */
#define FLOAT32_POWER(exponent) ((uint32_t)(127 + (exponent)) << 23)

/*
 * v: the bits of T in lanes of 32. The magnitude is shifted to float32's exponent and mantissa
 * position; multiplying by 2^(127 - bias) corrects the exponent. Denormals become denormal or
 * normal float32 numbers, exactly.
 */
RCMI_INLINE vec_uint32 small_widen(vec_uint32 v, int width, int mantissa, int bias) {
    const vec_uint32 sign = (v >> (width - 1)) << 31;
    const vec_uint32 magnitude = (v & ((1u << (width - 1)) - 1)) << (23 - mantissa);
    const vec_float32 factor = (vec_float32)((vec_uint32){0} + FLOAT32_POWER(127 - bias));
    return (vec_uint32)((vec_float32)magnitude * factor) | sign;
}

/*
 * v: a magnitude that T can represent, or one that is too large. Normal numbers: adds half of the
 * last kept digit, minus the lowest bit for a tie to even. Smaller ones: added to a power of two
 * whose last digit is T's smallest number, which rounds in the same way.
 */
RCMI_INLINE vec_uint32 small_round(vec_uint32 v, int mantissa, int bias) {
    const int cut = 23 - mantissa;
    const vec_uint32 power = (vec_uint32){0} + FLOAT32_POWER(1 - bias - mantissa + 23);
    const vec_uint32 least = (vec_uint32){0} + FLOAT32_POWER(1 - bias);
    const vec_uint32 tiny = (vec_uint32)((vec_float32)v + (vec_float32)power) - power;
    const vec_uint32 normal =
        v + ((v >> cut) & 1) + ((1u << (cut - 1)) - 1) - (FLOAT32_POWER(1 - bias) - (1u << 23));
    return select_uint32((bits_uint32)(v < least), tiny, normal >> cut);
}

/* ---- float16 --------------------------------------------------------------------------------- */

RCMI_INLINE vec_float32 widen_float16(half_vec v) {
#if defined(__F16C__) && RCMI_VECTOR_BYTES == 64
    return (vec_float32)_mm512_cvtph_ps((__m256i)v);
#elif defined(__F16C__) && RCMI_VECTOR_BYTES == 32
    return (vec_float32)_mm256_cvtph_ps((__m128i)v);
#else
    const vec_uint32 wide = half_widen(v);
    const bits_uint32 special = (bits_uint32)((wide & 0x7c00) == 0x7c00);
    return (vec_float32)(small_widen(wide, 16, 10, 15) | ((vec_uint32)special & 0x7f800000));
#endif
}

RCMI_INLINE half_vec narrow_float16(vec_float32 v) {
#if defined(__F16C__) && RCMI_VECTOR_BYTES == 64
    return (half_vec)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__F16C__) && RCMI_VECTOR_BYTES == 32
    return (half_vec)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
    const vec_uint32 bits = (vec_uint32)v, magnitude = bits & 0x7fffffff;
    const vec_uint32 special = select_uint32((bits_uint32)(magnitude > 0x7f800000),
                                             (vec_uint32){0} + 0x7e00, (vec_uint32){0} + 0x7c00);
    const bits_uint32 large = (bits_uint32)(magnitude >= FLOAT32_POWER(16));
    return half_narrow(select_uint32(large, special, small_round(magnitude, 10, 15)) |
                       ((bits >> 31) << 15));
#endif
}

/* ---- The 8-bit floats ------------------------------------------------------------------------ */

RCMI_INLINE vec_float32 widen_float8_e5m2(quarter_vec v) {
    const vec_uint32 wide = quarter_widen(v);
    const bits_uint32 special = (bits_uint32)((wide & 0x7c) == 0x7c);
    return (vec_float32)(small_widen(wide, 8, 2, 15) | ((vec_uint32)special & 0x7f800000));
}

RCMI_INLINE quarter_vec narrow_float8_e5m2(vec_float32 v) {
    const vec_uint32 bits = (vec_uint32)v, magnitude = bits & 0x7fffffff;
    const vec_uint32 special = select_uint32((bits_uint32)(magnitude > 0x7f800000),
                                             (vec_uint32){0} + 0x7f, (vec_uint32){0} + 0x7c);
    const bits_uint32 large = (bits_uint32)(magnitude >= FLOAT32_POWER(16));
    return quarter_narrow(select_uint32(large, special, small_round(magnitude, 2, 15)) |
                          ((bits >> 31) << 7));
}

RCMI_INLINE vec_float32 widen_float8_e4m3fn(quarter_vec v) {
    const vec_uint32 wide = quarter_widen(v);
    const bits_uint32 nan = (bits_uint32)((wide & 0x7f) == 0x7f);
    return (vec_float32)(small_widen(wide, 8, 3, 7) | ((vec_uint32)nan & 0x7f800001));
}

RCMI_INLINE quarter_vec narrow_float8_e4m3fn(vec_float32 v) {
    const vec_uint32 bits = (vec_uint32)v, magnitude = bits & 0x7fffffff;
    const vec_uint32 largest = (vec_uint32){0} + 0x43e00000; /* 448 */
    const vec_uint32 within = select_uint32((bits_uint32)(magnitude > largest), largest, magnitude);
    const bits_uint32 nan = (bits_uint32)(magnitude > 0x7f800000);
    return quarter_narrow(select_uint32(nan, (vec_uint32){0} + 0x7f, small_round(within, 3, 7)) |
                          ((bits >> 31) << 7));
}

/* ---- As types of vector.h -------------------------------------------------------------------- */

/* Elements 0, 2, 4, ... and 1, 3, 5, ... for bfloat16, else the first and the second half. */
struct vec_small {
    vec_float32 first, second;
};

#define RCMI_VECTOR_SMALL(T, ctype)                                                                \
    typedef ctype elem_##T __attribute__((may_alias));                                             \
    typedef struct vec_small vec_##T;                                                              \
    enum { LANES_##T = 2 * LANES_float32 };

RCMI_VECTOR_SMALL(float16, uint16_t)
RCMI_VECTOR_SMALL(bfloat16, uint16_t)
RCMI_VECTOR_SMALL(float8_e5m2, uint8_t)
RCMI_VECTOR_SMALL(float8_e4m3fn, uint8_t)

/* piece: half or quarter. */
#define RCMI_SMALL_MEMORY(T, piece)                                                                \
    RCMI_INLINE vec_##T load_##T(const elem_##T *p) {                                              \
        const piece##_mem *pieces = (const piece##_mem *)p;                                        \
        return (vec_##T){widen_##T((piece##_vec)pieces[0]), widen_##T((piece##_vec)pieces[1])};    \
    }                                                                                              \
    RCMI_INLINE void store_##T(elem_##T *p, vec_##T v) {                                           \
        ((piece##_mem *)p)[0] = (piece##_mem)narrow_##T(v.first);                                  \
        ((piece##_mem *)p)[1] = (piece##_mem)narrow_##T(v.second);                                 \
    }                                                                                              \
    RCMI_INLINE vec_##T load_one_##T(const elem_##T *p) {                                          \
        return (vec_##T){.first = widen_##T((piece##_vec){*p})};                                   \
    }                                                                                              \
    RCMI_INLINE void store_one_##T(elem_##T *p, vec_##T v) {                                       \
        *p = narrow_##T(v.first)[0];                                                               \
    }

RCMI_SMALL_MEMORY(float16, half)
RCMI_SMALL_MEMORY(float8_e5m2, quarter)
RCMI_SMALL_MEMORY(float8_e4m3fn, quarter)

/* ---- bfloat16: the upper half of a float32 --------------------------------------------------- */

RCMI_INLINE vec_bfloat16 load_bfloat16(const elem_bfloat16 *p) {
    const vec_uint32 both = load_uint32((const elem_uint32 *)p);
    return (vec_bfloat16){(vec_float32)(both << 16), (vec_float32)(both & 0xffff0000)};
}

/* The cut-off part rounds up if it is above a half, or a half and the lowest kept bit is 1. That
 * may carry into the exponent, up to an infinity; the NaN stays a NaN. */
RCMI_INLINE vec_uint16 round_bfloat16(vec_uint16 kept, vec_uint16 cut) {
    return kept - (vec_uint16)((cut | (kept & 1)) > 0x8000);
}

RCMI_INLINE void store_bfloat16(elem_bfloat16 *p, vec_bfloat16 v) {
    const vec_uint32 first = (vec_uint32)v.first, second = (vec_uint32)v.second;
    const vec_uint32 kept = first >> 16 | (second & 0xffff0000);
    const vec_uint32 cut = (first & 0xffff) | second << 16;
    store_uint16(p, round_bfloat16((vec_uint16)kept, (vec_uint16)cut));
}

RCMI_INLINE vec_bfloat16 load_one_bfloat16(const elem_bfloat16 *p) {
    return (vec_bfloat16){.first = (vec_float32)(vec_uint32){(uint32_t)*p << 16}};
}

RCMI_INLINE void store_one_bfloat16(elem_bfloat16 *p, vec_bfloat16 v) {
    const uint32_t bits = ((vec_uint32)v.first)[0];
    *p = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- Their bits as integers ------------------------------------------------------------------ */

/* Operands of min and max, which need no arithmetic (ops.h). */
RCMI_VECTOR_TYPE(float16_bits, uint16_t, int16_t)
RCMI_VECTOR_TYPE(bfloat16_bits, uint16_t, int16_t)
RCMI_VECTOR_TYPE(float8_e5m2_bits, uint8_t, int8_t)
RCMI_VECTOR_TYPE(float8_e4m3fn_bits, uint8_t, int8_t)

#endif
