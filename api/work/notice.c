/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices of completion: see notice.h. */
#include "notice.h"
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "entry.h"
#include "error.h"
#include "failure.h"
#include "fd.h"
#include "wait.h"
#include "work.h"

struct rcmi_callback {
    struct rcmi_callback *next;
    void (*fn)(void *arg, rcm_status status);
    void *arg;
};

/* ---- Completions of the process -------------------------------------------------------------- */

/* Threads that wait for works of several engines sleep here. */
static struct rcmi_doorbell completed_doorbell;
/* Incremented after a work's status was stored. Sequentially consistent, like the doorbell's bits:
 * if a thread arms and then reads the old count, the incrementing thread sees it armed. */
static _Atomic uint32_t completed;

uint32_t rcmi_notice_completed(void) {
    return atomic_load(&completed);
}

void rcmi_notice_sleep(uint32_t seen, rcmi_deadline deadline) {
    const uint32_t word = rcmi_doorbell_arm(&completed_doorbell, RCMI_DOORBELL_FUTEX_ONE);
    if (rcmi_notice_completed() == seen)
        rcmi_doorbell_sleep(&completed_doorbell, word, deadline);
    rcmi_doorbell_disarm(&completed_doorbell, RCMI_DOORBELL_FUTEX_ONE);
}

