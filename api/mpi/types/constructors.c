/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that make derived datatypes: each is a list of parts. */
#include <stdlib.h>
#include "datatype.h"
#include "faces.h"

/* A type of one part. */
static int make_one(struct form *form, MPI_Count count, MPI_Count length, MPI_Count stride,
                    MPI_Datatype old, bool in_elements, MPI_Datatype *ret_type) {
    struct MPI_ABI_Datatype *type;
    const int code = type_find(form, old, &type);
    if (code != MPI_SUCCESS)
        return code;
    if (count < 0 || length < 0)
        return form_error(form, count < 0 ? MPI_ERR_COUNT : MPI_ERR_ARG,
                          "count is %lld, blocklength %lld", (long long)count, (long long)length);
    struct type_part *part = malloc(sizeof *part);
    if (part)
        *part =
            (struct type_part){0, count, stride * (in_elements ? type->extent : 1), length, type};
    return type_make(form, part, 1, ret_type);
}

int face_Type_contiguous(struct form *form, MPI_Count count, MPI_Datatype old,
                         MPI_Datatype *ret_type) {
    return make_one(form, count < 0 ? count : 1, count, 0, old, true, ret_type);
}

int face_Type_dup(struct form *form, MPI_Datatype old, MPI_Datatype *ret_type) {
    struct MPI_ABI_Datatype *type;
    int code = type_find(form, old, &type);
    if (code == MPI_SUCCESS)
        code = make_one(form, 1, 1, 0, old, true, ret_type);
    if (code != MPI_SUCCESS)
        return code;
    (*ret_type)->lb = type->lb;
    (*ret_type)->extent = type->extent;
    (*ret_type)->is_committed = type->is_committed;
    (*ret_type)->exact = type->exact;
    (*ret_type)->group = type->group;
    return MPI_SUCCESS;
}

int face_Type_vector(struct form *form, MPI_Count count, MPI_Count length, MPI_Count stride,
                     MPI_Datatype old, MPI_Datatype *ret_type) {
    return make_one(form, count, length, stride, old, true, ret_type);
}

int face_Type_create_hvector(struct form *form, MPI_Count count, MPI_Count length, MPI_Count stride,
                             MPI_Datatype old, MPI_Datatype *ret_type) {
    return make_one(form, count, length, stride, old, false, ret_type);
}

/* Blocks at displacements: of one type (types NULL) or of one each; of `length` or of lengths[i].
 */
struct indexed {
    MPI_Count count;
    const struct array *lengths;
    MPI_Count length;
    struct array displacements;
    bool in_elements;
    MPI_Datatype old;
    const MPI_Datatype *types;
};

static int make_indexed(struct form *form, const struct indexed *list, MPI_Datatype *ret_type) {
    if (list->count < 0)
        return form_error(form, MPI_ERR_COUNT, "count is %lld", (long long)list->count);
    struct type_part *parts = calloc((size_t)list->count + 1, sizeof *parts);
    for (int i = 0; parts && i < list->count; i++) {
        struct MPI_ABI_Datatype *type;
        const int code = type_find(form, list->types ? list->types[i] : list->old, &type);
        const MPI_Count length = list->lengths ? array_at(*list->lengths, i) : list->length;
        if (code != MPI_SUCCESS || length < 0) {
            free(parts);
            return code != MPI_SUCCESS ? code
                                       : form_error(form, MPI_ERR_ARG, "blocklengths[%d] is %lld",
                                                    i, (long long)length);
        }
        const MPI_Count unit = list->in_elements ? type->extent : 1;
        parts[i] = (struct type_part){array_at(list->displacements, i) * unit, 1, 0, length, type};
    }
    return type_make(form, parts, (size_t)list->count, ret_type);
}

int face_Type_indexed(struct form *form, MPI_Count count, struct array lengths,
                      struct array displacements, MPI_Datatype old, MPI_Datatype *ret_type) {
    return make_indexed(form,
                        &(const struct indexed){count, &lengths, 0, displacements, true, old, NULL},
                        ret_type);
}

