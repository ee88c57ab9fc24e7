/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that move blocks of equal size. A buffer of one block for each rank is packed as a
 * whole; own blocks in place are found in the packed buffer. */
#include "between.h"
#include "faces.h"

/* Equal blocks on an intercommunicator. */
static int between_sides(struct form *form, const struct MPI_ABI_Comm *comm, enum between kind,
                         int root, const struct side *send, const struct side *recv) {
    const struct blocks from = between_blocks(send), to = between_blocks(recv);
    return between_move(form, comm, kind, root, &from, &to);
}

int face_Barrier(struct form *form, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, NULL, NULL, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status = rcm_barrier(comm->comm, NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

int face_Bcast(struct form *form, void *buffer, MPI_Count count, MPI_Datatype type, int root,
               MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    const struct side side = {buffer, count, type, 1, false};
    int code = comm_find_root(form, handle, root, &comm);
    if (code != MPI_SUCCESS)
        return code;
    if (comm->is_inter)
        return between_sides(form, comm, BETWEEN_BROADCAST, root, &side, &side);
    const bool is_root = comm->rank == root;
    code = operation_bind(form, &local, is_root ? &side : NULL, is_root ? NULL : &side, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *data = is_root ? &operation->send : &operation->recv;
    const rcm_status status = rcm_broadcast(comm->comm, data->address, data->count, data->dtype,
                                            root, NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

/* Gather or scatter: the root has all blocks, each rank one of them. */
static int move_rooted(struct form *form, const struct side *one, struct side *all, bool gathers,
                       int root, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    int code = comm_find_root(form, handle, root, &comm);
    if (code != MPI_SUCCESS)
        return code;
    if (comm->is_inter)
        return between_sides(form, comm, gathers ? BETWEEN_GATHER : BETWEEN_SCATTER, root,
                             gathers ? one : all, gathers ? all : one);
    const bool is_root = comm->rank == root, in_place = one->buffer == MPI_IN_PLACE;
    const struct side *at_root = is_root ? all : NULL;
    all->blocks = comm->size;
    code =
        operation_bind(form, &local, gathers ? one : at_root, gathers ? at_root : one, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *own = gathers ? &operation->send : &operation->recv;
    const struct data *whole = gathers ? &operation->recv : &operation->send;
    void *block = in_place ? data_block(whole, root, comm->size) : own->address;
    const size_t count = is_root ? whole->count / (size_t)comm->size : own->count;
    const rcm_dtype dtype = is_root ? whole->dtype : own->dtype;
    rcm_work **work = operation_work(form, operation);
    const rcm_status status =
        gathers ? rcm_gather(comm->comm, block, whole->address, count, dtype, root, NULL, work)
                : rcm_scatter(comm->comm, whole->address, block, count, dtype, root, NULL, work);
    return operation_issued(form, operation, status, NULL);
}

int face_Gather(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                void *recv, MPI_Count recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
    const struct side one = {send, send_count, send_type, 1, false};
    struct side all = {recv, recv_count, recv_type, 0, false};
    return move_rooted(form, &one, &all, true, root, comm);
}

int face_Scatter(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                 void *recv, MPI_Count recv_count, MPI_Datatype recv_type, int root,
                 MPI_Comm comm) {
    const struct side one = {recv, recv_count, recv_type, 1, false};
    struct side all = {send, send_count, send_type, 0, false};
    return move_rooted(form, &one, &all, false, root, comm);
}

int face_Allgather(struct form *form, const void *send, MPI_Count send_count,
                   MPI_Datatype send_type, void *recv, MPI_Count recv_count, MPI_Datatype recv_type,
                   MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const struct side from = {send, send_count, send_type, 1, false};
    const struct side to = {recv, recv_count, recv_type, comm->size, false};
    if (comm->is_inter)
        return between_sides(form, comm, BETWEEN_ALL_GATHER, 0, &from, &to);
    code = operation_bind(form, &local, &from, &to, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *all = &operation->recv;
    const void *block =
        send == MPI_IN_PLACE ? data_block(all, comm->rank, comm->size) : operation->send.address;
    const rcm_status status =
        rcm_all_gather(comm->comm, block, all->address, all->count / (size_t)comm->size, all->dtype,
                       NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

int face_Alltoall(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                  void *recv, MPI_Count recv_count, MPI_Datatype recv_type, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    const bool in_place = send == MPI_IN_PLACE; /* ringcomm.h does not have it for all forms */
    int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const struct side from = {send, send_count, send_type, comm->size, false};
    const struct side to = {recv, recv_count, recv_type, comm->size, false};
    if (comm->is_inter)
        return between_sides(form, comm, BETWEEN_ALL_TO_ALL, 0, &from, &to);
    code = operation_bind(form, &local, &from, &to, &operation);
    if (code == MPI_SUCCESS && in_place)
        code = operation_copy(form, operation, &operation->recv);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *all = &operation->recv;
    const void *blocks = in_place ? operation->temporary : operation->send.address;
    const rcm_status status =
        rcm_all_to_all(comm->comm, blocks, all->address, all->count / (size_t)comm->size,
                       all->dtype, NULL, operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}
