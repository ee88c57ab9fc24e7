/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The failure of a communicator: its error record, which is written once and sent to all linked
 * ranks. Not here: agreement on the cause if ranks find different ones (agreement/).
 */
#ifndef RCMI_FAILURE_H
#define RCMI_FAILURE_H

#include <stdbool.h>
#include "error.h"
#include "rank_set.h"
#include "ringcomm.h"
#include "work.h"

struct rcmi_engine;

/* Result of rcmi_comm_usable for a handle whose rank is no member: its operations do nothing and
 * are complete. */
#define RCMI_ABSENT RCM_AGAIN
/* Ends a call that was not issued, because of the status of rcmi_comm_usable or of a check of its
 * arguments. It returns that status. On a rank that is no member it returns RCM_OK and a complete
 * work. */
rcm_status rcmi_comm_refuse(struct rcm_comm *comm, enum rcmi_work_kind kind, rcm_status status,
                            const struct rcm_call *call, rcm_work **ret_work);

/* The prefix of error and report texts of comm; "" for the world without a name of its own. */
#define RCMI_LABEL_TEXT 96
const char *rcmi_comm_label(const struct rcm_comm *comm, char text[RCMI_LABEL_TEXT]);

/* Makes comm fail with the thread's error (or joins an earlier failure), and notifies all linked
 * ranks. work: the operation, NULL if none. Any thread. */
void rcmi_comm_fail(struct rcm_comm *comm, const struct rcm_work *work);
/* Makes comm fail because its member of that world rank was lost, for the reason of the link. Any
 * thread. */
void rcmi_comm_lose(struct rcm_comm *comm, int world, const struct rcmi_error *why);
/* Proposes that comm fails with the thread's error, a timeout or a mismatch, in this work. missing:
 * from a monitored barrier, else NULL; weight: enum rcmi_proposal_weight. Any thread. */
void rcmi_comm_propose(struct rcm_comm *comm, const struct rcm_work *work,
                       const struct rcmi_rank_set *missing, int weight);
/* Converts a world rank as origin in the thread's error to this communicator's rank. */
void rcmi_comm_own_origin(const struct rcm_comm *comm);
/* Ends a call that could not begin, with the thread's error. A wrong argument concerns the caller
 * only. After any other error this rank is missing from the others' operation, and comm fails. */
rcm_status rcmi_comm_decline(struct rcm_comm *comm, rcm_status status);
/* Stores a record from another rank, or from an agreement. A set of another number of ranks is
 * ignored. */
void rcmi_comm_fail_remote(struct rcm_comm *comm, const struct rcm_error *error,
                           const struct rcmi_rank_set *missing);
/* If comm has failed, sends the record to rank, which may not have it yet; else false. */
bool rcmi_comm_send_failure(const struct rcm_comm *comm, int rank);
/* Sets the thread's error from comm's record and returns its status. */
rcm_status rcmi_comm_failure(const struct rcm_comm *comm);
/* RCM_OK if operations may be issued on comm; else the thread's error is set. */
rcm_status rcmi_comm_why_not(const struct rcm_comm *comm);
/* RCM_ERR_INVALID in an operator's function (entry.h), which must not issue or wait. */
rcm_status rcmi_operator_check(void);
/* Whether rank has left comm, or its process has ended. comm is equipped. */
bool rcmi_comm_rank_left(const struct rcm_comm *comm, int rank);
/* RCM_OK and the engine if comm, failed or not, belongs to this process; else the thread's error is
 * set. */
rcm_status rcmi_comm_own(const struct rcm_comm *comm, struct rcmi_engine **ret_engine);

#endif
