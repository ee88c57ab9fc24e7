/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call that runs on a short-lived thread, and the request by which its user tests it, waits for
 * it and cancels it: rcm_init_begin (init_begin.c), and what makes or ends a communicator
 * (comm_request.c). The request belongs to the user and to the thread; the last of them frees it.
 *
 * Not here: what runs, and how a cancel reaches what it waits for.
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
    _Atomic bool canceled; /* relaxed: whoever waits looks again and again */
    pthread_mutex_t lock;  /* of all below */
    pthread_cond_t through;
    int refs;          /* the user's, the thread's, and of each thread that waits */
    rcm_status status; /* RCM_PENDING until it is through */
    struct rcmi_error error;
    rcm_comm *comm; /* NULL once it is taken */
};

struct rcmi_background_kind {
    const char *thread; /* in errors: "a thread for rcm_init" */
    bool makes;         /* a communicator */
    rcm_status (*run)(struct rcmi_background *background, rcm_comm **ret_comm);
    /* Ends a communicator that was not taken (NULL: it was), and frees all. */
    void (*discard)(struct rcmi_background *background, rcm_comm *comm);
};

/* Zeroed memory becomes a request with the user's reference. _destroy: what _init made. */
void rcmi_background_init(struct rcmi_background *background,
                          const struct rcmi_background_kind *kind);
void rcmi_background_destroy(struct rcmi_background *background);
rcm_status rcmi_background_start(struct rcmi_background *background);
/* It is through without a thread. */
void rcmi_background_set(struct rcmi_background *background, rcm_status status, rcm_comm *comm);
/* The public functions that wait: what it returned, with its error; RCM_PENDING: timeout_ms passed.
 * background may be NULL. */
rcm_status rcmi_background_wait(struct rcmi_background *background, int64_t timeout_ms,
                                rcm_comm **ret_comm);
/* Sets canceled; the user's reference stays. False: background is of the parent process, or
 * NULL. */
bool rcmi_background_cancel(struct rcmi_background *background);
/* Waits until the thread is through. */
void rcmi_background_join(struct rcmi_background *background);
void rcmi_background_unref(struct rcmi_background *background);

static inline bool rcmi_background_canceled(const struct rcmi_background *background) {
    return atomic_load_explicit(&background->canceled, memory_order_relaxed);
}

#endif
