/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of a floating-point type T. Included once per T by reduce.c; only the scaled kernels
 * are lean (reduce_loop.h). No include guard, on purpose. */
#define OP sum
#include "reduce_loop.h"
#define OP prod
#include "reduce_loop.h"
#define OP min
#include "reduce_loop.h"
#define OP max
#include "reduce_loop.h"

#define LEAN
#define SCALED
#define OP scaled_sum
#include "reduce_loop.h"
#undef SCALED
#undef LEAN
#undef T
