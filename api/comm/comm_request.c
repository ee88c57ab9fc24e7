/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Background requests that make or end a communicator: test, wait, cancel. Not here: the effect of
 * a cancel in the protocols (agreement/).
 */
#include "comm_request.h"
#include "entry.h"
#include "failure.h"
#include "group.h"
#include "loop.h"
#include "work.h"
#include <stdlib.h>

/* ---- Creation and end ------------------------------------------------------------------------ */

/* Ends a communicator that was made and not taken: the other ranks have it. */
static void request_revoke(const struct rcm_comm_request *request, rcm_comm *made) {
    if (rcm_rank(made) >= 0) {
        (void)rcmi_fail_origin(RCM_ERR_CANCELED, rcm_rank(made),
                               "rank %d canceled %s, which made this communicator", rcm_rank(made),
                               request->what);
        rcmi_comm_fail(made, NULL);
    }
    rcmi_comm_retire(made);
}

static void request_discard(struct rcmi_background *background, rcm_comm *made) {
    struct rcm_comm_request *request = (struct rcm_comm_request *)background;
    if (made)
        request_revoke(request, made);
    if (request->kind->end)
        request->kind->end(request);
    if (request->comm)
        rcmi_comm_unref(request->comm);
    rcmi_background_destroy(background);
    free(request);
}

static rcm_status request_run(struct rcmi_background *background, rcm_comm **ret_comm) {
    struct rcm_comm_request *request = (struct rcm_comm_request *)background;
    const rcm_status status = request->kind->run(request, ret_comm);
    if (request->kind->makes)
        rcmi_comm_exit(request->comm);
    return status;
}

static void request_init(struct rcm_comm_request *request,
                         const struct rcmi_comm_request_kind *kind, rcm_comm *comm) {
    static const struct rcmi_background_kind makes = {.thread = "a thread to make a communicator",
                                                      .makes = true,
                                                      .run = request_run,
                                                      .discard = request_discard};
    static const struct rcmi_background_kind ends = {
        .thread = "a thread to end a communicator", .run = request_run, .discard = request_discard};
    request->kind = kind;
    request->comm = comm;
    if (comm)
        rcmi_comm_ref(comm);
    rcmi_background_init(&request->background, kind->makes ? &makes : &ends);
}

static rcm_status request_start(struct rcm_comm_request *request) {
    if (request->kind->makes && !rcmi_comm_enter(request->comm))
        return rcmi_fail(RCM_ERR_INVALID, 0, "the communicator is being destroyed");
    const rcm_status status = rcmi_background_start(&request->background);
    if (status != RCM_OK && request->kind->makes)
        rcmi_comm_exit(request->comm);
    return status;
}

rcm_status rcmi_comm_request_begin(struct rcm_comm_request *request,
                                   const struct rcmi_comm_request_kind *kind, rcm_comm *comm,
                                   rcm_comm_request **ret_request) {
    request_init(request, kind, comm);
    *ret_request = request; /* before the thread begins */
    const rcm_status status = request_start(request);
    if (status == RCM_OK)
        return status;
    *ret_request = NULL;
    rcmi_background_destroy(&request->background);
    rcmi_comm_unref(comm);
    return status;
}

void rcmi_comm_request_complete(struct rcm_comm_request *request,
                                const struct rcmi_comm_request_kind *kind, rcm_comm *comm,
                                rcm_comm *made, rcm_comm_request **ret_request) {
    request_init(request, kind, comm);
    rcmi_background_set(&request->background, RCM_OK, made);
    *ret_request = request;
}

/* ---- The user -------------------------------------------------------------------------------- */

rcm_status rcm_comm_request_wait(rcm_comm_request *request, int64_t timeout_ms,
                                 rcm_comm **ret_comm) {
    return rcmi_background_wait(request ? &request->background : NULL, timeout_ms, ret_comm);
}

rcm_status rcm_comm_request_test(rcm_comm_request *request, rcm_comm **ret_comm) {
    return rcm_comm_request_wait(request, 0, ret_comm);
}

static bool request_wake(struct rcm_comm_request *request) {
    if (!request->comm || !rcmi_comm_enter(request->comm))
        return false;
    const bool ends = request->kind->wake(request);
    rcmi_comm_exit(request->comm);
    return ends;
}

void rcm_comm_request_cancel(rcm_comm_request *request) {
    RCMI_ENTRY;
    if (!request)
        return;
    if (!rcmi_background_cancel(&request->background)) {
        free(request); /* the rest is the parent's thread's */
        return;
    }
    struct rcmi_error *before = rcmi_errors_begin();
    if (request_wake(request) && !rcmi_loop_on_any_thread())
        rcmi_background_join(&request->background);
    rcmi_background_unref(&request->background);
    (void)rcmi_errors_end(before, RCM_OK);
}
