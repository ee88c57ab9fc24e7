/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions by a user-defined function, which has two operands:
 *
 *      inout = in op inout       so with several sources the last one comes first:
 *      s0 op (s1 op (s2 op s3))
 *
 * Operands keep the order of the sources. The result is accumulated in place, unless another source
 * lies there; then piece by piece on the stack.
 */
#include <string.h>
#include "entry.h"
#include "kernels.h"
#include "operator.h"

#define PIECE_BYTES 4096

static bool lies_on_source(const void *dst, const void *const *srcs, int nsrcs) {
    for (int i = 0; i < nsrcs; i++)
        if (srcs[i] == dst)
            return true;
    return false;
}

/* Restores the environment, so that one call's changes do not affect the next. */
static void function_call(const struct rcmi_operator *by, const void *in, void *inout, size_t count,
                          rcm_dtype dtype) {
    struct rcmi_foreign foreign;
    rcmi_foreign_begin(&foreign);
    rcmi_operator_call_begin();
    by->function(in, inout, count, dtype, by->context);
    rcmi_operator_call_end();
    rcmi_foreign_end(&foreign);
}

/* Folds elements from `first` on into inout, which may be the last source but no other. */
static void function_fold(void *inout, const void *const *srcs, int nsrcs, size_t first,
                          size_t count, const struct rcmi_reduce_context *context) {
    const struct rcmi_operator *by = context->created;
    const size_t width = rcm_dtype_size(context->dtype), at = first * width;
    const char *last = (const char *)srcs[nsrcs - 1] + at;
    if (last != inout)
        memcpy(inout, last, count * width);
    for (int i = nsrcs - 2; i >= 0; i--)
        function_call(by, (const char *)srcs[i] + at, inout, count, context->dtype);
}

/* Reduces `most` elements at a time, in `piece`. */
static void function_reduce_by(void *piece, size_t most, void *dst, const void *const *srcs,
                               int nsrcs, size_t count, const struct rcmi_reduce_context *context) {
    const size_t width = rcm_dtype_size(context->dtype);
    for (size_t first = 0; first < count; first += most) {
        const size_t n = count - first < most ? count - first : most;
        function_fold(piece, srcs, nsrcs, first, n, context);
        memcpy((char *)dst + first * width, piece, n * width);
    }
}

static __attribute__((noinline)) void
function_reduce_long(void *dst, const void *const *srcs, int nsrcs, size_t count,
                     const struct rcmi_reduce_context *context) {
    _Alignas(64) char piece[RCM_OPAQUE_MAX];
    function_reduce_by(piece, 1, dst, srcs, nsrcs, count, context);
}

static __attribute__((noinline)) void
function_reduce_short(void *dst, const void *const *srcs, int nsrcs, size_t count,
                      const struct rcmi_reduce_context *context) {
    _Alignas(64) char piece[PIECE_BYTES];
    function_reduce_by(piece, PIECE_BYTES / rcm_dtype_size(context->dtype), dst, srcs, nsrcs, count,
                       context);
}

static void function_reduce(void *dst, const void *const *srcs, int nsrcs, size_t count,
                            const struct rcmi_reduce_context *context) {
    if (count == 0)
        return;
    if (!lies_on_source(dst, srcs, nsrcs - 1))
        function_fold(dst, srcs, nsrcs, 0, count, context);
    else if (rcm_dtype_size(context->dtype) > PIECE_BYTES)
        function_reduce_long(dst, srcs, nsrcs, count, context);
    else
        function_reduce_short(dst, srcs, nsrcs, count, context);
}

static void function_reduce_twice(void *dst, void *other, const void *const *srcs, int nsrcs,
                                  size_t count, enum rcmi_twice how,
                                  const struct rcmi_reduce_context *context) {
    (void)how;
    function_reduce(dst, srcs, nsrcs, count, context);
    memcpy(other, dst, count * rcm_dtype_size(context->dtype));
}

const struct rcmi_reduction rcmi_function_reduction = {function_reduce, function_reduce,
                                                       function_reduce_twice};
