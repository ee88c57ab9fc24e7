/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of the GPUs' module, each once:
 *
 *      X(kernel, operator...)     rcmi_KERNEL, made from a class of operators.h
 *
 * The kernels are those of pairs.h, which lists what they reduce. C uses the names, reduce.cu uses
 * names and classes.
 */
#ifndef RCMI_CUDA_FUNCTIONS_H
#define RCMI_CUDA_FUNCTIONS_H

#define RCMI_CUDA_INTEGERS(X, bits)                                                                \
    X(sum_uint##bits, integer_sum<bits>)                                                           \
    X(prod_uint##bits, integer_prod<bits>)                                                         \
    X(band_uint##bits, integer_and<bits>)                                                          \
    X(bor_uint##bits, integer_or<bits>)                                                            \
    X(bxor_uint##bits, integer_xor<bits>)                                                          \
    X(land_uint##bits, truth_and<bits>)                                                            \
    X(lor_uint##bits, truth_or<bits>)                                                              \
    X(lxor_uint##bits, truth_xor<bits>)                                                            \
    X(min_uint##bits, integer_order<uint##bits##_t, false>)                                        \
    X(max_uint##bits, integer_order<uint##bits##_t, true>)                                         \
    X(average_uint##bits, integer_average<uint##bits##_t>)                                         \
    X(min_int##bits, integer_order<int##bits##_t, false>)                                          \
    X(max_int##bits, integer_order<int##bits##_t, true>)                                           \
    X(average_int##bits, integer_average<int##bits##_t>)

#define RCMI_CUDA_FLOATS(X, T, keyed)                                                              \
    X(sum_##T, float_sum<T>)                                                                       \
    X(prod_##T, float_prod<T>)                                                                     \
    X(scaled_sum_##T, float_scaled_sum<T>)                                                         \
    X(min_##keyed, float_order<T, false>)                                                          \
    X(max_##keyed, float_order<T, true>)

#define RCMI_CUDA_COMPLEX(X, T, part)                                                              \
    X(sum_##T, complex_sum<part>)                                                                  \
    X(prod_##T, complex_prod<part>)                                                                \
    X(scaled_sum_##T, complex_scaled_sum<part>)

#define RCMI_CUDA_LOCATIONS(X, T, ...)                                                             \
    X(minloc_##T, location<__VA_ARGS__, false>)                                                    \
    X(maxloc_##T, location<__VA_ARGS__, true>)

#define RCMI_CUDA_FUNCTION_MAP(X)                                                                  \
    X(copy, copies)                                                                                \
    RCMI_CUDA_INTEGERS(X, 8)                                                                       \
    RCMI_CUDA_INTEGERS(X, 16)                                                                      \
    RCMI_CUDA_INTEGERS(X, 32)                                                                      \
    RCMI_CUDA_INTEGERS(X, 64)                                                                      \
    X(land_truth, truth_and<8>)                                                                    \
    X(lor_truth, truth_or<8>)                                                                      \
    X(lxor_truth, truth_xor<8>)                                                                    \
    RCMI_CUDA_FLOATS(X, float32, float32)                                                          \
    RCMI_CUDA_FLOATS(X, float64, float64)                                                          \
    RCMI_CUDA_FLOATS(X, float16, float16_bits)                                                     \
    RCMI_CUDA_FLOATS(X, bfloat16, bfloat16_bits)                                                   \
    RCMI_CUDA_FLOATS(X, float8_e4m3fn, float8_e4m3fn_bits)                                         \
    RCMI_CUDA_FLOATS(X, float8_e5m2, float8_e5m2_bits)                                             \
    RCMI_CUDA_COMPLEX(X, complex64, float32)                                                       \
    RCMI_CUDA_COMPLEX(X, complex128, float64)                                                      \
    RCMI_CUDA_LOCATIONS(X, float32_int32, uint64_t, float_key<float32>)                            \
    RCMI_CUDA_LOCATIONS(X, float64_int32, wide, float_key<float64>)                                \
    RCMI_CUDA_LOCATIONS(X, int32_int32, uint64_t, integer_key<int32_t>)                            \
    RCMI_CUDA_LOCATIONS(X, int64_int32, wide, integer_key<int64_t>)

#endif
