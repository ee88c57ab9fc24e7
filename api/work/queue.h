/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start queue: a communicator's unfinished collectives in issue order. They start in that
 * order, and boundedly many run at a time:
 *
 *      first ----> ... ----> last that started | waiting ----> ... ----> end
 *
 * Any of those that run may end first. The first of those that wait starts
 *   - when fewer than RCMI_RUNNING_MAX run, and these keep less than RCMI_RUNNING_BYTES;
 *   - if it drains, when it is the first of all: those issued before it are complete;
 *   - when the one before it, if that has stages, has started its last one: all ranks take the
 *     tickets of channels in the same order.
 * The first of all can always start, and each rank has the same order, so the oldest collective
 * that is unfinished anywhere runs on all ranks that have called it: none waits for one that
 * cannot start.
 *
 * Everything here is the driver's. Not here: what starting is (drive.c).
 */
#ifndef RCMI_QUEUE_H
#define RCMI_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct rcm_work;

/* A pass of the driver looks at all that run, so more of them make each slower where many wait; far
 * fewer, 16, make ranks that do not always have a processor wait for each other. */
#define RCMI_RUNNING_MAX 64
/* One that runs has its steps bound, about 100 bytes for each step of its plan, and scratch: a ring
 * of 1000 ranks, 2000 steps, some 200 KB. */
#define RCMI_RUNNING_BYTES ((size_t)16 << 20)

struct rcmi_queue {
    struct rcm_work *first;
    struct rcm_work **waiting; /* where the list has the first that has not started */
    struct rcm_work **end;     /* where it ends */
    uint32_t running;
    size_t bytes;                  /* that these keep */
    const struct rcm_work *holder; /* has started, and will have further stages; NULL: none */
};

void rcmi_queue_init(struct rcmi_queue *queue);
/* Behind all others. */
void rcmi_queue_add(struct rcmi_queue *queue, struct rcm_work *work);
/* The one that may start now; NULL: none. */
struct rcm_work *rcmi_queue_next(const struct rcmi_queue *queue);
/* The first of those that wait starts. */
void rcmi_queue_start(struct rcmi_queue *queue);
/* A work that has started, or its next stage, keeps so many bytes. */
void rcmi_queue_weigh(struct rcmi_queue *queue, struct rcm_work *work, size_t bytes);
/* The holder has started its last stage. */
void rcmi_queue_release(struct rcmi_queue *queue);
/* Takes out the work that the list has at `at`, started or not. */
struct rcm_work *rcmi_queue_remove(struct rcmi_queue *queue, struct rcm_work **at);

#endif
