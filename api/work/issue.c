/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Issue, test, wait and free of works, for the functions of calls/. Not here: their progress
 * (drive.c).
 */
#include "error.h"
#include "comm.h"
#include "drive.h"
#include "struct_versions.h"
#include "transfer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rcmi_sized sized_call = {"call", "RCM_CALL_INIT", RCMI_CALL_SIZE_0,
                                             sizeof(struct rcm_call)};
static const struct rcmi_sized sized_error = {"ret_error", "RCM_ERROR_INIT", RCMI_ERROR_SIZE_0,
                                              sizeof(struct rcm_error)};

static const struct rcmi_sized sized_call_error = {"call->error", "RCM_ERROR_INIT",
                                                   RCMI_ERROR_SIZE_0, sizeof(struct rcm_error)};

/* A call with a stream, or RCM_NO_STREAM, may be the first one with device memory. */
static rcm_status call_check_stream(const struct rcm_call *call) {
    const bool none = call->flags & RCM_NO_STREAM;
    if (call->stream && none)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "call->stream is %p, but call->flags has RCM_NO_STREAM", call->stream);
    if (!call->stream) {
        rcmi_device_notice_driver();
        return RCM_OK;
    }
    if (rcmi_device_look(false) == RCM_OK)
        return RCM_OK;
    return rcmi_fail_context("call->stream is %p", call->stream);
}

enum { NO_TIME_MS = 1 };
static const uint32_t known_flags =
    RCM_PERSISTENT | RCM_NO_STREAM | RCM_TRY_NOW | RCM_EXACT_TIMEOUT | RCMI_UNCHECKED_FLAGS;

rcm_status rcmi_call_in_given(const struct rcm_call **call, struct rcm_call *room) {
    if ((*call)->size != sizeof(**call)) {
        *room = (struct rcm_call)RCM_CALL_INIT;
        const rcm_status status = rcmi_struct_in(&sized_call, *call, room);
        if (status != RCM_OK)
            return status;
        *call = room;
    }
    if ((*call)->flags & ~known_flags)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "call->flags is 0x%x, known flags are RCM_PERSISTENT, RCM_NO_STREAM, "
                         "RCM_TRY_NOW, RCM_EXACT_TIMEOUT, RCM_MATCH_ASYNC and RCM_AWAIT_LEFT",
                         (*call)->flags);
    if ((*call)->flags & RCM_EXACT_TIMEOUT && (*call)->timeout_ms == 0) {
        *room = **call;
        room->timeout_ms = NO_TIME_MS;
        *call = room;
    }
    const rcm_status status =
        (*call)->error ? rcmi_struct_out_check(&sized_call_error, (*call)->error) : RCM_OK;
    return status == RCM_OK ? call_check_stream(*call) : status;
}

/* The caller's struct for the reason of a failure, if it may be written; else NULL. */
static struct rcm_error *call_error(const struct rcm_call *call) {
    const bool has = call->size >= RCMI_SIZE_TO(struct rcm_call, error) &&
                     call->size <= RCMI_SIZED_MAX && call->error;
    return has && rcmi_struct_out_check(&sized_call_error, call->error) == RCM_OK ? call->error
                                                                                  : NULL;
}

rcm_status rcmi_call_failed(const rcm_comm *comm, const struct rcm_call *call, rcm_status status) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcm_error *wanted = call_error(call), error = RCM_ERROR_INIT;
    if (wanted && (rcm_comm_error(comm, &error) != status || error.status != status))
        error = (struct rcm_error){
            .status = status, .origin = kept.origin, .sys_errno = kept.sys_errno};
    if (wanted) {
        snprintf(error.text, sizeof(error.text), "%s", kept.text);
        rcmi_struct_out(&sized_call_error, &error, wanted);
    }
    *rcmi_last_error() = kept;
    return status;
}

