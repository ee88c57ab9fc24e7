/* SPDX-License-Identifier: BSD-3-Clause */
/* Completed works for threads that resolve futures: one completion queue of the process. The
 * library's thread never waits for the GIL. */
#include "core.h"

#include <pthread.h>

static struct {
    pthread_mutex_t lock;
    rcm_queue *queue; /* NULL before the first use in this process */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The child drops its copy. Memory that the parent's works hold there stays. */
static void after_fork(void) {
    all.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    rcm_queue_free(all.queue);
    all.queue = NULL;
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

/* Without the GIL. */
static rcm_status queue_of_process(rcm_queue **ret_queue) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all.lock);
    rcm_status status = all.queue ? RCM_OK : rcm_queue_create(&all.queue);
    *ret_queue = all.queue;
    pthread_mutex_unlock(&all.lock);
    return status;
}

bool core_completion_register(rcm_work *work, PyObject *item) {
    rcm_queue *queue;
    rcm_status status;
    Py_INCREF(item); /* a reference of the queue, until the item is taken */
    Py_BEGIN_ALLOW_THREADS status = queue_of_process(&queue);
    if (status == RCM_OK)
        status = rcm_queue_give(queue, work, item);
    Py_END_ALLOW_THREADS if (status == RCM_OK) return true;
    Py_DECREF(item);
    core_raise(status, NULL);
    return false;
}

PyObject *core_next_completion(CORE_UNUSED PyObject *module, PyObject *argument) {
    struct rcm_completion completion;
    rcm_queue *queue;
    rcm_status status;
    size_t n = 0;
    int64_t timeout_ms;
    if (!core_int64(argument, "timeout_ms", &timeout_ms))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = queue_of_process(&queue);
    if (status == RCM_OK)
        status = rcm_queue_wait(queue, &completion, 1, timeout_ms, &n);
    Py_END_ALLOW_THREADS if (status < 0) return core_raise(status, NULL);
    return n == 1 ? completion.arg : Py_NewRef(Py_None);
}
