/* SPDX-License-Identifier: BSD-3-Clause */
/* Completed works for threads that resolve futures. The library's thread only appends to a list
 * and wakes one of them: it never waits for the GIL. */
#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct completion {
    struct completion *next;
    PyObject *item;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_once_t once;
    struct completion *first, **end;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void after_fork(void) {
    pthread_mutex_init(&queue.lock, NULL);
    queue.first = NULL; /* the parent's */
    queue.end = &queue.first;
}

static void set_up(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.filled, &attributes);
    pthread_condattr_destroy(&attributes);
    queue.end = &queue.first;
    pthread_atfork(NULL, NULL, after_fork);
}

static void push(void *arg, CORE_UNUSED rcm_status status) {
    struct completion *completion = arg;
    pthread_mutex_lock(&queue.lock);
    *queue.end = completion;
    queue.end = &completion->next;
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

bool core_completion_register(rcm_work *work, PyObject *item) {
    pthread_once(&queue.once, set_up);
    struct completion *completion = calloc(1, sizeof *completion);
    if (!completion) {
        PyErr_NoMemory();
        return false;
    }
    completion->item = item;
    Py_INCREF(item);
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_work_on_complete(work, push, completion);
    Py_END_ALLOW_THREADS if (status == RCM_OK) return true;
    Py_DECREF(item);
    free(completion);
    core_raise(status, NULL);
    return false;
}

static struct completion *pop(int64_t timeout_ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&queue.lock);
    while (!queue.first &&
           pthread_cond_timedwait(&queue.filled, &queue.lock, &until) != ETIMEDOUT) {
    }
    struct completion *completion = queue.first;
    if (completion) {
        queue.first = completion->next;
        if (!queue.first)
            queue.end = &queue.first;
    }
    pthread_mutex_unlock(&queue.lock);
    return completion;
}

PyObject *core_next_completion(CORE_UNUSED PyObject *module, PyObject *argument) {
    int64_t timeout_ms;
    if (!core_int64(argument, "timeout_ms", &timeout_ms))
        return NULL;
    pthread_once(&queue.once, set_up);
    struct completion *completion;
    Py_BEGIN_ALLOW_THREADS completion = pop(timeout_ms);
    Py_END_ALLOW_THREADS if (!completion) Py_RETURN_NONE;
    PyObject *item = completion->item;
    free(completion);
    return item;
}
