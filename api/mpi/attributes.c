/* SPDX-License-Identifier: BSD-3-Clause */
/* The predefined attributes of communicators. A program's own ones are not built. */
#include <limits.h>
#include <string.h>
#include "mpi_comm.h"
#include "faces.h"

int face_Comm_get_attr(struct form *form, MPI_Comm handle, int key, void *ret_value,
                       int *ret_flag) {
    static int tag_ub = INT_MAX, io = MPI_ANY_SOURCE, host = MPI_PROC_NULL, is_global = 0;
    static int last_code = MPI_ERR_LASTCODE;
    struct MPI_ABI_Comm *comm;
    const int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    int *value = key == MPI_TAG_UB            ? &tag_ub
                 : key == MPI_IO              ? &io
                 : key == MPI_HOST            ? &host
                 : key == MPI_WTIME_IS_GLOBAL ? &is_global
                 : key == MPI_LASTUSEDCODE    ? &last_code
                                              : NULL;
    *ret_flag = value != NULL;
    if (value)
        memcpy(ret_value, &value, sizeof value);
    return MPI_SUCCESS;
}

int face_Attr_get(struct form *form, MPI_Comm handle, int key, void *ret_value, int *ret_flag) {
    return face_Comm_get_attr(form, handle, key, ret_value, ret_flag);
}
