/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: their error record, their end, and simple questions about them. */
#include "comm.h"
#include "log.h"
#include "p2p.h"
#include "page.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fork ---------------------------------------------------------------------------------- */

_Atomic uint32_t rcmi_forks;

static void fork_in_child(void) {
    atomic_fetch_add_explicit(&rcmi_forks, 1, memory_order_relaxed);
}

static void fork_watch(void) {
    pthread_atfork(NULL, NULL, fork_in_child);
}

void rcmi_fork_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_watch);
}

/* ---- Failure ------------------------------------------------------------------------------- */

rcm_status rcmi_comm_failure(const rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    if (rcm_comm_error(comm, &error) != RCM_OK)
        rcmi_fail_origin(error.status, error.origin, "%s", error.text);
    return error.status;
}

rcm_status rcmi_comm_why_not(const rcm_comm *comm) {
    if (!comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "comm is NULL");
    if (comm->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this communicator belongs to the parent process");
    return rcmi_comm_failure(comm);
}

/* The first record wins. Wakes everybody, tells every linked rank. */
static void comm_record(rcm_comm *comm, const struct rcm_error *error) {
    pthread_mutex_lock(&comm->error_lock);
    const bool first = atomic_load_explicit(&comm->failed, memory_order_relaxed) == RCM_OK;
    if (first) {
        comm->error = *error;
        atomic_store_explicit(&comm->failed, error->status, memory_order_release);
    }
    pthread_mutex_unlock(&comm->error_lock);
    if (!first)
        return;
    rcmi_page_fail(comm->page, error->status);
    rcmi_log_set_rank(comm->rank); /* the loop thread has not been told yet */
    rcmi_log(error->status == RCM_ERR_ABORTED ? RCMI_LOG_INFO : RCMI_LOG_ERROR, "%s: %s",
             rcm_status_name(error->status), error->text);
    struct rcmi_failure failure;
    rcmi_failure_encode(comm->epoch, error, &failure);
    rcmi_node_send_linked(comm->engine->node, &failure, sizeof(failure));
    rcmi_node_ring(comm->engine->node);
    rcmi_node_farewell_look(comm->engine->node);
    rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
}

/* What is short on this rank alone, or wrong in its call, so that nobody else can be the origin. */
static bool is_own_fault(rcm_status status) {
    return status == RCM_ERR_NOMEM || status == RCM_ERR_RESOURCE || status == RCM_ERR_INVALID;
}

void rcmi_comm_own_origin(const rcm_comm *comm) {
    struct rcmi_error *error = rcmi_last_error();
    const int world = error->origin;
    if (!error->of_world)
        return;
    error->of_world = false;
    error->origin = -1;
    for (int r = 0; r < comm->size; r++)
        if (comm->world_rank[r] == world)
            error->origin = r;
    if (error->origin != world && error->origin >= 0)
        (void)rcmi_fail_context("rank %d, which is rank %d of the world", error->origin, world);
}

void rcmi_comm_make_error(const rcm_comm *comm, const struct rcm_work *work,
                          struct rcm_error *ret_error) {
    struct rcmi_error *cause = rcmi_last_error();
    struct rcm_error error = RCM_ERROR_INIT;
    rcmi_comm_own_origin(comm);
    if (cause->origin < 0 && is_own_fault(cause->status)) {
        (void)rcmi_fail_context("rank %d%s%s", comm->rank, work ? ", " : "",
                                work ? rcmi_work_name(work) : "");
        cause->origin = comm->rank;
    }
    error.status = cause->status;
    error.origin = cause->origin;
    error.sys_errno = cause->sys_errno;
    if (work) {
        error.sequence = work->sequence;
        snprintf(error.operation, sizeof(error.operation), "%s", rcmi_work_name(work));
    }
    snprintf(error.text, sizeof(error.text), "%s", cause->text);
    *ret_error = error;
}

void rcmi_comm_fail(rcm_comm *comm, const struct rcm_work *work) {
    struct rcm_error error;
    rcmi_comm_make_error(comm, work, &error);
    comm_record(comm, &error);
}

void rcmi_comm_propose(rcm_comm *comm, const struct rcm_work *work, int weight) {
    struct rcm_error error;
    rcmi_comm_make_error(comm, work, &error);
    rcmi_proposals_add(comm->proposals, &error, weight);
}

bool rcmi_comm_tell_failure(const rcm_comm *comm, int rank) {
    struct rcm_error error = RCM_ERROR_INIT;
    struct rcmi_failure failure;
    if (rcm_comm_error(comm, &error) == RCM_OK)
        return false;
    rcmi_failure_encode(comm->epoch, &error, &failure);
    (void)rcmi_node_send(comm->engine->node, comm->world_rank[rank], &failure, sizeof(failure));
    return true;
}

rcm_status rcmi_comm_decline(rcm_comm *comm, rcm_status status) {
    if (status == RCM_OK || status == RCM_ERR_INVALID || status == RCM_ERR_UNSUPPORTED ||
        status == RCM_ERR_CONFIG)
        return status;
    rcmi_comm_fail(comm, NULL);
    return rcmi_comm_failure(comm);
}

void rcmi_comm_fail_remote(rcm_comm *comm, const struct rcm_error *error) {
    rcmi_diagnosis_flush(comm->diagnosis, error);
    comm_record(comm, error);
}

static const struct rcmi_sized sized_error = {"ret_error", "RCM_ERROR_INIT", RCMI_ERROR_SIZE_0,
                                              sizeof(struct rcm_error)};

rcm_status rcm_comm_error(const rcm_comm *comm, struct rcm_error *ret_error) {
    if (comm && comm->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this communicator belongs to the parent process");
    if (!comm || !ret_error)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", comm ? "ret_error" : "comm");
    rcm_status status = rcmi_struct_out_check(&sized_error, ret_error);
    if (status != RCM_OK)
        return status;
    rcm_comm *writable = (rcm_comm *)comm; /* only its lock */
    pthread_mutex_lock(&writable->error_lock);
    rcmi_struct_out(&sized_error, &comm->error, ret_error);
    status = comm->error.status;
    pthread_mutex_unlock(&writable->error_lock);
    return status;
}

rcm_status rcm_abort(rcm_comm *comm, const char *reason) {
    struct rcm_error error = RCM_ERROR_INIT;
    if (!comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "comm is NULL");
    if (comm->fork_generation != rcmi_fork_generation())
        return rcmi_comm_usable(comm);
    error.status = RCM_ERR_ABORTED;
    error.origin = comm->rank;
    snprintf(error.text, sizeof(error.text), "rank %d aborted%s%.400s", comm->rank,
             reason ? ": " : "", reason ? reason : "");
    comm_record(comm, &error);
    return RCM_OK;
}

/* ---- Questions ----------------------------------------------------------------------------- */

int rcm_rank(const rcm_comm *comm) {
    return comm ? comm->rank : -1;
}

int rcm_size(const rcm_comm *comm) {
    return comm ? comm->size : -1;
}

int rcm_local_rank(const rcm_comm *comm) {
    return comm ? comm->local_rank : -1;
}

int rcm_local_size(const rcm_comm *comm) {
    return comm ? comm->local_size : -1;
}

int rcm_world_rank(const rcm_comm *comm, int rank) {
    return comm && rank >= 0 && rank < comm->size ? comm->world_rank[rank] : -1;
}

const char *rcm_comm_transport(rcm_comm *comm, int peer) {
    if (!comm || peer < 0 || peer >= comm->size || comm->fork_generation != rcmi_fork_generation())
        return "";
    return rcmi_node_transport(comm->engine->node, comm->world_rank[peer]);
}

/* ---- The end ------------------------------------------------------------------------------- */

static rcm_status all_finished(void *arg) {
    rcm_comm *comm = arg;
    return atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0 ? RCM_OK : RCM_AGAIN;
}

rcm_status rcmi_comm_settle(rcm_comm *comm, rcmi_deadline deadline) {
    if (rcmi_comm_wait_for(comm, all_finished, comm, deadline) != RCM_OK)
        return rcmi_fail(RCM_ERR_TIMEOUT, 0, "unfinished operations of a communicator that failed");
    return RCM_OK;
}

/* Waits for this rank's works, then for all ranks, then, with the last communicator, for their
 * farewells. What comm fails of meanwhile is the caller's to return. */
static rcm_status comm_part(rcm_comm *comm) {
    const rcmi_deadline deadline = rcmi_deadline_in(comm->timeout_ms);
    rcmi_page_part(comm->page);
    if (rcmi_comm_wait_for(comm, all_finished, comm, deadline) != RCM_OK)
        return rcmi_fail(RCM_ERR_TIMEOUT, 0, "unfinished operations at rcm_destroy");
    rcm_status status = rcmi_barrier_parting(comm);
    if (status != RCM_OK)
        return status;
    atomic_store_explicit(&comm->parting, true, memory_order_relaxed);
    if (rcmi_engine_part(comm->engine, comm, true))
        return rcmi_engine_leave(comm->engine, comm, deadline);
    rcmi_loop_wake(rcmi_node_loop(comm->engine->node)); /* to answer farewells */
    return RCM_OK;
}

/* Ends what is in flight, then takes the communicator from the engine for good. */
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
    /* Threads that waited for works, which are complete now, are on their way out. */
    atomic_store(&comm->closed, true);
    while (atomic_load(&comm->inside) > 0) {
        rcmi_node_ring(comm->engine->node);
        sched_yield();
    }
}

void rcmi_comm_unref(rcm_comm *comm) {
    /* Acquire-release: the last one sees everything the others did. */
    if (atomic_fetch_sub_explicit(&comm->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&comm->submit_lock);
    pthread_mutex_destroy(&comm->error_lock);
    free(comm);
}

static void comm_free(rcm_comm *comm) {
    rcmi_p2p_free(comm->p2p);
    rcmi_exec_free(comm->exec);
    rcmi_plan_cache_free(comm->plans);
    rcmi_engine_release(comm->engine);
    rcmi_diagnosis_free(comm->diagnosis);
    rcmi_proposals_free(comm->proposals);
    rcmi_call_log_free(comm->call_log);
    free(comm->host_of);
    free(comm->world_rank);
    free(comm->forced_text);
    free(comm->spare);
    rcmi_comm_unref(comm);
}

void rcmi_comm_retire(rcm_comm *comm) {
    if (!comm)
        return;
    struct rcmi_error cause = *rcmi_last_error(); /* closing must not hide it */
    if (comm->p2p)
        comm_retire(comm);
    comm_free(comm);
    *rcmi_last_error() = cause;
}

rcm_status rcm_destroy(rcm_comm *comm) {
    if (!comm)
        return RCM_OK;
    if (comm->fork_generation != rcmi_fork_generation()) {
        free(comm); /* the rest is shared with, or runs only in, the parent */
        return RCM_OK;
    }
    rcm_status status = rcmi_comm_usable(comm);
    if (status == RCM_OK) {
        if (comm_part(comm) != RCM_OK)
            rcmi_comm_fail(comm, NULL);
        status = rcmi_comm_failure(comm);
    }
    rcmi_comm_retire(comm);
    return status;
}
