/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives, sends and receives: the calls of a program, checked. */
#include "nccl_driver.h"
#include "nccl_group.h"
#include "nccl_operators.h"

static bool needs_op(int kind) {
    return kind == RCM_ALL_REDUCE || kind == RCM_REDUCE || kind == RCM_REDUCE_SCATTER;
}

static bool needs_root(int kind) {
    return kind == RCM_REDUCE || kind == RCM_BROADCAST || kind == RCM_GATHER ||
           kind == RCM_SCATTER || kind == OPERATION_SEND || kind == OPERATION_RECV;
}

/* Does this rank pass that buffer? */
static bool has_send(const struct operation *o) {
    const bool only_root = o->kind == RCM_BROADCAST || o->kind == RCM_SCATTER;
    return o->kind != OPERATION_RECV && (!only_root || o->comm->rank == o->root);
}

static bool has_recv(const struct operation *o) {
    const bool only_root = o->kind == RCM_REDUCE || o->kind == RCM_GATHER;
    return o->kind != OPERATION_SEND && (!only_root || o->comm->rank == o->root);
}

/* The communicator is ready. */
static ncclResult_t operation_check(struct operation *o, ncclDataType_t dtype) {
    if (!dtype_of(dtype, &o->dtype))
        return face_fail(ncclInvalidArgument, "%s: datatype is %d. Use 0 to %d", o->name,
                         (int)dtype, ncclNumTypes - 1);
    if (needs_root(o->kind) && (o->root < 0 || o->root >= o->comm->size))
        return face_fail(ncclInvalidArgument, "%s: rank %d does not exist: there are %d", o->name,
                         o->root, o->comm->size);
    if (o->count > 0 && ((has_send(o) && !o->send) || (has_recv(o) && !o->recv)))
        return face_fail(ncclInvalidArgument, "%s: %s is NULL, but count is %zu", o->name,
                         has_send(o) && !o->send ? "sendbuff" : "recvbuff", o->count);
    return needs_op(o->kind) ? operator_check(o->comm, o->op, o->dtype, &o->scalar) : ncclSuccess;
}

static ncclResult_t operation_add(struct operation o, ncclDataType_t dtype) {
    ncclResult_t result = comm_enter(o.comm, 0, o.name);
    if (result != ncclSuccess)
        return group_defer(result);
    result = comm_failure(o.comm);
    if (result == ncclSuccess)
        result = operation_check(&o, dtype);
    result = result == ncclSuccess ? group_add(&o) : group_defer(result);
    comm_exit(o.comm);
    return result;
}

#define OPERATION(number, ...)                                                                     \
    operation_add((struct operation){.kind = (number),                                             \
                                     .name = __func__,                                             \
                                     .comm = comm,                                                 \
                                     .count = count,                                               \
                                     .stream = stream,                                             \
                                     __VA_ARGS__},                                                 \
                  dtype)

NCCL_API(ncclResult_t, ncclAllReduce)
(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
 cudaStream_t stream) {
    return OPERATION(RCM_ALL_REDUCE, .send = send, .recv = recv, .op = op);
}

NCCL_API(ncclResult_t, ncclReduce)
(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op, int root,
 ncclComm_t comm, cudaStream_t stream) {
    return OPERATION(RCM_REDUCE, .send = send, .recv = recv, .op = op, .root = root);
}

NCCL_API(ncclResult_t, ncclBroadcast)
(const void *send, void *recv, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
 cudaStream_t stream) {
    return OPERATION(RCM_BROADCAST, .send = send, .recv = recv, .root = root);
}

NCCL_API(ncclResult_t, ncclBcast)
(void *buffer, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm, cudaStream_t stream) {
    return OPERATION(RCM_BROADCAST, .send = buffer, .recv = buffer, .root = root);
}

NCCL_API(ncclResult_t, ncclAllGather)
(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclComm_t comm,
 cudaStream_t stream) {
    return OPERATION(RCM_ALL_GATHER, .send = send, .recv = recv);
}

NCCL_API(ncclResult_t, ncclReduceScatter)
(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
 cudaStream_t stream) {
    return OPERATION(RCM_REDUCE_SCATTER, .send = send, .recv = recv, .op = op);
}

NCCL_API(ncclResult_t, ncclAlltoAll)
(const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclComm_t comm,
 cudaStream_t stream) {
    return OPERATION(RCM_ALL_TO_ALL, .send = send, .recv = recv);
}

NCCL_API(ncclResult_t, ncclGather)
(const void *send, void *recv, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
 cudaStream_t stream) {
    return OPERATION(RCM_GATHER, .send = send, .recv = recv, .root = root);
}

NCCL_API(ncclResult_t, ncclScatter)
(const void *send, void *recv, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
 cudaStream_t stream) {
    return OPERATION(RCM_SCATTER, .send = send, .recv = recv, .root = root);
}

NCCL_API(ncclResult_t, ncclSend)
(const void *send, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
 cudaStream_t stream) {
    return OPERATION(OPERATION_SEND, .send = send, .root = peer);
}

NCCL_API(ncclResult_t, ncclRecv)
(void *recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm, cudaStream_t stream) {
    return OPERATION(OPERATION_RECV, .recv = recv, .root = peer);
}
