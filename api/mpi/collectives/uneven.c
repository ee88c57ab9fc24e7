/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with a count for each block. Every block is bound on its own, so all go through the
 * functions with _list. */
#include "between.h"
#include "faces.h"

/* The use of blocks that are received, or changed in place. */
static unsigned use_of(bool in_place) {
    return in_place ? DATA_IN | DATA_OUT : DATA_OUT;
}

/* Gather or scatter: the root has all blocks, each rank one of them. */
static int move_rooted(struct form *form, const struct side *one, struct blocks *all, bool gathers,
                       int root, const struct MPI_ABI_Comm *comm) {
    struct operation local, *operation;
    struct lists lists = {0};
    const struct blocks block = between_blocks(one);
    if (comm->is_inter)
        return gathers ? between_move(form, comm, BETWEEN_GATHER, root, &block, all)
                       : between_move(form, comm, BETWEEN_SCATTER, root, all, &block);
    const bool is_root = comm->rank == root, in_place = is_root && one->buffer == MPI_IN_PLACE;
    all->n = comm->size;
    const struct side *part = in_place ? NULL : one;
    int code =
        operation_bind(form, &local, gathers ? part : NULL, gathers ? NULL : part, &operation);
    if (code == MPI_SUCCESS && is_root)
        code = lists_bind(form, gathers ? NULL : all, gathers ? all : NULL, comm->size,
                          use_of(in_place), operation, &lists);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *own = in_place  ? &operation->blocks[root]
                             : gathers ? &operation->send
                                       : &operation->recv;
    void *address = own->bytes ? own->address : NULL;
    const rcm_dtype dtype = is_root ? lists.dtype : own->dtype;
    rcm_work **work = operation_work(form, operation);
    const rcm_status status =
        gathers ? rcm_gather_list(comm->comm, address, own->count, lists.recv, lists.recv_counts,
                                  dtype, root, operation_call(form), work)
                : rcm_scatter_list(comm->comm, (const void *const *)lists.send, lists.send_counts,
                                   address, own->count, dtype, root, operation_call(form), work);
    lists_free(&lists);
    return operation_issued(form, operation, status, NULL);
}

int face_gather_blocks(struct form *form, struct side *one, struct blocks *all, int root,
                       struct MPI_ABI_Comm *comm) {
    return move_rooted(form, one, all, true, root, comm);
}

int face_scatter_blocks(struct form *form, struct blocks *all, struct side *one, int root,
                        struct MPI_ABI_Comm *comm) {
    return move_rooted(form, one, all, false, root, comm);
}

int face_Allgatherv(struct form *form, struct side *one, struct blocks *to,
                    struct MPI_ABI_Comm *comm) {
    struct operation local, *operation;
    struct lists lists = {0};
    const bool in_place = one->buffer == MPI_IN_PLACE;
    const struct blocks block = between_blocks(one);
    if (comm->is_inter)
        return between_move(form, comm, BETWEEN_ALL_GATHER, 0, &block, to);
    to->n = comm->size;
    int code = operation_bind(form, &local, in_place ? NULL : one, NULL, &operation);
    if (code == MPI_SUCCESS)
        code = lists_bind(form, NULL, to, comm->size, use_of(in_place), operation, &lists);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *own = in_place ? &operation->blocks[comm->rank] : &operation->send;
    const rcm_status status = rcm_all_gather_list(
        comm->comm, own->bytes ? own->address : NULL, own->count, lists.recv, lists.recv_counts,
        lists.dtype, operation_call(form), operation_work(form, operation));
    lists_free(&lists);
    return operation_issued(form, operation, status, NULL);
}

int face_all_to_all_blocks(struct form *form, struct blocks *from, struct blocks *to,
                           struct MPI_ABI_Comm *comm) {
    struct operation local, *operation;
    struct lists lists = {0};
    const bool in_place = from->buffer == MPI_IN_PLACE;
    if (comm->is_inter)
        return between_move(form, comm, BETWEEN_ALL_TO_ALL, 0, from, to);
    if (in_place)
        *from = *to;
    from->copies = in_place;
    from->n = to->n = comm->size;
    int code = operation_bind(form, &local, NULL, NULL, &operation);
    if (code == MPI_SUCCESS)
        code = lists_bind(form, from, to, comm->size, DATA_OUT, operation, &lists);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status = rcm_all_to_all_list(
        comm->comm, (const void *const *)lists.send, lists.send_counts, lists.recv,
        lists.recv_counts, lists.dtype, operation_call(form), operation_work(form, operation));
    lists_free(&lists);
    return operation_issued(form, operation, status, NULL);
}
