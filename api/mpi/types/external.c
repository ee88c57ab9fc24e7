/* SPDX-License-Identifier: BSD-3-Clause */
/* The representation external32 (MPI 5.0, 14.5.2): numbers with the most significant byte first,
 * some of another size than in memory, without gaps. */
#include <stdlib.h>
#include <string.h>
#include "datatype.h"
#include "faces.h"

/* Packed elements and their external32. */
struct conversion {
    unsigned char *packed, *external;
    bool is_packing;
    const char *refused; /* a type with a value that does not fit, or NULL */
};

/* Bytes of an element; 0: it has none. *ret_refused: a type that has no external32 here. */
static MPI_Count external_bytes(const struct MPI_ABI_Datatype *type, const char **ret_refused) {
    MPI_Count bytes = type->external;
    if (type->nparts == 0 && type->size > 0 && bytes == 0)
        *ret_refused = type->name;
    for (size_t i = 0; i < type->nparts; i++) {
        const struct type_part *part = &type->parts[i];
        if (part->count * part->length > 0)
            bytes += part->count * part->length * external_bytes(part->type, ret_refused);
    }
    return bytes;
}

/* Converts a number of `from` bytes in memory and `to` bytes in external32. */
static void convert_number(struct conversion *at, MPI_Count from, MPI_Count to, bool is_signed,
                           const char *name) {
    for (MPI_Count i = 0; i < to; i++) {
        if (at->is_packing)
            at->external[to - 1 - i] = at->packed[i];
        else
            at->packed[i] = at->external[to - 1 - i];
    }
    const unsigned char rest = is_signed && at->external[0] >= 0x80 ? 0xff : 0;
    for (MPI_Count i = to; i < from; i++) {
        if (at->is_packing && at->packed[i] != rest)
            at->refused = name;
        else
            at->packed[i] = rest;
    }
    at->packed += from;
    at->external += to;
}

static void convert(const struct MPI_ABI_Datatype *type, MPI_Count n, struct conversion *at) {
    const MPI_Count numbers = type->group == GROUP_COMPLEX ? 2 : 1;
    for (MPI_Count i = 0; i < n; i++) {
        for (MPI_Count k = 0; type->nparts == 0 && k < numbers; k++)
            convert_number(at, type->size / numbers, type->external / numbers,
                           type->exact == RCM_INT64, type->name);
        for (size_t k = 0; k < type->nparts; k++)
            convert(type->parts[k].type, type->parts[k].count * type->parts[k].length, at);
    }
}

/* Checks the arguments, and room for n elements from the position on. *ret_bytes: of all elements.
 */
static int check(struct form *form, const char *name, MPI_Count n,
                 const struct MPI_ABI_Datatype *type, MPI_Count size, MPI_Count position,
                 MPI_Count *ret_bytes) {
    const char *refused = NULL;
    if (strcmp(name, "external32") != 0)
        return form_error(form, MPI_ERR_ARG, "datarep is %.40s, not external32", name);
    if (n < 0)
        return form_error(form, MPI_ERR_COUNT, "count is %lld", (long long)n);
    const MPI_Count bytes = external_bytes(type, &refused);
    if (refused)
        return form_error(form, MPI_ERR_UNSUPPORTED_OPERATION,
                          "%s has no external32 here. Pack it as another type", refused);
    *ret_bytes = n * bytes;
    return type_check_room(form, n, bytes, size, position);
}

int face_Pack_external(struct form *form, const char *name, const void *in, MPI_Count n,
                       struct MPI_ABI_Datatype *type, void *packed, MPI_Count size,
                       MPI_Count *position) {
    MPI_Count bytes;
    const int code = check(form, name, n, type, size, *position, &bytes);
    if (code != MPI_SUCCESS)
        return code;
    unsigned char *copy = malloc((size_t)(n * type->size) + 1);
    if (!copy)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %lld elements", (long long)n);
    type_pack(type, in, n, copy);
    struct conversion at = {copy, (unsigned char *)AT(packed, *position), true, NULL};
    convert(type, n, &at);
    free(copy);
    if (at.refused)
        return form_error(form, MPI_ERR_CONVERSION,
                          "a value of %s does not fit in the bytes that external32 has for it",
                          at.refused);
    *position += bytes;
    return MPI_SUCCESS;
}

int face_Unpack_external(struct form *form, const char *name, const void *packed, MPI_Count size,
                         MPI_Count *position, void *out, MPI_Count n,
                         struct MPI_ABI_Datatype *type) {
    MPI_Count bytes;
    const int code = check(form, name, n, type, size, *position, &bytes);
    if (code != MPI_SUCCESS)
        return code;
    const size_t room = (size_t)(n * type->size);
    unsigned char *copy = calloc(1, room + 1);
    if (!copy)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %lld elements", (long long)n);
    struct conversion at = {copy, (unsigned char *)AT(packed, *position), false, NULL};
    convert(type, n, &at);
    type_unpack(type, out, n, copy, room);
    free(copy);
    *position += bytes;
    return MPI_SUCCESS;
}

int face_Pack_external_size(struct form *form, const char *name, MPI_Count n,
                            struct MPI_ABI_Datatype *type, MPI_Count *ret_size) {
    return check(form, name, n, type, INT64_MAX, 0, ret_size);
}
