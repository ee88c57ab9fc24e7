/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with a count for each block. Every block is bound on its own, so all go through the
 * functions with _list. */
#include <stdlib.h>
#include <string.h>
#include "faces.h"
#include "request.h"

/* A buffer of one block for each rank: at displs, in extents of the type, or in bytes if each block
 * has its own type. */
struct blocks {
    const void *buffer;
    struct array counts, displs;
    MPI_Datatype type;
    const MPI_Datatype *types;
};

/* What ringcomm.h gets. */
struct lists {
    void **send, **recv;
    size_t *send_counts, *recv_counts;
    rcm_dtype dtype;
};

static void lists_free(struct lists *lists) {
    free(lists->send);
    free(lists->send_counts);
    *lists = (struct lists){0};
}

static bool lists_make(struct operation *operation, int nsend, int nrecv, struct lists *lists) {
    const size_t n = (size_t)(nsend + nrecv);
    lists->send = calloc(n + 1, sizeof *lists->send);
    lists->send_counts = calloc(n + 1, sizeof *lists->send_counts);
    operation->blocks = calloc(n + 1, sizeof *operation->blocks);
    if (!lists->send || !lists->send_counts || !operation->blocks)
        return false;
    lists->recv = lists->send + nsend;
    lists->recv_counts = lists->send_counts + nsend;
    operation->nsend = nsend;
    operation->nblocks = nsend + nrecv;
    return true;
}

/* Binds block i as data number `at` of the operation. */
static int bind_block(struct form *form, const struct blocks *blocks, int i, unsigned use, int at,
                      struct operation *operation, struct lists *lists) {
    struct MPI_ABI_Datatype *type;
    struct data *data = &operation->blocks[at];
    const MPI_Datatype handle = blocks->types ? blocks->types[i] : blocks->type;
    const MPI_Count count = array_at(blocks->counts, i);
    if (count == 0 && blocks->types)
        return MPI_SUCCESS;
    int code = type_find_used(form, handle, &type);
    if (code == MPI_SUCCESS) {
        const MPI_Count unit = blocks->types ? 1 : type->extent;
        code = data_bind(form, AT(blocks->buffer, array_at(blocks->displs, i) * unit), count,
                         handle, use, data);
    }
    if (code != MPI_SUCCESS)
        return code;
    lists->send[at] = data->bytes ? data->address : NULL;
    lists->send_counts[at] = blocks->types ? data->bytes : data->count;
    lists->dtype = blocks->types ? RCM_UINT8 : data->dtype;
    return MPI_SUCCESS;
}

/* Binds the blocks of both sides (NULL: none). After an error all is released. */
static int bind_all(struct form *form, const struct blocks *send, const struct blocks *recv, int n,
                    unsigned recv_use, struct operation *operation, struct lists *lists) {
    int code = MPI_SUCCESS;
    *lists = (struct lists){.dtype = RCM_UINT8};
    if (!lists_make(operation, send ? n : 0, recv ? n : 0, lists))
        code = form_error(form, MPI_ERR_NO_MEM, "no memory for lists of %d blocks", n);
    for (int i = 0; code == MPI_SUCCESS && send && i < n; i++)
        code = bind_block(form, send, i, DATA_IN, i, operation, lists);
    for (int i = 0; code == MPI_SUCCESS && recv && i < n; i++)
        code = bind_block(form, recv, i, recv_use, operation->nsend + i, operation, lists);
    if (code == MPI_SUCCESS)
        return code;
    lists_free(lists);
    return operation_drop(form, operation, code);
}

/* Gather or scatter: the root has all blocks, each rank one of them. */
static int move_rooted(struct form *form, const struct side *one, const struct blocks *all,
                       bool gathers, int root, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    struct lists lists = {0};
    int code = comm_find_root(form, handle, root, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const bool is_root = comm->rank == root, in_place = is_root && one->buffer == MPI_IN_PLACE;
    const struct side *part = in_place ? NULL : one;
    code = operation_bind(form, &local, gathers ? part : NULL, gathers ? NULL : part, &operation);
    if (code == MPI_SUCCESS && is_root)
        code = bind_all(form, gathers ? NULL : all, gathers ? all : NULL, comm->size,
                        in_place ? DATA_IN | DATA_OUT : DATA_OUT, operation, &lists);
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
                                  dtype, root, NULL, work)
                : rcm_scatter_list(comm->comm, (const void *const *)lists.send, lists.send_counts,
                                   address, own->count, dtype, root, NULL, work);
    lists_free(&lists);
    return operation_issued(form, operation, status, NULL);
}

int face_Gatherv(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                 void *recv, struct array counts, struct array displs, MPI_Datatype recv_type,
                 int root, MPI_Comm comm) {
    const struct side one = {send, send_count, send_type, 1, false};
    const struct blocks all = {recv, counts, displs, recv_type, NULL};
    return move_rooted(form, &one, &all, true, root, comm);
}

