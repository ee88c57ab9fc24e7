/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Driving what is unfinished on a communicator, and waiting for it.
 *
 *      front doors (issue.c, collective.c, message.c)     loop thread (engine.c)
 *                    '------------.  .-------------------------'
 *                             [ drive.c ]   one thread at a time: comm->driving
 *              works of collectives |   | sends and receives
 *                   algorithms/exec/exec.h   transfer.h
 *
 * Not here: the lock itself (comm.h), and works that are late (deadline.h).
 */
#ifndef RCMI_DRIVE_H
#define RCMI_DRIVE_H

#include <stdbool.h>
#include "clock.h"
#include "ringcomm.h"
#include "wait.h"

struct rcmi_bind;
struct rcmi_run;

/* A sleeping driver looks at deadlines that often. */
#define RCMI_LOOK_EVERY_NS INT64_C(500000000)
/* One that could not drive, since another thread did, looks again so soon: a call on its short way
 * (collective.c, message.c) wakes nobody when it is through. */
#define RCMI_LOOK_AGAIN_NS INT64_C(1000000)

/* One pass over everything unfinished. The caller is the driver. True if anything moved. */
bool rcmi_comm_drive(struct rcm_comm *comm);
/* Hands a new work to the driver. */
void rcmi_comm_submit(struct rcm_comm *comm, struct rcm_work *work);
/* Issues the work of a call that waits, and drives until it is final, or the deadline. */
void rcmi_comm_run(struct rcm_comm *comm, struct rcm_work *work, rcmi_deadline until);
/* After submitting an asynchronous work: one try at once, then the loop thread goes on. */
void rcmi_comm_kick(struct rcm_comm *comm);
/* The same for a collective or message of so many bytes. Up to 64 KiB it is driven on as long as it
 * moves, for some microseconds: waking the loop thread takes longer. */
void rcmi_comm_kick_small(struct rcm_comm *comm, size_t bytes);
/* Of the larger buffer, about. */
size_t rcmi_bind_bytes(const struct rcmi_bind *bind);
/* The same with a work whose run the caller has begun. The caller took the communicator, and gives
 * it up by this. */
void rcmi_comm_go_on(struct rcm_comm *comm, struct rcm_work *work, struct rcmi_run *run,
                     rcmi_deadline until);
/* Drives until work is final, or the deadline (RCM_PENDING). */
rcm_status rcmi_comm_wait(struct rcm_comm *comm, struct rcm_work *work, rcmi_deadline deadline);
/* The same until check(arg) is no longer RCM_AGAIN; any thread may run check, which is of works, of
 * any communicators of comm's engine. */
void rcmi_comm_wait_until(struct rcm_comm *comm, rcm_status (*check)(void *arg), void *arg,
                          rcmi_deadline deadline);
/* Drives until check(arg) is no longer RCM_AGAIN. check runs as the driver. */
rcm_status rcmi_comm_wait_for(struct rcm_comm *comm, rcm_status (*check)(void *arg), void *arg,
                              rcmi_deadline deadline);
/* The driver's, at the end of a blocking call, where rcmi_run_yields said so: leaves the CPU
 * once. */
void rcmi_comm_yield_once(struct rcm_comm *comm);
/* Calls visit on every unfinished work until it returns false. False: another thread drives, and
 * nothing was visited. Any thread. */
bool rcmi_comm_visit(struct rcm_comm *comm, bool (*visit)(void *arg, struct rcm_work *work),
                     void *arg);

/* Between two looks of a blocking call that has no work yet. False: it is time for one. Where ranks
 * share cores there is nothing to spin for, but most often the first yield brings what is waited
 * for. budget: the communicator's. */
enum { RCMI_CALLER_YIELDS = 4 };
static inline bool rcmi_caller_pauses(const struct rcmi_pause *budget, struct rcmi_pause *pause) {
    if (pause->spin_ns > 0)
        return rcmi_pause(pause);
    if (budget->spin_ns > 0)
        return false;
    return budget->yields - pause->yields < RCMI_CALLER_YIELDS && rcmi_pause(pause);
}

#endif
