/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * minloc and maxloc, the reductions of pairs (minloc.c). Plain C, one element at a time, the same
 * for all instruction sets.
 */
#ifndef RCMI_MINLOC_H
#define RCMI_MINLOC_H

#include "kernels.h"

#define RCMI_MINLOC_DECLARE(T)                                                                     \
    void rcmi_minloc_##T(void *dst, const void *const *srcs, int nsrcs, size_t count);             \
    void rcmi_maxloc_##T(void *dst, const void *const *srcs, int nsrcs, size_t count);

RCMI_MINLOC_DECLARE(float32_int32)
RCMI_MINLOC_DECLARE(float64_int32)
RCMI_MINLOC_DECLARE(int32_int32)
RCMI_MINLOC_DECLARE(int64_int32)

#endif
