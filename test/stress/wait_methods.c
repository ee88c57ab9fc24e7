/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways in which a work is waited for, a row each. */
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

/* ---- Asking --------------------------------------------------------------------------------- */

static rcm_status by_wait(struct job *job) {
    return rcm_work_wait(job->work, -1);
}

static rcm_status by_slices(struct job *job) {
    rcm_status status;
    while ((status = rcm_work_wait(job->work, draw_below(&job->how, SLICE_MAX_MS))) == RCM_PENDING)
        ;
    return status;
}

static rcm_status ask(struct job *job, rcm_status (*what)(rcm_work *)) {
    const struct timespec moment = {.tv_nsec = 50000};
    rcm_status status;
    while ((status = what(job->work)) == RCM_PENDING)
        nanosleep(&moment, NULL);
    return status;
}

static rcm_status by_test(struct job *job) {
    return ask(job, rcm_work_test);
}

static rcm_status status_of(rcm_work *work) {
    return rcm_work_status(work);
}

static rcm_status by_status(struct job *job) {
    return ask(job, status_of);
}

/* ---- Being told ----------------------------------------------------------------------------- */

struct told {
    sem_t is;
    rcm_status status;
};

static void tell(void *arg, rcm_status status) {
    struct told *told = arg;
    told->status = status;
    sem_post(&told->is);
}

static struct told *told_new(struct job *job) {
    struct told *told = malloc(sizeof *told);
    if (!told || sem_init(&told->is, 0, 0) != 0)
        abort();
    job->told = told;
    return told;
}

static rcm_status by_being_told(struct job *job) {
    struct told *told = job->told;
    while (sem_wait(&told->is) != 0 && errno == EINTR)
        ;
    const rcm_status status = told->status;
    sem_destroy(&told->is);
    free(told);
    return status;
}

static void begin_callback(struct job *job) {
    const rcm_status status = rcm_work_on_complete(job->work, tell, told_new(job));
    NEED(job->driver, status == RCM_OK, "%s: rcm_work_on_complete: %s", job->name,
         rcm_last_error());
}

static void begin_detach(struct job *job) {
    const rcm_status status = rcm_work_detach(job->work, tell, told_new(job));
    NEED(job->driver, status == RCM_OK, "%s: rcm_work_detach: %s", job->name, rcm_last_error());
    job->work = NULL;
}

/* ---- Descriptors ---------------------------------------------------------------------------- */

static void await_readable(struct job *job, int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (poll(&ready, 1, -1) < 0 && errno == EINTR)
        ;
    NEED(job->driver, ready.revents == POLLIN, "%s: poll says 0x%x of descriptor %d", job->name,
         (unsigned)ready.revents, fd);
}

static rcm_status by_fd(struct job *job) {
    int fd = -1;
    NEED(job->driver, rcm_work_fd(job->work, &fd) == RCM_OK, "%s: rcm_work_fd: %s", job->name,
         rcm_last_error());
    await_readable(job, fd);
    return rcm_work_status(job->work);
}

/* What came out of the queue may be another job's. */
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

static const struct way ways[] = {
    {"short waits", nothing, by_slices},     {"test", nothing, by_test},
    {"status", nothing, by_status},          {"callback", begin_callback, by_being_told},
    {"detach", begin_detach, by_being_told}, {"descriptor", nothing, by_fd},
};
const struct way way_wait = {"wait", nothing, by_wait};
const struct way way_queue = {"queue", nothing, by_queue};

enum { NWAYS = sizeof ways / sizeof ways[0] };

const struct way *way_draw(struct job *job) {
    const unsigned i = draw_below(&job->how, NWAYS + 1);
    if (job->group->queue >= 0 && draw_one_in(&job->how, 2))
        return &way_queue;
    return i < NWAYS ? &ways[i] : &way_wait;
}
