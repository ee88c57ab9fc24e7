/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the operators do to one vector, per type: for each operator OP and type T
 *     vec_T OP_T(vec_T a, vec_T b)       combines two operands
 *     vec_T OP_finish_T(vec_T r)         once on the result of all, before it is stored
 *
 * Integers wrap, so they are added and multiplied as unsigned ones, whose kernels the signed types
 * share (reduce.c), and likewise complex numbers are added as twice as many floats. The rules for
 * floats are those of kernels.h: a NaN result is always the same NaN, and -0 is less than +0
 * (minimum and maximum of IEEE 754-2019). NaNs survive every combine, so one look at the end is
 * enough.
 */
#ifndef RCMI_OPS_H
#define RCMI_OPS_H

#include "kernels.h"
#include "vector.h"
#include "vector_small.h"

/* Lane by lane: a where mask is all ones, b where it is 0. Compilers make a blend of it. */
#define RCMI_SELECT(T, mask, a, b) ((vec_##T)(((bits_##T)(a) & (mask)) | ((bits_##T)(b) & ~(mask))))

/* Lanes of 1 where mask is all ones, else 0. */
#define RCMI_ONES(T, mask) ((vec_##T)((bits_##T)(mask) & (bits_##T)((bits_##T){0} + 1)))

/* An operator whose operands and result are as they are stored. */
#define RCMI_PLAIN_OP(OP, T, expression)                                                           \
    RCMI_INLINE vec_##T OP##_##T(vec_##T a, vec_##T b) {                                           \
        return (vec_##T)(expression);                                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T OP##_finish_##T(vec_##T r) {                                               \
        return r;                                                                                  \
    }

/* Signed and unsigned differ in these. */
#define RCMI_ORDER_OPS(T)                                                                          \
    RCMI_PLAIN_OP(min, T, RCMI_SELECT(T, (bits_##T)(a < b), a, b))                                 \
    RCMI_PLAIN_OP(max, T, RCMI_SELECT(T, (bits_##T)(a < b), b, a))

/* Of unsigned numbers; signed ones have the same bits. */
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

/*
 * min, without a branch: of `a < b ? a : b` and `b < a ? b : a`, which differ only where a and b
 * are equal or one is a NaN, the OR. Equal values differ in bits only as -0 and +0, and their OR
 * is -0. For a NaN, one of the two is it, and the OR of a NaN with anything is a NaN.
 * max is min with the signs turned, because an AND would lose the NaN.
 */
#define RCMI_FLOAT_OPS(T, sign_bit, nan_bits)                                                      \
    RCMI_INLINE vec_##T canonical_##T(vec_##T r) {                                                 \
        bits_##T number = (bits_##T)(r == r);                                                      \
        bits_##T nan = (bits_##T){0} + (nan_bits);                                                 \
        return RCMI_SELECT(T, number, r, nan);                                                     \
    }                                                                                              \
    RCMI_INLINE vec_##T negate_##T(vec_##T v) {                                                    \
        return (vec_##T)((bits_##T)v ^ ((bits_##T){0} + (sign_bit)));                              \
    }                                                                                              \
    RCMI_INLINE vec_##T sum_##T(vec_##T a, vec_##T b) {                                            \
        return a + b;                                                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T prod_##T(vec_##T a, vec_##T b) {                                           \
        return a * b;                                                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T min_##T(vec_##T a, vec_##T b) {                                            \
        bits_##T a_less = (bits_##T)(a < b), b_less = (bits_##T)(b < a);                           \
        bits_##T first = (bits_##T)RCMI_SELECT(T, a_less, a, b);                                   \
        bits_##T second = (bits_##T)RCMI_SELECT(T, b_less, b, a);                                  \
        return (vec_##T)(first | second);                                                          \
    }                                                                                              \
    RCMI_INLINE vec_##T max_##T(vec_##T a, vec_##T b) {                                            \
        return negate_##T(min_##T(negate_##T(a), negate_##T(b)));                                  \
    }                                                                                              \
    RCMI_INLINE vec_##T sum_finish_##T(vec_##T r) {                                                \
        return canonical_##T(r);                                                                   \
    }                                                                                              \
    RCMI_INLINE vec_##T prod_finish_##T(vec_##T r) {                                               \
        return canonical_##T(r);                                                                   \
    }                                                                                              \
    RCMI_INLINE vec_##T min_finish_##T(vec_##T r) {                                                \
        return canonical_##T(r);                                                                   \
    }                                                                                              \
    RCMI_INLINE vec_##T max_finish_##T(vec_##T r) {                                                \
        return canonical_##T(r);                                                                   \
    }

