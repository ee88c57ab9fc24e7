/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operators of ringcomm-bench: those of ringcomm.h's table, and two that it creates.
 * bench_values.c computes their expected results.
 *
 *      premul_sum   each rank has its own scale, of magnitude 1/2
 *      user         a + bi stands for x -> a x + b; f op g is f after g, which does not commute
 */
#include <stdio.h>
#include <string.h>
#include "bench.h"

static const struct {
    rcm_op op;
    const char *name;
} created[] = {{BENCH_PREMUL_SUM, "premul_sum"}, {BENCH_USER, "user"}};
enum { CREATED = sizeof(created) / sizeof(created[0]) };

const char *bench_op_name(rcm_op op) {
    for (size_t i = 0; i < CREATED; i++)
        if (created[i].op == op)
            return created[i].name;
    return rcm_op_name(op);
}

bool bench_op_find(const char *name, rcm_op *ret_op) {
    for (size_t i = 0; i < CREATED; i++) {
        if (strcmp(created[i].name, name) != 0)
            continue;
        *ret_op = created[i].op;
        return true;
    }
    return rcm_op_from_name(name, ret_op) == RCM_OK;
}

rcm_op bench_op_at(size_t i) {
    static const rcm_op all[] = {
#define BENCH_OP(name, number) RCM_##name,
        RCM_OP_MAP(BENCH_OP)
#undef BENCH_OP
            BENCH_PREMUL_SUM,
        BENCH_USER};
    return i < sizeof(all) / sizeof(all[0]) ? all[i] : 0;
}

#define COMPOSE(name, type)                                                                        \
    static void compose_##name(const void *in, void *inout, size_t count) {                        \
        const struct type *f = in;                                                                 \
        struct type *g = inout;                                                                    \
        for (size_t i = 0; i < count; i++)                                                         \
            g[i] =                                                                                 \
                (struct type){f[i].real * g[i].real, f[i].real * g[i].imaginary + f[i].imaginary}; \
    }
COMPOSE(single, rcm_complex64)
COMPOSE(both, rcm_complex128)

static void compose(const void *in, void *inout, size_t count, rcm_dtype dtype, void *context) {
    (void)context;
    if (dtype == RCM_COMPLEX64)
        compose_single(in, inout, count);
    else
        compose_both(in, inout, count);
}

rcm_status bench_op_open(rcm_op op, rcm_dtype dtype, int rank, rcm_op *ret_op) {
    const struct bench_scale scale =
        bench_scale_of(rank, dtype == RCM_COMPLEX64 || dtype == RCM_COMPLEX128);
    *ret_op = op;
    if (op == BENCH_PREMUL_SUM)
        return rcm_op_create_premul_sum(scale.re, scale.im, dtype, ret_op);
    if (op == BENCH_USER)
        return rcm_op_create(compose, NULL, 0, "compose", dtype, ret_op);
    return RCM_OK;
}

void bench_op_close(rcm_op op) {
    if (op > 256)
        (void)!rcm_op_free(op);
}

static const char *not_composed(rcm_dtype dtype) {
    static _Thread_local char text[120];
    snprintf(text, sizeof(text),
             "user of %s is not defined: it composes x -> a x + b, which needs a complex type",
             rcm_dtype_name(dtype));
    return text;
}

const char *bench_op_lack(rcm_op op, rcm_dtype dtype) {
    const bool complex = dtype == RCM_COMPLEX64 || dtype == RCM_COMPLEX128;
    rcm_op made;
    if (op == BENCH_USER && !complex)
        return not_composed(dtype);
    if (op != BENCH_PREMUL_SUM)
        return op == BENCH_USER || rcm_op_defined(op, dtype) == RCM_OK ? NULL : rcm_last_error();
    if (bench_op_open(op, dtype, 0, &made) != RCM_OK)
        return rcm_last_error();
    bench_op_close(made);
    return NULL;
}
