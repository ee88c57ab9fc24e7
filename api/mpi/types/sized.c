/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes that are found by their properties: a size, a precision, or the types of a pair. */
#include <pthread.h>
#include <stdlib.h>
#include "datatype.h"
#include "faces.h"
#include "tables.h"

int face_Type_match_size(struct form *form, int class, int size, MPI_Datatype *ret_type) {
    for (const struct type_sized *row = type_sized; row->type; row++) {
        *ret_type = row->type;
        if (row->class == class && type_of(row->type)->size == size)
            return MPI_SUCCESS;
    }
    return form_error(form, MPI_ERR_ARG, "typeclass %d has no datatype of %d bytes", class, size);
}

/* A type of a precision and range that a program requested. It stays and cannot be freed: its name
 * is empty, but not NULL. */
static struct made {
    struct made *next;
    struct type_sized wanted;
} * all_made;

/* With the lock. */
static int make_fortran(struct form *form, int combiner, const struct type_sized *wanted,
                        struct made **ret_made) {
    const struct type_sized *row = type_sized;
    while (row->type && (row->class != wanted->class || row->range < wanted->range ||
                         row->precision < wanted->precision))
        row++;
    if (!row->type)
        return form_error(form, MPI_ERR_ARG, "no datatype has precision %d and range %d",
                          wanted->precision, wanted->range);
    struct made *made = malloc(sizeof *made);
    MPI_Datatype type;
    if (!made)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for a datatype");
    int code = face_Type_dup(form, type_of(row->type), &type);
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
    const struct type_sized wanted = {combiner == MPI_COMBINER_F90_INTEGER ? MPI_TYPECLASS_INTEGER
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

int face_Type_get_value_index(struct form *form, struct MPI_ABI_Datatype *value,
                              struct MPI_ABI_Datatype *index, MPI_Datatype *ret_type) {
    *ret_type = MPI_DATATYPE_NULL;
    for (const struct type_pair *row = type_pairs; row->pair; row++)
        if (row->value == type_handle(value) && row->index == type_handle(index))
            *ret_type = row->pair;
    return MPI_SUCCESS;
}
