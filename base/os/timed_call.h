/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of foreign code, such as a driver, that may block longer than their caller can wait. Each
 * runs on a thread of its own.
 *
 *      caller                              thread
 *        rcmi_timed_call_run ------------->  run
 *        waits until its deadline   <------  done: the caller has the result, and the struct
 *        has left                            done: late releases the result and the struct is freed
 *
 * Not here: works, which have their own deadlines and no thread (api/work/deadline.h).
 */
#ifndef RCMI_TIMED_CALL_H
#define RCMI_TIMED_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include "clock.h"
#include "error.h"

/* The first member of a malloc'd struct with arguments and results. */
struct rcmi_timed_call {
    /* Runs on the thread. Everything it uses must outlive the caller, which may leave. */
    rcm_status (*run)(struct rcmi_timed_call *call);
    /* Called if the caller has left: releases the results of the run, and what the struct owns. */
    void (*late)(struct rcmi_timed_call *call, rcm_status status);
    /* Private to timed_call.c. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, left;
    rcm_status status;
    struct rcmi_error error;
};

/* True: *ret_status is the result, and the thread's error is set accordingly; or no thread could be
 * started. False: the deadline has passed, and the caller no longer owns the struct. */
bool rcmi_timed_call_run(struct rcmi_timed_call *call, rcmi_deadline deadline,
                         rcm_status *ret_status);

#endif
