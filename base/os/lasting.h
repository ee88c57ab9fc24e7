/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of others' code that may last longer than their caller may wait, as those of a driver: each
 * is made by a thread of its own.
 *
 *      caller                              thread
 *        rcmi_lasting_run ---------------->  run
 *        waits until its deadline   <------  done: the caller has the result, and the struct
 *        has gone                            done: late takes the result back, the struct is freed
 *
 * Not here: works, which have deadlines of their own and no thread (api/work/deadline.h).
 */
#ifndef RCMI_LASTING_H
#define RCMI_LASTING_H

#include <pthread.h>
#include <stdbool.h>
#include "clock.h"
#include "error.h"

/* First in a struct with arguments and results, which is from malloc. */
struct rcmi_lasting {
    /* On the thread. What it uses outlives it: the caller may have gone. */
    rcm_status (*run)(struct rcmi_lasting *call);
    /* The caller has gone: gives back what a run that ended so has brought, and what the struct
     * holds. */
    void (*late)(struct rcmi_lasting *call, rcm_status status);
    /* lasting.c's. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, left;
    rcm_status status;
    struct rcmi_error error;
};

/* True: *ret_status is how it ended, the thread's error is its own; or no thread could be started.
 * False: the deadline has passed, and the struct is not the caller's any more. */
bool rcmi_lasting_run(struct rcmi_lasting *call, rcmi_deadline deadline, rcm_status *ret_status);

#endif
