/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call that runs on a short-lived thread, and the request by which its user tests it, waits for
 * it and cancels it: rcm_init_begin (init_begin.c), and calls that make or end a communicator
 * (comm_request.c). User and thread share the request; the last one to release it frees it.
 *
 * Not here: the call itself, and how a cancel reaches what it waits for.
 */
#ifndef RCMI_BACKGROUND_H
#define RCMI_BACKGROUND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "error.h"
#include "ringcomm.h"

struct rcmi_background {
    const struct rcmi_background_kind *kind;
    uint32_t generation;   /* base/fork.h */
    _Atomic bool canceled; /* relaxed: waiting code polls it */
    pthread_mutex_t lock;  /* guards all below */
    pthread_cond_t through;
    int refs;          /* of the user, the thread, and each waiting thread */
    rcm_status status; /* RCM_PENDING until the call has ended */
    struct rcmi_error error;
    rcm_comm *comm; /* NULL after it was taken */
};

struct rcmi_background_kind {
    const char *thread; /* in errors: "a thread for rcm_init" */
    bool makes;         /* it makes a communicator */
    rcm_status (*run)(struct rcmi_background *background, rcm_comm **ret_comm);
    /* Ends a communicator that was not taken (NULL: it was), and frees the request. */
    void (*discard)(struct rcmi_background *background, rcm_comm *comm);
};

/* init: makes a request from zeroed memory, with the user's reference. destroy: undoes it. */
void rcmi_background_init(struct rcmi_background *background,
                          const struct rcmi_background_kind *kind);
void rcmi_background_destroy(struct rcmi_background *background);
rcm_status rcmi_background_start(struct rcmi_background *background);
/* Sets the result without a thread. */
void rcmi_background_set(struct rcmi_background *background, rcm_status status, rcm_comm *comm);
/* Implements the public functions that wait: returns the result and its error; RCM_PENDING:
 * timeout_ms passed. background may be NULL. */
rcm_status rcmi_background_wait(struct rcmi_background *background, int64_t timeout_ms,
                                rcm_comm **ret_comm);
/* Sets canceled and keeps the user's reference. False: background belongs to the parent process, or
 * is NULL. */
bool rcmi_background_cancel(struct rcmi_background *background);
/* Waits until the thread's call has ended. */
void rcmi_background_join(struct rcmi_background *background);
void rcmi_background_unref(struct rcmi_background *background);

static inline bool rcmi_background_canceled(const struct rcmi_background *background) {
    return atomic_load_explicit(&background->canceled, memory_order_relaxed);
}

#endif
