/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with a deadline on a separate thread: see timed_call.h. */
#include "timed_call.h"
#include <stdlib.h>
#include "thread.h"

static void timed_call_end(struct rcmi_timed_call *call) {
    pthread_mutex_destroy(&call->lock);
    pthread_cond_destroy(&call->changed);
}

static void *timed_call_main(void *arg) {
    struct rcmi_timed_call *call = arg;
    pthread_setname_np(pthread_self(), "ringcomm-call");
    const rcm_status status = call->run(call);
    pthread_mutex_lock(&call->lock);
    call->status = status;
    call->error = *rcmi_last_error();
    call->done = true;
    const bool left = call->left;
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
    if (left) {
        call->late(call, status);
        timed_call_end(call);
        free(call);
    }
    return NULL;
}

/* Returns whether it is done by the deadline; if not, the thread owns it from then on. */
static bool timed_call_await(struct rcmi_timed_call *call, rcmi_deadline deadline) {
    pthread_mutex_lock(&call->lock);
    while (!call->done && rcmi_condition_wait(&call->changed, &call->lock, deadline))
        ;
    call->left = !call->done;
    const bool done = call->done;
    pthread_mutex_unlock(&call->lock);
    return done;
}

bool rcmi_timed_call_run(struct rcmi_timed_call *call, rcmi_deadline deadline,
                         rcm_status *ret_status) {
    pthread_t thread;
    pthread_mutex_init(&call->lock, NULL);
    rcmi_condition_init(&call->changed);
    call->done = call->left = false;
    static const struct rcmi_thread_kind kind = {.name = "a thread for a blocking call",
                                                 .stack_kib = RCMI_STACK_DRIVER_KIB};
    *ret_status = rcmi_thread_start(&kind, timed_call_main, call, &thread);
    if (*ret_status != RCM_OK) {
        timed_call_end(call);
        return true;
    }
    if (!timed_call_await(call, deadline)) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    timed_call_end(call);
    *ret_status = call->status;
    if (call->status != RCM_OK)
        *rcmi_last_error() = call->error;
    return true;
}
