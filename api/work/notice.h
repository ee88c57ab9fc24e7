/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices: what shall happen when a work is complete, beside its status. A callback is called, a
 * descriptor becomes readable, the work goes into its communicator's completion queue.
 *
 *      rcm_work_on_complete, rcm_work_fd, ...    rcmi_work_complete (completion.c)
 *              |  asks, any thread                      |  closes, driver
 *              '----------> [ work->notice ] <----------'
 *                                  |  if any was asked for
 *                          engine's list of notices  ->  loop thread: calls, writes, queues
 *
 * A driver holds locks that callbacks may need, so it never does any of this itself. What is asked
 * for after the completion is done at once by the thread that asks.
 *
 * Not here: threads that wait (drive.h, wait_many.c).
 */
#ifndef RCMI_NOTICE_H
#define RCMI_NOTICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "clock.h"
#include "ringcomm.h"

struct rcm_work;
struct rcmi_callback;

/* A communicator's completion queue, and the lock of its works' notices. */
struct rcmi_completions {
    pthread_mutex_t lock;
    _Atomic bool open;             /* works that are handed out from now on come here */
    int fd;                        /* eventfd, readable while the queue is not empty; -1 */
    struct rcm_work *first, *last; /* each with a reference */
};

/* Of a work; at first zero, but for completions and fd. All but `asked` and told_next under the
 * lock of completions. */
struct rcmi_notice {
    struct rcmi_completions *completions; /* lives as long as the work */
    _Atomic uint32_t asked;               /* bits below */
    int fd;                               /* of rcm_work_fd; -1: none */
    struct rcmi_callback *callbacks;      /* in the order in which they were asked for */
    struct rcm_work *told_next;           /* in the engine's list */
    struct rcm_work *queue_next, *queue_prev;
    bool queued;
};

enum {
    RCMI_NOTICE_CALLBACK = 1,
    RCMI_NOTICE_FD = 2,
    RCMI_NOTICE_QUEUE = 4,  /* until it is taken from there */
    RCMI_NOTICE_ASKED = 7,  /* any of these */
    RCMI_NOTICE_CLOSED = 8, /* the work is complete */
    RCMI_NOTICE_LISTED = 16 /* it is in the engine's list */
};

/* An engine's list of complete works whose notices are due, the latest first. */
struct rcmi_notices {
    _Atomic(struct rcm_work *) latest;
};

/* comm's (comm.c); an error as of rcmi_comm_own. */
rcm_status rcmi_comm_completions(rcm_comm *comm, struct rcmi_completions **ret_completions);
/* Lets the works go that were not taken: the communicator is at its end. */
void rcmi_completions_close(struct rcmi_completions *completions);

/* The work is handed to the user: if there is a completion queue, it will come there. */
void rcmi_notice_hand_out(struct rcm_work *work);
/* Driver: the work's status is final. True: its notices are due; it is in the list, with the
 * driver's reference, and the loop thread is to be woken. */
bool rcmi_notice_close(struct rcm_work *work, struct rcmi_notices *notices);
/* A persistent work starts again: does what is still due, then forgets it. */
void rcmi_notice_reopen(struct rcm_work *work);
/* The user gives the work back: its descriptor is closed, and the queue does not have it. */
void rcmi_notice_give_back(struct rcm_work *work);
/* Loop thread, without locks: does what is due. True if anything was. */
bool rcmi_notices_run(struct rcmi_notices *notices);

/* An eventfd in *fd, unless it is there; it becomes readable, or not: a descriptor that somebody
 * else has closed is left alone. */
rcm_status rcmi_event_make(const char *what, int *fd);
void rcmi_event_set(int fd, bool readable);

/* How often works were completed in this process; changes after a work's status did. */
uint32_t rcmi_notice_completed(void);
/* Sleeps until another work is complete than those at the count `seen`, or the deadline. */
void rcmi_notice_sleep(uint32_t seen, rcmi_deadline deadline);

#endif
