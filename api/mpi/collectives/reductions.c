/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that reduce. */
#include <stdlib.h>
#include "between.h"
#include "faces.h"
#include "operators.h"

/* What is found and bound for a reduction. */
struct reduce {
    struct reduction by;
    struct operation local, *operation;
};

RARE static void use_pairs(MPI_Datatype type, struct side *send, struct side *recv) {
    if (send)
        send->type = type;
    if (recv)
        recv->type = type;
}

/* Finds the operator and binds the buffers. recv is NULL where there is no result. */
INLINE int prepare(struct form *form, struct side *send, struct side *recv, MPI_Datatype type,
                   MPI_Op op, struct reduce *reduce) {
    int code = reduction_find(form, op, type, &reduce->by);
    if (code == MPI_SUCCESS && reduce->by.pairs)
        use_pairs(reduce->by.pairs, send, recv);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &reduce->local, send, recv, &reduce->operation);
    if (code == MPI_SUCCESS)
        reduce->operation->made_op = reduce->by.made;
    else
        reduction_end(reduce->by.made);
    return code;
}

/* What is sent: in place, what the buffer of the result has. */
static const void *sent(const struct side *send, const struct operation *operation) {
    return send->buffer == MPI_IN_PLACE ? operation->recv.address : operation->send.address;
}

/* The reductions whose result every rank has. */
typedef rcm_status (*reduce_all)(rcm_comm *comm, const void *send, void *recv, size_t count,
                                 rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                 rcm_work **ret_work);
static const reduce_all functions[] = {
    [REDUCE_ALL] = rcm_all_reduce, [REDUCE_SCAN] = rcm_scan, [REDUCE_EXSCAN] = rcm_exscan};

int face_reduce_all(struct form *form, struct side *send, struct side *recv, MPI_Op op,
                    struct MPI_ABI_Comm *comm, int what) {
    struct reduce reduce;
    if (comm->is_inter)
        return between_reduce(form, comm, BETWEEN_ALL_GATHER, 0, send, recv, op, 0);
    recv->keeps = what == REDUCE_EXSCAN;
    const int code = prepare(form, send, recv, send->type, op, &reduce);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        functions[what](comm->comm, sent(send, reduce.operation), reduce.operation->recv.address,
                        (size_t)recv->count, reduce.by.dtype, reduce.by.op, operation_call(form),
                        operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

int face_Reduce(struct form *form, struct side *send, struct side *recv, MPI_Op op, int root,
                struct MPI_ABI_Comm *comm) {
    struct reduce reduce;
    if (comm->is_inter)
        return between_reduce(form, comm, BETWEEN_GATHER, root, send, recv, op, 0);
    const int code = prepare(form, send, comm->rank == root ? recv : NULL, send->type, op, &reduce);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        rcm_reduce(comm->comm, sent(send, reduce.operation), reduce.operation->recv.address,
                   (size_t)recv->count, reduce.by.dtype, reduce.by.op, root, operation_call(form),
                   operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

/* Blocks of `sizes`, or equal ones; the own one begins at `skip`. MPI has the contributions of all
 * blocks in recvbuf and the result at its beginning, which no form of ringcomm.h has: they are
 * copied. */
static int scatter(struct form *form, struct side *send, struct side *recv, const size_t *sizes,
                   MPI_Count skip, MPI_Op op, const struct MPI_ABI_Comm *comm) {
    struct reduce reduce;
    const bool in_place = send->buffer == MPI_IN_PLACE;
    if (comm->is_inter)
        return between_reduce(form, comm, BETWEEN_ALL_GATHER, 0, send, recv, op, skip);
    int code = prepare(form, in_place ? NULL : send, recv, send->type, op, &reduce);
    if (code == MPI_SUCCESS && in_place) {
        const struct side own = {recv->buffer, send->count, recv->type, false};
        code = operation_copy(form, reduce.operation, &own);
    }
    if (code != MPI_SUCCESS)
        return code;
    struct operation *operation = reduce.operation;
    const void *from = operation->send.address;
    void *to = operation->recv.address;
    rcm_work **work = operation_work(form, operation);
    const rcm_status status =
        sizes ? rcm_reduce_scatter_v(comm->comm, from, sizes, NULL, to, (size_t)recv->count,
                                     reduce.by.dtype, reduce.by.op, operation_call(form), work)
              : rcm_reduce_scatter(comm->comm, from, to, (size_t)recv->count, reduce.by.dtype,
                                   reduce.by.op, operation_call(form), work);
    return operation_issued(form, operation, status, NULL);
}

int face_Reduce_scatter_block(struct form *form, struct side *send, struct side *recv, MPI_Op op,
                              struct MPI_ABI_Comm *comm) {
    send->count *= comm->size;
    return scatter(form, send, recv, NULL, recv->count * comm->rank, op, comm);
}

int face_Reduce_scatter(struct form *form, const void *send, void *recv, struct array counts,
                        MPI_Datatype type, MPI_Op op, struct MPI_ABI_Comm *comm) {
    struct side from = {send, 0, type, false};
    struct side to = {recv, array_at(counts, comm->rank), type, false};
    MPI_Count before = 0;
    int code = MPI_SUCCESS;
    size_t *sizes = malloc(sizeof *sizes * (size_t)comm->size);
    if (!sizes)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for counts");
    for (int i = 0; i < comm->size; i++) {
        const MPI_Count count = array_at(counts, i);
        if (count < 0)
            code = form_error(form, MPI_ERR_COUNT, "recvcounts[%d] is %lld", i, (long long)count);
        sizes[i] = (size_t)count;
        from.count += count;
        before += i < comm->rank ? count : 0;
    }
    if (code == MPI_SUCCESS)
        code = scatter(form, &from, &to, sizes, before, op, comm);
    free(sizes);
    return code;
}