void rcmi_work_begin(rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                     const struct rcm_call *call, struct rcm_work *work) {
    memset(work, 0, sizeof(*work));
    atomic_init(&work->status, RCM_PENDING);
    atomic_init(&work->refs, 2);
    work->kind = kind;
    work->comm = comm;
    work->blocking = blocking;
    work->fork_generation = comm->fork_generation;
    if (!blocking)
        atomic_fetch_add_explicit(&comm->refs, 1, memory_order_relaxed);
    work->timeout_ms = call && call->timeout_ms ? call->timeout_ms : comm->timeout_ms;
    work->deadline = RCMI_NEVER; /* the first look sets it, see deadline.c */
    work->message.size = sizeof(work->message);
    work->notice.completions = &comm->completions;
    work->notice.fd = -1;
}

rcm_status rcmi_work_new(rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                         const struct rcm_call *call, struct rcm_work **ret_work) {
    /* Several threads may send and receive. */
    struct rcm_work *fresh = NULL, **spare = kind == RCMI_WORK_COLLECTIVE ? &comm->spare : &fresh;
    const rcm_status status = rcmi_work_spare(spare);
    if (status != RCM_OK)
        return status;
    *ret_work = rcmi_work_take(spare);
    rcmi_work_begin(comm, kind, blocking, call, *ret_work);
    return RCM_OK;
}

rcm_status rcmi_call_in_alone(const struct rcm_call **call, struct rcm_call *room) {
    const rcm_status status = rcmi_call_in(call, room);
    if (status != RCM_OK || !*call ||
        (((*call)->flags & ~RCM_EXACT_TIMEOUT) == 0 && !(*call)->stream))
        return status;
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "call->flags is 0x%x and call->stream is %p, but this is no operation",
                     (*call)->flags, (*call)->stream);
}

rcm_status rcmi_work_new_persistent(rcm_comm *comm, enum rcmi_work_kind kind,
                                    struct rcm_work **ret_work) {
    const rcm_status status = rcmi_work_new(comm, kind, false, NULL, ret_work);
    if (status != RCM_OK)
        return status;
    atomic_store_explicit(&(*ret_work)->status, RCM_OK, memory_order_relaxed);
    atomic_store_explicit(&(*ret_work)->refs, 1, memory_order_relaxed); /* the user's */
    atomic_store_explicit(&(*ret_work)->notice.requested, RCMI_NOTICE_CLOSED, memory_order_relaxed);
    return RCM_OK;
}

/* Keeps the memory of a collective for the next call. */
static void work_keep(rcm_comm *comm, struct rcm_work *work) {
    struct rcm_work *old = work;
    if (work->kind == RCMI_WORK_COLLECTIVE) {
        old = comm->spare;
        comm->spare = work;
    }
    free(old);
}

rcm_status rcmi_work_issue(rcm_comm *comm, struct rcm_work *work, int64_t wait_ms,
                           rcm_work **ret_work) {
    if (wait_ms == 0) {
        const size_t bytes = work->kind == RCMI_WORK_COLLECTIVE ? rcmi_bind_bytes(&work->bind)
                                                                : work->transfer.mem.len;
        rcmi_notice_hand_out(work);
        rcmi_comm_submit(comm, work); /* it may end, and be freed, from here on */
        *ret_work = work;
        rcmi_comm_kick_small(comm, bytes);
        return RCM_OK;
    }
    struct rcmi_error *before = rcmi_errors_begin();
    rcmi_comm_run(comm, work, rcmi_call_until(wait_ms));
    return rcmi_errors_end(before, rcmi_work_end(comm, work, ret_work));
}

/* Sets the thread's error to the reason of a work's failure. */
static rcm_status work_explain(const struct rcm_work *work, rcm_status status) {
    if (work->kind != RCMI_WORK_BATCH && rcmi_transfer_misfits(work, status))
        return rcmi_transfer_explain(work, status);
    if (!work->reason && rcmi_comm_failure(work->comm) != RCM_OK)
        return status;
    return rcmi_fail(status, 0, "%s failed: %s", rcmi_work_name(work),
                     work->reason ? work->reason : rcm_status_text(status));
}

static rcm_status work_end_waited(struct rcm_work *work, rcm_status status, rcm_work **ret_work) {
    *ret_work = NULL;
    if (status < RCM_OK)
        (void)work_explain(work, status);
    if (status != RCM_PENDING) {
        rcmi_work_unref(work);
        return status;
    }
    rcmi_notice_hand_out(work);
    *ret_work = work;
    return status;
}

