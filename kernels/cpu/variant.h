/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of kernels that each variant (instruction set) fills; kernels.c selects one. */
#ifndef RCMI_VARIANT_H
#define RCMI_VARIANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include "kernels.h"

#define RCMI_DTYPE_END (RCM_INT64_INT32 + 1)
#define RCMI_OP_END    (RCMI_OP_PREMUL_SUM + 1)

struct rcmi_kernel_table {
    const char *name;
    /* By type and operator number; NULL if the operator is not defined. */
    struct rcmi_reduction reductions[RCMI_DTYPE_END][RCMI_OP_END];
    void (*copy[RCMI_VECTORS + 1])(void *dst, const void *src, size_t bytes); /* by rcmi_stores */
};

extern const struct rcmi_kernel_table rcmi_kernels_generic;
#if defined(RCMI_KERNELS_X86)
extern const struct rcmi_kernel_table rcmi_kernels_avx2;
extern const struct rcmi_kernel_table rcmi_kernels_avx512;
#endif

/* Do plain copies of 2 KiB to 4 MiB, in every variant, use the CPU's string instruction? Relaxed:
 * written when a table is chosen (and by tests), always with the same value; either value is
 * correct. */
extern _Atomic bool rcmi_copies_strings;

/* The variant's table by name, independent of the choice. NULL: not in this build, or not on this
 * CPU. */
const struct rcmi_kernel_table *rcmi_kernel_variant(const char *name);

#endif
