/* SPDX-License-Identifier: BSD-3-Clause */
/* The reductions as the contract in kernels.h words them, one element at a time, without regard
 * to speed and without a line shared with kernels/. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stddef.h>
#include "ringcomm.h"

/* acc[i] = acc[i] op src[i]. With acc a copy of source 0 and one call per further source, acc is
 * the expected result. */
void reference_combine(rcm_dtype dtype, rcm_op op, void *acc, const void *src, size_t count);

/* Fills count elements from a seed: mostly random numbers, and with `specials` also zeros of both
 * signs, infinities, the smallest and largest numbers and NaNs of several kinds. */
void reference_fill(rcm_dtype dtype, void *buf, size_t count, unsigned seed, int specials);

#endif
