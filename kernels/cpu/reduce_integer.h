/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of an unsigned integer type T, shared by the signed type. Included once per T by
 * reduce.c; with FULL, sums and products are not lean (reduce_loop.h). No include guard, on
 * purpose. */
#ifndef FULL
#define LEAN
#endif
#define OP sum
#include "reduce_loop.h"
#define OP prod
#include "reduce_loop.h"
#undef LEAN

#define LEAN
#define OP band
#include "reduce_loop.h"
#define OP bor
#include "reduce_loop.h"
#define OP bxor
#include "reduce_loop.h"
#define OP land
#include "reduce_loop.h"
#define OP lor
#include "reduce_loop.h"
#define OP lxor
#include "reduce_loop.h"
#undef LEAN
#undef FULL
#undef T
