/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of an integer type T that its twin, signed or unsigned, does not share. Included once
 * per T by reduce.c; with FULL they are not lean (reduce_loop.h). No include guard, on purpose. */
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
