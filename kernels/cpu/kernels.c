/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the instruction set once per process, and returns kernels from its table. */
#include "kernels.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include "cpu.h"
#include "error.h"
#include "log.h"
#include "operator.h"
#include "settings.h"
#include "variant.h"

static bool cpu_has_base(void) {
    return true;
}

/* Best first. */
static const struct {
    const struct rcmi_kernel_table *table;
    bool (*usable)(void);
} variants[] = {
#if defined(RCMI_KERNELS_X86)
    {&rcmi_kernels_avx512, rcmi_cpu_has_avx512},
    {&rcmi_kernels_avx2, rcmi_cpu_has_avx2},
#endif
    {&rcmi_kernels_generic, cpu_has_base},
};
#define VARIANTS (sizeof variants / sizeof variants[0])

const struct rcmi_kernel_table *rcmi_kernel_variant(const char *name) {
    for (size_t i = 0; i < VARIANTS; i++)
        if (strcmp(variants[i].table->name, name) == 0)
            return variants[i].usable() ? variants[i].table : NULL;
    return NULL;
}

static const struct rcmi_kernel_table *kernels_choose(void) {
    const char *wanted = rcmi_setting("RINGCOMM_KERNELS");
    size_t best = 0;
    while (!variants[best].usable())
        best++;
    if (wanted[0] == '\0' || strcmp(wanted, "auto") == 0)
        return variants[best].table;
    const struct rcmi_kernel_table *table = rcmi_kernel_variant(wanted);
    if (table)
        return table;
    rcmi_log(RCMI_LOG_WARN,
             "RINGCOMM_KERNELS=%s is not available on this CPU or in this build, using %s", wanted,
             variants[best].table->name);
    return variants[best].table;
}

/* Concurrent first callers choose the same table, so the order of their stores does not matter. The
 * tables are constant, so relaxed pairs with relaxed. */
static const struct rcmi_kernel_table *kernels_chosen(void) {
    static _Atomic(const struct rcmi_kernel_table *) chosen;
    const struct rcmi_kernel_table *table = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!table) {
        table = kernels_choose();
        atomic_store_explicit(&rcmi_copies_strings, rcmi_cpu_copies_strings(),
                              memory_order_relaxed);
        atomic_store_explicit(&chosen, table, memory_order_relaxed);
    }
    return table;
}

const struct rcmi_reduction *rcmi_reduction_find(rcm_dtype dtype, rcm_op op) {
    if ((unsigned)dtype >= RCMI_DTYPE_END || (unsigned)op >= RCMI_OP_END)
        return NULL;
    const struct rcmi_reduction *found = &kernels_chosen()->reductions[dtype][op];
    return found->reduce ? found : NULL;
}

void rcmi_copy(void *dst, const void *src, size_t bytes) {
    kernels_chosen()->copy[RCMI_TEMPORAL](dst, src, bytes);
}

void rcmi_copy_by(enum rcmi_stores stores, void *dst, const void *src, size_t bytes) {
    kernels_chosen()->copy[stores](dst, src, bytes);
}

static struct rcmi_sum sum_of(rcm_dtype dtype, rcm_op op, uint32_t divisor) {
    const struct rcmi_reduction *by = rcmi_reduction_find(dtype, op);
    return (struct rcmi_sum){.op = op,
                             .by = by ? *by : (struct rcmi_reduction){.reduce = NULL},
                             .context = {.divisor = divisor}};
}

/* The number by which the kernels identify it. */
static rcm_op op_kind(rcm_op op) {
    const struct rcmi_operator *created = rcmi_operator_of(op);
    return created ? created->identity.kind : op;
}

bool rcmi_op_scales(rcm_op op) {
    return op_kind(op) == RCMI_OP_PREMUL_SUM;
}

bool rcmi_op_reads_scale(rcm_op op) {
    const struct rcmi_operator *created = rcmi_operator_of(op);
    return created && created->scale_at;
}

struct rcmi_sum rcmi_kernels_scaled(rcm_dtype dtype, rcm_op op, uint32_t i) {
    struct rcmi_sum sum = sum_of(dtype, RCMI_OP_PREMUL_SUM, 1);
    const struct rcmi_operator *created = rcmi_operator_of(op);
    memcpy(sum.context.scale, created->scale, sizeof sum.context.scale);
    sum.context.scale_at = created->scale_at;
    if (created->scale_at) /* the CPU's kernels, which run from now on, do not read it */
        rcmi_scale_read(created->scale_at, dtype, sum.context.scale);
    sum.context.scaled = UINT32_C(1) << i;
    return sum;
}

static struct rcmi_sum sum_by_function(rcm_dtype dtype, rcm_op op) {
    return (struct rcmi_sum){.op = RCMI_OP_FUNCTION,
                             .by = rcmi_function_reduction,
                             .context = {.created = rcmi_operator_of(op), .dtype = dtype}};
}

void rcmi_kernels_of(rcm_dtype dtype, rcm_op op, uint32_t n, struct rcmi_kernels *ret_kernels) {
    const rcm_op kind = op_kind(op);
    const bool adds = kind == RCM_AVG || kind == RCMI_OP_PREMUL_SUM;
    struct rcmi_sum *sums = ret_kernels->sums;
    sums[0] = sum_of(dtype, adds ? RCM_SUM : kind, 1);
    sums[1] = sum_of(dtype, kind == RCMI_OP_PREMUL_SUM ? RCM_SUM : kind, n);
    if (kind == RCMI_OP_FUNCTION)
        sums[0] = sums[1] = sum_by_function(dtype, op);
    memcpy(ret_kernels->copy, kernels_chosen()->copy, sizeof ret_kernels->copy);
}

const char *rcmi_kernels_name(void) {
    return kernels_chosen()->name;
}
