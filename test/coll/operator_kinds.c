/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of operators that operators.c tests, with values that are exact in any order. */
#include "operators.h"
#include <stdio.h>

void number_put(rcm_dtype dtype, void *buffer, size_t i, struct number value) {
    const struct rcm_complex64 single = {(float)value.re, (float)value.im};
    const struct rcm_complex128 both = {value.re, value.im};
    if (dtype == RCM_FLOAT32)
        ((float *)buffer)[i] = single.real;
    else if (dtype == RCM_FLOAT64)
        ((double *)buffer)[i] = value.re;
    else if (dtype == RCM_COMPLEX64)
        ((struct rcm_complex64 *)buffer)[i] = single;
    else
        ((struct rcm_complex128 *)buffer)[i] = both;
}

struct number number_get(rcm_dtype dtype, const void *buffer, size_t i) {
    const struct rcm_complex64 *singles = buffer;
    const struct rcm_complex128 *both = buffer;
    if (dtype == RCM_FLOAT32)
        return (struct number){.re = (double)((const float *)buffer)[i]};
    if (dtype == RCM_FLOAT64)
        return (struct number){.re = ((const double *)buffer)[i]};
    if (dtype == RCM_COMPLEX64)
        return (struct number){(double)singles[i].real, (double)singles[i].imaginary};
    return (struct number){both[i].real, both[i].imaginary};
}

const char *problem_name(const struct problem *t) {
    static const char *const ways[] = {"blocking", "asynchronous", "persistent"};
    static _Thread_local char name[200];
    snprintf(name, sizeof name, "rank %d of %d: collective %d (%s) of %zu %s, %s, root %d%s, %s",
             t->rank, t->p, (int)t->collective, t->algorithm ? t->algorithm : "by cost", t->count,
             rcm_dtype_name(t->dtype), t->kind->name, t->root, t->in_place ? ", in place" : "",
             ways[t->way]);
    return name;
}

/* ---- premul_sum ------------------------------------------------------------------------------ */

static struct number scale_of(int rank) {
    return (struct number){rank % 3 == 2 ? 0.5 : -(rank + 1), 0};
}

static rcm_status premul_create(int rank, rcm_dtype dtype, rcm_op *ret_op) {
    return rcm_op_create_premul_sum(scale_of(rank).re, scale_of(rank).im, dtype, ret_op);
}

static struct number premul_input(int rank, size_t i) {
    return (struct number){(double)((i * 7 + (size_t)rank * 3) % 11) - 4, 0};
}

static struct number premul_expected(size_t i, int n) {
    struct number sum = {0, 0};
    for (int r = 0; r < n; r++)
        sum.re += scale_of(r).re * premul_input(r, i).re;
    return sum;
}

static const rcm_dtype premul_dtypes[] = {RCM_FLOAT32, RCM_FLOAT64, RCM_COMPLEX64};
static const struct operator_kind premul_sum = {.name = "premul_sum",
                                                .dtypes = premul_dtypes,
                                                .ndtypes = 3,
                                                .create = premul_create,
                                                .input = premul_input,
                                                .expected = premul_expected};

/* The scale is complex too. */
static struct number turn_of(int rank) {
    return (struct number){rank % 2, rank % 3 - 1};
}

static rcm_status complex_create(int rank, rcm_dtype dtype, rcm_op *ret_op) {
    return rcm_op_create_premul_sum(turn_of(rank).re, turn_of(rank).im, dtype, ret_op);
}

static struct number complex_input(int rank, size_t i) {
    return (struct number){premul_input(rank, i).re, premul_input(rank + 1, 2 * i).re};
}

static struct number complex_expected(size_t i, int n) {
    struct number sum = {0, 0};
    for (int r = 0; r < n; r++) {
        const struct number s = turn_of(r), x = complex_input(r, i);
        sum.re += s.re * x.re - s.im * x.im;
        sum.im += s.re * x.im + s.im * x.re;
    }
    return sum;
}

static const rcm_dtype complex_dtypes[] = {RCM_COMPLEX64, RCM_COMPLEX128};
static const struct operator_kind complex_premul_sum = {.name = "complex premul_sum",
                                                        .dtypes = complex_dtypes,
                                                        .ndtypes = 2,
                                                        .create = complex_create,
                                                        .input = complex_input,
                                                        .expected = complex_expected};

/* ---- Functions of the program ---------------------------------------------------------------- */

/* A context for operators that accept any type. */
static const int context_value = 7;
static const char *context_of(const int *value) {
    return (const char *)value;
}

/* x -> a x + b, stored as a + bi. f op g is f after g. */
static void compose(const void *in, void *inout, size_t count, rcm_dtype dtype, void *context) {
    for (size_t i = 0; i < count; i++) {
        const struct number f = number_get(dtype, in, i), g = number_get(dtype, inout, i);
        const struct number fg = {f.re * g.re, f.re * g.im + f.im};
        number_put(dtype, inout, i, context == context_of(&context_value) ? fg : f);
    }
}

static rcm_status compose_create(int rank, rcm_dtype dtype, rcm_op *ret_op) {
    (void)rank;
    return rcm_op_create(compose, (void *)context_of(&context_value), 0, "compose", dtype, ret_op);
}

static struct number compose_input(int rank, size_t i) {
    return (struct number){(i + (size_t)rank) % 3 ? 1 : -1, (double)((i * 5 + (size_t)rank) % 7)};
}

static struct number compose_expected(size_t i, int n) {
    struct number sum = compose_input(0, i);
    for (int r = 1; r < n; r++) {
        const struct number g = compose_input(r, i);
        sum = (struct number){sum.re * g.re, sum.re * g.im + sum.im};
    }
    return sum;
}

static const struct operator_kind composition = {.name = "compose",
                                                 .dtypes = complex_dtypes,
                                                 .ndtypes = 2,
                                                 .create = compose_create,
                                                 .input = compose_input,
                                                 .expected = compose_expected,
                                                 .function = true};

/* The operand of larger magnitude. Commutative, for any type. */
static void largest(const void *in, void *inout, size_t count, rcm_dtype dtype, void *context) {
    (void)context;
    for (size_t i = 0; i < count; i++) {
        const struct number a = number_get(dtype, in, i), b = number_get(dtype, inout, i);
        if (a.re * a.re > b.re * b.re)
            number_put(dtype, inout, i, a);
    }
}

static rcm_status largest_create(int rank, rcm_dtype dtype, rcm_op *ret_op) {
    (void)rank;
    (void)dtype;
    return rcm_op_create(largest, NULL, RCM_OP_COMMUTATIVE, "largest", RCM_ANY_DTYPE, ret_op);
}

static struct number largest_input(int rank, size_t i) {
    return (struct number){(double)((i * 7 + (size_t)rank * 3) % 97) + 1, 0};
}

static struct number largest_expected(size_t i, int n) {
    struct number most = largest_input(0, i);
    for (int r = 1; r < n; r++)
        if (largest_input(r, i).re > most.re)
            most = largest_input(r, i);
    return most;
}

static const struct operator_kind magnitude = {.name = "largest",
                                               .dtypes = premul_dtypes,
                                               .ndtypes = 2,
                                               .create = largest_create,
                                               .input = largest_input,
                                               .expected = largest_expected,
                                               .function = true};

const struct operator_kind *const operator_kinds[] = {&premul_sum, &complex_premul_sum, &magnitude,
                                                      &composition, NULL};
