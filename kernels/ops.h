/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the operators do to one vector, per type: for each operator OP and type T
 *     vec_T OP_T(vec_T a, vec_T b)       combines two operands
 *     vec_T OP_finish_T(vec_T r)         once on the result of all, before it is stored
 *
 * Integers wrap, so they are added and multiplied as unsigned. The rules for floats are those of
 * kernels.h: a NaN result is always the same NaN, and -0 is less than +0 (minimum and maximum of
 * IEEE 754-2019). NaNs survive every combine, so one look at the end is enough.
 */
#ifndef RCMI_OPS_H
#define RCMI_OPS_H

#include "vector.h"

/* Lane by lane: a where mask is all ones, b where it is 0. Compilers make a blend of it. */
#define RCMI_SELECT(T, mask, a, b) ((vec_##T)(((bits_##T)(a) & (mask)) | ((bits_##T)(b) & ~(mask))))

#define RCMI_INT_OPS(T, unsigned_type)                                                             \
    RCMI_INLINE vec_##T sum_##T(vec_##T a, vec_##T b) {                                            \
        typedef unsigned_type wraps __attribute__((vector_size(RCMI_VECTOR_BYTES)));               \
        return (vec_##T)((wraps)a + (wraps)b);                                                     \
    }                                                                                              \
    RCMI_INLINE vec_##T prod_##T(vec_##T a, vec_##T b) {                                           \
        typedef unsigned_type wraps __attribute__((vector_size(RCMI_VECTOR_BYTES)));               \
        return (vec_##T)((wraps)a * (wraps)b);                                                     \
    }                                                                                              \
    RCMI_INLINE vec_##T min_##T(vec_##T a, vec_##T b) {                                            \
        bits_##T less = (bits_##T)(a < b);                                                         \
        return RCMI_SELECT(T, less, a, b);                                                         \
    }                                                                                              \
    RCMI_INLINE vec_##T max_##T(vec_##T a, vec_##T b) {                                            \
        bits_##T less = (bits_##T)(a < b);                                                         \
        return RCMI_SELECT(T, less, b, a);                                                         \
    }                                                                                              \
    RCMI_INLINE vec_##T sum_finish_##T(vec_##T r) {                                                \
        return r;                                                                                  \
    }                                                                                              \
    RCMI_INLINE vec_##T prod_finish_##T(vec_##T r) {                                               \
        return r;                                                                                  \
    }                                                                                              \
    RCMI_INLINE vec_##T min_finish_##T(vec_##T r) {                                                \
        return r;                                                                                  \
    }                                                                                              \
    RCMI_INLINE vec_##T max_finish_##T(vec_##T r) {                                                \
        return r;                                                                                  \
    }

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

RCMI_INT_OPS(uint8, uint8_t)
RCMI_INT_OPS(int32, uint32_t)
RCMI_INT_OPS(int64, uint64_t)
RCMI_FLOAT_OPS(float32, INT32_MIN, 0x7fc00000)
RCMI_FLOAT_OPS(float64, INT64_MIN, 0x7ff8000000000000)

#endif
