/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of communicators, and the functions that make and free them. */
#include <stdlib.h>
#include <string.h>
#include "attributes.h"
#include "buffered.h"
#include "faces.h"

int face_Comm_rank(struct form *form, MPI_Comm handle, int *ret_rank) {
    struct MPI_ABI_Comm *comm;
    const int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        *ret_rank = comm->rank;
    return code;
}

int face_Comm_size(struct form *form, MPI_Comm handle, int *ret_size) {
    struct MPI_ABI_Comm *comm;
    const int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        *ret_size = comm->size;
    return code;
}

int face_Comm_get_name(struct form *form, MPI_Comm handle, char *name, int *ret_length) {
    struct MPI_ABI_Comm *comm, null = {.name = "MPI_COMM_NULL"};
    const int code = handle == MPI_COMM_NULL ? MPI_SUCCESS : comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    if (handle == MPI_COMM_NULL)
        comm = &null;
    *ret_length = (int)strlen(comm->name);
    memcpy(name, comm->name, (size_t)*ret_length + 1);
    return MPI_SUCCESS;
}

/* The name in reports has fewer bytes than a name of MPI. */
int face_Comm_set_name(struct form *form, MPI_Comm handle, const char *name) {
    struct MPI_ABI_Comm *comm;
    char shorter[RCM_NAME_MAX] = "";
    const int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const size_t length = strnlen(name, sizeof comm->name - 1);
    memcpy(comm->name, name, length);
    comm->name[length] = '\0';
    memcpy(shorter, name, length < sizeof shorter ? length : sizeof shorter - 1);
    return shorter[0] ? form_status(form, rcm_comm_set_name(comm->comm, shorter)) : MPI_SUCCESS;
}

/* No program here was started by another one. */
int face_Comm_get_parent(struct form *form, MPI_Comm *ret_comm) {
    (void)form;
    *ret_comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int face_Topo_test(struct form *form, MPI_Comm handle, int *ret_kind) {
    struct MPI_ABI_Comm *comm;
    *ret_kind = MPI_UNDEFINED;
    return comm_find(form, handle, &comm);
}

int face_Comm_test_inter(struct form *form, MPI_Comm handle, int *ret_flag) {
    struct MPI_ABI_Comm *comm;
    *ret_flag = 0;
    return comm_find(form, handle, &comm);
}

int face_Comm_compare(struct form *form, MPI_Comm first, MPI_Comm second, int *ret_result) {
    struct MPI_ABI_Comm *a, *b;
    int code = comm_find(form, first, &a);
    if (code == MPI_SUCCESS)
        code = comm_find(form, second, &b);
    if (code != MPI_SUCCESS)
        return code;
    *ret_result = a == b ? MPI_IDENT : a->size == b->size ? MPI_CONGRUENT : MPI_UNEQUAL;
    for (int i = 0; i < a->size && a != b && *ret_result != MPI_UNEQUAL; i++) {
        const int rank = rcm_comm_translate(a->comm, i, b->comm);
        if (rank != i)
            *ret_result = rank < 0 ? MPI_UNEQUAL : MPI_SIMILAR;
    }
    return MPI_SUCCESS;
}

int face_Comm_dup(struct form *form, MPI_Comm handle, MPI_Comm *ret_comm) {
    struct MPI_ABI_Comm *comm;
    rcm_comm *made;
    const int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status = rcm_comm_duplicate(comm->comm, NULL, &made);
    if (status != RCM_OK)
        return form_status(form, status);
    const int wrapped = comm_wrap(form, comm, made, ret_comm);
    return wrapped == MPI_SUCCESS ? attributes_copy(form, handle, *ret_comm) : wrapped;
}

int face_Comm_dup_with_info(struct form *form, MPI_Comm handle, MPI_Info info, MPI_Comm *ret_comm) {
    (void)info;
    return face_Comm_dup(form, handle, ret_comm);
}

int face_Comm_split(struct form *form, MPI_Comm handle, int colour, int key, MPI_Comm *ret_comm) {
    struct MPI_ABI_Comm *comm;
    rcm_comm *made;
    int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS && colour < 0 && colour != MPI_UNDEFINED)
        code = form_error(form, MPI_ERR_ARG, "color is %d, but colors are 0 or more", colour);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        rcm_comm_split(comm->comm, colour == MPI_UNDEFINED ? -1 : colour, key, NULL, &made);
    return status == RCM_OK ? comm_wrap(form, comm, made, ret_comm) : form_status(form, status);
}

int face_Comm_split_type(struct form *form, MPI_Comm handle, int type, int key, MPI_Info info,
                         MPI_Comm *ret_comm) {
    struct MPI_ABI_Comm *comm;
    rcm_comm *hosts = NULL, *made;
    const bool is_host =
        type == MPI_COMM_TYPE_SHARED ||
        ((type == MPI_COMM_TYPE_HW_GUIDED || type == MPI_COMM_TYPE_RESOURCE_GUIDED) &&
         info_has(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    const int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    /* A rank may pass MPI_UNDEFINED where others pass a type, so all call both. */
    rcm_status status = rcm_comm_split_hosts(comm->comm, NULL, &hosts);
    if (status != RCM_OK)
        return form_status(form, status);
    status = rcm_comm_split(hosts, is_host ? 0 : -1, key, NULL, &made);
    const rcm_status last = rcm_destroy(hosts);
    if (status == RCM_OK)
        status = last;
    return status == RCM_OK ? comm_wrap(form, comm, made, ret_comm) : form_status(form, status);
}

int face_Comm_free(struct form *form, MPI_Comm *handle) {
    struct MPI_ABI_Comm *comm;
    int code = comm_find(form, *handle, &comm);
    if (code == MPI_SUCCESS && is_predefined(*handle))
        code = form_error(form, MPI_ERR_COMM, "%s cannot be freed", comm->name);
    if (code == MPI_SUCCESS)
        code = attributes_delete(form, *handle);
    if (code != MPI_SUCCESS)
        return code;
    buffered_close(comm);
    const rcm_status status = rcm_destroy(comm->comm);
    form->comm = NULL;
    code = form_status(form, status);
    MPI_Errhandler handler = atomic_load(&comm->handler);
    if (!is_predefined(handler))
        (void)face_Errhandler_free(form, &handler);
    free(comm);
    *handle = MPI_COMM_NULL;
    return code;
}
