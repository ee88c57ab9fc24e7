/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operators on one vector, per type: for each operator OP and type T
 *     vec_T OP_T(vec_T a, vec_T b)       combines two operands
 *     vec_T OP_finish_T(vec_T r)         applied once to the final result, before it is stored
 *
 * Integers wrap, so they are added and multiplied as unsigned; signed types share those kernels
 * (reduce.c). Likewise complex numbers are added as twice as many floats. The rules for floats are
 * those of kernels.h: a NaN result is always the same NaN, and -0 is less than +0 (minimum and
 * maximum of IEEE 754-2019). NaNs survive every combination, so one check at the end is enough.
 */
#ifndef RCMI_OPS_H
#define RCMI_OPS_H

#include "kernels.h"
#include "vector.h"
#include "vector_small.h"

/* Per lane: a where mask is all ones, b where it is 0. Compilers turn it into a blend. */
#define RCMI_SELECT(T, mask, a, b) ((vec_##T)(((bits_##T)(a) & (mask)) | ((bits_##T)(b) & ~(mask))))

/* Per lane: 1 where mask is all ones, else 0. */
#define RCMI_ONES(T, mask) ((vec_##T)((bits_##T)(mask) & (bits_##T)((bits_##T){0} + 1)))

/* An operator whose operands and result need no conversion. */
#define RCMI_PLAIN_OP(OP, T, expression)                                                           \
    RCMI_INLINE vec_##T OP##_##T(vec_##T a, vec_##T b) {                                           \
        return (vec_##T)(expression);                                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T OP##_finish_##T(vec_##T r) {                                               \
        return r;                                                                                  \
    }

