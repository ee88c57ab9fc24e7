/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that make derived datatypes: each is a list of parts. */
#include <stdlib.h>
#include "attributes.h"
#include "datatype.h"
#include "faces.h"

/* A type of one part: `count` blocks of `length` elements, each `stride` behind the one before. */
int face_vector(struct form *form, MPI_Count count, MPI_Count length, MPI_Count stride,
                bool in_elements, struct MPI_ABI_Datatype *type, MPI_Datatype *ret_type) {
    if (count < 0 || length < 0)
        return form_error(form, count < 0 ? MPI_ERR_COUNT : MPI_ERR_ARG,
                          "count is %lld, blocklength %lld", (long long)count, (long long)length);
    struct type_part *part = malloc(sizeof *part);
    const MPI_Count bytes = stride * (in_elements ? type->extent : 1);
    const bool is_one_block = length == 1 && bytes == type->extent;
    if (part)
        *part = is_one_block ? (struct type_part){0, 1, 0, count, type}
                             : (struct type_part){0, count, bytes, length, type};
    return type_make(form, part, 1, ret_type);
}

int face_Type_dup(struct form *form, struct MPI_ABI_Datatype *type, MPI_Datatype *ret_type) {
    int code = face_vector(form, 1, 1, 0, true, type, ret_type);
    if (code != MPI_SUCCESS)
        return code;
    type_inherit(*ret_type, type);
    code = attributes_copy(form, owner_type(type), owner_type(*ret_type));
    if (code == MPI_SUCCESS)
        return code;
    MPI_Datatype failed = *ret_type; /* by a copy function: there is no duplicate */
    *ret_type = MPI_DATATYPE_NULL;
    (void)face_Type_free(form, &failed);
    return code;
}

/* Blocks at displacements: of one type (types NULL) or of one each; of `length` or of lengths[i].
 */
int face_blocks(struct form *form, MPI_Count count, struct array lengths, MPI_Count length,
                struct array displacements, bool in_elements, struct MPI_ABI_Datatype *type,
                const MPI_Datatype *types, MPI_Datatype *ret_type) {
    int code = MPI_SUCCESS;
    if (count < 0)
        return form_error(form, MPI_ERR_COUNT, "count is %lld", (long long)count);
    struct type_part *parts = calloc((size_t)count + 1, sizeof *parts);
    for (int i = 0; parts && i < count && code == MPI_SUCCESS; i++) {
        if (types)
            code = type_find(form, types[i], &type);
        if (lengths.items)
            length = array_at(lengths, i);
        if (code == MPI_SUCCESS && length < 0)
            code = form_error(form, MPI_ERR_ARG, "blocklengths[%d] is %lld", i, (long long)length);
        if (code == MPI_SUCCESS)
            parts[i] = (struct type_part){
                array_at(displacements, i) * (in_elements ? type->extent : 1), 1, 0, length, type};
    }
    if (code != MPI_SUCCESS) {
        free(parts);
        return code;
    }
    code = type_make(form, parts, (size_t)count, ret_type);
    if (code == MPI_SUCCESS && types)
        type_pad(*ret_type);
    return code;
}

int face_Type_create_resized(struct form *form, struct MPI_ABI_Datatype *type, MPI_Count lb,
                             MPI_Count extent, MPI_Datatype *ret_type) {
    const int code = face_vector(form, 1, 1, 0, true, type, ret_type);
    if (code != MPI_SUCCESS)
        return code;
    type_resize(*ret_type, lb, extent);
    (*ret_type)->alignment = 1; /* the program has chosen its end */
    return MPI_SUCCESS;
}
