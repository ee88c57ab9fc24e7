/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on a separate thread: see background.h. */
#include "background.h"
#include <stdlib.h>
#include "clock.h"
#include "entry.h"
#include "fork.h"
#include "thread.h"
#include "work.h"

/* ---- Creation and end ------------------------------------------------------------------------ */

void rcmi_background_init(struct rcmi_background *background,
                          const struct rcmi_background_kind *kind) {
    background->kind = kind;
    background->generation = rcmi_fork_watch();
    background->refs = 1;
    background->status = RCM_PENDING;
    pthread_mutex_init(&background->lock, NULL);
    rcmi_condition_init(&background->through);
}

void rcmi_background_destroy(struct rcmi_background *background) {
    pthread_cond_destroy(&background->through);
    pthread_mutex_destroy(&background->lock);
}

void rcmi_background_unref(struct rcmi_background *background) {
    pthread_mutex_lock(&background->lock);
    const bool last = --background->refs == 0;
    pthread_mutex_unlock(&background->lock);
    if (last)
        background->kind->discard(background, background->comm);
}

/* ---- The thread ------------------------------------------------------------------------------ */

void rcmi_background_set(struct rcmi_background *background, rcm_status status, rcm_comm *comm) {
    pthread_mutex_lock(&background->lock);
    background->comm = comm;
    background->error = *rcmi_last_error();
    background->status = status;
    pthread_cond_broadcast(&background->through);
    pthread_mutex_unlock(&background->lock);
}

static void *background_run(void *arg) {
    struct rcmi_background *background = arg;
    rcm_comm *comm = NULL;
    pthread_setname_np(pthread_self(), "ringcomm-begun");
    const rcm_status status = background->kind->run(background, &comm);
    rcmi_background_set(background, status, comm);
    rcmi_background_unref(background);
    return NULL;
}

rcm_status rcmi_background_start(struct rcmi_background *background) {
    const struct rcmi_thread_kind kind = {
        .name = background->kind->thread, .stack_kib = RCMI_STACK_KIB, .detached = true};
    pthread_t thread;
    background->refs++;
    const rcm_status status = rcmi_thread_start(&kind, background_run, background, &thread);
    if (status != RCM_OK)
        background->refs--;
    return status;
}

/* ---- The user -------------------------------------------------------------------------------- */

static rcm_status background_check(const struct rcmi_background *background, rcm_comm **ret_comm) {
    if (!background || (!ret_comm && background->kind->makes))
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", background ? "ret_comm" : "request");
    if (!rcmi_fork_is_maker(background->generation))
        return rcmi_fail(RCM_ERR_FORKED, 0, "this request belongs to the parent process");
    return RCM_OK;
}

/* Under the lock. */
static void background_await(struct rcmi_background *background, rcmi_deadline deadline) {
    while (background->status == RCM_PENDING &&
           rcmi_condition_wait(&background->through, &background->lock, deadline))
        ;
}

/* Under the lock. */
static rcm_status background_take(struct rcmi_background *background, rcm_comm **ret_comm) {
    if (background->status < RCM_OK)
        *rcmi_last_error() = background->error;
    if (background->status != RCM_OK || !background->kind->makes)
        return background->status;
    if (!background->comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "the communicator of this request was taken");
    *ret_comm = background->comm;
    background->comm = NULL;
    return RCM_OK;
}

static rcm_status background_wait(struct rcmi_background *background, int64_t timeout_ms,
                                  rcm_comm **ret_comm) {
    rcm_status status = rcmi_work_may_wait(timeout_ms);
    if (status == RCM_OK)
        status = background_check(background, ret_comm);
    if (status != RCM_OK)
        return status;
    pthread_mutex_lock(&background->lock);
    background->refs++; /* it may be canceled meanwhile */
    background_await(background, rcmi_deadline_in(timeout_ms));
    status = background_take(background, ret_comm);
    pthread_mutex_unlock(&background->lock);
    rcmi_background_unref(background);
    return status;
}

rcm_status rcmi_background_wait(struct rcmi_background *background, int64_t timeout_ms,
                                rcm_comm **ret_comm) {
    RCMI_ENTRY;
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, background_wait(background, timeout_ms, ret_comm));
}

bool rcmi_background_cancel(struct rcmi_background *background) {
    if (!background || !rcmi_fork_is_maker(background->generation))
        return false;
    atomic_store_explicit(&background->canceled, true, memory_order_relaxed);
    return true;
}

void rcmi_background_join(struct rcmi_background *background) {
    pthread_mutex_lock(&background->lock);
    background_await(background, RCMI_NEVER);
    pthread_mutex_unlock(&background->lock);
}
