/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of a communicator: size, device, rank. */
#include <stddef.h>
#include <string.h>
#include "nccl_comm.h"

static ncclResult_t query(struct ncclComm *comm, const char *what, size_t field, int *ret) {
    if (comm && !ret)
        return face_fail(ncclInvalidArgument, "%s: the result is NULL", what);
    const ncclResult_t result = comm_hold(comm, COMM_ANY, what);
    if (result != ncclSuccess)
        return result;
    comm_poll(comm);
    const bool known = comm->state != COMM_MAKING && comm->state != COMM_FAILED;
    if (known)
        memcpy(ret, (const char *)comm + field, sizeof *ret);
    comm_unlock();
    return known ? ncclSuccess
                 : face_fail(ncclInvalidArgument, "%s: the communicator is not made", what);
}

NCCL_API(ncclResult_t, ncclCommCount)(const ncclComm_t comm, int *count) {
    return query(comm, __func__, offsetof(struct ncclComm, size), count);
}

NCCL_API(ncclResult_t, ncclCommCuDevice)(const ncclComm_t comm, int *device) {
    return query(comm, __func__, offsetof(struct ncclComm, device), device);
}

NCCL_API(ncclResult_t, ncclCommUserRank)(const ncclComm_t comm, int *rank) {
    return query(comm, __func__, offsetof(struct ncclComm, rank), rank);
}
