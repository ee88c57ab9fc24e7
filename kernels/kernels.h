/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/: element-wise reductions and copies.
 *
 *      (type, operator)  ->  struct rcmi_kernels: reduce, copy by kind of stores; cpu/
 *      operation.h           the same in memory of other kinds, which begins and finishes later
 *      device/               that of NVIDIA's GPUs, whose kernels are in cuda/
 *
 * Not for: ranks, plans, transports, of which nothing is known here.
 *
 * The instruction set is chosen once per process (AVX-512, AVX2, else what the compiler makes of
 * plain C for the base machine); all of them give the same bits.
 */
#ifndef RCMI_KERNELS_H
#define RCMI_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include "ringcomm.h"

#define RCMI_REDUCE_MAX 16 /* sources of one reduce-n */

/* Operators with numbers of their own that are not in ringcomm.h's table. A sum that the context
 * below scales, like avg: what rcm_op_create_premul_sum makes. A function of the program's: what
 * rcm_op_create makes. */
enum { RCMI_OP_PREMUL_SUM = 14, RCMI_OP_FUNCTION = 15 };

struct rcmi_operator;

/* What an operator is told beside its operands: these sums how to scale, functions of the program's
 * what they are; others do not look at it. */
struct rcmi_reduce_context {
    union {
        double scale[2]; /* real, imaginary: what the sources in `scaled` are multiplied by first */
        struct {
            const struct rcmi_operator *created;
            rcm_dtype dtype;
        };
    };
    uint32_t scaled;  /* bit i: source i */
    uint32_t divisor; /* the result is divided by it, before it is rounded; from 1 on */
};

/*
 * dst[i] = ((srcs[0][i] op srcs[1][i]) op srcs[2][i]) ..., i < count: strictly from left to right
 * (op_function.c: from right to left), so the order of srcs decides the bits. 1 <= nsrcs <=
 * RCMI_REDUCE_MAX (1 copies). dst may be the same pointer as any of the sources; no other overlap.
 * No alignment is needed beyond that of the element type. Integers wrap.
 *
 * Floats, so that every instruction set and machine gives the same bits: each operation is rounded
 * once (no fused multiply-add). A result that is a NaN, whether an operand was one or the operation
 * made it (inf - inf, 0 * inf), is the positive quiet NaN without payload: 0x7fc00000,
 * 0x7ff8000000000000, and of shorter ones as in vector_small.h. min and max are a NaN if any
 * operand is one, and count -0 as less than +0. A copy (nsrcs 1) keeps all bits, but where the
 * context changes the value.
 */
typedef void (*rcmi_reduce_fn)(void *dst, const void *const *srcs, int nsrcs, size_t count,
                               const struct rcmi_reduce_context *context);

/* The same reduction with two results, each of which may be one of the sources. */
enum rcmi_twice { RCMI_BOTH_TEMPORAL, RCMI_BOTH_NON_TEMPORAL, RCMI_FIRST_NON_TEMPORAL };
typedef void (*rcmi_reduce_twice_fn)(void *dst, void *other, const void *const *srcs, int nsrcs,
                                     size_t count, enum rcmi_twice how,
                                     const struct rcmi_reduce_context *context);

/*
 * The three forms of one reduction. streaming and `how` ask for non-temporal stores, for results
 * that this core will not read again soon; they are fenced before the call returns, so a flag may
 * be written at once (with a release store, as always). Short results, under 4 KiB, are stored
 * plainly, since the fence would cost more than it saves, and so is the second of two that does not
 * lie like the first one to a vector's size, and what is reduced seldom (the lean kernels of
 * reduce.c).
 */
struct rcmi_reduction {
    rcmi_reduce_fn reduce, reduce_streaming;
    rcmi_reduce_twice_fn reduce_twice;
};

/* NULL where the operator is not defined for the type, or a number is none. */
const struct rcmi_reduction *rcmi_reduction_find(rcm_dtype dtype, rcm_op op);

/* How a copy stores: temporal, by what is fastest on this CPU; non-temporal (from 4 KiB),
 * fenced before it returns, for memory that another core reads next or that is far larger than the
 * caches; or through them, never by the CPU's string instruction (cpu.h). */
enum rcmi_stores { RCMI_TEMPORAL, RCMI_NON_TEMPORAL, RCMI_VECTORS };

/* Copies bytes; dst may be src, no other overlap. */
void rcmi_copy(void *dst, const void *src, size_t bytes);
void rcmi_copy_by(enum rcmi_stores stores, void *dst, const void *src, size_t bytes);

/* A reduction, and what it is told. */
struct rcmi_sum {
    rcm_op op; /* that of `by`: avg is a sum until it is complete */
    struct rcmi_reduction by;
    struct rcmi_reduce_context context;
};

/* All that may touch host memory, for one type and operator: the reductions above and copies. */
struct rcmi_kernels {
    void (*copy[RCMI_VECTORS + 1])(void *dst, const void *src, size_t bytes); /* by rcmi_stores */
    struct rcmi_sum sums[2]; /* in a step that does not complete a result, and in one that does */
};
/* dtype is valid, and op is defined for it, or only copies are used; one that was created is held.
 * n: ranks, of which a complete result has the contributions. */
void rcmi_kernels_of(rcm_dtype dtype, rcm_op op, uint32_t n, struct rcmi_kernels *ret_kernels);

extern const struct rcmi_reduction rcmi_function_reduction;
/* Does it scale what each rank contributes? Then the sums above are those of steps that have no
 * such source. */
bool rcmi_op_scales(rcm_op op);
/* Of an operator that does: the sum of a step whose source i is what this rank contributes. */
struct rcmi_sum rcmi_kernels_scaled(rcm_dtype dtype, rcm_op op, uint32_t i);

/* "avx512", "avx2" or "generic": what was chosen. RINGCOMM_KERNELS=generic|avx2|avx512 overrides,
 * if this CPU has it; else a warning says what is used instead. */
const char *rcmi_kernels_name(void);

#endif
