/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions that wait for requests share. */
#ifndef WAIT_H
#define WAIT_H

#include "request.h"

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

#endif
