/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations and requests. An operation is what a call leaves to do until it is complete; a request
 * is an operation that the program waits for, and of a persistent one the arguments. */
#ifndef REQUEST_H
#define REQUEST_H

#include "mpi_comm.h"
#include "datatype.h"

/* A reduction that is left to do: `n` contributions in .temporary, each of `stride` bytes, of which
 * the result begins at `skip`. */
struct fold {
    rcm_op op;
    rcm_dtype dtype;
    int n;
    size_t stride, skip;
};

struct operation {
    rcm_work *work;
    rcm_comm_request *making; /* instead of a work: a communicator that is being made, */
    rcm_comm **made;          /* and where it goes */
    bool is_receive;
    struct rcm_message message; /* of a receive, and what follows */
    int source;                 /* of a receive: MPI_PROC_NULL if there is no message */
    int peer_first;             /* the rank in ringcomm.h that is rank 0 of the sources */
    struct data send, recv;     /* bound if .packed is not NULL */
    struct data *blocks;     /* of a collective with a block for each rank: first `nsend` to send */
    void *temporary;         /* freed at the end */
    struct made_op *made_op; /* the operator of a reduction that ends with it, or NULL */
    int nblocks, nsend;
    struct fold fold;
};

struct MPI_ABI_Request {
    struct operation operation;
    const char *name; /* of the function that made it */
    MPI_Comm comm;
    bool is_persistent, is_active, is_done, is_canceled;
    int code; /* if done */
    struct generalized *generalized;
    form_start start; /* of a persistent one */
    void *arguments;  /* one of the holds */
    struct hold *holds;
};

/* A request of the call, without an operation. NULL, and form->code is set: no memory. */
MPI_Request request_new(struct form *form);
void request_free(MPI_Request request);

/* Whether it counts as complete without an operation: MPI_REQUEST_NULL, or not started. */
bool request_is_null(MPI_Request request);
/* Whether the request is complete; `wait`: waits until it is. Its results are then in place. */
bool request_poll(struct form *form, MPI_Request request, bool wait);
/* Status and code of a complete request. request_take also ends it: a persistent one is inactive
 * then, another is freed and *place MPI_REQUEST_NULL. */
int request_peek(struct form *form, MPI_Request request, MPI_Status *ret_status);
int request_take(struct form *form, MPI_Request *place, MPI_Status *ret_status);
/* Whether it waits for a communicator, which is no work. */
bool request_is_making(MPI_Request request);
/* Its unfinished work, or NULL. */
rcm_work *request_work(MPI_Request request);

/* What the functions that wait for several requests do: take the complete ones at once, wait for
 * some or all of them before, or leave them as they are. */
enum { TAKE_COMPLETE, TAKE_WAIT, TAKE_NOTHING };
/* How a send is done, and the reductions whose result every rank has. */
enum { SEND_STANDARD, SEND_SYNCHRONOUS, SEND_BUFFERED };
enum { REDUCE_ALL, REDUCE_SCAN, REDUCE_EXSCAN };

/* A buffer of a call. keeps: some ranks get no result there. */
struct side {
    const void *buffer;
    MPI_Count count;
    MPI_Datatype type;
    bool keeps;
};
/* Begins the operation of a call, *local for a blocking one, that of a new request or of the
 * started one otherwise, and binds its buffers. NULL or MPI_IN_PLACE: it has none, and with
 * MPI_IN_PLACE the other one is both. After an error all is released. */
int operation_bind(struct form *form, struct operation *local, const struct side *send,
                   const struct side *recv, struct operation **ret_operation);
/* Makes an operation a receive from a rank of the program, which counts from peer_first on. */
static inline void operation_receive(struct operation *operation, int source, int peer_first) {
    operation->is_receive = true;
    operation->source = source;
    operation->peer_first = peer_first;
    operation->message = (struct rcm_message)RCM_MESSAGE_INIT;
}
/* Makes what is sent a copy of a buffer, which a result replaces. After an error all is released.
 */
int operation_copy(struct form *form, struct operation *operation, const struct side *side);
/* Where ringcomm.h returns the work: NULL for a blocking call. */
static inline rcm_work **operation_work(const struct form *form, struct operation *operation) {
    return form->kind == FORM_BEGIN ? &operation->work : NULL;
}
/* And its settings: other forms than blocking collectives match no blocking ones. */
static inline const struct rcm_call *operation_call(const struct form *form) {
    static const struct rcm_call begun = {.size = sizeof begun, .flags = RCM_MATCH_ASYNC};
    return form->kind == FORM_BEGIN ? &begun : NULL;
}
/* After the call of ringcomm.h, which returned status: ends a blocking operation, or returns its
 * request. ret_status may be NULL. */
int operation_ended(struct form *form, struct operation *operation, rcm_status status,
                    MPI_Status *ret_status);
static inline bool operation_is_plain(const struct operation *operation) {
    return !operation->send.packed && !operation->recv.packed && !operation->blocks &&
           !operation->temporary && !operation->made_op;
}
INLINE int operation_issued(struct form *form, struct operation *operation, rcm_status status,
                            MPI_Status *ret_status) {
    if (form->kind == FORM_NOW && status == RCM_OK && !ret_status && operation_is_plain(operation))
        return MPI_SUCCESS;
    return operation_ended(form, operation, status, ret_status);
}
/* Returns a request for a communicator that is being made. */
int request_making(struct form *form, rcm_comm_request *making, rcm_comm **made,
                   MPI_Request *ret_request);
/* Ends an operation that was not issued because of an error. Returns code. */
RARE int operation_drop(struct form *form, struct operation *operation, int code);

/* A status's fields that the program sets, and the place of the last of them. */
enum { STATUS_SOURCE, STATUS_TAG, STATUS_ERROR, STATUS_CANCELED, STATUS_CANCELED_AT = 2 };
/* The status of no operation, and the bytes of a status. */
void status_empty(MPI_Status *status);
void status_set(MPI_Status *status, int source, int tag, MPI_Count bytes, bool is_canceled);
/* That of a message, from ranks of ringcomm.h that count from peer_first on. */
void status_receive(MPI_Status *status, const struct rcm_message *message, int peer_first);
MPI_Count status_bytes(const MPI_Status *status);

#endif
