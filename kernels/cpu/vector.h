/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors of RCMI_VECTOR_BYTES bytes through the compilers' vector extensions, so that one source
 * serves every instruction set. The including files are compiled once per variant, with the
 * variant's compiler flags, its name as RCMI_VARIANT and its width as RCMI_VECTOR_BYTES. Only
 * non-temporal stores need intrinsics. Everything here is static: if two variants shared a
 * function, the linker might keep the one that this CPU cannot run.
 */
#ifndef RCMI_VECTOR_H
#define RCMI_VECTOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#include "ringcomm.h"

#define RCMI_INLINE static inline __attribute__((always_inline))

/* The byte vector, used by the non-temporal store below, and the same in memory at any alignment.
 * may_alias: the bytes may have been written as any type. */
typedef uint8_t raw_vec __attribute__((vector_size(RCMI_VECTOR_BYTES)));
typedef uint8_t raw_mem __attribute__((vector_size(RCMI_VECTOR_BYTES), aligned(1), may_alias));

/* A non-temporal store; p is aligned to RCMI_VECTOR_BYTES. A plain store if C has no such store for
 * the base instruction set (aarch64). */
RCMI_INLINE void vector_stream(void *p, raw_vec v) {
#if defined(__SSE2__) && RCMI_VECTOR_BYTES == 64
    _mm512_stream_si512(p, (__m512i)v);
#elif defined(__SSE2__) && RCMI_VECTOR_BYTES == 32
    _mm256_stream_si256(p, (__m256i)v);
#elif defined(__SSE2__)
    _mm_stream_si128(p, (__m128i)v);
#else
    *(raw_mem *)p = v;
#endif
}

/* For each type T: elem_T is an element in memory, vec_T holds LANES_T elements while they are
 * combined, and bits_T is the result type of comparing two vec_T. The loops access memory only by
 * load_T(p), store_T(p, v) and stream_T(p, v) for LANES_T elements (stream_T: p aligned to them),
 * and load_one_T(p) and store_one_T(p, v) for one element in the first lane. A type that is
 * combined in a wider one (a 16-bit float in float32, vector_small.h) converts there. */
#define RCMI_VECTOR_TYPE(T, ctype, itype)                                                          \
    typedef ctype elem_##T __attribute__((may_alias));                                             \
    typedef ctype vec_##T __attribute__((vector_size(RCMI_VECTOR_BYTES)));                         \
    typedef itype bits_##T __attribute__((vector_size(RCMI_VECTOR_BYTES)));                        \
    enum { LANES_##T = RCMI_VECTOR_BYTES / sizeof(ctype) };                                        \
    RCMI_INLINE vec_##T load_##T(const elem_##T *p) {                                              \
        return (vec_##T) * (const raw_mem *)p;                                                     \
    }                                                                                              \
    RCMI_INLINE void store_##T(elem_##T *p, vec_##T v) {                                           \
        *(raw_mem *)p = (raw_vec)v;                                                                \
    }                                                                                              \
    RCMI_INLINE void stream_##T(elem_##T *p, vec_##T v) {                                          \
        vector_stream(p, (raw_vec)v);                                                              \
    }                                                                                              \
    RCMI_INLINE vec_##T load_one_##T(const elem_##T *p) {                                          \
        return (vec_##T){*p};                                                                      \
    }                                                                                              \
    RCMI_INLINE void store_one_##T(elem_##T *p, vec_##T v) {                                       \
        *p = v[0];                                                                                 \
    }

RCMI_VECTOR_TYPE(int8, int8_t, int8_t)
RCMI_VECTOR_TYPE(int16, int16_t, int16_t)
RCMI_VECTOR_TYPE(int32, int32_t, int32_t)
RCMI_VECTOR_TYPE(int64, int64_t, int64_t)
RCMI_VECTOR_TYPE(uint8, uint8_t, int8_t)
RCMI_VECTOR_TYPE(uint16, uint16_t, int16_t)
RCMI_VECTOR_TYPE(uint32, uint32_t, int32_t)
RCMI_VECTOR_TYPE(uint64, uint64_t, int64_t)
RCMI_VECTOR_TYPE(float32, float, int32_t)
RCMI_VECTOR_TYPE(float64, double, int64_t)

/* Two lanes are one element: real, imaginary. */
#define RCMI_VECTOR_COMPLEX(T, part, ctype)                                                        \
    typedef struct __attribute__((may_alias)) {                                                    \
        ctype real, imaginary;                                                                     \
    } elem_##T;                                                                                    \
    typedef vec_##part vec_##T;                                                                    \
    typedef bits_##part bits_##T;                                                                  \
    enum { LANES_##T = LANES_##part / 2 };                                                         \
    RCMI_INLINE vec_##T load_##T(const elem_##T *p) {                                              \
        return (vec_##T) * (const raw_mem *)p;                                                     \
    }                                                                                              \
    RCMI_INLINE void store_##T(elem_##T *p, vec_##T v) {                                           \
        *(raw_mem *)p = (raw_vec)v;                                                                \
    }                                                                                              \
    RCMI_INLINE vec_##T load_one_##T(const elem_##T *p) {                                          \
        return (vec_##T){p->real, p->imaginary};                                                   \
    }                                                                                              \
    RCMI_INLINE void store_one_##T(elem_##T *p, vec_##T v) {                                       \
        p->real = v[0];                                                                            \
        p->imaginary = v[1];                                                                       \
    }

RCMI_VECTOR_COMPLEX(complex64, float32, float)
RCMI_VECTOR_COMPLEX(complex128, float64, double)

/* Makes the streamed stores visible before any later store, such as the store of a flag. x86
 * exempts non-temporal stores from its usual order, so a C11 release store alone is not enough.
 * Pairs with the reader's acquire load of the flag. */
RCMI_INLINE void vector_stream_fence(void) {
#if defined(__SSE2__)
    _mm_sfence();
#else
    atomic_thread_fence(memory_order_release);
#endif
}

#endif
