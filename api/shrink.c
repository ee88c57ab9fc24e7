/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_comm_shrink: a communicator of those that are left. The old one is ended, the survivors agree
 * who they are (agreement/), and each makes the new one by itself (group.c).
 */
#include "comm.h"
#include <stdio.h>
#include <stdlib.h>

#define SETTLE_MS 5000 /* until works of a failed communicator are complete */

static rcm_status shrink_check(const rcm_comm *comm, rcm_comm **ret_comm) {
    if (!comm || !ret_comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", comm ? "ret_comm" : "comm");
    if (comm->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this communicator belongs to the parent process");
    return RCM_OK;
}

/* The ranks that do not know of a failure yet would not come. */
static void shrink_end_parent(rcm_comm *comm) {
    rcmi_fail_origin(RCM_ERR_ABORTED, comm->rank, "rank %d shrinks the communicator", comm->rank);
    rcmi_comm_fail(comm, NULL);
}

/* All members have agreed, so who cannot come along must say so. */
static rcm_status shrink_derive(rcm_comm *parent, uint32_t epoch, const int *members, int nmembers,
                                rcm_comm **ret_comm) {
    rcm_status status = rcmi_comm_derive(parent, epoch, members, nmembers, ret_comm);
    if (status == RCM_OK)
        return RCM_OK;
    int rank = 0;
    while (rank < nmembers && members[rank] != parent->rank)
        rank++;
    rcmi_fail_context("rank %d cannot make the communicator of the survivors", rank);
    rcmi_engine_revoke(parent->engine, epoch, rank);
    return status;
}

rcm_status rcm_comm_shrink(rcm_comm *comm, const struct rcm_call *call, rcm_comm **ret_comm) {
    uint32_t epoch;
    int nmembers;
    struct rcm_call room;
    rcm_status status = shrink_check(comm, ret_comm);
    if (status == RCM_OK)
        status = rcmi_call_in(&call, &room);
    if (status != RCM_OK)
        return status;
    const rcmi_deadline deadline =
        rcmi_deadline_in(call && call->timeout_ms ? call->timeout_ms : comm->timeout_ms);
    int *members = calloc((size_t)comm->size, sizeof(*members));
    if (!members)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", comm->size);
    shrink_end_parent(comm);
    status = rcmi_comm_settle(comm, rcmi_deadline_in(SETTLE_MS));
    if (status == RCM_OK)
        status = rcmi_agree(comm->engine->agreements, &comm->members, &comm->agreements, deadline,
                            members, &nmembers, &epoch);
    if (status == RCM_OK)
        status = shrink_derive(comm, epoch, members, nmembers, ret_comm);
    free(members);
    return status;
}