rcm_status rcmi_work_end(rcm_comm *comm, struct rcm_work *work, rcm_work **ret_work) {
    /* Acquire pairs with the release in rcmi_work_complete. */
    const rcm_status status = (rcm_status)atomic_load_explicit(&work->status, memory_order_acquire);
    if (ret_work)
        return work_end_waited(work, status, ret_work);
    if (status != RCM_OK)
        (void)work_explain(work, status);
    free(work->reason);
    work_keep(comm, work);
    return status;
}

/* Makes a work that is complete at once. */
static rcm_status refuse_work(rcm_comm *comm, enum rcmi_work_kind kind, rcm_work **ret_work) {
    struct rcm_work *work;
    const rcm_status status = rcmi_work_new(comm, kind, false, NULL, &work);
    if (status != RCM_OK)
        return status;
    work->message.source = -1;
    rcmi_notice_hand_out(work);
    atomic_fetch_add_explicit(&comm->unfinished, 1, memory_order_relaxed);
    *ret_work = work;
    rcmi_work_complete(work, RCM_OK);
    return RCM_OK;
}

/* Makes one that is complete at each start. */
static rcm_status refuse_persistent(rcm_comm *comm, enum rcmi_work_kind kind, rcm_work **ret_work) {
    const struct rcmi_template nothing = {.kind = kind};
    struct rcm_work *work = NULL;
    rcm_status status = rcmi_work_new_persistent(comm, kind, &work);
    if (status == RCM_OK)
        status = rcmi_work_add_template(work, &nothing);
    if (status == RCM_OK)
        *ret_work = work;
    else
        rcm_work_free(work);
    return status;
}

rcm_status rcmi_comm_refuse(rcm_comm *comm, enum rcmi_work_kind kind, rcm_status status,
                            const struct rcm_call *call, rcm_work **ret_work) {
    struct rcm_call room;
    if (status != RCMI_ABSENT)
        return status;
    status = rcmi_call_in(&call, &room);
    if (status != RCM_OK || !ret_work)
        return status;
    *ret_work = NULL;
    if (rcmi_call_persists(call))
        return refuse_persistent(comm, kind, ret_work);
    return rcmi_call_waits(call, ret_work) == 0 ? refuse_work(comm, kind, ret_work) : RCM_OK;
}

rcm_status rcmi_work_issue_whole(struct rcm_work *whole, rcm_status status,
                                 const struct rcm_call *call, rcm_work **ret_work) {
    const int64_t wait_ms = rcmi_call_waits(call, ret_work);
    if (ret_work && wait_ms == 0 && status == RCM_OK) {
        rcmi_notice_hand_out(whole);
        *ret_work = whole;
        return RCM_OK;
    }
    const int64_t whole_ms = wait_ms == RCMI_WAIT_NOW ? 0 : wait_ms;
    const rcm_status waited = rcm_work_wait(whole, status == RCM_OK ? whole_ms : -1);
    if (ret_work)
        *ret_work = waited == RCM_PENDING ? whole : NULL;
    if (waited == RCM_PENDING)
        rcmi_notice_hand_out(whole);
    else
        rcm_work_free(whole);
    return status == RCM_OK ? waited : status;
}

rcm_status rcm_work_status(const rcm_work *work) {
    const rcm_status status = rcmi_work_own(work);
    if (status != RCM_OK)
        return status;
    return (rcm_status)atomic_load_explicit(&work->status, memory_order_acquire);
}

/* With the reason in the thread's error. */
static rcm_status work_result(const struct rcm_work *work, rcm_status status) {
    return status < RCM_OK && work && status != RCM_ERR_FORKED ? work_explain(work, status)
                                                               : status;
}

static rcm_status work_test(rcm_work *work) {
    if (rcm_work_status(work) == RCM_PENDING)
        rcmi_comm_kick(work->comm);
    return work_result(work, rcm_work_status(work));
}