int face_Scatterv(struct form *form, const void *send, struct array counts, struct array displs,
                  MPI_Datatype send_type, void *recv, MPI_Count recv_count, MPI_Datatype recv_type,
                  int root, MPI_Comm comm) {
    const struct side one = {recv, recv_count, recv_type, 1, false};
    const struct blocks all = {send, counts, displs, send_type, NULL};
    return move_rooted(form, &one, &all, false, root, comm);
}

int face_Allgatherv(struct form *form, const void *send, MPI_Count send_count,
                    MPI_Datatype send_type, void *recv, struct array counts, struct array displs,
                    MPI_Datatype recv_type, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    struct lists lists;
    const bool in_place = send == MPI_IN_PLACE;
    const struct side one = {send, send_count, send_type, 1, false};
    const struct blocks to = {recv, counts, displs, recv_type, NULL};
    int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, in_place ? NULL : &one, NULL, &operation);
    if (code == MPI_SUCCESS)
        code = bind_all(form, NULL, &to, comm->size, in_place ? DATA_IN | DATA_OUT : DATA_OUT,
                        operation, &lists);
    if (code != MPI_SUCCESS)
        return code;
    const struct data *own = in_place ? &operation->blocks[comm->rank] : &operation->send;
    const rcm_status status =
        rcm_all_gather_list(comm->comm, own->bytes ? own->address : NULL, own->count, lists.recv,
                            lists.recv_counts, lists.dtype, NULL, operation_work(form, operation));
    lists_free(&lists);
    return operation_issued(form, operation, status, NULL);
}

/* MPI_IN_PLACE: sends a copy of what recv has. */
static int copy_blocks(struct form *form, int n, struct operation *operation, struct lists *lists) {
    size_t bytes = 1, at = 0;
    for (int i = 0; i < n; i++)
        bytes += operation->blocks[i].bytes;
    char *copy = operation->temporary = malloc(bytes);
    void **send = calloc((size_t)n * 2, sizeof *send);
    if (!copy || !send) {
        free(send);
        lists_free(lists);
        return operation_drop(form, operation,
                              form_error(form, MPI_ERR_NO_MEM, "no memory for a copy"));
    }
    for (int i = 0; i < n; i++) {
        const struct data *data = &operation->blocks[i];
        if (data->bytes)
            memcpy(copy + at, data->address, data->bytes);
        send[i] = data->bytes ? copy + at : NULL;
        send[n + i] = lists->recv[i];
        at += data->bytes;
    }
    free(lists->send);
    lists->send = send;
    lists->recv = send + n;
    return MPI_SUCCESS;
}

static int all_to_all(struct form *form, const struct blocks *from, const struct blocks *to,
                      MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    struct lists lists;
    const bool in_place = from->buffer == MPI_IN_PLACE;
    int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, NULL, NULL, &operation);
    if (code == MPI_SUCCESS)
        code = bind_all(form, in_place ? NULL : from, to, comm->size,
                        in_place ? DATA_IN | DATA_OUT : DATA_OUT, operation, &lists);
    if (code == MPI_SUCCESS && in_place)
        code = copy_blocks(form, comm->size, operation, &lists);
    if (code != MPI_SUCCESS)
        return code;
    const size_t *send_counts = in_place ? lists.recv_counts : lists.send_counts;
    const rcm_status status =
        rcm_all_to_all_list(comm->comm, (const void *const *)lists.send, send_counts, lists.recv,
                            lists.recv_counts, lists.dtype, NULL, operation_work(form, operation));
    lists_free(&lists);
    return operation_issued(form, operation, status, NULL);
}

int face_Alltoallv(struct form *form, const void *send, struct array send_counts,
                   struct array send_displs, MPI_Datatype send_type, void *recv,
                   struct array recv_counts, struct array recv_displs, MPI_Datatype recv_type,
                   MPI_Comm comm) {
    const struct blocks from = {send, send_counts, send_displs, send_type, NULL};
    const struct blocks to = {recv, recv_counts, recv_displs, recv_type, NULL};
    return all_to_all(form, &from, &to, comm);
}

int face_Alltoallw(struct form *form, const void *send, struct array send_counts,
                   struct array send_displs, const MPI_Datatype *send_types, void *recv,
                   struct array recv_counts, struct array recv_displs,
                   const MPI_Datatype *recv_types, MPI_Comm comm) {
    const struct blocks from = {send, send_counts, send_displs, MPI_DATATYPE_NULL, send_types};
    const struct blocks to = {recv, recv_counts, recv_displs, MPI_DATATYPE_NULL, recv_types};
    return all_to_all(form, &from, &to, comm);
}
