/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_comm_shrink, a communicator of the ranks that are left: the old one is ended, the survivors
 * agree on the members (agreement/survivors.h), and each makes the new one by itself.
 */
#include "agreement.h"
#include "engine.h"
#include "entry.h"
#include "failure.h"
#include "group.h"
#include "work.h"
#include <stdlib.h>

#define SETTLE_MS 5000 /* until works of a failed communicator are complete */

static rcm_status shrink_check(const rcm_comm *comm, rcm_comm **ret_comm,
                               struct rcmi_engine **ret_engine) {
    if (comm && !ret_comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_comm is NULL");
    const rcm_status status = rcmi_comm_own(comm, ret_engine);
    return status == RCM_OK ? rcmi_work_may_wait(-1) : status;
}

/* The ranks that do not know of a failure yet would not come. */
static void shrink_end_parent(rcm_comm *comm) {
    rcmi_fail_origin(RCM_ERR_ABORTED, rcm_rank(comm), "rank %d shrinks the communicator",
                     rcm_rank(comm));
    rcmi_comm_fail(comm, NULL);
}

/* All members have agreed, so a rank that cannot come along must tell the others. */
static rcm_status shrink_derive(struct rcmi_engine *engine, const rcm_comm *parent, uint64_t epoch,
                                const int *members, int nmembers, rcm_comm **ret_comm) {
    const struct rcmi_derivation derivation = {
        .epoch = epoch, .members = members, .size = nmembers};
    rcm_status status = rcmi_comm_derive(parent, &derivation, ret_comm);
    if (status == RCM_OK)
        return RCM_OK;
    int rank = 0;
    while (rank < nmembers && members[rank] != rcm_rank(parent))
        rank++;
    rcmi_fail_context("rank %d cannot make the communicator of the survivors", rank);
    rcmi_engine_revoke(engine, epoch, rank);
    return status;
}

static bool member_left(void *arg, int rank) {
    return rcmi_comm_rank_left(arg, rank);
}

static rcm_status comm_shrink(struct rcmi_engine *engine, rcm_comm *comm, rcmi_deadline deadline,
                              int *members, rcm_comm **ret_comm) {
    uint64_t epoch;
    int nmembers;
    shrink_end_parent(comm);
    rcm_status status = rcmi_comm_settle(comm, rcmi_deadline_in(SETTLE_MS));
    const struct rcmi_agree_call call = {.members = rcmi_comm_members(comm),
                                         .number = rcmi_comm_agreements(comm),
                                         .deadline = deadline,
                                         .arg = comm,
                                         .left = member_left};
    if (status == RCM_OK)
        status = rcmi_agree(engine->agreements, &call, members, &nmembers, &epoch);
    return status == RCM_OK ? shrink_derive(engine, comm, epoch, members, nmembers, ret_comm)
                            : status;
}

static rcm_status shrink_call(rcm_comm *comm, const struct rcm_call *call, rcm_comm **ret_comm) {
    RCMI_ENTRY;
    struct rcmi_engine *engine = NULL;
    struct rcm_call room;
    rcm_status status = shrink_check(comm, ret_comm, &engine);
    if (status == RCM_OK)
        status = rcmi_call_in_alone(&call, &room);
    if (status != RCM_OK)
        return status;
    if (rcm_rank(comm) < 0)
        return rcmi_comm_absent(comm, NULL, rcm_size(comm), ret_comm);
    int *members = calloc((size_t)rcm_size(comm), sizeof(*members));
    if (!members)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", rcm_size(comm));
    status = comm_shrink(engine, comm, rcmi_comm_deadline(comm, call), members, ret_comm);
    free(members);
    return status;
}

rcm_status rcm_comm_shrink(rcm_comm *comm, const struct rcm_call *call, rcm_comm **ret_comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, rcmi_call_out(comm, call, shrink_call(comm, call, ret_comm)));
}
