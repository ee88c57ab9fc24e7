/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that move blocks of equal size. A buffer of one block for each rank is packed as a
 * whole; own blocks in place are found in the packed buffer. */
#include <stdlib.h>
#include <string.h>
#include "faces.h"
#include "request.h"

/* One side of a call: a buffer of `blocks` blocks. */
struct side {
    const void *buffer;
    MPI_Count count;
    MPI_Datatype type;
    int blocks;
};

/* Begins an operation and binds its sides, either of which may be NULL. */
static int begin(struct form *form, struct operation *local, const struct side *send,
                 const struct side *recv, unsigned recv_use, struct operation **ret_operation) {
    struct operation *operation = operation_begin(form, local);
    int code = MPI_SUCCESS;
    if (!operation)
        return form->code;
    if (send)
        code = data_bind(form, send->buffer, send->count * send->blocks, send->type, DATA_IN,
                         &operation->send);
    if (recv && code == MPI_SUCCESS)
        code = data_bind(form, recv->buffer, recv->count * recv->blocks, recv->type, recv_use,
                         &operation->recv);
    *ret_operation = operation;
    return code == MPI_SUCCESS ? code : operation_drop(form, operation, code);
}

int face_Barrier(struct form *form, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation = NULL;
    int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        code = begin(form, &local, NULL, NULL, 0, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status = rcm_barrier(comm->comm, NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

int face_Bcast(struct form *form, void *buffer, MPI_Count count, MPI_Datatype type, int root,
               MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation = NULL;
    const struct side side = {buffer, count, type, 1};
    int code = comm_find_root(form, handle, root, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const bool is_root = comm->rank == root;
    code =
        begin(form, &local, is_root ? &side : NULL, is_root ? NULL : &side, DATA_OUT, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *data = is_root ? &operation->send : &operation->recv;
    const rcm_status status = rcm_broadcast(comm->comm, data->address, data->count, data->dtype,
                                            root, NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

int face_Gather(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                void *recv, MPI_Count recv_count, MPI_Datatype recv_type, int root,
                MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation = NULL;
    int code = comm_find_root(form, handle, root, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const bool is_root = comm->rank == root, in_place = is_root && send == MPI_IN_PLACE;
    const struct side from = {send, send_count, send_type, 1};
    const struct side to = {recv, recv_count, recv_type, comm->size};
    code = begin(form, &local, in_place ? NULL : &from, is_root ? &to : NULL,
                 in_place ? DATA_IN | DATA_OUT : DATA_OUT, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *own = is_root ? &operation->recv : &operation->send;
    const void *block =
        in_place ? data_block(&operation->recv, root, comm->size) : operation->send.address;
    const rcm_status status = rcm_gather(comm->comm, block, is_root ? own->address : NULL,
                                         own->count / (size_t)(is_root ? comm->size : 1),
                                         own->dtype, root, NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

int face_Scatter(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                 void *recv, MPI_Count recv_count, MPI_Datatype recv_type, int root,
                 MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation = NULL;
    int code = comm_find_root(form, handle, root, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const bool is_root = comm->rank == root, in_place = is_root && recv == MPI_IN_PLACE;
    const struct side from = {send, send_count, send_type, comm->size};
    const struct side to = {recv, recv_count, recv_type, 1};
    code = begin(form, &local, is_root ? &from : NULL, in_place ? NULL : &to, DATA_OUT, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *own = is_root ? &operation->send : &operation->recv;
    void *block =
        in_place ? data_block(&operation->send, root, comm->size) : operation->recv.address;
    const rcm_status status = rcm_scatter(comm->comm, is_root ? own->address : NULL, block,
                                          own->count / (size_t)(is_root ? comm->size : 1),
                                          own->dtype, root, NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

int face_Allgather(struct form *form, const void *send, MPI_Count send_count,
                   MPI_Datatype send_type, void *recv, MPI_Count recv_count, MPI_Datatype recv_type,
                   MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation = NULL;
    int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const bool in_place = send == MPI_IN_PLACE;
    const struct side from = {send, send_count, send_type, 1};
    const struct side to = {recv, recv_count, recv_type, comm->size};
    code = begin(form, &local, in_place ? NULL : &from, &to,
                 in_place ? DATA_IN | DATA_OUT : DATA_OUT, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *all = &operation->recv;
    const void *block =
        in_place ? data_block(all, comm->rank, comm->size) : operation->send.address;
    const rcm_status status =
        rcm_all_gather(comm->comm, block, all->address, all->count / (size_t)comm->size, all->dtype,
                       NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

int face_Alltoall(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                  void *recv, MPI_Count recv_count, MPI_Datatype recv_type, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation = NULL;
    int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const bool in_place = send == MPI_IN_PLACE;
    const struct side from = {send, send_count, send_type, comm->size};
    const struct side to = {recv, recv_count, recv_type, comm->size};
    code = begin(form, &local, in_place ? NULL : &from, &to,
                 in_place ? DATA_IN | DATA_OUT : DATA_OUT, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *all = &operation->recv;
    const void *blocks = operation->send.address;
    if (in_place) { /* which ringcomm.h does not have for all forms */
        operation->temporary = malloc(all->bytes + 1);
        if (!operation->temporary)
            return operation_drop(form, operation,
                                  form_error(form, MPI_ERR_NO_MEM, "no memory for a copy"));
        if (all->bytes)
            memcpy(operation->temporary, all->address, all->bytes);
        blocks = operation->temporary;
    }
    const rcm_status status =
        rcm_all_to_all(comm->comm, blocks, all->address, all->count / (size_t)comm->size,
                       all->dtype, NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}
