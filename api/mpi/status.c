/* SPDX-License-Identifier: BSD-3-Clause */
/* Statuses: the byte count is in two of the five ints of the library, and so unaligned. */
#include <string.h>
#include "faces.h"
#include "request.h"

enum { BYTES_AT = 0 };

void status_set(MPI_Status *status, int source, int tag, MPI_Count bytes, bool is_canceled) {
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    memcpy(&status->MPI_internal[BYTES_AT], &bytes, sizeof bytes);
    status->MPI_internal[STATUS_CANCELED_AT] = is_canceled;
}

void status_receive(MPI_Status *status, const struct rcm_message *message, int peer_first) {
    status_set(status, message->source - peer_first, (int)message->tag, (MPI_Count)message->bytes,
               false);
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

int face_Get_count(struct form *form, const MPI_Status *status, struct MPI_ABI_Datatype *type,
                   MPI_Count *ret_count) {
    const MPI_Count bytes = status_bytes(status);
    if (type->size == 0)
        *ret_count = bytes == 0 ? 0 : MPI_UNDEFINED;
    else
        *ret_count = bytes % type->size ? MPI_UNDEFINED : bytes / type->size;
    return MPI_SUCCESS;
}

/* Basic elements in the first *left bytes of n elements; subtracts their bytes. */
static MPI_Count elements_in(const struct MPI_ABI_Datatype *type, MPI_Count n, MPI_Count *left) {
    MPI_Count found = 0;
    if (type->size == 0)
        return 0;
    if (type->nparts == 0) {
        found = *left / type->size < n ? *left / type->size : n;
        *left -= found * type->size;
    }
    for (MPI_Count i = 0; *left > 0 && type->nparts > 0 && i < n; i++)
        for (size_t k = 0; k < type->nparts; k++)
            found += elements_in(type->parts[k].type, type->parts[k].count * type->parts[k].length,
                                 left);
    return found;
}

int face_Get_elements(struct form *form, const MPI_Status *status, struct MPI_ABI_Datatype *type,
                      MPI_Count *ret_count) {
    MPI_Count left = status_bytes(status);
    *ret_count = type->size == 0 ? 0 : elements_in(type, left / type->size + 1, &left);
    if (left > 0)
        *ret_count = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int face_Status_set_elements(struct form *form, MPI_Status *status, struct MPI_ABI_Datatype *type,
                             MPI_Count count) {
    status_set(status, status->MPI_SOURCE, status->MPI_TAG, count * type->size,
               status->MPI_internal[STATUS_CANCELED_AT]);
    return MPI_SUCCESS;
}

int face_set_field(struct form *form, MPI_Status *status, int field, int value) {
    int *const fields[] = {&status->MPI_SOURCE, &status->MPI_TAG, &status->MPI_ERROR,
                           &status->MPI_internal[STATUS_CANCELED_AT]};
    *fields[field] = value;
    return MPI_SUCCESS;
}
