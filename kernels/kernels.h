/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/: element-wise reductions and copies.
 *
 *      (type, operator)  ->  struct rcmi_kernels: reduce, copy by kind of stores; cpu/
 *      operation.h           the same on memory of other kinds, asynchronous
 *      device/               the same on NVIDIA GPUs, with the kernels of cuda/
 *
 * Not for: ranks, plans, transports.
 *
 * The instruction set is chosen once per process: AVX-512, AVX2, else plain C compiled for the base
 * machine. All of them give the same bits.
 */
#ifndef RCMI_KERNELS_H
#define RCMI_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include "ringcomm.h"

#define RCMI_REDUCE_MAX 16 /* sources of one reduce-n */

/* Operators with internal numbers that are not in ringcomm.h's table: a sum scaled by the context
 * below (from rcm_op_create_premul_sum; avg is similar), and a user-defined function (from
 * rcm_op_create). */
enum { RCMI_OP_PREMUL_SUM = 14, RCMI_OP_FUNCTION = 15 };

struct rcmi_operator;

/* Additional input of an operator: the scale of a scaled sum, or the user-defined function and its
 * type. Other operators ignore it. */
struct rcmi_reduce_context {
    union {
        double scale[2]; /* real, imaginary: factor of the sources in `scaled` */
        struct {
            const struct rcmi_operator *created;
            rcm_dtype dtype;
        };
    };
    const void *scale_at; /* not NULL: the scale is read there when an operation begins */
    uint32_t scaled;      /* bit i: source i */
    uint32_t divisor;     /* divides the result before rounding; at least 1 */
};

/*
 * dst[i] = ((srcs[0][i] op srcs[1][i]) op srcs[2][i]) ..., i < count: strictly from left to right
 * (op_function.c: from right to left), so the order of srcs determines the bits. 1 <= nsrcs <=
 * RCMI_REDUCE_MAX (1 copies). dst may be the same pointer as any of the sources; no other overlap.
 * No alignment beyond that of the element type is needed. Integers wrap.
 *
 * Floats have the same bits on every instruction set and machine: each operation is rounded once
 * (no fused multiply-add). A NaN result, whether an operand was a NaN or the operation made it (inf
 * - inf, 0 * inf), is the positive quiet NaN without payload: 0x7fc00000, 0x7ff8000000000000, for
 * shorter floats as in vector_small.h. min and max are a NaN if any operand is one, and count -0 as
 * less than +0. A copy (nsrcs 1) keeps all bits, unless the context changes the value.
 */
typedef void (*rcmi_reduce_fn)(void *dst, const void *const *srcs, int nsrcs, size_t count,
                               const struct rcmi_reduce_context *context);

/* The same reduction with two results, each of which may be one of the sources. */
enum rcmi_twice { RCMI_BOTH_TEMPORAL, RCMI_BOTH_NON_TEMPORAL, RCMI_FIRST_NON_TEMPORAL };
typedef void (*rcmi_reduce_twice_fn)(void *dst, void *other, const void *const *srcs, int nsrcs,
                                     size_t count, enum rcmi_twice how,
                                     const struct rcmi_reduce_context *context);

/*
 * The three forms of one reduction. reduce_streaming and `how` request non-temporal stores, for
 * results that this core will not read again soon. These stores are fenced before the call returns,
 * so a flag may be written at once (with a release store, as always). Plain stores are used for
 * results under 4 KiB, because the fence would cost more than it saves; for a second result whose
 * offset within a vector differs from the first; and for rare reductions (the lean kernels of
 * reduce.c).
 */
struct rcmi_reduction {
    rcmi_reduce_fn reduce, reduce_streaming;
    rcmi_reduce_twice_fn reduce_twice;
};

/* NULL if the operator is not defined for the type, or a number is unknown. */
const struct rcmi_reduction *rcmi_reduction_find(rcm_dtype dtype, rcm_op op);

/* How a copy stores. Temporal: by the fastest method on this CPU. Non-temporal: from 4 KiB on,
 * fenced before it returns, for memory that another core reads next or that is far larger than the
 * caches. Vectors: through the caches, never by the CPU's string instruction (cpu.h). */
enum rcmi_stores { RCMI_TEMPORAL, RCMI_NON_TEMPORAL, RCMI_VECTORS };

/* Copies bytes; dst may be src, no other overlap. */
void rcmi_copy(void *dst, const void *src, size_t bytes);
void rcmi_copy_by(enum rcmi_stores stores, void *dst, const void *src, size_t bytes);

/* A reduction and its context. */
struct rcmi_sum {
    rcm_op op; /* of `by`: avg is a sum until it is complete */
    struct rcmi_reduction by;
    struct rcmi_reduce_context context;
};

/* All code that touches host memory, for one type and operator: the reductions above and copies. */
struct rcmi_kernels {
    void (*copy[RCMI_VECTORS + 1])(void *dst, const void *src, size_t bytes); /* by rcmi_stores */
    struct rcmi_sum sums[2]; /* for steps that do not complete a result; that do */
};
/* dtype is valid. op is defined for dtype, or only copies are used; a created operator is held. n:
 * the number of ranks, whose contributions a complete result contains. */
void rcmi_kernels_of(rcm_dtype dtype, rcm_op op, uint32_t n, struct rcmi_kernels *ret_kernels);

extern const struct rcmi_reduction rcmi_function_reduction;
/* Does the operator scale each rank's contribution? Then the sums above are for steps without such
 * a source. */
bool rcmi_op_scales(rcm_op op);
/* Does it read the scale anew for each operation? */
bool rcmi_op_reads_scale(rcm_op op);
/* Reads a scale from an element of a float or complex type. */
void rcmi_scale_read(const void *element, rcm_dtype dtype, double ret_scale[2]);
/* For an operator that scales: the sum of a step whose source i is this rank's contribution. */
struct rcmi_sum rcmi_kernels_scaled(rcm_dtype dtype, rcm_op op, uint32_t i);

/* The chosen set: "avx512", "avx2" or "generic". RINGCOMM_KERNELS=generic|avx2|avx512 overrides it
 * if the CPU has it; else a warning names what is used instead. */
const char *rcmi_kernels_name(void);

#endif
