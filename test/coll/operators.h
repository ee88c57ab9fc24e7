/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and kinds of operators (operator_kinds.c) for operators.c. */
#ifndef TEST_OPERATORS_H
#define TEST_OPERATORS_H

#include "ranks.h"

enum { RANKS_MAX = 16 };
enum way { WAY_BLOCKING, WAY_ASYNC, WAY_PERSISTENT, WAYS };

/* An element; im is 0 where the type has none. */
struct number {
    double re, im;
};
void number_put(rcm_dtype dtype, void *buffer, size_t i, struct number value);
struct number number_get(rcm_dtype dtype, const void *buffer, size_t i);

/* Operators of one kind: each rank's input, and the result of the first n ranks at position i. */
struct operator_kind {
    const char *name;
    const rcm_dtype *dtypes;
    int ndtypes;
    rcm_status (*create)(int rank, rcm_dtype dtype, rcm_op *ret_op);
    struct number (*input)(int rank, size_t i);
    struct number (*expected)(size_t i, int n);
    bool function; /* of the program */
};
extern const struct operator_kind *const operator_kinds[]; /* ends with a NULL */

struct problem {
    rcm_comm *comm;
    const struct operator_kind *kind;
    enum rcm_collective collective;
    const char *algorithm; /* NULL: by cost */
    int p, rank, root;
    size_t count; /* per block; with unequal blocks, of the longest */
    rcm_dtype dtype;
    rcm_op op;
    enum way way;
    bool in_place;
};
rcm_status problem_call(const struct problem *t, const void *in, void *out,
                        const struct rcm_call *call, rcm_work **ret_work);
/* The case as text. Valid until this thread's next call. */
const char *problem_name(const struct problem *t);

/* operator_calls.c. Returns the number of errors. */
int operators_check_calls(rcm_comm *comm);
/* operator_lifetime.c. Returns the number of errors. The ranks create different operators. */
int operators_check_life(rcm_comm *comm);
int operators_check_mismatches(rcm_comm *comm);

#endif
