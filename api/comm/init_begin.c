/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_init in the background (background.h): a thread calls it with copies of the options. A cancel
 * is a flag, which all waits for other ranks in rcm_init check (rendezvous.h).
 */
#include <stdlib.h>
#include <string.h>
#include "background.h"
#include "entry.h"
#include "rendezvous.h"
#include "struct_versions.h"

enum { STRINGS = 6 };

struct rcm_init_request {
    struct rcmi_background background; /* first member */
    struct rcm_init_options options;
    char *strings[STRINGS]; /* to which options points */
    struct rcm_unique_id id;
};

/* ---- Creation and end ------------------------------------------------------------------------ */

static void request_free(struct rcm_init_request *request) {
    for (int i = 0; i < STRINGS; i++)
        free(request->strings[i]);
    rcmi_background_destroy(&request->background);
    free(request);
}

static void request_discard(struct rcmi_background *background, rcm_comm *comm) {
    if (comm && rcm_abort(comm, "its rcm_init was canceled") == RCM_OK)
        (void)!rcm_destroy(comm);
    request_free((struct rcm_init_request *)background);
}

static rcm_status request_run(struct rcmi_background *background, rcm_comm **ret_comm) {
    const struct rcm_init_request *request = (const struct rcm_init_request *)background;
    rcmi_store_cancel_by(&background->canceled);
    const rcm_status status = rcm_init(&request->options, ret_comm);
    rcmi_store_cancel_by(NULL);
    return status;
}

static bool string_copy(struct rcm_init_request *request, int i, const char **string) {
    if (!*string)
        return true;
    request->strings[i] = strdup(*string);
    *string = request->strings[i];
    return request->strings[i] != NULL;
}

static bool request_copy(struct rcm_init_request *request) {
    struct rcm_init_options *o = &request->options;
    const char **strings[STRINGS] = {&o->url,       &o->host_id,   &o->secret,
                                     &o->transport, &o->algorithm, &o->device};
    for (int i = 0; i < STRINGS; i++)
        if (!string_copy(request, i, strings[i]))
            return false;
    if (o->unique_id) {
        request->id = *o->unique_id;
        o->unique_id = &request->id;
    }
    return true;
}

static struct rcm_init_request *request_new(const struct rcm_init_options *options) {
    static const struct rcmi_background_kind kind = {.thread = "a thread for rcm_init",
                                                     .makes = true,
                                                     .run = request_run,
                                                     .discard = request_discard};
    struct rcm_init_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->options = *options;
    rcmi_background_init(&request->background, &kind);
    if (request_copy(request))
        return request;
    request_free(request);
    return NULL;
}

/* ---- The calls ------------------------------------------------------------------------------- */

static rcm_status begin_given(const struct rcm_init_options *options,
                              rcm_init_request **ret_request) {
    RCMI_ENTRY;
    static const struct rcmi_sized sized = {"options", "RCM_INIT_OPTIONS_INIT",
                                            RCMI_INIT_OPTIONS_SIZE_0,
                                            sizeof(struct rcm_init_options)};
    struct rcm_init_options ours = RCM_INIT_OPTIONS_INIT;
    if (!ret_request)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_request is NULL");
    rcm_status status = options ? rcmi_struct_in(&sized, options, &ours) : RCM_OK;
    if (status != RCM_OK)
        return status;
    struct rcm_init_request *request = request_new(&ours);
    if (!request)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for rcm_init in the background");
    status = rcmi_background_start(&request->background);
    if (status == RCM_OK)
        *ret_request = request;
    else
        rcmi_background_unref(&request->background);
    return status;
}

rcm_status rcm_init_begin(const struct rcm_init_options *options, rcm_init_request **ret_request) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, begin_given(options, ret_request));
}

rcm_status rcm_init_wait(rcm_init_request *request, int64_t timeout_ms, rcm_comm **ret_comm) {
    return rcmi_background_wait(request ? &request->background : NULL, timeout_ms, ret_comm);
}

rcm_status rcm_init_test(rcm_init_request *request, rcm_comm **ret_comm) {
    return rcm_init_wait(request, 0, ret_comm);
}

void rcm_init_cancel(rcm_init_request *request) {
    RCMI_ENTRY;
    if (!request)
        return;
    if (!rcmi_background_cancel(&request->background)) {
        free(request); /* the rest is the parent's thread's */
        return;
    }
    if (request->options.store) /* the user may close it when this returns */
        rcmi_background_join(&request->background);
    rcmi_background_unref(&request->background);
}
