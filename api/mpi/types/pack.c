/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Pack and MPI_Unpack: packed elements are those that messages carry. */
#include <string.h>
#include "mpi_comm.h"
#include "datatype.h"
#include "faces.h"

int type_check_room(struct form *form, MPI_Count n, const struct MPI_ABI_Datatype *type,
                    MPI_Count size, MPI_Count position) {
    MPI_Count bytes;
    if (n >= 0 && position >= 0 && position <= size &&
        !__builtin_mul_overflow(n, type->wire, &bytes) && bytes <= size - position)
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_TRUNCATE,
                      "%lld elements of %lld bytes from byte %lld on are more than %lld bytes",
                      (long long)n, (long long)type->wire, (long long)position, (long long)size);
}

int face_Pack(struct form *form, const void *in, MPI_Count n, MPI_Datatype handle, void *packed,
              MPI_Count size, MPI_Count *position, MPI_Comm comm_handle) {
    struct MPI_ABI_Datatype *type;
    struct MPI_ABI_Comm *comm;
    int code = comm_find(form, comm_handle, &comm);
    if (code == MPI_SUCCESS)
        code = type_find_used(form, handle, &type);
    if (code == MPI_SUCCESS)
        code = type_check_room(form, n, type, size, *position);
    if (code != MPI_SUCCESS)
        return code;
    type_pack(type, in, n, (char *)packed + *position);
    *position += n * type->wire;
    return MPI_SUCCESS;
}

int face_Unpack(struct form *form, const void *packed, MPI_Count size, MPI_Count *position,
                void *out, MPI_Count n, MPI_Datatype handle, MPI_Comm comm_handle) {
    struct MPI_ABI_Datatype *type;
    struct MPI_ABI_Comm *comm;
    int code = comm_find(form, comm_handle, &comm);
    if (code == MPI_SUCCESS)
        code = type_find_used(form, handle, &type);
    if (code == MPI_SUCCESS)
        code = type_check_room(form, n, type, size, *position);
    if (code != MPI_SUCCESS)
        return code;
    const size_t bytes = (size_t)n * (size_t)type->wire;
    type_unpack(type, out, n, (const char *)packed + *position, bytes);
    *position += (MPI_Count)bytes;
    return MPI_SUCCESS;
}

int face_Pack_size(struct form *form, MPI_Count n, MPI_Datatype handle, MPI_Comm comm_handle,
                   MPI_Count *ret_size) {
    struct MPI_ABI_Datatype *type;
    struct MPI_ABI_Comm *comm;
    int code = comm_find(form, comm_handle, &comm);
    if (code == MPI_SUCCESS)
        code = type_find(form, handle, &type);
    if (code == MPI_SUCCESS)
        *ret_size = n * type->wire;
    return code;
}
