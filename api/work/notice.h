/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices: what happens when a work is complete, besides its status. A callback runs, a descriptor
 * becomes readable, or the work enters its communicator's completion queue.
 *
 *      rcm_work_on_complete, rcm_work_fd, ...    rcmi_work_complete (completion.c)
 *              |  requests, any thread                  |  closes, driver
 *              '----------> [ work->notice ] <----------'
 *                                  |  if there are requests
 *                          engine's list of notices  ->  loop thread: calls, writes, queues
 *
 * A driver holds locks that callbacks may need, so it never handles requests itself. If the work is
 * complete at the request, the requesting thread handles it at once.
 *
 * Not here: waiting threads (drive.h, wait_many.c).
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
    _Atomic bool open;             /* works that are returned from now on enter the queue */
    int fd;                        /* eventfd, readable while the queue is not empty; -1 */
    struct rcm_work *first, *last; /* each with a reference */
};

/* State of a work's notices; at first zero, except completions and fd. All but `requested` and
 * due_next under the lock of completions. */
struct rcmi_notice {
    struct rcmi_completions *completions; /* lives as long as the work */
    _Atomic uint32_t requested;           /* bits below */
    int fd;                               /* of rcm_work_fd; -1: none */
    struct rcmi_callback *callbacks;      /* in the order of registration */
    struct rcm_work *due_next;            /* in the engine's list */
    struct rcm_work *queue_next, *queue_prev;
    bool queued;
};

enum {
    RCMI_NOTICE_CALLBACK = 1,
    RCMI_NOTICE_FD = 2,
    RCMI_NOTICE_QUEUE = 4,     /* until it is taken from the queue */
    RCMI_NOTICE_REQUESTED = 7, /* any of these */
    RCMI_NOTICE_CLOSED = 8,    /* the work is complete */
    RCMI_NOTICE_LISTED = 16    /* it is in the engine's list */
};

/* An engine's list of complete works with pending notices, the latest first. */
struct rcmi_notices {
    _Atomic(struct rcm_work *) latest;
};

/* comm's (comm.c); an error as for rcmi_comm_own. */
rcm_status rcmi_comm_completions(rcm_comm *comm, struct rcmi_completions **ret_completions);
/* Releases works that were not taken: the communicator is ending. */
void rcmi_completions_close(struct rcmi_completions *completions);

/* The work is returned to the user: it will enter the completion queue if there is one. */
void rcmi_notice_hand_out(struct rcm_work *work);
/* Driver: the work's status is final. True: it has pending notices and is in the list, with the
 * driver's reference; wake the loop thread. */
bool rcmi_notice_close(struct rcm_work *work, struct rcmi_notices *notices);
/* A persistent work starts again: handles pending notices, then clears them. */
void rcmi_notice_reopen(struct rcm_work *work);
/* The user frees the work: closes its descriptor, and removes it from the queue. */
void rcmi_notice_give_back(struct rcm_work *work);
/* Loop thread, without locks: handles pending notices. True: there were any. */
bool rcmi_notices_run(struct rcmi_notices *notices);

/* make: makes an eventfd in *fd, unless it exists. set: makes it readable, or not; a descriptor
 * that other code has closed is left alone. */
rcm_status rcmi_event_make(const char *what, int *fd);
void rcmi_event_set(int fd, bool readable);

/* The number of completed works in this process; changes after a work's status. */
uint32_t rcmi_notice_completed(void);
/* Sleeps until more works are complete than the count `seen`, or the deadline. */
void rcmi_notice_sleep(uint32_t seen, rcmi_deadline deadline);

#endif
