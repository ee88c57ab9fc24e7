/* SPDX-License-Identifier: BSD-3-Clause */
/* Statuses: the byte count is in two of the five ints of the library, and so unaligned. */
#include <string.h>
#include "faces.h"
#include "request.h"

enum { BYTES_AT = 0, CANCELED_AT = 2 };

void status_set(MPI_Status *status, int source, int tag, MPI_Count bytes, bool is_canceled) {
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    memcpy(&status->MPI_internal[BYTES_AT], &bytes, sizeof bytes);
    status->MPI_internal[CANCELED_AT] = is_canceled;
}

void status_empty(MPI_Status *status) {
    if (!status)
        return;
    status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
    status->MPI_ERROR = MPI_SUCCESS;
}

MPI_Count status_bytes(const MPI_Status *status) {
    MPI_Count bytes;
    memcpy(&bytes, &status->MPI_internal[BYTES_AT], sizeof bytes);
    return bytes;
}

int face_Get_count(struct form *form, const MPI_Status *status, MPI_Datatype handle,
                   MPI_Count *ret_count) {
    struct MPI_ABI_Datatype *type;
    const int code = type_find(form, handle, &type);
    if (code != MPI_SUCCESS)
        return code;
    const MPI_Count bytes = status_bytes(status);
    if (type->wire == 0)
        *ret_count = bytes == 0 ? 0 : MPI_UNDEFINED;
    else
        *ret_count = bytes % type->wire ? MPI_UNDEFINED : bytes / type->wire;
    return MPI_SUCCESS;
}

/* Basic elements in the first *left bytes of n elements of a basic type; subtracts their bytes. A
 * pair is two. */
static MPI_Count basic_elements_in(const struct MPI_ABI_Datatype *type, MPI_Count n,
                                   MPI_Count *left) {
    const struct type_pair *pair = type_pair(type);
    const MPI_Count whole = *left / type->wire < n ? *left / type->wire : n;
    *left -= whole * type->wire;
    if (!pair)
        return whole;
    const MPI_Count value = type_of(pair->value)->wire;
    const bool is_half = whole < n && *left >= value;
    *left -= is_half ? value : 0;
    return 2 * whole + is_half;
}

/* The same of any type. */
static MPI_Count elements_in(const struct MPI_ABI_Datatype *type, MPI_Count n, MPI_Count *left) {
    MPI_Count found = 0;
    if (type->wire == 0)
        return 0;
    if (type->nparts == 0)
        return basic_elements_in(type, n, left);
    for (MPI_Count i = 0; i<n && * left> 0; i++)
        for (size_t k = 0; k < type->nparts; k++)
            found += elements_in(type->parts[k].type, type->parts[k].count * type->parts[k].length,
                                 left);
    return found;
}

int face_Get_elements(struct form *form, const MPI_Status *status, MPI_Datatype handle,
                      MPI_Count *ret_count) {
    struct MPI_ABI_Datatype *type;
    const int code = type_find(form, handle, &type);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Count left = status_bytes(status);
    *ret_count = type->wire == 0 ? 0 : elements_in(type, left / type->wire + 1, &left);
    if (left > 0)
        *ret_count = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int face_Status_set_elements(struct form *form, MPI_Status *status, MPI_Datatype handle,
                             MPI_Count count) {
    struct MPI_ABI_Datatype *type;
    const int code = type_find(form, handle, &type);
    if (code == MPI_SUCCESS)
        status_set(status, status->MPI_SOURCE, status->MPI_TAG, count * type->wire,
                   status->MPI_internal[CANCELED_AT]);
    return code;
}

int face_Status_set_cancelled(struct form *form, MPI_Status *status, int flag) {
    (void)form;
    status->MPI_internal[CANCELED_AT] = flag;
    return MPI_SUCCESS;
}

int face_Test_cancelled(struct form *form, const MPI_Status *status, int *ret_flag) {
    (void)form;
    *ret_flag = status->MPI_internal[CANCELED_AT];
    return MPI_SUCCESS;
}

int face_Status_get_source(struct form *form, const MPI_Status *status, int *ret_value) {
    (void)form;
    *ret_value = status->MPI_SOURCE;
    return MPI_SUCCESS;
}

int face_Status_get_tag(struct form *form, const MPI_Status *status, int *ret_value) {
    (void)form;
    *ret_value = status->MPI_TAG;
    return MPI_SUCCESS;
}

int face_Status_get_error(struct form *form, const MPI_Status *status, int *ret_value) {
    (void)form;
    *ret_value = status->MPI_ERROR;
    return MPI_SUCCESS;
}

int face_Status_set_source(struct form *form, MPI_Status *status, int value) {
    (void)form;
    status->MPI_SOURCE = value;
    return MPI_SUCCESS;
}

int face_Status_set_tag(struct form *form, MPI_Status *status, int value) {
    (void)form;
    status->MPI_TAG = value;
    return MPI_SUCCESS;
}

int face_Status_set_error(struct form *form, MPI_Status *status, int value) {
    (void)form;
    status->MPI_ERROR = value;
    return MPI_SUCCESS;
}
