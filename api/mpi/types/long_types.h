/* SPDX-License-Identifier: BSD-3-Clause */
/* Predefined operators on types that ringcomm.h does not reduce: long double, and pairs with short
 * and long double. */
#ifndef LONG_TYPES_H
#define LONG_TYPES_H

#include "form.h"

struct long_double_int {
    long double value;
    int index;
};
struct short_int {
    short value;
    int index;
};

/* Makes the operator for one of these types. */
rcm_status long_operator(MPI_Datatype type, rcm_op op, const char *name, rcm_dtype dtype,
                         rcm_op *ret_op);

#endif
