/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues of the process: works are added one by one, each with an argument.
 *
 *      rcm_queue_give --> callback of the work (notice.h) --> [ queue ] --> rcm_queue_wait
 *
 * A callback runs exactly once in every case, so each added work is reported once. Each unreported
 * one holds a reference of the queue.
 *
 * Not here: the queue of a communicator (notice.c), from which freed works are removed.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "entry.h"
#include "error.h"
#include "fd.h"
#include "fork.h"
#include "notice.h"
#include "wait.h"
#include "work.h"

/* One added work. */
struct given {
    struct given *next;
    rcm_queue *queue;
    struct rcm_completion completion;
};

struct rcm_queue {
    struct rcmi_doorbell doorbell; /* of waiting threads */
    uint32_t fork_generation;
    pthread_mutex_t lock; /* guards all below */
    size_t refs;          /* of the program, of each added work, and of each waiting thread */
    bool freed;
    int fd;                     /* eventfd, readable while the queue is not empty; -1 */
    struct given *first, **end; /* complete ones */
};

/* ---- Creation and end ------------------------------------------------------------------------ */

static void queue_ref(rcm_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->refs++;
    pthread_mutex_unlock(&queue->lock);
}

static void queue_unref(rcm_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    const bool last = --queue->refs == 0;
    pthread_mutex_unlock(&queue->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

rcm_status rcm_queue_create(rcm_queue **ret_queue) {
    if (!ret_queue)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_queue is NULL");
    rcm_queue *queue = aligned_alloc(_Alignof(rcm_queue), sizeof(*queue));
    if (!queue)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a completion queue");
    *queue = (rcm_queue){
        .fork_generation = rcmi_fork_watch(), .refs = 1, .fd = -1, .end = &queue->first};
    pthread_mutex_init(&queue->lock, NULL);
    *ret_queue = queue;
    return RCM_OK;
}

static rcm_status queue_own(const rcm_queue *queue) {
    if (!queue)
        return rcmi_fail(RCM_ERR_INVALID, 0, "queue is NULL");
    if (queue->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this queue belongs to the parent process");
    return RCM_OK;
}

/* Takes at most cap complete ones. Under the lock. */
static struct given *queue_cut(rcm_queue *queue, size_t cap) {
    struct given *first = queue->first, **end = &queue->first;
    for (size_t i = 0; i < cap && *end; i++)
        end = &(*end)->next;
    queue->first = *end;
    *end = NULL;
    if (!queue->first)
        queue->end = &queue->first;
    if (first && !queue->first && queue->fd >= 0)
        rcmi_event_set(queue->fd, false);
    return first;
}

/* Frees works that were reported or are dropped; copies them to completions unless NULL. */
static size_t given_free(struct given *given, struct rcm_completion *completions) {
    size_t n = 0;
    for (struct given *next; given; given = next, n++) {
        next = given->next;
        if (completions)
            completions[n] = given->completion;
        queue_unref(given->queue);
        free(given);
    }
    return n;
}

void rcm_queue_free(rcm_queue *queue) {
    if (!queue)
        return;
    if (queue->fork_generation != rcmi_fork_generation()) {
        free(queue); /* a thread of the parent may have held its lock */
        return;
    }
    pthread_mutex_lock(&queue->lock);
    struct given *left = queue_cut(queue, SIZE_MAX);
    queue->freed = true;
    rcmi_fd_close(&queue->fd);
    pthread_mutex_unlock(&queue->lock);
    rcmi_doorbell_ring(&queue->doorbell, -1);
    (void)given_free(left, NULL);
    queue_unref(queue);
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* The callback of a complete work. */
static void given_complete(void *arg, rcm_status status) {
    struct given *given = arg;
    rcm_queue *queue = given->queue;
    queue_ref(queue); /* until the doorbell was rung */
    given->completion.status = status;
    pthread_mutex_lock(&queue->lock);
    const bool freed = queue->freed;
    if (!freed) {
        if (!queue->first && queue->fd >= 0)
            rcmi_event_set(queue->fd, true);
        *queue->end = given;
        queue->end = &given->next;
    }
    pthread_mutex_unlock(&queue->lock);
    if (freed)
        (void)given_free(given, NULL);
    rcmi_doorbell_ring(&queue->doorbell, -1);
    queue_unref(queue);
}

rcm_status rcm_queue_give(rcm_queue *queue, rcm_work *work, void *arg) {
    rcm_status status = queue_own(queue);
    if (status == RCM_OK)
        status = rcmi_work_own(work);
    if (status != RCM_OK)
        return status;
    struct given *given = malloc(sizeof(*given));
    if (!given)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a work in a completion queue");
    *given = (struct given){.queue = queue, .completion = {.arg = arg, .work = work}};
    queue_ref(queue);
    status = rcm_work_on_complete(work, given_complete, given);
    if (status != RCM_OK)
        (void)given_free(given, NULL);
    return status;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static rcm_status wait_check(const rcm_queue *queue, const struct rcm_completion *completions,
                             size_t cap, const size_t *ret_n) {
    const rcm_status status = queue_own(queue);
    if (status != RCM_OK)
        return status;
    if (!completions || !ret_n)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", ret_n ? "completions" : "ret_n");
    return cap > 0 ? RCM_OK : rcmi_fail(RCM_ERR_INVALID, 0, "cap is 0");
}

/* RCM_PENDING: the queue is empty. */
static rcm_status queue_take(rcm_queue *queue, size_t cap, struct given **ret_taken) {
    pthread_mutex_lock(&queue->lock);
    *ret_taken = queue_cut(queue, cap);
    const bool freed = queue->freed;
    pthread_mutex_unlock(&queue->lock);
    if (freed)
        return rcmi_fail(RCM_ERR_CANCELED, 0, "the queue was freed while a thread waited");
    return *ret_taken ? RCM_OK : RCM_PENDING;
}

static rcm_status queue_wait(rcm_queue *queue, size_t cap, rcmi_deadline deadline,
                             struct given **ret_taken) {
    rcm_status status;
    for (;;) {
        const uint32_t seen = rcmi_doorbell_arm(&queue->doorbell, RCMI_DOORBELL_FUTEX_ONE);
        status = queue_take(queue, cap, ret_taken);
        const bool sleeps = status == RCM_PENDING && !rcmi_deadline_passed(deadline);
        if (sleeps)
            rcmi_doorbell_sleep(&queue->doorbell, seen, deadline);
        rcmi_doorbell_disarm(&queue->doorbell, RCMI_DOORBELL_FUTEX_ONE);
        if (!sleeps)
            return status;
    }
}

rcm_status rcm_queue_wait(rcm_queue *queue, struct rcm_completion *completions, size_t cap,
                          int64_t timeout_ms, size_t *ret_n) {
    RCMI_ENTRY;
    struct given *taken = NULL;
    if (ret_n)
        *ret_n = 0;
    rcm_status status = wait_check(queue, completions, cap, ret_n);
    if (status == RCM_OK)
        status = rcmi_work_may_wait(timeout_ms);
    if (status != RCM_OK)
        return status;
    queue_ref(queue);
    status = timeout_ms == 0 ? queue_take(queue, cap, &taken)
                             : queue_wait(queue, cap, rcmi_deadline_in(timeout_ms), &taken);
    *ret_n = given_free(taken, completions);
    queue_unref(queue);
    return status;
}

rcm_status rcm_queue_fd(rcm_queue *queue, int *ret_fd) {
    rcm_status status = queue_own(queue);
    if (status != RCM_OK)
        return status;
    if (!ret_fd)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_fd is NULL");
    pthread_mutex_lock(&queue->lock);
    const bool made = queue->fd < 0;
    status = rcmi_event_make("a completion queue", &queue->fd);
    if (status == RCM_OK && made && queue->first)
        rcmi_event_set(queue->fd, true);
    *ret_fd = queue->fd;
    pthread_mutex_unlock(&queue->lock);
    return status;
}
