/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of communicators, and the functions that make and free them. */
#include <stdlib.h>
#include <string.h>
#include "attributes.h"
#include "buffered.h"
#include "faces.h"
#include "communicators.h"
#include "leaks.h"
#include "request.h"

int face_Comm_get_name(struct form *form, MPI_Comm handle, char *name, int *ret_length) {
    struct MPI_ABI_Comm *comm;
    if (handle == MPI_COMM_NULL)
        return name_get("MPI_COMM_NULL", name, ret_length);
    const int code = comm_find(form, handle, &comm);
    return code == MPI_SUCCESS ? name_get(comm->name, name, ret_length) : code;
}

/* The name in reports has fewer bytes than a name of MPI. */
int face_Comm_set_name(struct form *form, struct MPI_ABI_Comm *comm, const char *name) {
    char shorter[RCM_NAME_MAX];
    name_set(comm->name, name);
    memcpy(shorter, comm->name, sizeof shorter - 1);
    shorter[sizeof shorter - 1] = '\0';
    return shorter[0] ? form_status(form, rcm_comm_set_name(comm->comm, shorter)) : MPI_SUCCESS;
}

int face_Comm_compare(struct form *form, struct MPI_ABI_Comm *a, struct MPI_ABI_Comm *b,
                      int *ret_result) {
    const bool are_alike =
        a->is_inter == b->is_inter && a->size == b->size && a->npeers == b->npeers;
    *ret_result = a == b ? MPI_IDENT : are_alike ? MPI_CONGRUENT : MPI_UNEQUAL;
    for (int i = 0; i < a->size + a->npeers && a != b && *ret_result != MPI_UNEQUAL; i++) {
        const bool is_own = i < a->size;
        const int at = is_own ? i : i - a->size;
        const int from = (is_own ? a->own_first : a->peer_first) + at;
        const int rank =
            rcm_comm_translate(a->comm, from, b->comm) - (is_own ? b->own_first : b->peer_first);
        if (rank != at)
            *ret_result =
                rank < 0 || rank >= (is_own ? b->size : b->npeers) ? MPI_UNEQUAL : MPI_SIMILAR;
    }
    return MPI_SUCCESS;
}

/* Copies to a duplicate what ringcomm.h does not have. */
static int copy_rest(struct form *form, struct MPI_ABI_Comm *comm, MPI_Comm made) {
    const int code = topology_copy(form, comm, made);
    return code == MPI_SUCCESS ? attributes_copy(form, owner_comm(comm), owner_comm(made)) : code;
}

/* After an error of a copy function, there is no duplicate. The error is one of the communicator
 * that was to be copied. Returns code. */
static int keep_copied(struct form *form, int code, MPI_Comm *made) {
    MPI_Comm failed = *made, copied = form->comm;
    if (code == MPI_SUCCESS)
        return code;
    *made = MPI_COMM_NULL;
    (void)face_Comm_free(form, &failed);
    form->comm = copied;
    return code;
}

int face_Comm_dup(struct form *form, struct MPI_ABI_Comm *comm, MPI_Comm *ret_comm) {
    rcm_comm *made = NULL;
    const rcm_status status = rcm_comm_duplicate(comm->comm, NULL, &made);
    const int code = comm_wrap(form, comm, comm_next_id(comm), status, made, ret_comm);
    if (code != MPI_SUCCESS)
        return code;
    if (comm->is_inter)
        comm_divide(*ret_comm, comm_divided(comm));
    return keep_copied(form, copy_rest(form, comm, *ret_comm), ret_comm);
}

/* The handle has the ranks of the old communicator at once. The request gives it its own. */
int face_Comm_idup(struct form *form, struct MPI_ABI_Comm *comm, MPI_Comm *ret_comm,
                   MPI_Request *ret_request) {
    rcm_comm_request *making = NULL;
    int code = comm_new(form, comm, ret_comm);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm made = *ret_comm;
    made->id = comm_next_id(comm);
    made->rank = comm->rank;
    made->size = comm->size;
    made->npeers = comm->npeers;
    made->own_first = comm->own_first;
    made->peer_first = comm->peer_first;
    made->is_inter = comm->is_inter;
    code = copy_rest(form, comm, made);
    form->comm = comm_handle(comm); /* of the request */
    if (code == MPI_SUCCESS)
        code = form_status(form, rcm_comm_duplicate_begin(comm->comm, NULL, &making));
    if (code == MPI_SUCCESS)
        code = request_making(form, making, &made->comm, ret_request);
    return keep_copied(form, code, ret_comm);
}

int face_Comm_split(struct form *form, struct MPI_ABI_Comm *comm, int colour, int key,
                    MPI_Comm *ret_comm) {
    rcm_comm *made = NULL;
    if (colour < 0 && colour != MPI_UNDEFINED)
        return form_error(form, MPI_ERR_ARG, "color is %d, but colors are 0 or more", colour);
    colour = colour == MPI_UNDEFINED ? -1 : colour;
    if (comm->is_inter)
        return intercomm_split(form, comm, colour, key, ret_comm);
    const rcm_status status = rcm_comm_split(comm->comm, colour, key, NULL, &made);
    return comm_wrap(form, comm, comm_next_id(comm), status, made, ret_comm);
}

int face_Comm_split_type(struct form *form, struct MPI_ABI_Comm *comm, int type, int key,
                         MPI_Info info, MPI_Comm *ret_comm) {
    rcm_comm *hosts = NULL, *made = NULL;
    const bool is_host =
        type == MPI_COMM_TYPE_SHARED ||
        ((type == MPI_COMM_TYPE_HW_GUIDED || type == MPI_COMM_TYPE_RESOURCE_GUIDED) &&
         info_has(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    /* A rank may pass MPI_UNDEFINED where others pass a type, so all call both. */
    rcm_status status = rcm_comm_split_hosts(comm->comm, NULL, &hosts);
    if (status != RCM_OK)
        return form_status(form, status);
    status = rcm_comm_split(hosts, is_host ? 0 : -1, key, NULL, &made);
    const int code = comm_wrap(form, comm, comm_next_id(comm), status, made, ret_comm);
    comm_end(hosts);
    return code;
}

int face_Comm_free(struct form *form, MPI_Comm *handle) {
    struct MPI_ABI_Comm *comm;
    int code = comm_find(form, *handle, &comm);
    if (code == MPI_SUCCESS && is_predefined(*handle))
        code = form_error(form, MPI_ERR_COMM, "%s cannot be freed", comm->name);
    if (code == MPI_SUCCESS)
        code = attributes_delete(owner_comm(comm));
    if (code != MPI_SUCCESS)
        return code;
    buffered_close(comm);
    leaks_count(leak_comm, -1);
    comm_end_rests(false);
    comm_put(comm);
    *handle = MPI_COMM_NULL;
    return MPI_SUCCESS;
}
