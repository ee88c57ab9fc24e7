/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works as callers see them: a call is issued, and its work tested, waited for, freed. Not here:
 * what goes on in them meanwhile (drive.c).
 */
#include "comm.h"
#include "drive.h"
#include "sized.h"
#include <stdlib.h>

static const struct rcmi_sized sized_call = {"call", "RCM_CALL_INIT", RCMI_CALL_SIZE_0,
                                             sizeof(struct rcm_call)};
static const struct rcmi_sized sized_message = {"ret_message", "RCM_MESSAGE_INIT",
                                                RCMI_MESSAGE_SIZE_0, sizeof(struct rcm_message)};

rcm_status rcmi_call_in_given(const struct rcm_call **call, struct rcm_call *room) {
    if ((*call)->size != sizeof(**call)) {
        *room = (struct rcm_call)RCM_CALL_INIT;
        const rcm_status status = rcmi_struct_in(&sized_call, *call, room);
        if (status != RCM_OK)
            return status;
        *call = room;
    }
    if ((*call)->flags != 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "call->flags is 0x%x, no flag is known",
                         (*call)->flags);
    return RCM_OK;
}

rcm_status rcmi_work_new(rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                         const struct rcm_call *call, struct rcm_work **ret_work) {
    const rcm_status status = rcmi_work_spare(&comm->spare);
    if (status != RCM_OK)
        return status;
    *ret_work = rcmi_work_take(&comm->spare);
    rcmi_work_begin(comm, kind, blocking, call, *ret_work);
    return RCM_OK;
}

/* Memory of a work for the next call. */
static void work_keep(rcm_comm *comm, struct rcm_work *work) {
    free(comm->spare);
    comm->spare = work;
}

rcm_status rcmi_work_issue(rcm_comm *comm, struct rcm_work *work, rcm_work **ret_work) {
    if (ret_work) {
        rcmi_comm_submit(comm, work);
        *ret_work = work;
        rcmi_comm_kick(comm);
        return RCM_OK;
    }
    rcmi_comm_run(comm, work);
    return rcmi_work_end(comm, work);
}

rcm_status rcmi_work_end(rcm_comm *comm, struct rcm_work *work) {
    /* Acquire pairs with the release in rcmi_work_complete. */
    rcm_status status = atomic_load_explicit(&work->status, memory_order_acquire);
    if (status == RCM_ERR_TRUNCATED)
        rcmi_fail(status, 0, "the message from rank %d is %zu bytes, the buffer %zu",
                  work->transfer.peer, work->transfer.total, work->transfer.mem.len);
    else if (status != RCM_OK && rcmi_comm_failure(comm) == RCM_OK)
        rcmi_fail(status, 0, "%s failed: %s", rcmi_work_name(work), rcm_status_text(status));
    work_keep(comm, work);
    return status;
}

static rcm_status work_is_ours(const rcm_work *work) {
    if (work->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this work belongs to the parent process");
    return RCM_OK;
}

rcm_status rcm_work_status(const rcm_work *work) {
    if (!work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "work is NULL");
    const rcm_status status = work_is_ours(work);
    if (status != RCM_OK)
        return status;
    return atomic_load_explicit(&work->status, memory_order_acquire);
}

/* With the reason in the thread's error, as far as that is still known: the communicator may be
 * gone. */
static rcm_status work_result(const rcm_work *work, rcm_status status) {
    if (status < 0 && work && status != RCM_ERR_FORKED)
        rcmi_fail(status, 0, "%s failed: %s; rcm_comm_error tells more", rcmi_work_name(work),
                  rcm_status_text(status));
    return status;
}

rcm_status rcm_work_test(rcm_work *work) {
    if (rcm_work_status(work) == RCM_PENDING)
        rcmi_comm_kick(work->comm);
    return work_result(work, rcm_work_status(work));
}

rcm_status rcm_work_wait(rcm_work *work, int64_t timeout_ms) {
    rcm_status status = rcm_work_status(work);
    if (status == RCM_PENDING)
        status = rcmi_comm_wait(work->comm, work, rcmi_deadline_in(timeout_ms));
    return work_result(work, status);
}

rcm_status rcm_work_message(const rcm_work *work, struct rcm_message *ret_message) {
    if (!work || !ret_message)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", work ? "ret_message" : "work");
    rcm_status status = work_is_ours(work);
    if (status == RCM_OK)
        status = rcmi_struct_out_check(&sized_message, ret_message);
    if (status != RCM_OK)
        return status;
    if (work->kind != RCMI_WORK_RECV)
        return rcmi_fail(RCM_ERR_INVALID, 0, "work is a %s, not a receive", rcmi_work_name(work));
    status = rcm_work_status(work);
    if (status != RCM_OK && status != RCM_ERR_TRUNCATED)
        return status == RCM_PENDING
                   ? RCM_PENDING
                   : rcmi_fail(status, 0, "the receive failed: %s", rcm_status_text(status));
    rcmi_struct_out(&sized_message, &work->message, ret_message);
    return RCM_OK;
}

void rcm_work_free(rcm_work *work) {
    if (!work)
        return;
    if (work->fork_generation == rcmi_fork_generation())
        rcmi_work_unref(work);
    else
        free(work); /* no driver in the child; rcm_destroy may have freed its communicator */
}
