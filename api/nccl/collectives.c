/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives, sends and receives: the calls of a program, checked. */
#include "nccl_driver.h"
#include "nccl_group.h"
#include "nccl_operators.h"

/* Does this rank pass that buffer? */
static bool has_send(const struct operation *o) {
    const bool only_root = o->kind == RCM_BROADCAST || o->kind == RCM_SCATTER;
    return o->kind != OPERATION_RECV && (!only_root || o->comm->rank == o->root);
}

static bool has_recv(const struct operation *o) {
    const bool only_root = o->kind == RCM_REDUCE || o->kind == RCM_GATHER;
    return o->kind != OPERATION_SEND && (!only_root || o->comm->rank == o->root);
}

/* Under the lock; the communicator is ready. Without a root or operator, the fields are 0, which is
 * one. */
static ncclResult_t operation_check(struct operation *o, ncclDataType_t dtype) {
    if (!dtype_of(dtype, &o->dtype))
        return face_fail(ncclInvalidArgument, "%s: datatype is %d. Use 0 to %d", o->name,
                         (int)dtype, ncclNumTypes - 1);
    if (o->root < 0 || o->root >= o->comm->size)
        return face_fail(ncclInvalidArgument, "%s: rank %d does not exist: there are %d", o->name,
                         o->root, o->comm->size);
    if (o->count > 0 && ((has_send(o) && !o->send) || (has_recv(o) && !o->recv)))
        return face_fail(ncclInvalidArgument, "%s: %s is NULL, but count is %zu", o->name,
                         has_send(o) && !o->send ? "sendbuff" : "recvbuff", o->count);
    return operator_check(o->comm, o->op, o->dtype, &o->scalar);
}

static ncclResult_t operation_add(struct operation o, ncclDataType_t dtype) {
    ncclResult_t result = comm_hold_ready(o.comm, COMM_ANY, o.name);
    if (result != ncclSuccess)
        return group_defer(result);
    o.id = o.comm->id;
    result = comm_error(o.comm);
    if (result == ncclSuccess)
        result = operation_check(&o, dtype);
    comm_unlock();
    return result == ncclSuccess ? group_add(&o) : group_defer(result);
}

#define DEFINE(result, name, parameters, ...)                                                      \
    NCCL_API(result, name) parameters {                                                            \
        return operation_add((struct operation){#name, comm, count, stream, __VA_ARGS__}, dtype);  \
    }
NCCL_OPERATION_MAP(DEFINE)
