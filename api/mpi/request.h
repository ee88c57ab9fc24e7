/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations and requests. An operation is what a call leaves to do until it is complete; a request
 * is an operation that the program waits for, and of a persistent one the arguments. */
#ifndef REQUEST_H
#define REQUEST_H

#include "mpi_comm.h"
#include "datatype.h"

struct operation {
    rcm_work *work;
    struct rcm_message message; /* of a receive */
    bool is_receive;
    int source;             /* of a receive: MPI_PROC_NULL if there is no message */
    struct data send, recv; /* bound if .packed is not NULL */
    struct data *blocks;    /* of a collective with a block for each rank: first `nsend` to send */
    int nblocks, nsend;
    void *temporary; /* freed at the end */
};

struct MPI_ABI_Request {
    struct operation operation;
    const char *name; /* of the function that made it */
    MPI_Comm comm;
    bool is_persistent, is_active, is_done, is_canceled;
    int code; /* if done */
    struct generalized *generalized;
    form_start start; /* of a persistent one */
    void *arguments;
    void *arrays[FORM_ARRAYS];
};

/* The operation of a call: *local for a blocking one, that of a new request or of the started one
 * otherwise. NULL, and form->code is set: no memory. */
struct operation *operation_begin(struct form *form, struct operation *local);
/* Where ringcomm.h returns the work: NULL for a blocking call. */
static inline rcm_work **operation_work(const struct form *form, struct operation *operation) {
    return form->kind == FORM_BEGIN ? &operation->work : NULL;
}
/* After the call of ringcomm.h, which returned status: ends a blocking operation, or returns its
 * request. ret_status may be NULL. */
int operation_issued(struct form *form, struct operation *operation, rcm_status status,
                     MPI_Status *ret_status);
/* Ends an operation that was not issued because of an error. Returns code. */
RARE int operation_drop(struct form *form, struct operation *operation, int code);

/* Frees a request and its arguments. */
void request_free(MPI_Request request);
/* Adds all requests of the array that the program has not completed to the log. */
void request_report_unfinished(void);

/* The status of no operation, and the bytes of a status. */
void status_empty(MPI_Status *status);
void status_set(MPI_Status *status, int source, int tag, MPI_Count bytes, bool is_canceled);
MPI_Count status_bytes(const MPI_Status *status);

#endif
