/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests for calls that make a communicator from another one, or end one. subset.c, shrink.c and
 * destroy_begin.c begin them and extend the struct.
 */
#ifndef RCMI_COMM_REQUEST_H
#define RCMI_COMM_REQUEST_H

#include "background.h"

struct rcm_comm_request {
    struct rcmi_background background; /* first member */
    const struct rcmi_comm_request_kind *kind;
    const char *what; /* the function, such as "rcm_comm_subset" */
    rcm_comm *comm;   /* the source of the new one, or the one that ends; holds a reference */
};

struct rcmi_comm_request_kind {
    bool makes; /* a communicator; then no thread ends comm before `run` returns */
    rcm_status (*run)(struct rcm_comm_request *request, rcm_comm **ret_comm);
    /* Wakes `run`, which checks `canceled`. True: `run` returns at once. comm is not freed
     * meanwhile. */
    bool (*wake)(struct rcm_comm_request *request);
    void (*end)(struct rcm_comm_request *request); /* frees the rest of the extended struct; NULL */
};

/* Begins a request. request: from malloc, begins with the struct, zero except for `what` and the
 * extension. It becomes the user's; if this fails, it stays the caller's. */
rcm_status rcmi_comm_request_begin(struct rcm_comm_request *request,
                                   const struct rcmi_comm_request_kind *kind, rcm_comm *comm,
                                   rcm_comm_request **ret_request);
/* The same for a call that is already complete with RCM_OK. comm may be NULL. */
void rcmi_comm_request_complete(struct rcm_comm_request *request,
                                const struct rcmi_comm_request_kind *kind, rcm_comm *comm,
                                rcm_comm *made, rcm_comm_request **ret_request);

#endif