int face_Type_create_hindexed(struct form *form, MPI_Count count, struct array lengths,
                              struct array displacements, MPI_Datatype old,
                              MPI_Datatype *ret_type) {
    return make_indexed(
        form, &(const struct indexed){count, &lengths, 0, displacements, false, old, NULL},
        ret_type);
}

int face_Type_create_indexed_block(struct form *form, MPI_Count count, MPI_Count length,
                                   struct array displacements, MPI_Datatype old,
                                   MPI_Datatype *ret_type) {
    return make_indexed(
        form, &(const struct indexed){count, NULL, length, displacements, true, old, NULL},
        ret_type);
}

int face_Type_create_hindexed_block(struct form *form, MPI_Count count, MPI_Count length,
                                    struct array displacements, MPI_Datatype old,
                                    MPI_Datatype *ret_type) {
    return make_indexed(
        form, &(const struct indexed){count, NULL, length, displacements, false, old, NULL},
        ret_type);
}

int face_Type_create_struct(struct form *form, MPI_Count count, struct array lengths,
                            struct array displacements, const MPI_Datatype *types,
                            MPI_Datatype *ret_type) {
    return make_indexed(
        form,
        &(const struct indexed){count, &lengths, 0, displacements, false, MPI_DATATYPE_NULL, types},
        ret_type);
}

int face_Type_create_resized(struct form *form, MPI_Datatype old, MPI_Count lb, MPI_Count extent,
                             MPI_Datatype *ret_type) {
    const int code = make_one(form, 1, 1, 0, old, true, ret_type);
    if (code != MPI_SUCCESS)
        return code;
    struct MPI_ABI_Datatype *made = *ret_type;
    made->lb = lb;
    made->extent = extent;
    made->is_dense = made->is_dense && extent == made->wire;
    return MPI_SUCCESS;
}

/* One dimension after the other, from the one whose elements are next to each other: a vector of
 * the dimensions before, at the size of a whole row. */
int face_Type_create_subarray(struct form *form, int ndims, struct array sizes,
                              struct array subsizes, struct array starts, int order,
                              MPI_Datatype old, MPI_Datatype *ret_type) {
    struct MPI_ABI_Datatype *type;
    int code = type_find(form, old, &type);
    if (code == MPI_SUCCESS && ndims < 1)
        code = form_error(form, MPI_ERR_ARG, "ndims is %d", ndims);
    MPI_Count stride = code == MPI_SUCCESS ? type->extent : 0, offset = 0;
    MPI_Datatype inner = old;
    for (int i = 0; code == MPI_SUCCESS && i < ndims; i++) {
        const int d = order == MPI_ORDER_C ? ndims - 1 - i : i;
        const MPI_Count size = array_at(sizes, d), part = array_at(subsizes, d);
        const MPI_Count start = array_at(starts, d);
        if (part < 1 || start < 0 || start + part > size)
            code =
                form_error(form, MPI_ERR_ARG,
                           "dimension %d has %lld elements, of which %lld from %lld on are no part",
                           d, (long long)size, (long long)part, (long long)start);
        MPI_Datatype made = MPI_DATATYPE_NULL;
        if (code == MPI_SUCCESS)
            code = make_one(form, part, 1, stride, inner, false, &made);
        if (inner != old)
            type_put(inner);
        inner = made;
        offset += start * stride;
        stride *= size;
    }
    if (code != MPI_SUCCESS)
        return code;
    struct type_part *whole = malloc(sizeof *whole);
    if (whole)
        *whole = (struct type_part){offset, 1, 0, 1, inner};
    code = type_make(form, whole, 1, ret_type);
    type_put(inner);
    if (code == MPI_SUCCESS) {
        (*ret_type)->lb = 0;
        (*ret_type)->extent = stride;
        (*ret_type)->is_dense = (*ret_type)->is_dense && stride == (*ret_type)->wire;
    }
    return code;
}
