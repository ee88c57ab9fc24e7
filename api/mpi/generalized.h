/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that the program completes, and not a message or a collective. Each is a receive of a
 * communicator without other messages, and completing it sends the message. */
#ifndef GENERALIZED_H
#define GENERALIZED_H

#include "request.h"

struct generalized {
    MPI_Grequest_query_function *query; /* any may be NULL */
    MPI_Grequest_free_function *free;
    MPI_Grequest_cancel_function *cancel;
    void *extra;
    uint64_t number;  /* the tag of its message */
    atomic_int state; /* an enum generalized_state */
};
/* The second of the two events that end one, completion and MPI_Request_free, frees it. */
enum generalized_state {
    GENERALIZED_ACTIVE,
    GENERALIZED_COMPLETE, /* its message is on the way */
    GENERALIZED_RELEASED  /* by MPI_Request_free, before it was complete */
};

int generalized_start(struct form *form, const struct generalized *functions,
                      MPI_Request *ret_request);
/* The status of a complete one, and its end. */
int generalized_query(MPI_Request request, MPI_Status *ret_status);
int generalized_free(MPI_Request request);
int generalized_cancel(MPI_Request request);
/* MPI_Request_free. */
int generalized_release(struct form *form, MPI_Request request);
/* Before MPI_Finalize destroys the world. */
rcm_status generalized_close(void);

#endif
