/* SPDX-License-Identifier: BSD-3-Clause */
/* Predefined operators on types that ringcomm.h does not reduce: long double, and pairs with short
 * and long double. */
#include "operators.h"
#include <complex.h>
#include <string.h>

struct long_double_int {
    long double value;
    int index;
};
struct short_int {
    short value;
    int index;
};

/* Operands may be aligned to 8 bytes only, so each is copied. */
#define FOR_EACH(NAME, TYPE, RESULT)                                                               \
    static void NAME(const void *in, void *inout, size_t n, rcm_dtype dtype, void *context) {      \
        for (size_t i = 0; i < n; i++) {                                                           \
            TYPE a, b;                                                                             \
            memcpy(&a, (const char *)in + i * sizeof a, sizeof a);                                 \
            memcpy(&b, (const char *)inout + i * sizeof b, sizeof b);                              \
            b = (RESULT);                                                                          \
            memcpy((char *)inout + i * sizeof b, &b, sizeof b);                                    \
        }                                                                                          \
    }
#define PREFER(COMPARE)                                                                            \
    (a.value COMPARE b.value ? a : a.value == b.value && a.index < b.index ? a : b)

FOR_EACH(sum_long, long double, a + b)
FOR_EACH(prod_long, long double, a *b)
FOR_EACH(min_long, long double, a < b ? a : b)
FOR_EACH(max_long, long double, a > b ? a : b)
FOR_EACH(sum_complex, long double complex, a + b)
FOR_EACH(prod_complex, long double complex, a *b)
FOR_EACH(minloc_short, struct short_int, PREFER(<))
FOR_EACH(maxloc_short, struct short_int, PREFER(>))
FOR_EACH(minloc_long, struct long_double_int, PREFER(<))
FOR_EACH(maxloc_long, struct long_double_int, PREFER(>))

static const struct row {
    const char *type_name;
    rcm_op op;
    rcm_op_function function;
} rows[] = {
    {"MPI_LONG_DOUBLE", RCM_SUM, sum_long},
    {"MPI_LONG_DOUBLE", RCM_PROD, prod_long},
    {"MPI_LONG_DOUBLE", RCM_MIN, min_long},
    {"MPI_LONG_DOUBLE", RCM_MAX, max_long},
    {"MPI_C_LONG_DOUBLE_COMPLEX", RCM_SUM, sum_complex},
    {"MPI_C_LONG_DOUBLE_COMPLEX", RCM_PROD, prod_complex},
    {"MPI_CXX_LONG_DOUBLE_COMPLEX", RCM_SUM, sum_complex},
    {"MPI_CXX_LONG_DOUBLE_COMPLEX", RCM_PROD, prod_complex},
    {"MPI_SHORT_INT", RCM_MINLOC, minloc_short},
    {"MPI_SHORT_INT", RCM_MAXLOC, maxloc_short},
    {"MPI_LONG_DOUBLE_INT", RCM_MINLOC, minloc_long},
    {"MPI_LONG_DOUBLE_INT", RCM_MAXLOC, maxloc_long},
};

rcm_status long_operator(const char *type_name, rcm_op op, const char *name, rcm_dtype dtype,
                         rcm_op *ret_op) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (type_name && strcmp(rows[i].type_name, type_name) == 0 && rows[i].op == op)
            return rcm_op_create(rows[i].function, NULL, RCM_OP_COMMUTATIVE, name, dtype, ret_op);
    return rcm_op_defined(op, dtype); /* the reason why not */
}
