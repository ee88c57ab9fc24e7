/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the library. Each has
 *   - a stack of a fixed size, independent of `ulimit -s`: the default size may exceed RLIMIT_AS,
 *     or with mlockall RLIMIT_MEMLOCK;
 *   - all signals blocked except faults, so that no handler of the application runs on it;
 *   - the default floating-point environment (entry.h), independent of its creator's.
 *
 * Also condition variables whose waits have deadlines.
 *
 * Not here: what threads do (loop.h is one kind).
 */
#ifndef RCMI_THREAD_H
#define RCMI_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include "clock.h"
#include "ringcomm.h"

enum {
    RCMI_STACK_KIB = 1024, /* also for callbacks and user operators */
    RCMI_STACK_DRIVER_KIB =
        8192 /* for calls of libpmix, or of a CUDA driver that compiles kernels */
};

struct rcmi_thread_kind {
    const char *name; /* for errors: "the thread of ..." */
    size_t stack_kib;
    bool detached;
};

/* RCM_ERR_RESOURCE names the limit that was reached. */
rcm_status rcmi_thread_start(const struct rcmi_thread_kind *kind, void *(*run)(void *arg),
                             void *arg, pthread_t *ret_thread);

/* A condition variable on the clock of deadlines; end with pthread_cond_destroy. */
void rcmi_condition_init(pthread_cond_t *condition);

/* Waits with the lock held. False: the deadline has passed. May return true without a wake-up. Does
 * not use pthread_cond_clockwait, which needs glibc 2.30. */
bool rcmi_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, rcmi_deadline deadline);

#endif
