/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Pack and MPI_Unpack: packed elements are those that messages carry. */
#include "datatype.h"
#include "faces.h"

int type_check_room(struct form *form, MPI_Count n, MPI_Count bytes, MPI_Count size,
                    MPI_Count position) {
    MPI_Count needed;
    if (n >= 0 && position >= 0 && position <= size && !__builtin_mul_overflow(n, bytes, &needed) &&
        needed <= size - position)
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_TRUNCATE,
                      "%lld elements of %lld bytes from byte %lld on are more than %lld bytes",
                      (long long)n, (long long)bytes, (long long)position, (long long)size);
}

int face_Pack(struct form *form, const void *in, MPI_Count n, struct MPI_ABI_Datatype *type,
              void *packed, MPI_Count size, MPI_Count *position) {
    const int code = type_check_room(form, n, type->size, size, *position);
    if (code != MPI_SUCCESS)
        return code;
    type_pack(type, in, n, AT(packed, *position));
    *position += n * type->size;
    return MPI_SUCCESS;
}

int face_Unpack(struct form *form, const void *packed, MPI_Count size, MPI_Count *position,
                void *out, MPI_Count n, struct MPI_ABI_Datatype *type) {
    const int code = type_check_room(form, n, type->size, size, *position);
    if (code != MPI_SUCCESS)
        return code;
    type_unpack(type, out, n, AT(packed, *position), (size_t)(n * type->size));
    *position += n * type->size;
    return MPI_SUCCESS;
}
