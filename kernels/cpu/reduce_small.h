/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of a floating-point type T shorter than float32, except those of reduce_key.h.
 * Included once per T by reduce.c. No include guard, on purpose. */
#define LEAN
#define PAIRED
#define OP sum
#include "reduce_loop.h"
#undef PAIRED
#define OP prod
#include "reduce_loop.h"
#define SCALED
#define OP scaled_sum
#include "reduce_loop.h"
#undef SCALED
#undef LEAN
#undef T
