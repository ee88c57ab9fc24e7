/* SPDX-License-Identifier: BSD-3-Clause */
/* The methods of waiting for a work. */
#include "stress.h"
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

enum { SLICE_MAX_MS = 3 };

static void nothing(struct job *job) {
    (void)job;
}

/* ---- Polling -------------------------------------------------------------------------------- */

static rcm_status by_wait(struct job *job) {
    return rcm_work_wait(job->work, -1);
}

static rcm_status by_slices(struct job *job) {
    rcm_status status;
    while ((status = rcm_work_wait(job->work, draw_below(&job->how, SLICE_MAX_MS))) == RCM_PENDING)
        ;
    return status;
}

static rcm_status poll_work(struct job *job, rcm_status (*what)(rcm_work *)) {
    const struct timespec moment = {.tv_nsec = 50000};
    rcm_status status;
    while ((status = what(job->work)) == RCM_PENDING)
        nanosleep(&moment, NULL);
    return status;
}

static rcm_status by_test(struct job *job) {
    return poll_work(job, rcm_work_test);
}

static rcm_status status_of(rcm_work *work) {
    return rcm_work_status(work);
}

static rcm_status by_status(struct job *job) {
    return poll_work(job, status_of);
}

/* ---- Callbacks ------------------------------------------------------------------------------ */

struct waiter {
    sem_t is;
    rcm_status status;
};

static void wake(void *arg, rcm_status status) {
    struct waiter *waiter = arg;
    waiter->status = status;
    sem_post(&waiter->is);
}

static struct waiter *waiter_new(struct job *job) {
    struct waiter *waiter = malloc(sizeof *waiter);
    if (!waiter || sem_init(&waiter->is, 0, 0) != 0)
        abort();
    job->waiter = waiter;
    return waiter;
}

static rcm_status by_callback(struct job *job) {
    struct waiter *waiter = job->waiter;
    while (sem_wait(&waiter->is) != 0 && errno == EINTR)
        ;
    const rcm_status status = waiter->status;
    sem_destroy(&waiter->is);
    free(waiter);
    return status;
}

static void begin_callback(struct job *job) {
    const rcm_status status = rcm_work_on_complete(job->work, wake, waiter_new(job));
    NEED(job->driver, status == RCM_OK, "%s: rcm_work_on_complete: %s", job->name,
         rcm_last_error());
}

static void begin_detach(struct job *job) {
    const rcm_status status = rcm_work_detach(job->work, wake, waiter_new(job));
    NEED(job->driver, status == RCM_OK, "%s: rcm_work_detach: %s", job->name, rcm_last_error());
    job->work = NULL;
}

/* ---- Descriptors ---------------------------------------------------------------------------- */

static void await_readable(struct job *job, int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (poll(&ready, 1, -1) < 0 && errno == EINTR)
        ;
    NEED(job->driver, ready.revents == POLLIN, "%s: poll returned 0x%x for descriptor %d",
         job->name, (unsigned)ready.revents, fd);
}

static rcm_status by_fd(struct job *job) {
    int fd = -1;
    NEED(job->driver, rcm_work_fd(job->work, &fd) == RCM_OK, "%s: rcm_work_fd: %s", job->name,
         rcm_last_error());
    await_readable(job, fd);
    return rcm_work_status(job->work);
}

/* A completion from the queue may belong to another job. */
static void mark_taken(struct job *job, const rcm_work *work) {
    struct driver *driver = job->driver;
    for (int i = 0; i < driver->npending; i++)
        if (driver->pending[i]->work == work) {
            driver->pending[i]->taken = true;
            return;
        }
    stress_fail(driver, "%s: the completion queue has a work that is not pending", job->name);
}

static rcm_status by_queue(struct job *job) {
    while (!job->taken) {
        rcm_work *work = NULL;
        await_readable(job, job->group->queue);
        const rcm_status status = rcm_comm_next_completion(job->group->comm, &work);
        NEED(job->driver, status == RCM_OK || status == RCM_AGAIN, "%s: next_completion: %s",
             job->name, rcm_last_error());
        if (status == RCM_OK)
            mark_taken(job, work);
    }
    return rcm_work_status(job->work);
}

/* ---- The table ------------------------------------------------------------------------------ */

static const struct wait_method wait_methods[] = {
    {"short waits", nothing, by_slices},   {"test", nothing, by_test},
    {"status", nothing, by_status},        {"callback", begin_callback, by_callback},
    {"detach", begin_detach, by_callback}, {"descriptor", nothing, by_fd},
};
const struct wait_method wait_method_wait = {"wait", nothing, by_wait};
const struct wait_method wait_method_queue = {"queue", nothing, by_queue};

enum { NWAYS = sizeof wait_methods / sizeof wait_methods[0] };

const struct wait_method *wait_method_draw(struct job *job) {
    const unsigned i = draw_below(&job->how, NWAYS + 1);
    if (job->group->queue >= 0 && draw_one_in(&job->how, 2))
        return &wait_method_queue;
    return i < NWAYS ? &wait_methods[i] : &wait_method_wait;
}