static void completed_count(void) {
    atomic_fetch_add(&completed, 1);
    if (atomic_load(&completed_doorbell.armed) != 0)
        rcmi_doorbell_ring_all(&completed_doorbell, -1, -1);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

rcm_status rcmi_event_make(const char *what, int *fd) {
    if (*fd >= 0)
        return RCM_OK;
    *fd = rcmi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return *fd >= 0 ? RCM_OK
                    : rcmi_fail(rcmi_status_of_errno(errno), errno, "no descriptor for %s", what);
}

void rcmi_event_set(int fd, bool readable) {
    RCMI_ENTRY;
    const int saved_errno = errno;
    uint64_t count = 1;
    ssize_t done;
    do
        done = readable ? write(fd, &count, sizeof count) : read(fd, &count, sizeof count);
    while (done < 0 && errno == EINTR);
    errno = saved_errno;
}

/* ---- The completion queue -------------------------------------------------------------------- */

static void queue_append(struct rcmi_completions *queue, struct rcm_work *work) {
    struct rcmi_notice *notice = &work->notice;
    notice->queued = true;
    notice->queue_next = NULL;
    notice->queue_prev = queue->last;
    if (queue->last)
        queue->last->notice.queue_next = work;
    else
        queue->first = work;
    queue->last = work;
    if (queue->first == work && queue->fd >= 0)
        rcmi_event_set(queue->fd, true);
}

static void queue_remove(struct rcmi_completions *queue, struct rcm_work *work) {
    struct rcmi_notice *notice = &work->notice;
    struct rcm_work *prev = notice->queue_prev, *next = notice->queue_next;
    *(prev ? &prev->notice.queue_next : &queue->first) = next;
    *(next ? &next->notice.queue_prev : &queue->last) = prev;
    notice->queued = false;
    atomic_fetch_and_explicit(&notice->requested, ~(uint32_t)RCMI_NOTICE_QUEUE,
                              memory_order_relaxed);
    if (!queue->first && queue->fd >= 0)
        rcmi_event_set(queue->fd, false);
}

static struct rcm_work *queue_take(struct rcmi_completions *queue) {
    pthread_mutex_lock(&queue->lock);
    struct rcm_work *work = queue->first;
    if (work)
        queue_remove(queue, work);
    pthread_mutex_unlock(&queue->lock);
    return work;
}

void rcmi_completions_close(struct rcmi_completions *queue) {
    struct rcm_work *work;
    atomic_store_explicit(&queue->open, false, memory_order_relaxed);
    while ((work = queue_take(queue)) != NULL)
        rcmi_work_unref(work);
    rcmi_fd_close(&queue->fd);
}

rcm_status rcm_comm_completions(rcm_comm *comm, int *ret_fd) {
    struct rcmi_completions *queue;
    rcm_status status = rcmi_comm_completions(comm, &queue);
    if (status != RCM_OK)
        return status;
    if (!ret_fd)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_fd is NULL");
    pthread_mutex_lock(&queue->lock);
    status = rcmi_event_make("a completion queue", &queue->fd);
    if (status == RCM_OK) {
        atomic_store_explicit(&queue->open, true, memory_order_relaxed);
        *ret_fd = queue->fd;
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

rcm_status rcm_comm_next_completion(rcm_comm *comm, rcm_work **ret_work) {
    struct rcmi_completions *queue;
    const rcm_status status = rcmi_comm_completions(comm, &queue);
    if (status != RCM_OK)
        return status;
    if (!ret_work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_work is NULL");
    if (!atomic_load_explicit(&queue->open, memory_order_relaxed))
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "comm has no completion queue: rcm_comm_completions makes one");
    struct rcm_work *work = queue_take(queue);
    if (!work)
        return RCM_AGAIN;
    rcmi_work_unref(work); /* the user has its own reference */
    *ret_work = work;
    return RCM_OK;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void callbacks_run(struct rcmi_callback *callback, rcm_status status) {
    while (callback) {
        struct rcmi_callback *next = callback->next;
        callback->fn(callback->arg, status);
        free(callback);
        callback = next;
    }
}

/* Under the lock, for a complete work: a persistent one cannot start again meanwhile. */
static rcm_status notice_status(const struct rcm_work *work) {
    return (rcm_status)atomic_load_explicit(&work->status, memory_order_acquire);
}

static struct rcmi_callback *callbacks_take(struct rcmi_notice *notice) {
    struct rcmi_callback *callbacks = notice->callbacks;
    notice->callbacks = NULL;
    return callbacks;
}

/* Under the lock. True: the loop thread will handle the request. False: the work was complete
 * before, so the caller must. Acquire-release pairs with rcmi_notice_close. */
static bool notice_request(struct rcmi_notice *notice, uint32_t what) {
    const uint32_t before =
        atomic_fetch_or_explicit(&notice->requested, what, memory_order_acq_rel);
    return !(before & RCMI_NOTICE_CLOSED) || before & RCMI_NOTICE_LISTED;
}

/* Appends the callback, unless it must run at once. */
static bool callback_request(struct rcmi_notice *notice, struct rcmi_callback *callback) {
    struct rcmi_callback **end = &notice->callbacks;
    while (*end)
        end = &(*end)->next;
    *end = callback;
    if (notice_request(notice, RCMI_NOTICE_CALLBACK))
        return true;
    *end = NULL;
    return false;
}

rcm_status rcm_work_on_complete(rcm_work *work, void (*fn)(void *arg, rcm_status status),
                                void *arg) {
    const rcm_status status = rcmi_work_own(work);
    if (status != RCM_OK)
        return status;
    if (!fn)
        return rcmi_fail(RCM_ERR_INVALID, 0, "fn is NULL");
    struct rcmi_callback *callback = malloc(sizeof(*callback));
    if (!callback)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a callback");
    *callback = (struct rcmi_callback){.fn = fn, .arg = arg};
    pthread_mutex_lock(&work->notice.completions->lock);
    const bool later = callback_request(&work->notice, callback);
    const rcm_status final = notice_status(work);
    pthread_mutex_unlock(&work->notice.completions->lock);
    if (!later)
        callbacks_run(callback, final);
    return RCM_OK;
}

rcm_status rcm_work_fd(rcm_work *work, int *ret_fd) {
    rcm_status status = rcmi_work_own(work);
    if (status != RCM_OK)
        return status;
    if (!ret_fd)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_fd is NULL");
    struct rcmi_notice *notice = &work->notice;
    pthread_mutex_lock(&notice->completions->lock);
    const bool made = notice->fd < 0;
    status = rcmi_event_make("a work", &notice->fd);
    if (status == RCM_OK && made && !notice_request(notice, RCMI_NOTICE_FD))
        rcmi_event_set(notice->fd, true);
    *ret_fd = notice->fd;
    pthread_mutex_unlock(&notice->completions->lock);
    return status;
}

void rcmi_notice_hand_out(struct rcm_work *work) {
    struct rcmi_completions *queue = work->notice.completions;
    if (!atomic_load_explicit(&queue->open, memory_order_relaxed))
        return;
    pthread_mutex_lock(&queue->lock);
    if (!notice_request(&work->notice, RCMI_NOTICE_QUEUE)) {
        rcmi_work_ref(work);
        queue_append(queue, work);
    }
    pthread_mutex_unlock(&queue->lock);
}

/* ---- Completion ------------------------------------------------------------------------------ */

static void notices_push(struct rcmi_notices *notices, struct rcm_work *work) {
    work->notice.due_next = atomic_load_explicit(&notices->latest, memory_order_relaxed);
    /* Release pairs with the exchange in rcmi_notices_run. */
    while (!atomic_compare_exchange_weak_explicit(&notices->latest, &work->notice.due_next, work,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

bool rcmi_notice_close(struct rcm_work *work, struct rcmi_notices *notices) {
    _Atomic uint32_t *requested = &work->notice.requested;
    uint32_t before = atomic_load_explicit(requested, memory_order_relaxed), after;
    completed_count();
    do {
        after = before | RCMI_NOTICE_CLOSED;
        after |= before & RCMI_NOTICE_REQUESTED ? RCMI_NOTICE_LISTED : 0;
    } while (!atomic_compare_exchange_weak_explicit(requested, &before, after, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (!(after & RCMI_NOTICE_LISTED) || before & RCMI_NOTICE_LISTED)
        return false;
    notices_push(notices, work);
    return true;
}

/* Handles the requests, except callbacks, which it returns. Under the lock. */
static struct rcmi_callback *notice_do(struct rcm_work *work, uint32_t requested) {
    struct rcmi_notice *notice = &work->notice;
    if (!(requested & RCMI_NOTICE_CLOSED))
        return NULL;
    if (notice->fd >= 0)
        rcmi_event_set(notice->fd, true);
    if (requested & RCMI_NOTICE_QUEUE && !notice->queued) {
        rcmi_work_ref(work);
        queue_append(notice->completions, work);
    }
    return callbacks_take(notice);
}

static void notice_run(struct rcm_work *work) {
    pthread_mutex_t *lock = &work->notice.completions->lock;
    pthread_mutex_lock(lock);
    /* The requests stay: they may belong to the next run, which is not complete. */
    const uint32_t requested = atomic_fetch_and_explicit(
        &work->notice.requested, ~(uint32_t)RCMI_NOTICE_LISTED, memory_order_acq_rel);
    struct rcmi_callback *callbacks = notice_do(work, requested);
    const rcm_status status = notice_status(work);
    pthread_mutex_unlock(lock);
    struct rcmi_foreign foreign;
    rcmi_foreign_begin(&foreign);
    callbacks_run(callbacks, status);
    rcmi_foreign_end(&foreign);
    rcmi_work_unref(work);
}

/* In completion order. */
bool rcmi_notices_run(struct rcmi_notices *notices) {
    struct rcm_work *work = NULL, *latest;
    /* A plain look first; the acquire pairs with the release in notices_push. */
    if (!atomic_load_explicit(&notices->latest, memory_order_relaxed))
        return false;
    latest = atomic_exchange_explicit(&notices->latest, NULL, memory_order_acquire);
    while (latest) {
        struct rcm_work *before = latest->notice.due_next;
        latest->notice.due_next = work;
        work = latest;
        latest = before;
    }
    while (work) {
        struct rcm_work *next = work->notice.due_next;
        notice_run(work);
        work = next;
    }
    return true;
}

/* ---- Restart and end ------------------------------------------------------------------------- */

static bool notice_leave_queue(struct rcm_work *work) {
    const bool queued = work->notice.queued;
    if (queued)
        queue_remove(work->notice.completions, work);
    return queued;
}

/* The status of the last run is final a moment before the driver closes its notices. Those must not
 * be applied to the next run. */
static void await_closed(const struct rcmi_notice *notice) {
    while (!(atomic_load_explicit(&notice->requested, memory_order_acquire) & RCMI_NOTICE_CLOSED))
        sched_yield();
}

void rcmi_notice_reopen(struct rcm_work *work) {
    struct rcmi_notice *notice = &work->notice;
    await_closed(notice);
    pthread_mutex_lock(&notice->completions->lock);
    struct rcmi_callback *callbacks = callbacks_take(notice);
    const bool queued = notice_leave_queue(work);
    if (notice->fd >= 0)
        rcmi_event_set(notice->fd, false);
    atomic_fetch_and_explicit(&notice->requested, RCMI_NOTICE_LISTED | RCMI_NOTICE_FD,
                              memory_order_acq_rel);
    const rcm_status status = notice_status(work);
    pthread_mutex_unlock(&notice->completions->lock);
    callbacks_run(callbacks, status);
    if (queued)
        rcmi_work_unref(work);
}

void rcmi_notice_give_back(struct rcm_work *work) {
    struct rcmi_notice *notice = &work->notice;
    if (!(atomic_load_explicit(&notice->requested, memory_order_relaxed) &
          (RCMI_NOTICE_FD | RCMI_NOTICE_QUEUE)))
        return;
    pthread_mutex_lock(&notice->completions->lock);
    const bool queued = notice_leave_queue(work);
    rcmi_fd_close(&notice->fd);
    atomic_fetch_and_explicit(&notice->requested, ~(uint32_t)(RCMI_NOTICE_FD | RCMI_NOTICE_QUEUE),
                              memory_order_acq_rel);
    pthread_mutex_unlock(&notice->completions->lock);
    if (queued)
        rcmi_work_unref(work);
}
