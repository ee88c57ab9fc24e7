/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start queue: a communicator's unfinished collectives in issue order. They start in that
 * order, and a bounded number runs at a time:
 *
 *      first ----> ... ----> last that started | waiting ----> ... ----> end
 *
 * Any running one may end first. The first waiting one starts
 *   - when fewer than RCMI_RUNNING_MAX run, and these use less than RCMI_RUNNING_BYTES;
 *   - if it drains, when it is the first of all, so that those issued before it are complete;
 *   - if its predecessor has stages, when that one has started its last stage, because all ranks
 *     take the tickets of channels in the same order.
 * The first of all can always start, and each rank has the same order. So the oldest collective
 * that is unfinished anywhere runs on all ranks that have called it. No rank waits for one that
 * cannot start.
 *
 * All functions: driver. Not here: starting itself (drive.c).
 */
#ifndef RCMI_QUEUE_H
#define RCMI_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct rcm_work;

/* A pass of the driver visits all running ones, so a higher limit makes each slower if many wait. A
 * much lower limit, such as 16, makes ranks without a CPU at all times wait for each other. */
#define RCMI_RUNNING_MAX 64
/* A running one has its steps bound, about 100 bytes for each step of its plan, and scratch: a ring
 * of 1000 ranks has 2000 steps, about 200 KB. */
#define RCMI_RUNNING_BYTES ((size_t)16 << 20)

struct rcmi_queue {
    struct rcm_work *first;
    struct rcm_work **waiting; /* link to the first that has not started */
    struct rcm_work **end;     /* link at the end of the list */
    uint32_t running;
    size_t bytes;                  /* used by the running ones */
    const struct rcm_work *holder; /* has started, with further stages to come; NULL: none */
};

void rcmi_queue_init(struct rcmi_queue *queue);
/* Appends. */
void rcmi_queue_add(struct rcmi_queue *queue, struct rcm_work *work);
/* The one that may start now; NULL: none. */
struct rcm_work *rcmi_queue_next(const struct rcmi_queue *queue);
/* Marks the first waiting one as started. */
void rcmi_queue_start(struct rcmi_queue *queue);
/* Sets the number of bytes that a started work, or its next stage, uses. */
void rcmi_queue_weigh(struct rcmi_queue *queue, struct rcm_work *work, size_t bytes);
/* The holder has started its last stage. */
void rcmi_queue_release(struct rcmi_queue *queue);
/* Removes the work at link `at`, started or not. */
struct rcm_work *rcmi_queue_remove(struct rcmi_queue *queue, struct rcm_work **at);

#endif
