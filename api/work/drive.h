/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Driving the unfinished works of a communicator, and waiting for them.
 *
 *      public functions (issue.c, collective.c, message.c)     loop thread (engine.c)
 *                    '------------.  .-------------------------'
 *                             [ drive.c ]   one thread at a time: comm->driving
 *              works of collectives |   | sends and receives
 *                   algorithms/exec/exec.h   transfer.h
 *
 * Not here: the lock itself (comm.h), and late works (deadline.h).
 */
#ifndef RCMI_DRIVE_H
#define RCMI_DRIVE_H

#include <stdbool.h>
#include "clock.h"
#include "ringcomm.h"
#include "wait.h"

struct rcmi_bind;
struct rcmi_run;

/* Interval at which a sleeping driver checks deadlines. */
#define RCMI_LOOK_EVERY_NS INT64_C(500000000)
/* The same for a thread that found another one driving. It must look again by itself: a call on its
 * fast path (collective.c, message.c) wakes no thread when it stops driving. */
#define RCMI_LOOK_AGAIN_NS INT64_C(1000000)

/* One pass over all unfinished works. True: there was progress. Driver. */
bool rcmi_comm_drive(struct rcm_comm *comm);
/* Submits a new work to the driver. */
void rcmi_comm_submit(struct rcm_comm *comm, struct rcm_work *work);
/* Issues the work of a call that waits, and drives until it is final, or the deadline. */
void rcmi_comm_run(struct rcm_comm *comm, struct rcm_work *work, rcmi_deadline until);
/* After submitting an asynchronous work: one attempt at once, then the loop thread continues: it
 * drives a communicator as long as works are unfinished and no thread waits on it (engine.c). */
void rcmi_comm_kick(struct rcm_comm *comm);
/* The same for one collective or message of the given size. Up to 64 KiB the caller drives it for
 * some microseconds, as long as there is progress: waking the loop thread takes longer. */
void rcmi_comm_kick_small(struct rcm_comm *comm, size_t bytes);
/* Approximate size of the larger buffer. */
size_t rcmi_bind_bytes(const struct rcmi_bind *bind);
/* rcmi_comm_run for a work whose run the caller has begun. The caller has taken the communicator,
 * and this call gives it back. */
void rcmi_comm_go_on(struct rcm_comm *comm, struct rcm_work *work, struct rcmi_run *run,
                     rcmi_deadline until);
/* Drives until work is final, or the deadline (RCM_PENDING). */
rcm_status rcmi_comm_wait(struct rcm_comm *comm, struct rcm_work *work, rcmi_deadline deadline);
/* The same until check(arg) is no longer RCM_AGAIN. For a check that only reads the status of
 * works: this thread also runs it while another thread drives. */
void rcmi_comm_wait_until(struct rcm_comm *comm, rcm_status (*check)(void *arg), void *arg,
                          rcmi_deadline deadline);
/* The same for a check that uses what belongs to the driver: only the driver runs it. */
rcm_status rcmi_comm_wait_for(struct rcm_comm *comm, rcm_status (*check)(void *arg), void *arg,
                              rcmi_deadline deadline);
/* Yields the CPU once, at the end of a blocking call for which rcmi_run_yields returned true.
 * Driver. */
void rcmi_comm_yield_once(struct rcm_comm *comm);
/* Calls visit on every unfinished work until it returns false. False: another thread drives, and
 * nothing was visited. Any thread. */
bool rcmi_comm_visit(struct rcm_comm *comm, bool (*visit)(void *arg, struct rcm_work *work),
                     void *arg);

/* Pause between two looks of a blocking call on its fast path, which has no work yet. False: create
 * the work and wait for it. With shared cores spinning is useless, but the first yield mostly
 * brings the awaited event. budget: the communicator's. */
enum { RCMI_CALLER_YIELDS = 4 };
static inline bool rcmi_caller_pauses(const struct rcmi_pause *budget, struct rcmi_pause *pause) {
    if (pause->spin_ns > 0)
        return rcmi_pause(pause);
    if (budget->spin_ns > 0)
        return false;
    return budget->yields - pause->yields < RCMI_CALLER_YIELDS && rcmi_pause(pause);
}

#endif
