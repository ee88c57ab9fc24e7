/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Late works. Their waits are shown on the status page and sent to ranks that inquire. After a
 * while there is a warning, and at the deadline the communicator fails. Not here: the inquiry among
 * the ranks (diagnosis/), and their agreement on its result (agreement/).
 */
#ifndef RCMI_DEADLINE_H
#define RCMI_DEADLINE_H

#include <stdbool.h>
#include "clock.h"
#include "diagnosis_wire.h"
#include "ringcomm.h"

/* The rank that an unfinished work waits for; -1: none, unknown, or those of its parts. Driver. */
int rcmi_work_waits_for(const struct rcm_work *work);
/* Starts the clocks of works that were not looked at yet. Driver. */
void rcmi_comm_start_clocks(struct rcm_comm *comm);
/* Shows progress, sends call records and, at a deadline, inquires and fails. Returns the time of
 * the next look. Driver. */
rcmi_deadline rcmi_comm_check_deadlines(struct rcm_comm *comm);
/* Answers another rank's question. Loop thread. */
void rcmi_comm_answer(struct rcm_comm *comm, int peer, const struct rcmi_inquiry *question);
/* Makes the answer without sending it. drove: this thread drove for it, so that another thread may
 * have failed to. False: comm has failed, and the record is the answer. */
struct rcmi_answer {
    struct rcmi_inquiry inquiry;
    bool drove;
};
bool rcmi_comm_make_answer(struct rcm_comm *comm, int peer, const struct rcmi_inquiry *question,
                           struct rcmi_answer *ret_answer);

#endif
