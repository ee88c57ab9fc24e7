/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators: those of ringcomm.h where it has operator and type, functions on opaque elements of
 * the packed size otherwise. */
#ifndef OPERATORS_H
#define OPERATORS_H

#include "tables.h"

struct reduction {
    rcm_op op;
    rcm_dtype dtype;      /* its size is that of a packed element */
    struct made_op *made; /* the operator, if it was made for this reduction; or NULL */
    MPI_Datatype pairs;   /* the type of the buffers instead of the call's: with gaps; or NULL */
};

/* A reference to an operator, which may be predefined. */
void op_get(MPI_Op op);
void op_put(MPI_Op op);

/* Finds what reduces elements of a type by an operator. */
RARE int reduction_make(struct form *form, MPI_Op op, MPI_Datatype type,
                        struct reduction *ret_reduction);
static inline int reduction_find(struct form *form, MPI_Op op, MPI_Datatype handle,
                                 struct reduction *ret_reduction) {
    const struct MPI_ABI_Datatype *type = type_of(handle);
    const uintptr_t i = (uintptr_t)op - OP_FIRST;
    if (!type || !type->is_committed || !type->exact || i > OP_LAST - OP_FIRST ||
        !(op_basics[i].groups & 1u << type->group))
        return reduction_make(form, op, handle, ret_reduction);
    *ret_reduction = (struct reduction){op_basics[i].op, type->exact, NULL, NULL};
    return MPI_SUCCESS;
}
/* Frees what reduction_find made, when the operation is complete. NULL is a no-op. */
void reduction_end(struct made_op *made);

/* Makes a predefined operator on a type that ringcomm.h does not reduce: long double, and pairs
 * with short and long double. */
rcm_status long_operator(const char *type_name, rcm_op op, const char *name, rcm_dtype dtype,
                         rcm_op *ret_op);

#endif
