/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_destroy and rcm_leave: the end of a communicator, orderly with all its ranks, of one rank
 * alone, or after a failure. Not here: the end of the process's engine with its last communicator
 * (leave.c).
 */
#include "error.h"
#include "agreement.h"
#include "collective.h"
#include "comm.h"
#include "diagnosis.h"
#include "drive.h"
#include "entry.h"
#include "group.h"
#include "p2p.h"
#include "status_page.h"
#include "trace_file.h"
#include <sched.h>
#include <stdlib.h>

static rcm_status all_finished(void *arg) {
    rcm_comm *comm = arg;
    /* Acquire pairs with the release in rcmi_work_complete. */
    return atomic_load_explicit(&comm->unfinished, memory_order_acquire) == 0 ? RCM_OK : RCM_AGAIN;
}

/* Includes the callbacks of complete works. They may issue further works, which may complete at
 * once and have callbacks too. */
static rcm_status comm_finish_works(rcm_comm *comm, rcmi_deadline deadline) {
    do {
        if (rcmi_comm_wait_for(comm, all_finished, comm, deadline) != RCM_OK)
            return rcmi_fail(RCM_ERR_TIMEOUT, 0, "unfinished operations at rcm_destroy");
    } while (!rcmi_engine_settled(comm));
    return RCM_OK;
}

struct settling {
    rcm_comm *comm;
    const _Atomic bool *canceled;
};

static rcm_status settled(void *arg) {
    const struct settling *settling = arg;
    /* Relaxed: polled. */
    return settling->canceled && atomic_load_explicit(settling->canceled, memory_order_relaxed)
               ? RCM_OK
               : all_finished(settling->comm);
}

rcm_status rcmi_comm_settle(rcm_comm *comm, const _Atomic bool *canceled, rcmi_deadline deadline) {
    struct settling settling = {comm, canceled};
    if (rcmi_comm_wait_for(comm, settled, &settling, deadline) != RCM_OK)
        return rcmi_fail(RCM_ERR_TIMEOUT, 0, "unfinished operations of a communicator that failed");
    return RCM_OK;
}

static void part_fail(void *arg) {
    rcmi_comm_fail(arg, NULL);
}

/* Waits for this rank's works, then for all ranks, then, with the last communicator, for their
 * farewells. If comm fails meanwhile, the caller returns that error. */
static rcm_status comm_part(rcm_comm *comm) {
    const rcmi_deadline deadline = rcmi_deadline_in(comm->timeout_ms);
    rcmi_page_part(comm->page);
    rcm_status status = comm_finish_works(comm, deadline);
    if (status == RCM_OK)
        status = comm->engine->calls->barrier_parting(comm);
    if (status != RCM_OK)
        return status;
    atomic_store_explicit(&comm->parting, true, memory_order_relaxed);
    if (rcmi_engine_part(comm->engine, comm, true)) {
        const struct rcmi_leaving last = {
            .members = &comm->members, .failed = &comm->failed, .arg = comm, .fail = part_fail};
        return rcmi_engine_leave(comm->engine, &last, deadline);
    }
    rcmi_loop_wake(rcmi_node_loop(comm->engine->node)); /* to answer the farewells */
    rcmi_engine_spare_store(comm->engine);
    return RCM_OK;
}

/* On the loop thread, which runs callbacks and closes channels, so it is woken only once. Pending
 * notices of complete works are delivered first. */
static void close_on_loop(void *arg) {
    rcm_comm *comm = arg;
    rcmi_engine_flush(comm->engine);
    rcmi_completions_close(&comm->completions);
    if (comm->abandoned) /* kept, with the node of its channels, which count in its page */
        return;
    rcmi_p2p_free(comm->p2p);
    comm->p2p = NULL;
    if (comm->exec)
        rcmi_exec_close_channels(comm->exec);
}

/* No thread can enter any more. Threads that waited for works, which are complete now, are
 * leaving. */
static void comm_close(rcm_comm *comm) {
    atomic_store(&comm->closed, true);
    while (atomic_load(&comm->inside) > 0) {
        rcmi_node_ring(comm->engine->node);
        sched_yield();
    }
    rcmi_loop_call(rcmi_node_loop(comm->engine->node), close_on_loop, comm);
}

/* Ends operations in flight, then removes the communicator from the engine. */
static void comm_retire(rcm_comm *comm) {
    const bool last = rcmi_engine_part(comm->engine, comm, false);
    if (atomic_load_explicit(&comm->failed, memory_order_acquire) != RCM_OK) {
        (void)rcmi_comm_wait_for(comm, all_finished, comm, rcmi_deadline_in(5000));
        if (last)
            rcmi_engine_end(comm->engine);
    }
    while (atomic_flag_test_and_set_explicit(&comm->driving, memory_order_acquire))
        sched_yield(); /* a pass of the loop thread is short */
    comm->closing = true;
    atomic_flag_clear_explicit(&comm->driving, memory_order_release);
    rcmi_engine_remove(comm->engine, comm);
    rcmi_creations_forget(comm->engine->creations, comm->epoch);
    comm_close(comm);
}

static void comm_give_page(rcm_comm *comm) {
    pthread_mutex_lock(&comm->engine->lock);
    rcmi_page_give(rcmi_node_status_page(comm->engine->node), comm->page);
    pthread_mutex_unlock(&comm->engine->lock);
}

