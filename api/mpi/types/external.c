/* SPDX-License-Identifier: BSD-3-Clause */
/* The representation external32: packed elements with the most significant byte first. */
#include <stdlib.h>
#include <string.h>
#include "datatype.h"
#include "faces.h"

/* Bytes of the numbers of a basic type; 0: external32 has another size, or it is a pair. */
static MPI_Count number_bytes(const struct MPI_ABI_Datatype *type) {
    if (type->group == GROUP_PAIR || type->name == NULL || type_handle(type) == MPI_WCHAR ||
        type_handle(type) == MPI_2REAL || type_handle(type) == MPI_2DOUBLE_PRECISION)
        return 0;
    return type->group == GROUP_COMPLEX ? type->wire / 2 : type->wire;
}

/* Reverses the bytes of all numbers of n packed elements, and moves *at to their end. Returns
 * whether all types can. */
static bool reverse(const struct MPI_ABI_Datatype *type, MPI_Count n, char **at) {
    if (type->nparts == 0) {
        const MPI_Count bytes = number_bytes(type);
        for (MPI_Count left = n * type->wire; bytes > 0 && left > 0; left -= bytes) {
            for (MPI_Count i = 0; i < bytes / 2; i++) {
                const char first = (*at)[i];
                (*at)[i] = (*at)[bytes - 1 - i];
                (*at)[bytes - 1 - i] = first;
            }
            *at += bytes;
        }
        return bytes > 0 || n == 0;
    }
    bool can = true;
    for (MPI_Count i = 0; i < n && can; i++)
        for (size_t k = 0; k < type->nparts && can; k++)
            can = reverse(type->parts[k].type, type->parts[k].count * type->parts[k].length, at);
    return can;
}

/* Checks the arguments, and room for n elements from the position on. */
static int check(struct form *form, const char *name, MPI_Count n,
                 const struct MPI_ABI_Datatype *type, MPI_Count size, MPI_Count position) {
    if (strcmp(name, "external32") != 0)
        return form_error(form, MPI_ERR_ARG, "datarep is %.40s, not external32", name);
    if (n < 0)
        return form_error(form, MPI_ERR_COUNT, "count is %lld", (long long)n);
    return type_check_room(form, n, type, size, position);
}

static int no_external(struct form *form) {
    return form_error(form, MPI_ERR_UNSUPPORTED_OPERATION,
                      "pairs and MPI_WCHAR have no external32 here. Pack their parts");
}

int face_Pack_external(struct form *form, const char *name, const void *in, MPI_Count n,
                       struct MPI_ABI_Datatype *type, void *packed, MPI_Count size,
                       MPI_Count *position) {
    const int code = check(form, name, n, type, size, *position);
    if (code != MPI_SUCCESS)
        return code;
    char *at = AT(packed, *position);
    type_pack(type, in, n, at);
    if (!reverse(type, n, &at))
        return no_external(form);
    *position += n * type->wire;
    return MPI_SUCCESS;
}

int face_Unpack_external(struct form *form, const char *name, const void *packed, MPI_Count size,
                         MPI_Count *position, void *out, MPI_Count n,
                         struct MPI_ABI_Datatype *type) {
    const int code = check(form, name, n, type, size, *position);
    if (code != MPI_SUCCESS)
        return code;
    const size_t bytes = (size_t)(n * type->wire);
    char *copy = malloc(bytes + 1), *at = copy;
    if (!copy)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %zu bytes", bytes);
    if (bytes)
        memcpy(copy, (const char *)packed + *position, bytes);
    const bool is_reversed = reverse(type, n, &at);
    if (is_reversed)
        type_unpack(type, out, n, copy, bytes);
    free(copy);
    *position += is_reversed ? (MPI_Count)bytes : 0;
    return is_reversed ? MPI_SUCCESS : no_external(form);
}

int face_Pack_external_size(struct form *form, const char *name, MPI_Count n,
                            struct MPI_ABI_Datatype *type, MPI_Count *ret_size) {
    const int code = check(form, name, n, type, INT64_MAX, 0);
    if (code == MPI_SUCCESS)
        *ret_size = n * type->wire;
    return code;
}
