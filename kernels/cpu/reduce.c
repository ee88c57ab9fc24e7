/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All kernels of one variant. meson.build compiles this file once per instruction set; kernels.c
 * selects one. A new type needs its vectors in vector.h, its operators in ops.h, its loops here and
 * its entries in pairs.h; a new operator likewise.
 */
#include <stdbool.h>
#include <string.h>
#include "cpu.h"
#include "minloc.h"
#include "ops.h"
#include "pairs.h"
#include "variant.h"

/* Vectors per source in one step of the loops; more gain nothing once memory is the limit. */
#define UNROLL 4

/* Below this many bytes of result, the fence costs more than bypassing the cache saves. */
#define STREAM_MIN 4096

/* Copies of these sizes are done here instead of by memcpy. */
#define COPY_MIN 2048
#define COPY_MAX (4 << 20)

/* A core's prefetcher stops at the end of a page, so copies of these sizes process several pages at
 * once. Longer ones reach full speed without that. */
#define PAGE      ((size_t)4096)
#define PAGES_MIN ((size_t)8192)
#define PAGES_MAX ((size_t)65536)

RCMI_INLINE void copy_store(uint8_t *dst, raw_vec value, bool stream) {
    if (stream)
        vector_stream(dst, value);
    else
        *(raw_mem *)dst = value;
}

/* At least a vector; aligned stores. */
RCMI_INLINE void copy_loop(uint8_t *dst, const uint8_t *src, size_t bytes, bool stream) {
    const size_t step = UNROLL * RCMI_VECTOR_BYTES;
    size_t i = -(uintptr_t)dst % RCMI_VECTOR_BYTES;
    memcpy(dst, src, i);
    for (; i + step <= bytes; i += step) {
        const raw_mem *from = (const raw_mem *)(src + i);
        raw_vec a = from[0], b = from[1], c = from[2], d = from[3];
        copy_store(dst + i, a, stream);
        copy_store(dst + i + RCMI_VECTOR_BYTES, b, stream);
        copy_store(dst + i + 2 * RCMI_VECTOR_BYTES, c, stream);
        copy_store(dst + i + 3 * RCMI_VECTOR_BYTES, d, stream);
    }
    memcpy(dst + i, src + i, bytes - i);
}

/* Copies four consecutive parts of `each` bytes, an even number of vectors, concurrently. */
RCMI_INLINE void copy_four(uint8_t *dst, const uint8_t *src, size_t each) {
    for (size_t i = 0; i < each; i += 2 * RCMI_VECTOR_BYTES) {
        for (size_t at = i; at < 4 * each; at += each) {
            const raw_mem *from = (const raw_mem *)(src + at);
            raw_vec a = from[0], b = from[1];
            copy_store(dst + at, a, false);
            copy_store(dst + at + RCMI_VECTOR_BYTES, b, false);
        }
    }
}

/* Four pages at once, and the rest in four parts; aligned stores. */
static void copy_pages(uint8_t *dst, const uint8_t *src, size_t bytes) {
    size_t i = -(uintptr_t)dst % RCMI_VECTOR_BYTES;
    memcpy(dst, src, i);
    for (; bytes - i >= 4 * PAGE; i += 4 * PAGE)
        copy_four(dst + i, src + i, PAGE);
    if (bytes - i >= PAGES_MIN) {
        const size_t each = (bytes - i) / 4 / (2 * RCMI_VECTOR_BYTES) * (2 * RCMI_VECTOR_BYTES);
        copy_four(dst + i, src + i, each);
        i += 4 * each;
    }
    memcpy(dst + i, src + i, bytes - i);
}

RCMI_INLINE void copy_string(void *dst, const void *src, size_t bytes) {
#if defined(RCMI_KERNELS_X86)
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
#else
    memcpy(dst, src, bytes);
#endif
}

/* The C library's memcpy is best for short copies, and for copies far larger than the cache. In
 * between it may use the CPU's string instruction, which on some CPUs is many times slower if dst
 * is a few bytes after src modulo a page, as offset buffers are. */
static void copy_vectors(void *dst, const void *src, size_t bytes) {
    if (dst == src || bytes == 0)
        return;
    if (bytes < COPY_MIN || bytes > COPY_MAX)
        memcpy(dst, src, bytes);
    else if (bytes >= PAGES_MIN && bytes < PAGES_MAX)
        copy_pages(dst, src, bytes);
    else
        copy_loop(dst, src, bytes, false);
}