static void comm_free(rcm_comm *comm) {
    if (!comm->abandoned) {
        rcmi_p2p_free(comm->p2p); /* NULL: closed */
        rcmi_exec_free(comm->exec);
        if (comm->page)
            comm_give_page(comm);
        rcmi_trace_end(comm->engine->trace, comm->trace);
        rcmi_engine_release(comm->engine);
    }
    rcmi_plan_cache_free(comm->plans);
    rcmi_selection_free(comm->selection);
    rcmi_selection_free(comm->stage_selection);
    rcmi_diagnosis_free(comm->diagnosis);
    rcmi_proposals_free(comm->proposals);
    rcmi_call_log_free(comm->call_log);
    free(comm->host_of);
    free(comm->world_rank);
    free(comm->by_world);
    free(comm->left_ns);
    rcmi_choices_free(&comm->choices);
    free(comm->spare);
    rcmi_comm_unref(comm);
}

void rcmi_comm_retire(rcm_comm *comm) {
    if (!comm)
        return;
    struct rcmi_error cause = *rcmi_last_error(); /* closing must not overwrite it */
    if (comm->p2p)
        comm_retire(comm);
    else if (comm->rank < 0)
        comm_close(comm);
    comm_free(comm);
    *rcmi_last_error() = cause;
}

static void comm_send_left(rcm_comm *comm) {
    const struct rcmi_left left = {.magic = RCMI_LEFT_MAGIC, .epoch = comm->epoch};
    rcmi_node_send_linked(comm->engine->node, comm->world_rank, comm->size, &left, sizeof(left));
    comm->has_left = true;
}

static bool work_is_receive(void *arg, struct rcm_work *work) {
    bool *only = arg;
    *only = work->kind == RCMI_WORK_RECV;
    return *only;
}

/* Whether all unfinished works are receives. */
static bool only_receives(rcm_comm *comm) {
    bool only = true;
    while (!rcmi_comm_visit(comm, work_is_receive, &only))
        sched_yield(); /* a pass of another driver is short */
    return only;
}

/* A message that has arrived by now still matches its receive. */
static void drop_unmatched(rcm_comm *comm) {
    struct rcm_work drop;
    (void)rcmi_node_progress(comm->engine->node);
    rcmi_comm_kick(comm);
    rcmi_work_begin(comm, RCMI_WORK_CANCEL, true, NULL, &drop);
    drop.target = NULL;
    rcmi_comm_run(comm, &drop, RCMI_NEVER);
}

/* Ends receives without a matching message with RCM_ERR_CANCELED, and runs their callbacks. Waits
 * for the other receives until their deadlines, or comm's timeout. True: no operation is
 * unfinished. comm may have failed meanwhile. */
static bool comm_drop_receives(rcm_comm *comm) {
    if (all_finished(comm) == RCM_OK)
        return true;
    drop_unmatched(comm);
    if (all_finished(comm) != RCM_OK && only_receives(comm))
        (void)rcmi_comm_wait_for(comm, all_finished, comm,
                                 rcmi_deadline_in(rcm_comm_timeout(comm)));
    rcmi_engine_flush(comm->engine); /* callbacks may have issued operations */
    return all_finished(comm) == RCM_OK;
}

/* Notifies the other ranks, without waiting for them. */
static void comm_leave(rcm_comm *comm) {
    comm_send_left(comm);
    atomic_store_explicit(&comm->parting, true, memory_order_relaxed);
    if (rcmi_engine_part(comm->engine, comm, false))
        rcmi_engine_hurry(comm->engine);
}

static rcm_status leave_check(const rcm_comm *comm) {
    struct rcmi_engine *engine;
    rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK)
        status = rcmi_work_may_wait(-1);
    return status;
}

static rcm_status leave_call(rcm_comm *comm) {
    RCMI_ENTRY;
    rcm_status status = leave_check(comm);
    if (status != RCM_OK)
        return status;
    rcmi_engine_flush(comm->engine); /* callbacks may issue operations */
    status = rcmi_comm_usable(comm);
    const bool idle = status == RCM_OK && comm_drop_receives(comm);
    if (status == RCM_OK && !idle)
        (void)!rcm_abort(comm, "it leaves with unfinished operations");
    status = rcmi_comm_usable(comm);
    if (status == RCM_OK)
        comm_leave(comm); /* others may fail because they need this rank; that is not its error */
    if (status != RCM_OK && status != RCMI_ABSENT && *rcmi_comm_agreements(comm) == 0)
        comm_send_left(comm); /* to ranks that shrink it, in which this rank takes no part */
    rcmi_comm_retire(comm);
    return status == RCMI_ABSENT ? RCM_OK : status;
}

rcm_status rcm_leave(rcm_comm *comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, leave_call(comm));
}

static rcm_status destroy_call(rcm_comm *comm) {
    RCMI_ENTRY;
    if (!comm)
        return RCM_OK;
    if (comm->fork_generation != rcmi_fork_generation()) {
        free(comm); /* the rest is shared with, or runs only in, the parent */
        return RCM_OK;
    }
    rcm_status status = rcmi_work_may_wait(-1);
    if (status != RCM_OK)
        return rcmi_fail_context("rcm_destroy");
    status = rcmi_comm_usable(comm);
    if (status == RCMI_ABSENT) {
        status = RCM_OK;
    } else if (status == RCM_OK) {
        if (comm_part(comm) != RCM_OK)
            rcmi_comm_fail(comm, NULL);
        status = rcmi_comm_failure(comm);
    }
    rcmi_comm_retire(comm);
    return status;
}

rcm_status rcm_destroy(rcm_comm *comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, destroy_call(comm));
}
