/* SPDX-License-Identifier: BSD-3-Clause */
/* The start queue: see queue.h. */
#include "queue.h"
#include "work.h"

void rcmi_queue_init(struct rcmi_queue *queue) {
    *queue = (struct rcmi_queue){.waiting = &queue->first, .end = &queue->first};
}

void rcmi_queue_add(struct rcmi_queue *queue, struct rcm_work *work) {
    work->next = NULL;
    *queue->end = work;
    queue->end = &work->next;
}

static bool queue_is_full(const struct rcmi_queue *queue) {
    return queue->running == RCMI_RUNNING_MAX ||
           (queue->running > 0 && queue->bytes >= RCMI_RUNNING_BYTES);
}

struct rcm_work *rcmi_queue_next(const struct rcmi_queue *queue) {
    struct rcm_work *work = *queue->waiting;
    if (!work || queue->holder || queue_is_full(queue) || (work->drains && work != queue->first))
        return NULL;
    return work;
}

void rcmi_queue_start(struct rcmi_queue *queue) {
    struct rcm_work *work = *queue->waiting;
    work->started = true;
    queue->waiting = &work->next;
    queue->running++;
    if (work->stages)
        queue->holder = work;
}

void rcmi_queue_weigh(struct rcmi_queue *queue, struct rcm_work *work, size_t bytes) {
    queue->bytes += bytes - work->run_bytes;
    work->run_bytes = bytes;
}

void rcmi_queue_release(struct rcmi_queue *queue) {
    queue->holder = NULL;
}

struct rcm_work *rcmi_queue_remove(struct rcmi_queue *queue, struct rcm_work **at) {
    struct rcm_work *work = *at;
    *at = work->next;
    if (queue->waiting == &work->next)
        queue->waiting = at;
    if (queue->end == &work->next)
        queue->end = at;
    if (work->started)
        queue->running--;
    queue->bytes -= work->run_bytes;
    if (queue->holder == work)
        queue->holder = NULL;
    return work;
}