rcm_status rcm_work_test(rcm_work *work) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, work_test(work));
}

static rcm_status work_wait(rcm_work *work, int64_t timeout_ms) {
    rcm_status status = rcm_work_status(work);
    if (status == RCM_PENDING) {
        status = rcmi_work_may_wait(timeout_ms);
        if (status != RCM_OK)
            return status;
        status = rcmi_comm_wait(work->comm, work, rcmi_deadline_in(timeout_ms));
    }
    return work_result(work, status);
}

rcm_status rcm_work_wait(rcm_work *work, int64_t timeout_ms) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, work_wait(work, timeout_ms));
}

uint64_t rcm_work_sequence(const rcm_work *work) {
    return work ? work->sequence : 0;
}

uint64_t rcm_comm_sequence(const rcm_comm *comm) {
    return comm ? comm->sequence : 0;
}

/* Its own status and operation; cause and origin are the communicator's if that has failed. */
static void work_make_error(const struct rcm_work *work, rcm_status status,
                            struct rcm_error *error) {
    struct rcm_error of_comm = RCM_ERROR_INIT;
    *error = (struct rcm_error){.status = status, .origin = -1, .sequence = work->sequence};
    snprintf(error->operation, sizeof(error->operation), "%s", rcmi_work_name(work));
    if (status == RCM_OK)
        return;
    const struct rcmi_error kept = *rcmi_last_error();
    (void)work_explain(work, status);
    snprintf(error->text, sizeof(error->text), "%s", rcm_last_error());
    error->origin = rcmi_last_error()->origin;
    *rcmi_last_error() = kept;
    if (!work->reason && rcm_comm_error(work->comm, &of_comm) == status)
        error->sys_errno = of_comm.sys_errno;
}

rcm_status rcm_work_error(const rcm_work *work, struct rcm_error *ret_error) {
    struct rcm_error error;
    rcm_status status = rcmi_work_own(work);
    if (status == RCM_OK && !ret_error)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "ret_error is NULL");
    if (status == RCM_OK)
        status = rcmi_struct_out_check(&sized_error, ret_error);
    if (status != RCM_OK)
        return status;
    status = (rcm_status)atomic_load_explicit(&work->status, memory_order_acquire);
    if (status == RCM_PENDING)
        return status;
    work_make_error(work, status, &error);
    rcmi_struct_out(&sized_error, &error, ret_error);
    return status;
}

rcm_status rcm_work_detach(rcm_work *work, void (*released)(void *arg, rcm_status status),
                           void *arg) {
    const rcm_status status = rcm_work_on_complete(work, released, arg);
    if (status == RCM_OK)
        rcm_work_free(work);
    return status;
}

rcm_status rcm_work_message(const rcm_work *work, struct rcm_message *ret_message) {
    if (!work || !ret_message)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", work ? "ret_message" : "work");
    rcm_status status = rcmi_work_own(work);
    if (status == RCM_OK)
        status = rcmi_message_out_check("ret_message", ret_message);
    if (status != RCM_OK)
        return status;
    if (work->kind != RCMI_WORK_RECV && work->kind != RCMI_WORK_SENDRECV)
        return rcmi_fail(RCM_ERR_INVALID, 0, "work is a %s, not a receive", rcmi_work_name(work));
    status = rcm_work_status(work);
    if (status != RCM_OK && status != RCM_ERR_TRUNCATED)
        return status == RCM_PENDING
                   ? RCM_PENDING
                   : rcmi_fail(status, 0, "the receive failed: %s", rcm_status_text(status));
    rcmi_message_out(&work->message, ret_message);
    return RCM_OK;
}

static void work_free(rcm_work *work) {
    if (!work)
        return;
    if (work->fork_generation != rcmi_fork_generation()) {
        free(work); /* no driver in the child; rcm_destroy may have freed its communicator */
        return;
    }
    rcmi_notice_give_back(work);
    rcmi_work_unref(work);
}

void rcm_work_free(rcm_work *work) {
    struct rcmi_error *before = rcmi_errors_begin();
    work_free(work);
    (void)rcmi_errors_end(before, RCM_OK);
}
