/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of operators that operators.c goes through, with values that are exact in any order. */
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
static const struct operator_kind premul_sum = {"premul_sum",  premul_dtypes, 3,
                                                premul_create, premul_input,  premul_expected};

/* The scale, too, is complex. */
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
static const struct operator_kind complex_premul_sum = {
    "complex premul_sum", complex_dtypes, 2, complex_create, complex_input, complex_expected};

const struct operator_kind *const operator_kinds[] = {&premul_sum, &complex_premul_sum, NULL};
