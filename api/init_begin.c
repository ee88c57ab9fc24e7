/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_init in the background: a thread calls it with copies of the options, and leaves what came of
 * it in the request, which the user and the thread hold both. A cancel is a flag that whatever
 * waits in rcm_init for other ranks looks at (rendezvous.h).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"
#include "entry.h"
#include "error.h"
#include "fork.h"
#include "thread.h"
#include "rendezvous.h"
#include "sized.h"

enum { STRINGS = 6 };

struct rcm_init_request {
    struct rcm_init_options options;
    char *strings[STRINGS]; /* that options points to */
    struct rcm_unique_id id;
    uint32_t generation; /* base/fork.h */
    _Atomic bool canceled;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t through;
    int refs;          /* the user's, the thread's, and of each thread that waits */
    rcm_status status; /* RCM_PENDING until it is through */
    struct rcmi_error error;
    rcm_comm *comm; /* NULL once it is taken */
};

/* ---- Life ------------------------------------------------------------------------------------ */

static void request_free(struct rcm_init_request *request) {
    for (int i = 0; i < STRINGS; i++)
        free(request->strings[i]);
    pthread_cond_destroy(&request->through);
    pthread_mutex_destroy(&request->lock);
    free(request);
}

/* With a communicator that nobody took. */
static void request_discard(struct rcm_init_request *request) {
    if (request->comm && rcm_abort(request->comm, "its rcm_init was canceled") == RCM_OK)
        (void)!rcm_destroy(request->comm);
    request_free(request);
}

static void request_unref(struct rcm_init_request *request) {
    pthread_mutex_lock(&request->lock);
    const bool last = --request->refs == 0;
    pthread_mutex_unlock(&request->lock);
    if (last)
        request_discard(request);
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
    pthread_condattr_t monotonic;
    struct rcm_init_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->options = *options;
    request->generation = rcmi_fork_watch();
    request->refs = 1;
    request->status = RCM_PENDING;
    pthread_mutex_init(&request->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&request->through, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (request_copy(request))
        return request;
    request_free(request);
    return NULL;
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void *request_run(void *arg) {
    struct rcm_init_request *request = arg;
    rcm_comm *comm = NULL;
    rcmi_store_cancel_by(&request->canceled);
    const rcm_status status = rcm_init(&request->options, &comm);
    rcmi_store_cancel_by(NULL);
    pthread_mutex_lock(&request->lock);
    request->comm = comm;
    request->error = *rcmi_last_error();
    request->status = status;
    pthread_cond_broadcast(&request->through);
    pthread_mutex_unlock(&request->lock);
    request_unref(request);
    return NULL;
}

static rcm_status request_start(struct rcm_init_request *request) {
    static const struct rcmi_thread_kind kind = {
        .name = "a thread for rcm_init", .stack_kib = RCMI_STACK_KIB, .detached = true};
    pthread_t thread;
    request->refs++;
    const rcm_status status = rcmi_thread_start(&kind, request_run, request, &thread);
    if (status != RCM_OK)
        request->refs--;
    return status;
}

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
    status = request_start(request);
    if (status == RCM_OK)
        *ret_request = request;
    else
        request_unref(request);
    return status;
}

rcm_status rcm_init_begin(const struct rcm_init_options *options, rcm_init_request **ret_request) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, begin_given(options, ret_request));
}

/* ---- The user -------------------------------------------------------------------------------- */

static rcm_status request_check(const struct rcm_init_request *request, rcm_comm **ret_comm) {
    if (!request || !ret_comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", request ? "ret_comm" : "request");
    if (!rcmi_fork_is_maker(request->generation))
        return rcmi_fail(RCM_ERR_FORKED, 0, "this request belongs to the parent process");
    return RCM_OK;
}

/* Under the lock. */
static void request_await(struct rcm_init_request *request, rcmi_deadline deadline) {
    const struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000),
                                   .tv_nsec = (long)(deadline % 1000000000)};
    while (request->status == RCM_PENDING && !rcmi_deadline_passed(deadline)) {
        if (deadline == RCMI_NEVER)
            pthread_cond_wait(&request->through, &request->lock);
        else
            pthread_cond_timedwait(&request->through, &request->lock, &until);
    }
}

static rcm_status given_wait(rcm_init_request *request, int64_t timeout_ms, rcm_comm **ret_comm) {
    RCMI_ENTRY;
    rcm_status status = request_check(request, ret_comm);
    if (status != RCM_OK)
        return status;
    pthread_mutex_lock(&request->lock);
    request->refs++; /* it may be canceled meanwhile */
    request_await(request, rcmi_deadline_in(timeout_ms));
    status = request->status;
    if (status < RCM_OK)
        *rcmi_last_error() = request->error;
    if (status == RCM_OK && !request->comm)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "the communicator of this request was taken");
    if (status == RCM_OK) {
        *ret_comm = request->comm;
        request->comm = NULL;
    }
    pthread_mutex_unlock(&request->lock);
    request_unref(request);
    return status;
}

rcm_status rcm_init_wait(rcm_init_request *request, int64_t timeout_ms, rcm_comm **ret_comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, given_wait(request, timeout_ms, ret_comm));
}

static rcm_status given_test(rcm_init_request *request, rcm_comm **ret_comm) {
    return rcm_init_wait(request, 0, ret_comm);
}

rcm_status rcm_init_test(rcm_init_request *request, rcm_comm **ret_comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, given_test(request, ret_comm));
}

void rcm_init_cancel(rcm_init_request *request) {
    RCMI_ENTRY;
    if (!request)
        return;
    if (!rcmi_fork_is_maker(request->generation)) {
        free(request); /* the rest is the parent's thread's */
        return;
    }
    atomic_store_explicit(&request->canceled, true, memory_order_relaxed);
    if (request->options.store) { /* the user's again when this returns */
        pthread_mutex_lock(&request->lock);
        request_await(request, RCMI_NEVER);
        pthread_mutex_unlock(&request->lock);
    }
    request_unref(request);
}
