/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that signed and unsigned integer types do not share. Included once per T by reduce.c;
 * with FULL they are not lean (reduce_loop.h). No include guard, on purpose. */
#ifndef FULL
#define LEAN
#endif
#define OP min
#include "reduce_loop.h"
#define OP max
#include "reduce_loop.h"
#undef LEAN
#undef FULL
#undef T
