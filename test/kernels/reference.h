/* SPDX-License-Identifier: BSD-3-Clause */
/* The reductions as defined in ringcomm.h and kernels.h, one element at a time, written without
 * regard to speed and without code of kernels/. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include "ringcomm.h"

/* True if the operator is defined for the type, by the table in ringcomm.h. */
bool reference_defines(rcm_dtype dtype, rcm_op op);

/* results[k] = srcs[0] op srcs[1] ... op srcs[k], for k from 0 to n - 1; k = 0 is a copy. */
void reference_reduce(rcm_dtype dtype, rcm_op op, const void *const *srcs, void *const *results,
                      int n, size_t count);

/* Scaled sums: source i is multiplied by scale (real, imaginary) if bit i of `scaled` is set, and
 * each result is divided by `divisor`, results[0] too. */
struct reference_scaling {
    double scale[2];
    unsigned scaled, divisor;
};
void reference_scaled_sum(rcm_dtype dtype, const struct reference_scaling *scaling,
                          const void *const *srcs, void *const *results, int n, size_t count);

/* Fills count elements from a seed: random numbers, and with `specials` also zeros of both signs,
 * infinities, the smallest and largest numbers, and several kinds of NaN. */
void reference_fill(rcm_dtype dtype, void *buf, size_t count, unsigned seed, int specials);

#endif
