/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that move blocks of equal size. A buffer of one block for each rank is packed as a
 * whole; own blocks in place are found in the packed buffer. */
#include "between.h"
#include "faces.h"

/* Without elements, any type matches any other. */
static rcm_dtype moved(size_t count, rcm_dtype dtype) {
    return count > 0 ? dtype : RCM_UINT8;
}

/* Equal blocks on an intercommunicator. */
static int between_sides(struct form *form, const struct MPI_ABI_Comm *comm, enum between kind,
                         int root, const struct side *send, const struct side *recv) {
    const struct blocks from = between_blocks(send), to = between_blocks(recv);
    return between_move(form, comm, kind, root, &from, &to);
}

int face_Barrier(struct form *form, struct MPI_ABI_Comm *comm) {
    struct operation local, *operation;
    const int code = operation_bind(form, &local, NULL, NULL, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        rcm_barrier(comm->comm, operation_call(form), operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

int face_Bcast(struct form *form, struct side *side, int root, struct MPI_ABI_Comm *comm) {
    struct operation local, *operation;
    if (comm->is_inter)
        return between_sides(form, comm, BETWEEN_BROADCAST, root, side, side);
    const bool is_root = comm->rank == root;
    const int code =
        operation_bind(form, &local, is_root ? side : NULL, is_root ? NULL : side, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *data = is_root ? &operation->send : &operation->recv;
    const rcm_status status =
        rcm_broadcast(comm->comm, data->address, data->count, moved(data->count, data->dtype), root,
                      operation_call(form), operation_work(form, operation));
    return operation_issued(form, operation, status, NULL);
}

/* Gather or scatter: the root has all blocks, each rank one of them. */
int face_move_rooted(struct form *form, struct side *send, struct side *recv, int root,
                     struct MPI_ABI_Comm *comm, bool gathers) {
    struct operation local, *operation;
    if (comm->is_inter)
        return between_sides(form, comm, gathers ? BETWEEN_GATHER : BETWEEN_SCATTER, root, send,
                             recv);
    const bool is_root = comm->rank == root;
    const bool in_place = (gathers ? send : recv)->buffer == MPI_IN_PLACE;
    if (is_root)
        (gathers ? recv : send)->count *= comm->size;
    const int code = operation_bind(form, &local, gathers || is_root ? send : NULL,
                                    !gathers || is_root ? recv : NULL, &operation);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *own = gathers ? &operation->send : &operation->recv;
    const struct data *whole = gathers ? &operation->recv : &operation->send;
    void *block = in_place ? data_block(whole, root, comm->size) : own->address;
    const size_t count = is_root ? whole->count / (size_t)comm->size : own->count;
    const rcm_dtype dtype = moved(count, is_root ? whole->dtype : own->dtype);
    rcm_work **work = operation_work(form, operation);
    const rcm_status status = gathers ? rcm_gather(comm->comm, block, whole->address, count, dtype,
                                                   root, operation_call(form), work)
                                      : rcm_scatter(comm->comm, whole->address, block, count, dtype,
                                                    root, operation_call(form), work);
    return operation_issued(form, operation, status, NULL);
}

/* All gather, or all to all: each rank has all blocks. */
int face_move_all(struct form *form, struct side *send, struct side *recv,
                  struct MPI_ABI_Comm *comm, bool gathers) {
    struct operation local, *operation;
    const bool in_place = send->buffer == MPI_IN_PLACE;
    const bool copies = in_place && !gathers; /* ringcomm.h lacks it in some forms */
    if (comm->is_inter)
        return between_sides(form, comm, gathers ? BETWEEN_ALL_GATHER : BETWEEN_ALL_TO_ALL, 0, send,
                             recv);
    send->count *= gathers ? 1 : comm->size;
    recv->count *= comm->size;
    int code = operation_bind(form, &local, copies ? NULL : send, recv, &operation);
    if (code == MPI_SUCCESS && copies)
        code = operation_copy(form, operation, recv);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *all = &operation->recv;
    const size_t count = all->count / (size_t)comm->size;
    const rcm_dtype dtype = moved(count, all->dtype);
    const void *from =
        in_place && gathers ? data_block(all, comm->rank, comm->size) : operation->send.address;
    rcm_work **work = operation_work(form, operation);
    const rcm_status status = gathers ? rcm_all_gather(comm->comm, from, all->address, count, dtype,
                                                       operation_call(form), work)
                                      : rcm_all_to_all(comm->comm, from, all->address, count, dtype,
                                                       operation_call(form), work);
    return operation_issued(form, operation, status, NULL);
}
