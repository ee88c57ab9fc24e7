/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which operators are defined for which types. The kernels' tables are generated from this table
 * (reduce.c), and so is the check for callers (op_defined.c).
 *
 *      X(TYPE, OP, kernel)     kernel_reduce, kernel_reduce_streaming, ... reduce TYPE by OP
 *
 * Types with the same result bits share a kernel: signed integers share those of unsigned ones,
 * except for order-dependent operators.
 */
#ifndef RCMI_PAIRS_H
#define RCMI_PAIRS_H

/* T: the name of its kernels; U: the name of the unsigned type. */
#define RCMI_INTEGER_PAIRS(X, TYPE, T, U)                                                          \
    X(TYPE, RCM_SUM, sum_##U)                                                                      \
    X(TYPE, RCM_PROD, prod_##U)                                                                    \
    X(TYPE, RCM_MIN, min_##T)                                                                      \
    X(TYPE, RCM_MAX, max_##T)                                                                      \
    X(TYPE, RCM_AVG, average_##T)                                                                  \
    X(TYPE, RCM_BAND, band_##U)                                                                    \
    X(TYPE, RCM_BOR, bor_##U)                                                                      \
    X(TYPE, RCM_BXOR, bxor_##U)                                                                    \
    X(TYPE, RCM_LAND, land_##U)                                                                    \
    X(TYPE, RCM_LOR, lor_##U)                                                                      \
    X(TYPE, RCM_LXOR, lxor_##U)

#define RCMI_BOOL_PAIRS(X, TYPE, T)                                                                \
    X(TYPE, RCM_SUM, lor_##T)                                                                      \
    X(TYPE, RCM_PROD, land_##T)                                                                    \
    X(TYPE, RCM_MIN, land_##T)                                                                     \
    X(TYPE, RCM_MAX, lor_##T)                                                                      \
    X(TYPE, RCM_BAND, land_##T)                                                                    \
    X(TYPE, RCM_BOR, lor_##T)                                                                      \
    X(TYPE, RCM_BXOR, lxor_##T)                                                                    \
    X(TYPE, RCM_LAND, land_##T)                                                                    \
    X(TYPE, RCM_LOR, lor_##T)                                                                      \
    X(TYPE, RCM_LXOR, lxor_##T)

#define RCMI_COMPLEX_PAIRS(X, TYPE, T)                                                             \
    X(TYPE, RCM_SUM, sum_##T)                                                                      \
    X(TYPE, RCM_PROD, prod_##T)                                                                    \
    X(TYPE, RCM_AVG, scaled_sum_##T)                                                               \
    X(TYPE, RCMI_OP_PREMUL_SUM, scaled_sum_##T)

#define RCMI_FLOAT_PAIRS(X, TYPE, T)                                                               \
    RCMI_COMPLEX_PAIRS(X, TYPE, T)                                                                 \
    X(TYPE, RCM_MIN, min_##T)                                                                      \
    X(TYPE, RCM_MAX, max_##T)

/* min and max operate on T's bits. */
#define RCMI_SMALL_PAIRS(X, TYPE, T)                                                               \
    RCMI_COMPLEX_PAIRS(X, TYPE, T)                                                                 \
    X(TYPE, RCM_MIN, min_##T##_bits)                                                               \
    X(TYPE, RCM_MAX, max_##T##_bits)

#define RCMI_LOCATION_PAIRS(X, TYPE, T)                                                            \
    X(TYPE, RCM_MINLOC, minloc_##T)                                                                \
    X(TYPE, RCM_MAXLOC, maxloc_##T)

#define RCMI_PAIR_MAP(X)                                                                           \
    RCMI_INTEGER_PAIRS(X, INT8, int8, uint8)                                                       \
    RCMI_INTEGER_PAIRS(X, INT16, int16, uint16)                                                    \
    RCMI_INTEGER_PAIRS(X, INT32, int32, uint32)                                                    \
    RCMI_INTEGER_PAIRS(X, INT64, int64, uint64)                                                    \
    RCMI_INTEGER_PAIRS(X, UINT8, uint8, uint8)                                                     \
    RCMI_INTEGER_PAIRS(X, UINT16, uint16, uint16)                                                  \
    RCMI_INTEGER_PAIRS(X, UINT32, uint32, uint32)                                                  \
    RCMI_INTEGER_PAIRS(X, UINT64, uint64, uint64)                                                  \
    RCMI_BOOL_PAIRS(X, BOOL, truth)                                                                \
    RCMI_FLOAT_PAIRS(X, FLOAT32, float32)                                                          \
    RCMI_FLOAT_PAIRS(X, FLOAT64, float64)                                                          \
    RCMI_SMALL_PAIRS(X, FLOAT16, float16)                                                          \
    RCMI_SMALL_PAIRS(X, BFLOAT16, bfloat16)                                                        \
    RCMI_SMALL_PAIRS(X, FLOAT8_E4M3FN, float8_e4m3fn)                                              \
    RCMI_SMALL_PAIRS(X, FLOAT8_E5M2, float8_e5m2)                                                  \
    RCMI_COMPLEX_PAIRS(X, COMPLEX64, complex64)                                                    \
    RCMI_COMPLEX_PAIRS(X, COMPLEX128, complex128)                                                  \
    RCMI_LOCATION_PAIRS(X, FLOAT32_INT32, float32_int32)                                           \
    RCMI_LOCATION_PAIRS(X, FLOAT64_INT32, float64_int32)                                           \
    RCMI_LOCATION_PAIRS(X, INT32_INT32, int32_int32)                                               \
    RCMI_LOCATION_PAIRS(X, INT64_INT32, int64_int32)

#endif
