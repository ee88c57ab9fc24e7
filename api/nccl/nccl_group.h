/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of calls of one thread, between ncclGroupStart and the matching ncclGroupEnd. A call
 * outside of a group is a group of one. */
#ifndef NCCL_GROUP_H
#define NCCL_GROUP_H

#include "nccl_operators.h"

/* Values of the collectives: enum rcm_collective. */
enum {
    OPERATION_SEND = 100,
    OPERATION_RECV,
    OPERATION_MAKE, /* a communicator is being made */
    OPERATION_END,  /* a communicator was finalized */
};

struct operation {
    const char *name;
    struct ncclComm *comm;
    size_t count;
    cudaStream_t stream;
    int kind;
    uint64_t id;   /* of comm */
    size_t number; /* in the group */
    const void *send;
    void *recv;
    rcm_dtype dtype;
    ncclRedOp_t op;
    struct scalar scalar;
    int root; /* or the peer */
};

/* Adds a checked operation to the thread's group; without a group, issues it. */
ncclResult_t group_add(const struct operation *operation);
/* Adds a communicator that is being made or finalized. False: there is no group. */
bool group_await(struct ncclComm *comm);
/* Returns result; the group, if there is one, ends with it. */
ncclResult_t group_fail(ncclResult_t result);
/* The same for an operation. In a group, only ncclInvalidArgument comes from the call itself. */
ncclResult_t group_defer(ncclResult_t result);
/* Issues operations, and sorts them: one batch of messages for each communicator, and the
 * collectives. */
ncclResult_t operations_issue(struct operation *operations, size_t n);

#endif
