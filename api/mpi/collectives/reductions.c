/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that reduce. */
#include <stdlib.h>
#include "between.h"
#include "faces.h"
#include "operators.h"

/* A reduction: its buffers, and what is found and bound from them. */
struct reduce {
    struct side send, recv;
    MPI_Op op;
    struct MPI_ABI_Comm *comm;
    struct reduction by;
    struct operation local, *operation;
};

/* Finds the operator and binds the buffers. */
static int prepare(struct form *form, struct reduce *reduce, bool has_result) {
    int code = reduction_find(form, reduce->op, reduce->send.type, &reduce->by);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &reduce->local, &reduce->send,
                              has_result ? &reduce->recv : NULL, &reduce->operation);
    if (code == MPI_SUCCESS)
        reduce->operation->made_op = reduce->by.made;
    else
        reduction_end(reduce->by.made);
    return code;
}

/* What is sent: in place, what the buffer of the result has. */
static const void *sent(const struct reduce *reduce) {
    return reduce->send.buffer == MPI_IN_PLACE ? reduce->operation->recv.address
                                               : reduce->operation->send.address;
}

/* The reductions whose result every rank has. */
typedef rcm_status (*reduce_all)(rcm_comm *comm, const void *send, void *recv, size_t count,
                                 rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                 rcm_work **ret_work);

static int run(struct form *form, const struct side *send, const struct side *recv, MPI_Op op,
               MPI_Comm comm, reduce_all function) {
    struct reduce reduce;
    reduce.send = *send;
    reduce.recv = *recv;
    reduce.op = op;
    int code = function == rcm_all_reduce ? comm_find(form, comm, &reduce.comm)
                                          : comm_find_intra(form, comm, &reduce.comm);
    if (code == MPI_SUCCESS && reduce.comm->is_inter)
        return between_reduce(form, reduce.comm, BETWEEN_ALL_GATHER, 0, send, recv, op, 0);
    if (code == MPI_SUCCESS)
        code = prepare(form, &reduce, true);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status = function(
        reduce.comm->comm, sent(&reduce), reduce.operation->recv.address, (size_t)recv->count,
        reduce.by.dtype, reduce.by.op, NULL, operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

int face_Allreduce(struct form *form, const void *send, void *recv, MPI_Count count,
                   MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    const struct side from = {send, count, type, 1, false}, to = {recv, count, type, 1, false};
    return run(form, &from, &to, op, comm, rcm_all_reduce);
}

int face_Scan(struct form *form, const void *send, void *recv, MPI_Count count, MPI_Datatype type,
              MPI_Op op, MPI_Comm comm) {
    const struct side from = {send, count, type, 1, false}, to = {recv, count, type, 1, false};
    return run(form, &from, &to, op, comm, rcm_scan);
}

int face_Exscan(struct form *form, const void *send, void *recv, MPI_Count count, MPI_Datatype type,
                MPI_Op op, MPI_Comm comm) {
    const struct side from = {send, count, type, 1, false}, to = {recv, count, type, 1, true};
    return run(form, &from, &to, op, comm, rcm_exscan);
}

int face_Reduce(struct form *form, const void *send, void *recv, MPI_Count count, MPI_Datatype type,
                MPI_Op op, int root, MPI_Comm comm) {
    struct reduce reduce;
    reduce.send = (struct side){send, count, type, 1, false};
    reduce.recv = (struct side){recv, count, type, 1, false};
    reduce.op = op;
    int code = comm_find_root(form, comm, root, &reduce.comm);
    if (code == MPI_SUCCESS && reduce.comm->is_inter)
        return between_reduce(form, reduce.comm, BETWEEN_GATHER, root, &reduce.send, &reduce.recv,
                              op, 0);
    if (code == MPI_SUCCESS)
        code = prepare(form, &reduce, reduce.comm->rank == root);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status = rcm_reduce(
        reduce.comm->comm, sent(&reduce), reduce.operation->recv.address, (size_t)count,
        reduce.by.dtype, reduce.by.op, root, NULL, operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

/* MPI has the contributions of all blocks in recvbuf and the result at its beginning, which no form
 * of ringcomm.h has: they are copied. */
static int prepare_scatter(struct form *form, struct reduce *reduce) {
    const bool in_place = reduce->send.buffer == MPI_IN_PLACE;
    if (in_place)
        reduce->send.buffer = reduce->recv.buffer;
    int code = prepare(form, reduce, true);
    if (code == MPI_SUCCESS && in_place)
        code = operation_copy(form, reduce->operation, &reduce->operation->send);
    return code;
}

static const void *scattered(const struct reduce *reduce) {
    const struct operation *operation = reduce->operation;
    return operation->temporary ? operation->temporary : operation->send.address;
}

int face_Reduce_scatter_block(struct form *form, const void *send, void *recv, MPI_Count count,
                              MPI_Datatype type, MPI_Op op, MPI_Comm handle) {
    struct reduce reduce;
    int code = comm_find(form, handle, &reduce.comm);
    if (code != MPI_SUCCESS)
        return code;
    reduce.send = (struct side){send, count, type, reduce.comm->size, false};
    reduce.recv = (struct side){recv, count, type, 1, false};
    reduce.op = op;
    if (reduce.comm->is_inter)
        return between_reduce(form, reduce.comm, BETWEEN_ALL_GATHER, 0, &reduce.send, &reduce.recv,
                              op, count * reduce.comm->rank);
    code = prepare_scatter(form, &reduce);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status = rcm_reduce_scatter(
        reduce.comm->comm, scattered(&reduce), reduce.operation->recv.address, (size_t)count,
        reduce.by.dtype, reduce.by.op, NULL, operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

int face_Reduce_scatter(struct form *form, const void *send, void *recv, struct array counts,
                        MPI_Datatype type, MPI_Op op, MPI_Comm handle) {
    struct reduce reduce;
    int code = comm_find(form, handle, &reduce.comm);
    if (code != MPI_SUCCESS)
        return code;
    size_t *sizes = malloc(sizeof *sizes * (size_t)reduce.comm->size);
    if (!sizes)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for counts");
    MPI_Count total = 0, before = 0;
    for (int i = 0; i < reduce.comm->size; i++) {
        const MPI_Count count = array_at(counts, i);
        if (count < 0)
            code = form_error(form, MPI_ERR_COUNT, "recvcounts[%d] is %lld", i, (long long)count);
        sizes[i] = (size_t)count;
        total += count;
        before += i < reduce.comm->rank ? count : 0;
    }
    const MPI_Count own = array_at(counts, reduce.comm->rank);
    reduce.send = (struct side){send, total, type, 1, false};
    reduce.recv = (struct side){recv, own, type, 1, false};
    reduce.op = op;
    if (code == MPI_SUCCESS && reduce.comm->is_inter) {
        code = between_reduce(form, reduce.comm, BETWEEN_ALL_GATHER, 0, &reduce.send, &reduce.recv,
                              op, before);
        free(sizes);
        return code;
    }
    if (code == MPI_SUCCESS)
        code = prepare_scatter(form, &reduce);
    if (code == MPI_SUCCESS) {
        const rcm_status status =
            rcm_reduce_scatter_v(reduce.comm->comm, scattered(&reduce), sizes, NULL,
                                 reduce.operation->recv.address, (size_t)own, reduce.by.dtype,
                                 reduce.by.op, NULL, operation_work(form, reduce.operation));
        code = operation_issued(form, reduce.operation, status, NULL);
    }
    free(sizes);
    return code;
}
