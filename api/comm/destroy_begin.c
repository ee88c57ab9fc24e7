/* SPDX-License-Identifier: BSD-3-Clause */
/* rcm_destroy in the background: a request whose thread calls rcm_destroy. */
#include "comm_request.h"
#include "entry.h"
#include "failure.h"
#include <stdlib.h>

static rcm_status destroy_run(struct rcm_comm_request *request, rcm_comm **ret_comm) {
    (void)ret_comm;
    return rcm_destroy(request->comm);
}

/* The other ranks may be waiting for this one. */
static bool destroy_wake(struct rcm_comm_request *request) {
    if (rcm_rank(request->comm) >= 0) {
        (void)rcmi_fail_origin(RCM_ERR_CANCELED, rcm_rank(request->comm), "rank %d canceled %s",
                               rcm_rank(request->comm), request->what);
        rcmi_comm_fail(request->comm, NULL);
    }
    return false;
}

/* If comm is NULL, or the parent process's, nothing is waited for. */
static rcm_status destroy_begin(rcm_comm *comm, rcm_comm_request **ret_request) {
    RCMI_ENTRY;
    static const struct rcmi_comm_request_kind kind = {.run = destroy_run, .wake = destroy_wake};
    struct rcmi_engine *engine;
    rcm_status status = rcmi_operator_check();
    if (status == RCM_OK && !ret_request)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "ret_request is NULL");
    if (status != RCM_OK)
        return rcmi_fail_context("rcm_destroy_begin");
    struct rcm_comm_request *request = calloc(1, sizeof(*request));
    if (!request)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for rcm_destroy in the background");
    request->what = "rcm_destroy";
    if (rcmi_comm_own(comm, &engine) != RCM_OK) {
        rcmi_comm_request_complete(request, &kind, NULL, NULL, ret_request);
        return rcm_destroy(comm);
    }
    status = rcmi_comm_request_begin(request, &kind, comm, ret_request);
    if (status != RCM_OK)
        free(request);
    return status;
}

rcm_status rcm_destroy_begin(rcm_comm *comm, rcm_comm_request **ret_request) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, destroy_begin(comm, ret_request));
}
