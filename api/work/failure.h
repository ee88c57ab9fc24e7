/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a communicator fails: its error record, which is written once and told to all linked ranks.
 * Not here: agreement on the cause where ranks find different ones (agreement/).
 */
#ifndef RCMI_FAILURE_H
#define RCMI_FAILURE_H

#include <stdbool.h>
#include "error.h"
#include "rank_set.h"
#include "ringcomm.h"
#include "work.h"

struct rcmi_engine;

/* What rcmi_comm_usable says of a handle whose rank is no member: its operations do nothing and are
 * complete. */
#define RCMI_ABSENT RCM_AGAIN
/* How a call ends that was not issued, for the status of rcmi_comm_usable or of a check of its
 * arguments: with that status, but of a rank that is no member with RCM_OK, and a work that is
 * complete. */
rcm_status rcmi_comm_refuse(struct rcm_comm *comm, enum rcmi_work_kind kind, rcm_status status,
                            const struct rcm_call *call, rcm_work **ret_work);

/* What stands before the texts of errors and reports of comm; "" for the world without a name of
 * its own. */
#define RCMI_LABEL_TEXT 96
const char *rcmi_comm_label(const struct rcm_comm *comm, char text[RCMI_LABEL_TEXT]);

/* Makes comm fail with the thread's error (or joins an earlier failure); tells all linked ranks.
 * work: in which operation, NULL if in none. Any thread. */
void rcmi_comm_fail(struct rcm_comm *comm, const struct rcm_work *work);
/* Makes comm fail because its member of that world rank was lost, for the reason that its link has.
 * Any thread. */
void rcmi_comm_lose(struct rcm_comm *comm, int world, const struct rcmi_error *why);
/* Proposes that comm fails with the thread's error, a timeout or a mismatch, in this work; missing:
 * from a monitored barrier, NULL if it is none; weight: enum rcmi_proposal_weight. Any thread. */
void rcmi_comm_propose(struct rcm_comm *comm, const struct rcm_work *work,
                       const struct rcmi_rank_set *missing, int weight);
/* Makes the origin in the thread's error, if it is a rank of the world, one of this
 * communicator. */
void rcmi_comm_own_origin(const struct rcm_comm *comm);
/* How a call ends that could not begin, with the thread's error. A wrong argument is the caller's
 * matter; after anything else this rank is missing from what the others do, and comm fails. */
rcm_status rcmi_comm_decline(struct rcm_comm *comm, rcm_status status);
/* A record that came from another rank, or was agreed on. A set that is not of comm's ranks is
 * left out. */
void rcmi_comm_fail_remote(struct rcm_comm *comm, const struct rcm_error *error,
                           const struct rcmi_rank_set *missing);
/* If comm has failed, sends the record to rank, which may not have it yet; else false. */
bool rcmi_comm_tell_failure(const struct rcm_comm *comm, int rank);
/* Sets the thread's error from comm's record and returns its status. */
rcm_status rcmi_comm_failure(const struct rcm_comm *comm);
/* RCM_OK if operations may be issued on comm; else the thread's error is set. */
rcm_status rcmi_comm_why_not(const struct rcm_comm *comm);
/* RCM_ERR_INVALID in an operator's function (entry.h), which is to issue nothing and not to
 * wait. */
rcm_status rcmi_operator_check(void);
/* Has rank left comm, or its process ended? comm is equipped. */
bool rcmi_comm_rank_left(const struct rcm_comm *comm, int rank);
/* RCM_OK if comm, failed or not, is one of this process, with its engine; else the thread's error
 * is set. */
rcm_status rcmi_comm_own(const struct rcm_comm *comm, struct rcmi_engine **ret_engine);

#endif