/* On some CPUs the string instruction is twice as fast if another core has read the lines of dst
 * (see cpu.c). */
static void copy_plain(void *dst, const void *src, size_t bytes) {
    if (bytes >= RCMI_STRING_MIN && bytes <= COPY_MAX && dst != src &&
        atomic_load_explicit(&rcmi_copies_strings, memory_order_relaxed))
        copy_string(dst, src, bytes);
    else
        copy_vectors(dst, src, bytes);
}

static void copy_streaming(void *dst, const void *src, size_t bytes) {
    if (dst == src)
        return;
    if (bytes < STREAM_MIN) {
        copy_plain(dst, src, bytes);
        return;
    }
    copy_loop(dst, src, bytes, true);
    vector_stream_fence();
}

/* Both results of a reduction of one source. */
static void copy_twice(void *dst, void *other, const void *src, size_t bytes, enum rcmi_twice how) {
    (how == RCMI_BOTH_NON_TEMPORAL ? copy_streaming : copy_plain)(other, src, bytes);
    (how != RCMI_BOTH_TEMPORAL ? copy_streaming : copy_plain)(dst, src, bytes);
}

/* Do both start at the same offset within a vector? Then aligned stores suit both. */
RCMI_INLINE bool lie_alike(const void *dst, const void *other) {
    return ((uintptr_t)dst ^ (uintptr_t)other) % RCMI_VECTOR_BYTES == 0;
}

static void copy_second(void *other, const void *dst, size_t bytes, enum rcmi_twice how) {
    (how == RCMI_BOTH_NON_TEMPORAL ? copy_streaming : copy_plain)(other, dst, bytes);
}

/* ---- Integers and bool ----------------------------------------------------------------------- */

#define T uint8
#define FULL
#include "reduce_integer.h"
#define T uint16
#include "reduce_integer.h"
#define T uint32
#define FULL
#include "reduce_integer.h"
#define T uint64
#define FULL
#include "reduce_integer.h"

#define T int8
#include "reduce_order.h"
#define T int16
#include "reduce_order.h"
#define T int32
#define FULL
#include "reduce_order.h"
#define T int64
#define FULL
#include "reduce_order.h"
#define T uint8
#define FULL
#include "reduce_order.h"
#define T uint16
#include "reduce_order.h"
#define T uint32
#include "reduce_order.h"
#define T uint64
#include "reduce_order.h"

#define LEAN
#define T  truth
#define OP land
#include "reduce_loop.h"
#define OP lor
#include "reduce_loop.h"
#define OP lxor
#include "reduce_loop.h"
#undef T
#undef LEAN

/* ---- Floats and complex numbers -------------------------------------------------------------- */

#define T float32
#include "reduce_float.h"
#define T float64
#include "reduce_float.h"
#define T float16
#include "reduce_small.h"
#define T bfloat16
#include "reduce_small.h"
#define T float8_e4m3fn
#include "reduce_small.h"
#define T float8_e5m2
#include "reduce_small.h"

#define T float16_bits
#include "reduce_key.h"
#define T bfloat16_bits
#include "reduce_key.h"
#define T float8_e4m3fn_bits
#include "reduce_key.h"
#define T float8_e5m2_bits
#include "reduce_key.h"

#define LEAN
#define T  complex64
#define OP prod
#include "reduce_loop.h"
#define SCALED
#define OP scaled_sum
#include "reduce_loop.h"
#undef SCALED
#undef T
#define T  complex128
#define OP prod
#include "reduce_loop.h"
#define SCALED
#define OP scaled_sum
#include "reduce_loop.h"
#undef SCALED
#undef T
#undef LEAN

/* ---- Kernels made of others ------------------------------------------------------------------ */

/* Sums of complex numbers are sums of their parts. */
#define COMPLEX_SUM(T, part)                                                                       \
    static void sum_##T##_reduce(void *dst, const void *const *srcs, int nsrcs, size_t count,      \
                                 const struct rcmi_reduce_context *context) {                      \
        sum_##part##_reduce(dst, srcs, nsrcs, 2 * count, context);                                 \
    }                                                                                              \
    static void sum_##T##_reduce_streaming(void *dst, const void *const *srcs, int nsrcs,          \
                                           size_t count,                                           \
                                           const struct rcmi_reduce_context *context) {            \
        sum_##part##_reduce_streaming(dst, srcs, nsrcs, 2 * count, context);                       \
    }                                                                                              \
    static void sum_##T##_reduce_twice(void *dst, void *other, const void *const *srcs, int nsrcs, \
                                       size_t count, enum rcmi_twice how,                          \
                                       const struct rcmi_reduce_context *context) {                \
        sum_##part##_reduce_twice(dst, other, srcs, nsrcs, 2 * count, how, context);               \
    }

