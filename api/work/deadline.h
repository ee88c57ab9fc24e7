/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works that are late: what they wait for is shown on the status page and told to ranks that ask
 * for it; after a while there is a warning, at the deadline the communicator fails. Not here: the
 * inquiry among the ranks (diagnosis/), and their agreement on its result (agreement/).
 */
#ifndef RCMI_DEADLINE_H
#define RCMI_DEADLINE_H

#include <stdbool.h>
#include "clock.h"
#include "diagnosis_wire.h"
#include "ringcomm.h"

/* The caller is the driver. The time of works that were not looked at yet begins now. */
void rcmi_comm_start_clocks(struct rcm_comm *comm);
/* Driver: shows, tells and, at a deadline, inquires and fails. Returns when to look again. */
rcmi_deadline rcmi_comm_check_deadlines(struct rcm_comm *comm);
/* Loop thread: answers another rank's question. */
void rcmi_comm_answer(struct rcm_comm *comm, int peer, const struct rcmi_inquiry *question);
/* The answer alone, without sending it. drove: the driver's state was looked at, so that another
 * thread may have found this one driving. False: comm has failed, and the record is the answer. */
struct rcmi_answer {
    struct rcmi_inquiry inquiry;
    bool drove;
};
bool rcmi_comm_make_answer(struct rcm_comm *comm, int peer, const struct rcmi_inquiry *question,
                           struct rcmi_answer *ret_answer);

#endif
