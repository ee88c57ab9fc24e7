/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators: those of ringcomm.h where it has operator and type, functions on opaque elements of
 * the packed size otherwise. */
#ifndef OPERATORS_H
#define OPERATORS_H

#include "datatype.h"

struct reduction {
    rcm_op op;
    rcm_dtype dtype;      /* its size is that of a packed element */
    struct made_op *made; /* the operator, if it was made for this reduction; or NULL */
};

/* A reference to an operator, which may be predefined. */
void op_get(MPI_Op op);
void op_put(MPI_Op op);

/* Finds what reduces elements of a type by an operator. */
int reduction_find(struct form *form, MPI_Op op, MPI_Datatype type,
                   struct reduction *ret_reduction);
/* Frees what reduction_find made, when the operation is complete. NULL is a no-op. */
void reduction_end(struct made_op *made);

#endif