COMPLEX_SUM(complex64, float32)
COMPLEX_SUM(complex128, float64)

/* The forms of a lean kernel. */
#define LEAN_FORMS(kernel, bytes)                                                                  \
    static void kernel##_reduce_streaming(void *dst, const void *const *srcs, int nsrcs,           \
                                          size_t count,                                            \
                                          const struct rcmi_reduce_context *context) {             \
        kernel##_reduce(dst, srcs, nsrcs, count, context);                                         \
    }                                                                                              \
    static void kernel##_reduce_twice(void *dst, void *other, const void *const *srcs, int nsrcs,  \
                                      size_t count, enum rcmi_twice how,                           \
                                      const struct rcmi_reduce_context *context) {                 \
        kernel##_reduce(dst, srcs, nsrcs, count, context);                                         \
        copy_second(other, dst, count *(bytes), how);                                              \
    }

/* The wrapped sum of integers, divided: C's division truncates. wide: also holds the divisor. */
#define AVERAGE(T, U, ctype, wide)                                                                 \
    static void average_##T##_reduce(void *dst, const void *const *srcs, int nsrcs, size_t count,  \
                                     const struct rcmi_reduce_context *context) {                  \
        const wide divisor = (wide)context->divisor;                                               \
        elem_##T *sums = dst;                                                                      \
        sum_##U##_reduce(dst, srcs, nsrcs, count, context);                                        \
        for (size_t i = 0; i < count && divisor > 1; i++)                                          \
            sums[i] = (ctype)((wide)sums[i] / divisor);                                            \
    }                                                                                              \
    LEAN_FORMS(average_##T, sizeof(ctype))

AVERAGE(int8, uint8, int8_t, int32_t)
AVERAGE(int16, uint16, int16_t, int32_t)
AVERAGE(int32, uint32, int32_t, int32_t)
AVERAGE(int64, uint64, int64_t, int64_t)
AVERAGE(uint8, uint8, uint8_t, uint32_t)
AVERAGE(uint16, uint16, uint16_t, uint32_t)
AVERAGE(uint32, uint32, uint32_t, uint32_t)
AVERAGE(uint64, uint64, uint64_t, uint64_t)

#define LOCATION(kernel, bytes)                                                                    \
    static void kernel##_reduce(void *dst, const void *const *srcs, int nsrcs, size_t count,       \
                                const struct rcmi_reduce_context *context) {                       \
        (void)context;                                                                             \
        rcmi_##kernel(dst, srcs, nsrcs, count);                                                    \
    }                                                                                              \
    LEAN_FORMS(kernel, bytes)
#define LOCATION_FORMS(T)                                                                          \
    LOCATION(minloc_##T, sizeof(struct rcm_##T))                                                   \
    LOCATION(maxloc_##T, sizeof(struct rcm_##T))
LOCATION_FORMS(float32_int32)
LOCATION_FORMS(float64_int32)
LOCATION_FORMS(int32_int32)
LOCATION_FORMS(int64_int32)

/* ---- The table ------------------------------------------------------------------------------- */

#define ENTRY(TYPE, op, kernel)                                                                    \
    [RCM_##TYPE][op] = {kernel##_reduce, kernel##_reduce_streaming, kernel##_reduce_twice},
#define TABLE_(variant)      rcmi_kernels_##variant
#define TABLE(variant)       TABLE_(variant)
#define TABLE_TEXT_(variant) #variant
#define TABLE_TEXT(variant)  TABLE_TEXT_(variant)

const struct rcmi_kernel_table TABLE(RCMI_VARIANT) = {
    .name = TABLE_TEXT(RCMI_VARIANT),
    .reductions = {RCMI_PAIR_MAP(ENTRY)},
    .copy = {[RCMI_TEMPORAL] = copy_plain,
             [RCMI_NON_TEMPORAL] = copy_streaming,
             [RCMI_VECTORS] = copy_vectors},
};