RCMI_UNSIGNED_OPS(uint8)
RCMI_UNSIGNED_OPS(uint16)
RCMI_UNSIGNED_OPS(uint32)
RCMI_UNSIGNED_OPS(uint64)
RCMI_ORDER_OPS(int8)
RCMI_ORDER_OPS(int16)
RCMI_ORDER_OPS(int32)
RCMI_ORDER_OPS(int64)
RCMI_FLOAT_OPS(float32, INT32_MIN, 0x7fc00000)
RCMI_FLOAT_OPS(float64, INT64_MIN, 0x7ff8000000000000)
RCMI_FLOAT_OPS(float16, INT32_MIN, 0x7fc00000)
RCMI_FLOAT_OPS(bfloat16, INT32_MIN, 0x7fc00000)
RCMI_FLOAT_OPS(float8_e5m2, INT32_MIN, 0x7fc00000)
RCMI_FLOAT_OPS(float8_e4m3fn, INT32_MIN, 0x7fc00000)

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

/* Each pair of lanes (a, b) as (a, a), (b, b) and (b, a); AB: the first pair in all of them. */
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

/* (a.real b.real, a.real b.imaginary) + (-a.imaginary b.imaginary, a.imaginary b.real): to subtract
 * is to add the negative. */
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

/* A contribution is added as it would be stored, so that its own rank adds what others get of it.
 */
#define RCMI_STORED_SAME(T)                                                                        \
    RCMI_INLINE vec_##T stored_##T(vec_##T v) {                                                    \
        return v;                                                                                  \
    }
#define RCMI_STORED_SMALL(T)                                                                       \
    RCMI_INLINE vec_##T stored_##T(vec_##T v) {                                                    \
        return widen_##T(narrow_##T(canonical_##T(v)));                                            \
    }
RCMI_STORED_SAME(float32)
RCMI_STORED_SAME(float64)
RCMI_STORED_SMALL(float16)
RCMI_STORED_SMALL(bfloat16)
RCMI_STORED_SMALL(float8_e5m2)
RCMI_STORED_SMALL(float8_e4m3fn)

/* The source s of a reduction, and its result: as the context says. */
#define RCMI_SCALED_OPS(T, ctype)                                                                  \
    RCMI_INLINE vec_##T scaled_sum_##T(vec_##T a, vec_##T b) {                                     \
        return a + b;                                                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T scale_##T(vec_##T v, int s, const struct rcmi_reduce_context *context) {   \
        if (context->scaled >> s & 1)                                                              \
            return stored_##T(v * ((vec_##T){0} + (ctype)context->scale[0]));                      \
        return v;                                                                                  \
    }                                                                                              \
    RCMI_INLINE vec_##T divide_##T(vec_##T r, const struct rcmi_reduce_context *context) {         \
        if (context->divisor > 1)                                                                  \
            r = r / ((vec_##T){0} + (ctype)context->divisor);                                      \
        return canonical_##T(r);                                                                   \
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
RCMI_SCALED_OPS(float16, float)
RCMI_SCALED_OPS(bfloat16, float)
RCMI_SCALED_OPS(float8_e5m2, float)
RCMI_SCALED_OPS(float8_e4m3fn, float)
RCMI_SCALED_COMPLEX_OPS(complex64, float32, float)
RCMI_SCALED_COMPLEX_OPS(complex128, float64, double)

#endif