/* Operators that differ between signed and unsigned. */
#define RCMI_ORDER_OPS(T)                                                                          \
    RCMI_PLAIN_OP(min, T, RCMI_SELECT(T, (bits_##T)(a < b), a, b))                                 \
    RCMI_PLAIN_OP(max, T, RCMI_SELECT(T, (bits_##T)(a < b), b, a))

/* For unsigned numbers; signed ones have the same bits. */
#define RCMI_UNSIGNED_OPS(T)                                                                       \
    RCMI_ORDER_OPS(T)                                                                              \
    RCMI_PLAIN_OP(sum, T, a + b)                                                                   \
    RCMI_PLAIN_OP(prod, T, a *b)                                                                   \
    RCMI_PLAIN_OP(band, T, a &b)                                                                   \
    RCMI_PLAIN_OP(bor, T, a | b)                                                                   \
    RCMI_PLAIN_OP(bxor, T, a ^ b)                                                                  \
    RCMI_PLAIN_OP(land, T, RCMI_ONES(T, (a != 0) & (b != 0)))                                      \
    RCMI_PLAIN_OP(lor, T, RCMI_ONES(T, (a | b) != 0))                                              \
    RCMI_PLAIN_OP(lxor, T, RCMI_ONES(T, (a != 0) ^ (b != 0)))

#if defined(__SSE2__) && RCMI_VECTOR_BYTES == 64
/* The lowest two digits, for quiet and signaling NaNs, choose the first operand of fixupimm, the
 * others the second. range distinguishes -0 from +0, but for a NaN and a number it returns the
 * number. */
#define RCMI_NAN_CLASSES _mm512_set1_epi32(0x11111100)
#define RCMI_RANGE_MIN   4
#define RCMI_RANGE_MAX   5
#define RCMI_FLOAT_ORDER(T, suffix, sign_bit, nan_bits)                                            \
    RCMI_INLINE vec_##T nan_##T(void) {                                                            \
        return (vec_##T)((bits_##T){0} + (nan_bits));                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T canonical_##T(vec_##T r) {                                                 \
        return (vec_##T)_mm512_fixupimm_##suffix(nan_##T(), r, RCMI_NAN_CLASSES, 0);               \
    }                                                                                              \
    RCMI_INLINE vec_##T min_##T(vec_##T a, vec_##T b) {                                            \
        return (vec_##T)_mm512_mask_mov_##suffix(_mm512_range_##suffix(a, b, RCMI_RANGE_MIN),      \
                                                 _mm512_cmp_##suffix##_mask(a, b, _CMP_UNORD_Q),   \
                                                 nan_##T());                                       \
    }                                                                                              \
    RCMI_INLINE vec_##T max_##T(vec_##T a, vec_##T b) {                                            \
        return (vec_##T)_mm512_mask_mov_##suffix(_mm512_range_##suffix(a, b, RCMI_RANGE_MAX),      \
                                                 _mm512_cmp_##suffix##_mask(a, b, _CMP_UNORD_Q),   \
                                                 nan_##T());                                       \
    }
#else
/*
 * min without a branch: the OR of `a < b ? a : b` and `b < a ? b : a`. These differ only if a and b
 * are equal or one is a NaN. Equal values differ in bits only as -0 and +0, whose OR is -0. If
 * there is a NaN, one of the two expressions is it, and the OR of a NaN with anything is a NaN. max
 * is min with inverted signs, because an AND would lose the NaN.
 */
#define RCMI_FLOAT_ORDER(T, suffix, sign_bit, nan_bits)                                            \
    RCMI_INLINE vec_##T canonical_##T(vec_##T r) {                                                 \
        bits_##T number = (bits_##T)(r == r);                                                      \
        bits_##T nan = (bits_##T){0} + (nan_bits);                                                 \
        return RCMI_SELECT(T, number, r, nan);                                                     \
    }                                                                                              \
    RCMI_INLINE vec_##T negate_##T(vec_##T v) {                                                    \
        return (vec_##T)((bits_##T)v ^ ((bits_##T){0} + (sign_bit)));                              \
    }                                                                                              \
    RCMI_INLINE vec_##T min_##T(vec_##T a, vec_##T b) {                                            \
        bits_##T a_less = (bits_##T)(a < b), b_less = (bits_##T)(b < a);                           \
        bits_##T first = (bits_##T)RCMI_SELECT(T, a_less, a, b);                                   \
        bits_##T second = (bits_##T)RCMI_SELECT(T, b_less, b, a);                                  \
        return (vec_##T)(first | second);                                                          \
    }                                                                                              \
    RCMI_INLINE vec_##T max_##T(vec_##T a, vec_##T b) {                                            \
        return negate_##T(min_##T(negate_##T(a), negate_##T(b)));                                  \
    }
#endif

#define RCMI_FLOAT_OP(OP, T, expression)                                                           \
    RCMI_INLINE vec_##T OP##_##T(vec_##T a, vec_##T b) {                                           \
        return expression;                                                                         \
    }
#define RCMI_FLOAT_FINISH(OP, T)                                                                   \
    RCMI_INLINE vec_##T OP##_finish_##T(vec_##T r) {                                               \
        return canonical_##T(r);                                                                   \
    }

#define RCMI_FLOAT_OPS(T, suffix, sign_bit, nan_bits)                                              \
    RCMI_FLOAT_ORDER(T, suffix, sign_bit, nan_bits)                                                \
    RCMI_FLOAT_OP(sum, T, a + b)                                                                   \
    RCMI_FLOAT_OP(prod, T, a *b)                                                                   \
    RCMI_FLOAT_FINISH(sum, T)                                                                      \
    RCMI_FLOAT_FINISH(prod, T)                                                                     \
    RCMI_FLOAT_FINISH(min, T)                                                                      \
    RCMI_FLOAT_FINISH(max, T)

RCMI_UNSIGNED_OPS(uint8)
RCMI_UNSIGNED_OPS(uint16)
RCMI_UNSIGNED_OPS(uint32)
RCMI_UNSIGNED_OPS(uint64)
RCMI_ORDER_OPS(int8)
RCMI_ORDER_OPS(int16)
RCMI_ORDER_OPS(int32)
RCMI_ORDER_OPS(int64)
RCMI_FLOAT_OPS(float32, ps, INT32_MIN, 0x7fc00000)
RCMI_FLOAT_OPS(float64, pd, INT64_MIN, 0x7ff8000000000000)

/* ---- The shorter floats ---------------------------------------------------------------------- */

/* OP_float32 of both halves. */
#define RCMI_SMALL_OP(OP, T)                                                                       \
    RCMI_FLOAT_OP(OP, T,                                                                           \
                  ((vec_##T){OP##_float32(a.first, b.first), OP##_float32(a.second, b.second)}))   \
    RCMI_FLOAT_FINISH(OP, T)
#define RCMI_SMALL_OPS(T)                                                                          \
    RCMI_INLINE vec_##T canonical_##T(vec_##T r) {                                                 \
        return (vec_##T){canonical_float32(r.first), canonical_float32(r.second)};                 \
    }                                                                                              \
    RCMI_SMALL_OP(sum, T)                                                                          \
    RCMI_SMALL_OP(prod, T)

RCMI_SMALL_OPS(float16)
RCMI_SMALL_OPS(bfloat16)
RCMI_SMALL_OPS(float8_e5m2)
RCMI_SMALL_OPS(float8_e4m3fn)

/*
 * min and max use integer keys with the order of the floats: for negative numbers all bits except
 * the sign are inverted, so -0 is before +0. NaNs are then at both ends, `nans` at each end. Adding
 * that number (subtracting it for max) wraps the NaNs at one end around to the other, where they
 * win.
 *
 *      a float16      -NaN      -inf         -0     +0            inf         NaN
 *      its key       -32768    -31745        -1      0           31744       32767
 *      for min       -31745    -30722  ...  1022   1023    ...   32767      -32768
 */
#define RCMI_KEY_OP(OP, T, one, other, bias, is_nan, nan_bits)                                     \
    RCMI_INLINE vec_##T OP##_take_##T(vec_##T v) {                                                 \
        return key_##T(v) + (elem_##T)(bias);                                                      \
    }                                                                                              \
    RCMI_INLINE vec_##T OP##_##T(vec_##T a, vec_##T b) {                                           \
        return RCMI_SELECT(T, (bits_##T)((bits_##T)a < (bits_##T)b), one, other);                  \
    }                                                                                              \
    RCMI_INLINE vec_##T OP##_finish_##T(vec_##T r) {                                               \
        const bits_##T nan = (bits_##T)((bits_##T)r is_nan);                                       \
        return RCMI_SELECT(T, nan, (vec_##T){0} + (nan_bits), key_##T(r - (elem_##T)(bias)));      \
    }
#define RCMI_KEY_OPS(T, highest, nans, nan_bits)                                                   \
    RCMI_INLINE vec_##T key_##T(vec_##T v) {                                                       \
        const vec_##T negative = (vec_##T)((bits_##T)v >> (8 * sizeof(elem_##T) - 1));             \
        return v ^ (negative & (highest));                                                         \
    }                                                                                              \
    RCMI_KEY_OP(min, T, a, b, nans, < 2 * (nans) - (highest)-1, nan_bits)                          \
    RCMI_KEY_OP(max, T, b, a, -(nans), > (highest)-2 * (nans), nan_bits)

RCMI_KEY_OPS(float16_bits, 0x7fff, 0x3ff, 0x7e00)
RCMI_KEY_OPS(bfloat16_bits, 0x7fff, 0x7f, 0x7fc0)
RCMI_KEY_OPS(float8_e5m2_bits, 0x7f, 3, 0x7f)
RCMI_KEY_OPS(float8_e4m3fn_bits, 0x7f, 1, 0x7f)

/* ---- bool ------------------------------------------------------------------------------------ */

typedef elem_uint8 elem_truth;
typedef vec_uint8 vec_truth;
typedef bits_uint8 bits_truth;
enum { LANES_truth = LANES_uint8 };
RCMI_INLINE vec_truth load_truth(const elem_truth *p) {
    return RCMI_ONES(uint8, load_uint8(p) != 0);
}
RCMI_INLINE vec_truth load_one_truth(const elem_truth *p) {
    return RCMI_ONES(uint8, load_one_uint8(p) != 0);
}
RCMI_INLINE void store_truth(elem_truth *p, vec_truth v) {
    store_uint8(p, v);
}
RCMI_INLINE void store_one_truth(elem_truth *p, vec_truth v) {
    store_one_uint8(p, v);
}
RCMI_PLAIN_OP(land, truth, a &b)
RCMI_PLAIN_OP(lor, truth, a | b)
RCMI_PLAIN_OP(lxor, truth, a ^ b)

/* ---- Complex products ------------------------------------------------------------------------ */

/* Each pair of lanes (a, b) as (a, a), (b, b) and (b, a); AB: the first pair in all lanes. */
#if RCMI_VECTOR_BYTES == 64
#define LANES_AA_float32 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14
#define LANES_BB_float32 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15
#define LANES_BA_float32 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define LANES_AB_float32 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1
#define LANES_AA_float64 0, 0, 2, 2, 4, 4, 6, 6
#define LANES_BB_float64 1, 1, 3, 3, 5, 5, 7, 7
#define LANES_BA_float64 1, 0, 3, 2, 5, 4, 7, 6
#define LANES_AB_float64 0, 1, 0, 1, 0, 1, 0, 1
#elif RCMI_VECTOR_BYTES == 32
#define LANES_AA_float32 0, 0, 2, 2, 4, 4, 6, 6
#define LANES_BB_float32 1, 1, 3, 3, 5, 5, 7, 7
#define LANES_BA_float32 1, 0, 3, 2, 5, 4, 7, 6
#define LANES_AB_float32 0, 1, 0, 1, 0, 1, 0, 1
#define LANES_AA_float64 0, 0, 2, 2
#define LANES_BB_float64 1, 1, 3, 3
#define LANES_BA_float64 1, 0, 3, 2
#define LANES_AB_float64 0, 1, 0, 1
#else
#define LANES_AA_float32 0, 0, 2, 2
#define LANES_BB_float32 1, 1, 3, 3
#define LANES_BA_float32 1, 0, 3, 2
#define LANES_AB_float32 0, 1, 0, 1
#define LANES_AA_float64 0, 0
#define LANES_BB_float64 1, 1
#define LANES_BA_float64 1, 0
#define LANES_AB_float64 0, 1
#endif

/* -0 in the lanes of real parts, +0 in the others. */
#define RCMI_SIGNS(part)                                                                           \
    RCMI_INLINE vec_##part signs_##part(void) {                                                    \
        const vec_##part signs = {-0.0f, 0};                                                       \
        return __builtin_shufflevector(signs, signs, LANES_AB_##part);                             \
    }
RCMI_SIGNS(float32)
RCMI_SIGNS(float64)

/* (a.real b.real, a.real b.imaginary) + (-a.imaginary b.imaginary, a.imaginary b.real): subtracts
 * by adding the negative. */
#define RCMI_COMPLEX_OPS(T, part)                                                                  \
    RCMI_INLINE vec_##T prod_##T(vec_##T a, vec_##T b) {                                           \
        const vec_##T real = __builtin_shufflevector(a, a, LANES_AA_##part);                       \
        const vec_##T imaginary = __builtin_shufflevector(a, a, LANES_BB_##part);                  \
        const vec_##T turned = __builtin_shufflevector(b, b, LANES_BA_##part);                     \
        const vec_##T signs = signs_##part();                                                      \
        return real * b + (vec_##T)((bits_##T)(imaginary * turned) ^ (bits_##T)signs);             \
    }                                                                                              \
    RCMI_INLINE vec_##T prod_finish_##T(vec_##T r) {                                               \
        return canonical_##part(r);                                                                \
    }

RCMI_COMPLEX_OPS(complex64, float32)
RCMI_COMPLEX_OPS(complex128, float64)

/* ---- Scaled sums: avg and premul_sum --------------------------------------------------------- */

/* Rounds a contribution as if stored, so that its own rank adds the same value as the others
 * receive. */
#define RCMI_STORED(T)                                                                             \
    RCMI_INLINE vec_##T stored_##T(vec_##T v) {                                                    \
        elem_##T elements[LANES_##T];                                                              \
        store_##T(elements, canonical_##T(v));                                                     \
        return load_##T(elements);                                                                 \
    }
RCMI_STORED(float16)
RCMI_STORED(bfloat16)
RCMI_STORED(float8_e5m2)
RCMI_STORED(float8_e4m3fn)

/* Scales source s of a reduction, and divides its result, by the context. */
#define RCMI_SCALED_OPS(T, ctype)                                                                  \
    RCMI_INLINE vec_##T scaled_sum_##T(vec_##T a, vec_##T b) {                                     \
        return a + b;                                                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T scale_##T(vec_##T v, int s, const struct rcmi_reduce_context *context) {   \
        if (context->scaled >> s & 1)                                                              \
            return v * ((vec_##T){0} + (ctype)context->scale[0]);                                  \
        return v;                                                                                  \
    }                                                                                              \
    RCMI_INLINE vec_##T divide_##T(vec_##T r, const struct rcmi_reduce_context *context) {         \
        if (context->divisor > 1)                                                                  \
            r = r / ((vec_##T){0} + (ctype)context->divisor);                                      \
        return canonical_##T(r);                                                                   \
    }

#define RCMI_SCALED_SMALL_OPS(T)                                                                   \
    RCMI_FLOAT_OP(scaled_sum, T, sum_##T(a, b))                                                    \
    RCMI_INLINE vec_##T scale_##T(vec_##T v, int s, const struct rcmi_reduce_context *context) {   \
        if (!(context->scaled >> s & 1))                                                           \
            return v;                                                                              \
        return stored_##T(                                                                         \
            (vec_##T){scale_float32(v.first, s, context), scale_float32(v.second, s, context)});   \
    }                                                                                              \
    RCMI_INLINE vec_##T divide_##T(vec_##T r, const struct rcmi_reduce_context *context) {         \
        return (vec_##T){divide_float32(r.first, context), divide_float32(r.second, context)};     \
    }

#define RCMI_SCALED_COMPLEX_OPS(T, part, ctype)                                                    \
    RCMI_INLINE vec_##T scaled_sum_##T(vec_##T a, vec_##T b) {                                     \
        return a + b;                                                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T scale_##T(vec_##T v, int s, const struct rcmi_reduce_context *context) {   \
        const vec_##T pair = {(ctype)context->scale[0], (ctype)context->scale[1]};                 \
        if (context->scaled >> s & 1)                                                              \
            return prod_##T(__builtin_shufflevector(pair, pair, LANES_AB_##part), v);              \
        return v;                                                                                  \
    }                                                                                              \
    RCMI_INLINE vec_##T divide_##T(vec_##T r, const struct rcmi_reduce_context *context) {         \
        return divide_##part(r, context);                                                          \
    }

RCMI_SCALED_OPS(float32, float)
RCMI_SCALED_OPS(float64, double)
RCMI_SCALED_SMALL_OPS(float16)
RCMI_SCALED_SMALL_OPS(bfloat16)
RCMI_SCALED_SMALL_OPS(float8_e5m2)
RCMI_SCALED_SMALL_OPS(float8_e4m3fn)
RCMI_SCALED_COMPLEX_OPS(complex64, float32, float)
RCMI_SCALED_COMPLEX_OPS(complex128, float64, double)

#endif
