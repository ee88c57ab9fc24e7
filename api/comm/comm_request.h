/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of what makes a communicator of another one, or ends one: begun by subset.c, shrink.c
 * and destroy.c, which have the rest of the struct.
 */
#ifndef RCMI_COMM_REQUEST_H
#define RCMI_COMM_REQUEST_H

#include "background.h"

struct rcm_comm_request {
    struct rcmi_background background; /* the first */
    const struct rcmi_comm_request_kind *kind;
    const char *what; /* the function: "rcm_comm_subset" */
    rcm_comm *comm;   /* that others are made of, or that ends; holds a reference */
};

struct rcmi_comm_request_kind {
    bool makes; /* a communicator; then no thread ends comm before `run` has returned */
    rcm_status (*run)(struct rcm_comm_request *request, rcm_comm **ret_comm);
    /* Wakes what `run` waits for, which looks at `canceled`. True: it returns at once. comm is not
     * freed meanwhile. */
    bool (*wake)(struct rcm_comm_request *request);
    void (*end)(struct rcm_comm_request *request); /* frees what the request has beside; NULL */
};

/* request: malloc'd, begins with the struct, zero but for `what` and the rest of it. It is the
 * user's from now on, but stays the caller's if this fails. */
rcm_status rcmi_comm_request_begin(struct rcm_comm_request *request,
                                   const struct rcmi_comm_request_kind *kind, rcm_comm *comm,
                                   rcm_comm_request **ret_request);
/* The same of one that is complete already, with RCM_OK. comm may be NULL. */
void rcmi_comm_request_complete(struct rcm_comm_request *request,
                                const struct rcmi_comm_request_kind *kind, rcm_comm *comm,
                                rcm_comm *made, rcm_comm_request **ret_request);

#endif
