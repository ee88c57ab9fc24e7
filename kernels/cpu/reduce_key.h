/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of a floating-point type whose bits T are ordered as integers. Included once per T by
 * reduce.c. No include guard, on purpose. */
#define LEAN
#define KEYED
#define OP min
#include "reduce_loop.h"
#define OP max
#include "reduce_loop.h"
#undef KEYED
#undef LEAN
#undef T
