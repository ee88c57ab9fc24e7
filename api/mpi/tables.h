/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of constants, which are generated from abi/abi_tables.txt. The last row is empty, unless a
 * table is indexed by a constant. */
#ifndef TABLES_H
#define TABLES_H

#include <limits.h>
#include "datatype.h"

/* What reduces MPI_CHAR. */
#define RCM_CHAR (CHAR_MIN < 0 ? RCM_INT8 : RCM_UINT8)

/* The types of a predefined pair. */
extern const struct type_pair { MPI_Datatype pair, value, index; } type_pairs[];

/* Types of Fortran by class and size, the smallest first. Precision and range in decimal digits. */
extern const struct type_sized {
    int class, precision, range;
    MPI_Datatype type;
} type_sized[];

/* Operators of ringcomm.h, and the groups of types on which MPI defines them: bits. */
enum { OP_FIRST = 0x20, OP_LAST = 0x3d };
extern const struct predefined_op {
    const char *name;
    rcm_op op;
    unsigned groups;
} op_basics[OP_LAST - OP_FIRST + 1];

/* The class of a status. The last row has class -1. */
extern const struct status_class {
    rcm_status status;
    int class;
} status_classes[];

/* Sentences of classes of errors; NULL: none. */
extern const char *const class_texts[MPI_ERR_ABI + 1];

#endif
