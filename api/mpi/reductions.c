/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that reduce. */
#include <stdlib.h>
#include <string.h>
#include "faces.h"
#include "operators.h"
#include "request.h"

/* The buffers of a reduction, bound, and what reduces them. */
struct reduce {
    struct MPI_ABI_Comm *comm;
    struct reduction by;
    struct operation local, *operation;
    const void *send;
    void *recv;
};

/* Buffers of a call. recv is NULL where it is not read or written. */
struct reduce_call {
    const void *send;
    MPI_Count send_count;
    void *recv;
    MPI_Count recv_count;
    MPI_Datatype type;
    MPI_Op op;
    bool has_recv, keeps_recv; /* keeps: some ranks get no result */
};

static int bind(struct form *form, const struct reduce_call *call, struct reduce *reduce) {
    struct operation *operation = reduce->operation;
    const bool in_place = call->send == MPI_IN_PLACE;
    int code = MPI_SUCCESS;
    if (call->has_recv)
        code = data_bind(form, call->recv, call->recv_count, call->type,
                         in_place || call->keeps_recv ? DATA_IN | DATA_OUT : DATA_OUT,
                         &operation->recv);
    if (code == MPI_SUCCESS && !in_place)
        code = data_bind(form, call->send, call->send_count, call->type, DATA_IN, &operation->send);
    reduce->recv = call->has_recv ? operation->recv.address : NULL;
    reduce->send = in_place ? reduce->recv : operation->send.address;
    return code;
}

static int prepare(struct form *form, const struct reduce_call *call, MPI_Comm handle,
                   struct reduce *reduce) {
    int code = comm_find(form, handle, &reduce->comm);
    if (code == MPI_SUCCESS)
        code = reduction_find(form, call->op, call->type, &reduce->by);
    if (code == MPI_SUCCESS && call->send == MPI_IN_PLACE && !call->has_recv)
        code = form_error(form, MPI_ERR_BUFFER, "sendbuf is MPI_IN_PLACE, but not on the root");
    if (code != MPI_SUCCESS)
        return code;
    reduce->operation = operation_begin(form, &reduce->local);
    if (!reduce->operation)
        return form->code;
    code = bind(form, call, reduce);
    return code == MPI_SUCCESS ? code : operation_drop(form, reduce->operation, code);
}

int face_Allreduce(struct form *form, const void *send, void *recv, MPI_Count count,
                   MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    struct reduce reduce;
    const struct reduce_call call = {send, count, recv, count, type, op, true, false};
    const int code = prepare(form, &call, comm, &reduce);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        rcm_all_reduce(reduce.comm->comm, reduce.send, reduce.recv, (size_t)count, reduce.by.dtype,
                       reduce.by.op, NULL, operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

int face_Reduce(struct form *form, const void *send, void *recv, MPI_Count count, MPI_Datatype type,
                MPI_Op op, int root, MPI_Comm comm) {
    struct reduce reduce;
    int code = comm_find_root(form, comm, root, &reduce.comm);
    if (code != MPI_SUCCESS)
        return code;
    const struct reduce_call call = {send, count, recv, count, type, op, reduce.comm->rank == root,
                                     false};
    code = prepare(form, &call, comm, &reduce);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        rcm_reduce(reduce.comm->comm, reduce.send, reduce.recv, (size_t)count, reduce.by.dtype,
                   reduce.by.op, root, NULL, operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

int face_Scan(struct form *form, const void *send, void *recv, MPI_Count count, MPI_Datatype type,
              MPI_Op op, MPI_Comm comm) {
    struct reduce reduce;
    const struct reduce_call call = {send, count, recv, count, type, op, true, false};
    const int code = prepare(form, &call, comm, &reduce);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        rcm_scan(reduce.comm->comm, reduce.send, reduce.recv, (size_t)count, reduce.by.dtype,
                 reduce.by.op, NULL, operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

int face_Exscan(struct form *form, const void *send, void *recv, MPI_Count count, MPI_Datatype type,
                MPI_Op op, MPI_Comm comm) {
    struct reduce reduce;
    const struct reduce_call call = {send, count, recv, count, type, op, true, true};
    const int code = prepare(form, &call, comm, &reduce);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        rcm_exscan(reduce.comm->comm, reduce.send, reduce.recv, (size_t)count, reduce.by.dtype,
                   reduce.by.op, NULL, operation_work(form, reduce.operation));
    return operation_issued(form, reduce.operation, status, NULL);
}

/* MPI has the contributions of all blocks in recvbuf and the result at its beginning, which no form
 * of ringcomm.h has: they are copied. */
static int prepare_scatter(struct form *form, const void *send, void *recv, MPI_Count send_count,
                           MPI_Count recv_count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                           struct reduce *reduce) {
    const bool in_place = send == MPI_IN_PLACE;
    const struct reduce_call call = {
        in_place ? recv : send, send_count, recv, recv_count, type, op, true, false};
    int code = prepare(form, &call, comm, reduce);
    if (code != MPI_SUCCESS || !in_place)
        return code;
    struct operation *operation = reduce->operation;
    operation->temporary = malloc(operation->send.bytes + 1);
    if (!operation->temporary)
        return operation_drop(form, operation,
                              form_error(form, MPI_ERR_NO_MEM, "no memory for a copy"));
    if (operation->send.bytes)
        memcpy(operation->temporary, reduce->send, operation->send.bytes);
    reduce->send = operation->temporary;
    return MPI_SUCCESS;
}

int face_Reduce_scatter_block(struct form *form, const void *send, void *recv, MPI_Count count,
                              MPI_Datatype type, MPI_Op op, MPI_Comm handle) {
    struct reduce reduce;
    int code = comm_find(form, handle, &reduce.comm);
    if (code == MPI_SUCCESS)
        code = prepare_scatter(form, send, recv, count * reduce.comm->size, count, type, op, handle,
                               &reduce);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status = rcm_reduce_scatter(reduce.comm->comm, reduce.send, reduce.recv,
                                                 (size_t)count, reduce.by.dtype, reduce.by.op, NULL,
                                                 operation_work(form, reduce.operation));
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
    MPI_Count total = 0;
    for (int i = 0; i < reduce.comm->size; i++) {
        const MPI_Count count = array_at(counts, i);
        if (count < 0)
            code = form_error(form, MPI_ERR_COUNT, "recvcounts[%d] is %lld", i, (long long)count);
        sizes[i] = (size_t)count;
        total += count;
    }
    const MPI_Count own = array_at(counts, reduce.comm->rank);
    if (code == MPI_SUCCESS)
        code = prepare_scatter(form, send, recv, total, own, type, op, handle, &reduce);
    if (code == MPI_SUCCESS) {
        const rcm_status status = rcm_reduce_scatter_v(
            reduce.comm->comm, reduce.send, sizes, NULL, reduce.recv, (size_t)own, reduce.by.dtype,
            reduce.by.op, NULL, operation_work(form, reduce.operation));
        code = operation_issued(form, reduce.operation, status, NULL);
    }
    free(sizes);
    return code;
}
