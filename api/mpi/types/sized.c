/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes that are found by their properties: a size, a precision, or the types of a pair. */
#include <pthread.h>
#include <stdlib.h>
#include "datatype.h"
#include "faces.h"

/* Types of Fortran by class and size, the smallest first. Precision and range in decimal digits. */
static const struct sized {
    int class, precision, range;
    MPI_Datatype type;
} sized[] = {
    {MPI_TYPECLASS_INTEGER, 0, 2, MPI_INTEGER1},     {MPI_TYPECLASS_INTEGER, 0, 4, MPI_INTEGER2},
    {MPI_TYPECLASS_INTEGER, 0, 9, MPI_INTEGER4},     {MPI_TYPECLASS_INTEGER, 0, 18, MPI_INTEGER8},
    {MPI_TYPECLASS_REAL, 3, 4, MPI_REAL2},           {MPI_TYPECLASS_REAL, 6, 37, MPI_REAL4},
    {MPI_TYPECLASS_REAL, 15, 307, MPI_REAL8},        {MPI_TYPECLASS_COMPLEX, 6, 37, MPI_COMPLEX8},
    {MPI_TYPECLASS_COMPLEX, 15, 307, MPI_COMPLEX16},
};
enum { SIZED = sizeof sized / sizeof sized[0] };

int face_Type_match_size(struct form *form, int class, int size, MPI_Datatype *ret_type) {
    for (int i = 0; i < SIZED; i++) {
        *ret_type = sized[i].type;
        if (sized[i].class == class && type_of(sized[i].type)->size == size)
            return MPI_SUCCESS;
    }
    return form_error(form, MPI_ERR_ARG, "typeclass %d has no datatype of %d bytes", class, size);
}

/* A type of a precision and range that a program requested. It stays and cannot be freed: its name
 * is empty, but not NULL. */
static struct made {
    struct made *next;
    struct sized wanted;
} * all_made;

/* With the lock. */
static int make_fortran(struct form *form, int combiner, const struct sized *wanted,
                        struct made **ret_made) {
    int i = 0;
    while (i < SIZED && (sized[i].class != wanted->class || sized[i].range < wanted->range ||
                         sized[i].precision < wanted->precision))
        i++;
    if (i == SIZED)
        return form_error(form, MPI_ERR_ARG, "no datatype has precision %d and range %d",
                          wanted->precision, wanted->range);
    struct made *made = malloc(sizeof *made);
    MPI_Datatype type;
    if (!made)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for a datatype");
    int code = face_Type_dup(form, type_of(sized[i].type), &type);
    if (code == MPI_SUCCESS)
        type->name = "";
    code = combiner == MPI_COMBINER_F90_INTEGER
               ? type_keep(form, code, &type, combiner, 0, "i", wanted->range)
               : type_keep(form, code, &type, combiner, 0, "ii", wanted->precision, wanted->range);
    if (code != MPI_SUCCESS) {
        free(made);
        return code;
    }
    *made = (struct made){all_made, *wanted};
    made->wanted.type = type;
    all_made = *ret_made = made;
    return MPI_SUCCESS;
}

int face_f90_type(struct form *form, int combiner, int precision, int range,
                  MPI_Datatype *ret_type) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct sized wanted = {combiner == MPI_COMBINER_F90_INTEGER ? MPI_TYPECLASS_INTEGER
                                 : combiner == MPI_COMBINER_F90_REAL  ? MPI_TYPECLASS_REAL
                                                                      : MPI_TYPECLASS_COMPLEX,
                                 precision, range, NULL};
    int code = MPI_SUCCESS;
    pthread_mutex_lock(&lock);
    struct made *made = all_made;
    while (made && (made->wanted.class != wanted.class || made->wanted.range != range ||
                    made->wanted.precision != precision))
        made = made->next;
    if (!made)
        code = make_fortran(form, combiner, &wanted, &made);
    if (code == MPI_SUCCESS)
        *ret_type = made->wanted.type;
    pthread_mutex_unlock(&lock);
    return code;
}

static const struct type_pair pairs[] = {
    {MPI_FLOAT_INT, MPI_FLOAT, MPI_INT},
    {MPI_DOUBLE_INT, MPI_DOUBLE, MPI_INT},
    {MPI_LONG_INT, MPI_LONG, MPI_INT},
    {MPI_SHORT_INT, MPI_SHORT, MPI_INT},
    {MPI_2INT, MPI_INT, MPI_INT},
    {MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE, MPI_INT},
    {MPI_2REAL, MPI_REAL, MPI_REAL},
    {MPI_2DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION},
    {MPI_2INTEGER, MPI_INTEGER, MPI_INTEGER},
};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

const struct type_pair *type_pair(const struct MPI_ABI_Datatype *type) {
    const MPI_Datatype handle = type_handle(type);
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i].pair == handle)
            return &pairs[i];
    return NULL;
}

int face_Type_get_value_index(struct form *form, struct MPI_ABI_Datatype *value,
                              struct MPI_ABI_Datatype *index, MPI_Datatype *ret_type) {
    *ret_type = MPI_DATATYPE_NULL;
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i].value == type_handle(value) && pairs[i].index == type_handle(index))
            *ret_type = pairs[i].pair;
    return MPI_SUCCESS;
}
