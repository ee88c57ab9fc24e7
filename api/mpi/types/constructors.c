/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that make derived datatypes: each is a list of parts. */
#include <stdlib.h>
#include "attributes.h"
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
    const int code = make_one(form, count < 0 ? count : 1, count, 0, old, true, ret_type);
    return type_keep(form, code, ret_type, MPI_COMBINER_CONTIGUOUS, 0, "ct", count, old);
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
    code = type_keep(form, code, ret_type, MPI_COMBINER_DUP, 0, "t", old);
    if (code == MPI_SUCCESS)
        code = attributes_copy_type(form, old, *ret_type);
    if (code == MPI_SUCCESS || *ret_type == MPI_DATATYPE_NULL)
        return code;
    MPI_Datatype failed = *ret_type; /* by a copy function: there is no duplicate */
    *ret_type = MPI_DATATYPE_NULL;
    (void)face_Type_free(form, &failed);
    return code;
}

int face_Type_vector(struct form *form, MPI_Count count, MPI_Count length, MPI_Count stride,
                     MPI_Datatype old, MPI_Datatype *ret_type) {
    const int code = make_one(form, count, length, stride, old, true, ret_type);
    return type_keep(form, code, ret_type, MPI_COMBINER_VECTOR, 0, "ccct", count, length, stride,
                     old);
}

int face_Type_create_hvector(struct form *form, MPI_Count count, MPI_Count length, MPI_Count stride,
                             MPI_Datatype old, MPI_Datatype *ret_type) {
    const int code = make_one(form, count, length, stride, old, false, ret_type);
    return type_keep(form, code, ret_type, MPI_COMBINER_HVECTOR, 0, "ccat", count, length, stride,
                     old);
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
    const int code = make_indexed(
        form, &(const struct indexed){count, &lengths, 0, displacements, true, old, NULL},
        ret_type);
    return type_keep(form, code, ret_type, MPI_COMBINER_INDEXED, count, "cCCt", count, lengths,
                     displacements, old);
}

int face_Type_create_hindexed(struct form *form, MPI_Count count, struct array lengths,
                              struct array displacements, MPI_Datatype old,
                              MPI_Datatype *ret_type) {
    const int code = make_indexed(
        form, &(const struct indexed){count, &lengths, 0, displacements, false, old, NULL},
        ret_type);
    return type_keep(form, code, ret_type, MPI_COMBINER_HINDEXED, count, "cCAt", count, lengths,
                     displacements, old);
}

int face_Type_create_indexed_block(struct form *form, MPI_Count count, MPI_Count length,
                                   struct array displacements, MPI_Datatype old,
                                   MPI_Datatype *ret_type) {
    const int code = make_indexed(
        form, &(const struct indexed){count, NULL, length, displacements, true, old, NULL},
        ret_type);
    return type_keep(form, code, ret_type, MPI_COMBINER_INDEXED_BLOCK, count, "ccCt", count, length,
                     displacements, old);
}

int face_Type_create_hindexed_block(struct form *form, MPI_Count count, MPI_Count length,
                                    struct array displacements, MPI_Datatype old,
                                    MPI_Datatype *ret_type) {
    const int code = make_indexed(
        form, &(const struct indexed){count, NULL, length, displacements, false, old, NULL},
        ret_type);
    return type_keep(form, code, ret_type, MPI_COMBINER_HINDEXED_BLOCK, count, "ccAt", count,
                     length, displacements, old);
}

int face_Type_create_struct(struct form *form, MPI_Count count, struct array lengths,
                            struct array displacements, const MPI_Datatype *types,
                            MPI_Datatype *ret_type) {
    const int code = make_indexed(
        form,
        &(const struct indexed){count, &lengths, 0, displacements, false, MPI_DATATYPE_NULL, types},
        ret_type);
    return type_keep(form, code, ret_type, MPI_COMBINER_STRUCT, count, "cCAT", count, lengths,
                     displacements, types);
}

int face_Type_create_resized(struct form *form, MPI_Datatype old, MPI_Count lb, MPI_Count extent,
                             MPI_Datatype *ret_type) {
    const int code = make_one(form, 1, 1, 0, old, true, ret_type);
    if (code != MPI_SUCCESS)
        return code;
    type_resize(*ret_type, lb, extent);
    return type_keep(form, code, ret_type, MPI_COMBINER_RESIZED, 0, "aat", lb, extent, old);
}
