/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * minloc and maxloc, the reductions of pairs (location.c). Plain C, one element after the other,
 * and the same for all instruction sets.
 */
#ifndef RCMI_LOCATION_H
#define RCMI_LOCATION_H

#include "kernels.h"

#define RCMI_LOCATION_DECLARE(T)                                                                   \
    void rcmi_minloc_##T(void *dst, const void *const *srcs, int nsrcs, size_t count);             \
    void rcmi_maxloc_##T(void *dst, const void *const *srcs, int nsrcs, size_t count);

RCMI_LOCATION_DECLARE(float32_int32)
RCMI_LOCATION_DECLARE(float64_int32)
RCMI_LOCATION_DECLARE(int32_int32)
RCMI_LOCATION_DECLARE(int64_int32)

#endif
