/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions of collectives: arguments are checked here, once; then the call is bound,
 * recorded (collective_bind.h) and issued. After that the plan runs.
 *
 * The fast path: if nothing else of the communicator is unfinished, the caller of a blocking
 * collective runs the plan itself, without a work, as long as it would spin anyway, or for a few
 * yields. An unfinished or failed operation then becomes a work, which is driven as usual
 * (drive.c), with deadlines, reports and sleep, and together with all else. So the fast path never
 * waits long, and reports no error: the work finds it again.
 */
#include "collective.h"
#include <stdlib.h>
#include "collective_bind.h"
#include "comm.h"
#include "diagnosis.h"
#include "drive.h"
#include "status_page.h"
#include "uneven.h"

enum { LOOKS_MAX = 2048 };

/* The form, with the settings of the call. */
static inline enum rcmi_form request_form(const struct rcmi_request *r) {
    const bool is_async = r->call && r->call->flags & RCM_MATCH_ASYNC;
    return is_async && r->form == RCMI_FORM_PLAIN ? RCMI_FORM_ASYNC : r->form;
}

/* The record of the last call, if this one differs only in its buffers; else NULL. Then its type,
 * operator and root have been checked. */
static inline const struct rcmi_called *request_again(const rcm_comm *comm,
                                                      const struct rcmi_request *r) {
    const struct rcmi_called *called = &comm->called[r->collective];
    const bool usual =
        !r->blocks && !(r->call && (r->call->algorithm || r->call->flags & ~RCMI_UNCHECKED_FLAGS));
    const bool same = called->count == r->count && called->dtype == r->dtype &&
                      called->op == r->op && called->root == r->root &&
                      called->form == request_form(r);
    return usual && same && called->plan ? called : NULL;
}

static rcm_status check_overlap(const void *send, const void *recv, size_t bytes) {
    const uintptr_t a = (uintptr_t)send, b = (uintptr_t)recv;
    if (a != b && a < b + bytes && b < a + bytes)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "send %p and recv %p overlap without being equal (%zu bytes each)", send,
                         recv, bytes);
    return RCM_OK;
}

/* Binds and records the call. After RCM_OK it counts as made. */
static inline __attribute__((always_inline)) rcm_status
request_record(rcm_comm *comm, const struct rcmi_request *r, const struct rcmi_called *called,
               struct rcmi_bind *ret_bind) {
    if (rcmi_mem_any_special())
        return rcmi_request_record_special(comm, r, called, ret_bind);
    comm->sequence++;
    rcmi_request_bind(r, called,
                      rcmi_record_call(&comm->history, comm->epoch, comm->sequence, called->hash),
                      ret_bind);
    const struct rcmi_call_entry entry = {comm->sequence, r->form, ret_bind};
    rcmi_call_log_add(comm->call_log, &entry);
    return RCM_OK;
}

/* ---- The fast path --------------------------------------------------------------------------- */

static bool run_shares_cpu(rcm_comm *comm, const struct rcmi_run *run) {
    struct rcmi_run_wait wait;
    rcmi_run_waits_for(run, &wait);
    return rcmi_comm_shares_cpu(comm, wait.peer);
}

static rcm_status run_for_a_while(rcm_comm *comm, struct rcmi_run *run, struct rcmi_pause *pause) {
    const struct rcmi_pause budget = rcmi_comm_budget(comm);
    *pause = budget;
    for (int looks = 0; looks < LOOKS_MAX; looks++) {
        bool moved = false;
        if (rcmi_run_progress(run, &moved) == RCM_OK)
            return RCM_OK;
        /* Acquire pairs with the release in comm.c: the record is complete. */
        if (atomic_load_explicit(&comm->failed, memory_order_acquire) != RCM_OK)
            return RCM_AGAIN;
        if (!moved && !rcmi_node_progress(comm->engine->node) &&
            (rcmi_run_opens(run) || !rcmi_caller_pauses(&budget, pause) ||
             (pause->spins == RCMI_SPINS_BEFORE_CPU && run_shares_cpu(comm, run))))
            return RCM_AGAIN;
    }
    return RCM_AGAIN;
}

/* A blocking call, as long as its caller would spin anyway. RCM_OK: it is complete. RCM_AGAIN:
 * with NULL in *ret_run nothing was begun; else the caller is the driver and must call
 * rcmi_comm_go_on. *ret_began: as in struct rcmi_pause. */
static rcm_status collective_now(rcm_comm *comm, uint64_t sequence, const struct rcmi_bind *bind,
                                 struct rcmi_run **ret_run, int64_t *ret_began) {
    struct rcmi_run *run;
    struct rcmi_pause pause;
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    if (rcmi_run_start(comm->exec, bind, &run) != RCM_OK) {
        rcmi_comm_give(comm);
        return RCM_AGAIN;
    }
    rcmi_comm_drives_here(comm);
    rcmi_page_called(comm->page, sequence, bind->collective);
    rcmi_page_oldest(comm->page, sequence, bind);
    if (run_for_a_while(comm, run, &pause) != RCM_OK) {
        *ret_run = run;
        *ret_began = pause.began;
        return RCM_AGAIN;
    }
    comm->yield_due = rcmi_run_yields(run);
    rcmi_run_end(run);
    rcmi_page_oldest(comm->page, 0, NULL);
    if (comm->yield_due)
        rcmi_comm_yield_once(comm);
    rcmi_comm_give(comm);
    return RCM_OK;
}

/* ---- Issuing --------------------------------------------------------------------------------- */

static void request_describe(const rcm_comm *comm, const struct rcmi_request *r,
                             struct rcm_work *work) {
    work->collective = r->collective;
    work->form = r->form;
    work->blocks = r->blocks;
    work->stages = r->stages;
    work->drains = rcmi_collective_at((int)r->collective)->drains;
    work->sequence = comm->sequence;
}

/* Issues a work: the whole collective, or the rest that the fast path has left. */
static rcm_status request_work(rcm_comm *comm, const struct rcmi_request *r, struct rcm_work *work,
                               struct rcmi_run *run, rcm_work **ret_work) {
    const int64_t wait_ms = rcmi_call_waits(r->call, ret_work);
    request_describe(comm, r, work);
    if (!run)
        return rcmi_work_issue(comm, work, wait_ms, ret_work);
    struct rcmi_error *before = rcmi_errors_begin();
    rcmi_comm_go_on(comm, work, run, rcmi_call_until(wait_ms));
    return rcmi_errors_end(before, rcmi_work_end(comm, work, ret_work));
}

/* Ends a call that the fast path completed. */
static inline rcm_status request_done(const struct rcmi_request *r, const struct rcmi_bind *bind,
                                      rcm_work **ret_work) {
    if (bind->after)
        rcmi_stream_drop(bind->after);
    if (r->blocks)
        free(r->blocks);
    if (ret_work)
        *ret_work = NULL;
    return RCM_OK;
}

/* ---- A call ---------------------------------------------------------------------------------- */

/* called: from request_again. */
static rcm_status request_issue(rcm_comm *comm, struct rcmi_request *r,
                                const struct rcmi_called *called, rcm_work **ret_work) {
    struct rcmi_called now;
    struct rcmi_run *run = NULL;
    int64_t began = 0;
    struct rcm_call room; /* of r->call */
    rcm_status status = rcmi_call_in(&r->call, &room);
    if (r->call)
        r->form = request_form(r);
    if (status == RCM_OK && !called) {
        status = rcmi_request_resolve(comm, r, &now);
        called = &now;
        if (status == RCM_OK && rcmi_call_persists(r->call))
            return rcmi_request_persist(comm, r, called, ret_work);
    }
    if (status == RCM_OK)
        status = rcmi_work_may_wait(rcmi_call_waits(r->call, ret_work));
    if (status == RCM_OK) /* now: nothing may fail once there is a run */
        status = rcmi_work_spare(&comm->spare);
    struct rcmi_bind bind;
    if (status == RCM_OK)
        status = request_record(comm, r, called, &bind);
    if (status != RCM_OK)
        return rcmi_request_decline(comm, r, status);
    if (rcmi_call_waits(r->call, ret_work) != 0 && !r->stages &&
        collective_now(comm, comm->sequence, &bind, &run, &began) == RCM_OK)
        return request_done(r, &bind, ret_work);
    struct rcm_work *work = rcmi_work_take(&comm->spare);
    rcmi_work_begin(comm, RCMI_WORK_COLLECTIVE, !ret_work, r->call, work);
    rcmi_work_bind(work, &bind);
    work->fence = bind.after;
    work->spin_began = began;
    return request_work(comm, r, work, run, ret_work);
}

rcm_status rcmi_request_submit(rcm_comm *comm, struct rcmi_request *r, struct rcm_work *whole) {
    struct rcmi_called called;
    struct rcmi_bind bind;
    r->form = request_form(r);
    rcm_status status = rcmi_request_resolve(comm, r, &called);
    if (status == RCM_OK)
        status = rcmi_work_spare(&comm->spare);
    if (status == RCM_OK)
        status = request_record(comm, r, &called, &bind);
    if (status != RCM_OK)
        return rcmi_request_decline(comm, r, status);
    struct rcm_work *work = rcmi_work_take(&comm->spare);
    rcmi_work_begin(comm, RCMI_WORK_COLLECTIVE, false, r->call, work);
    rcmi_work_bind(work, &bind);
    request_describe(comm, r, work);
    rcmi_work_part(work, whole);
    rcmi_comm_submit(comm, work);
    return RCM_OK;
}

/* ---- Public functions ------------------------------------------------------------------------ */

rcm_status rcm_all_reduce(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                          rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_ALL_REDUCE,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op,
                                   .call = call};
    rcm_status status = rcmi_comm_usable(comm);
    const struct rcmi_called *again = status == RCM_OK ? request_again(comm, &request) : NULL;
    if (status == RCM_OK && !again) {
        status = rcmi_check_vector(count, dtype, 1);
        if (status == RCM_OK)
            status = rcmi_collective_check_op(rcmi_collective_at(RCM_ALL_REDUCE), op, dtype);
    }
    if (status == RCM_OK)
        status = rcmi_check_buffer("send", send, count);
    if (status == RCM_OK)
        status = rcmi_check_buffer("recv", recv, count);
    if (status == RCM_OK)
        status = check_overlap(send, recv, again ? again->bytes : count * rcm_dtype_size(dtype));
    status = status == RCM_OK
                 ? request_issue(comm, &request, again, ret_work)
                 : rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
    return rcmi_call_out(comm, call, status);
}

rcm_status rcm_broadcast(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype, int root,
                         const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_BROADCAST,
                                   .in = buffer,
                                   .out = buffer,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .root = root,
                                   .call = call};
    rcm_status status = rcmi_comm_usable(comm);
    const struct rcmi_called *again = status == RCM_OK ? request_again(comm, &request) : NULL;
    if (status == RCM_OK && !again) {
        status = rcmi_check_vector(count, dtype, 1);
        if (status == RCM_OK)
            status = rcmi_check_root(comm->size, root);
    }
    if (status == RCM_OK)
        status = rcmi_check_buffer("buffer", buffer, count);
    status = status == RCM_OK
                 ? request_issue(comm, &request, again, ret_work)
                 : rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
    return rcmi_call_out(comm, call, status);
}

rcm_status rcm_barrier(rcm_comm *comm, const struct rcm_call *call, rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    struct rcmi_request request = {
        .collective = RCM_BARRIER, .dtype = RCM_UINT8, .op = RCM_SUM, .call = call};
    status = status == RCM_OK
                 ? request_issue(comm, &request, request_again(comm, &request), ret_work)
                 : rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
    return rcmi_call_out(comm, call, status);
}

/* A barrier of another form. */
static rcm_status barrier_issue(rcm_comm *comm, enum rcmi_form form, const struct rcm_call *call,
                                rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_BARRIER, .dtype = RCM_UINT8, .op = RCM_SUM, .call = call, .form = form};
    return request_issue(comm, &request, NULL, ret_work);
}

rcm_status rcm_monitored_barrier(rcm_comm *comm, uint32_t flags, const struct rcm_call *call,
                                 rcm_work **ret_work) {
    const bool first = flags & RCM_FIRST_MISSING;
    rcm_status status = rcmi_comm_usable(comm);
    if (status == RCM_OK && flags & ~RCM_FIRST_MISSING)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "flags is 0x%x, the only flag is RCM_FIRST_MISSING",
                           flags);
    status = status == RCM_OK
                 ? barrier_issue(comm, first ? RCMI_FORM_MONITORED_FIRST : RCMI_FORM_MONITORED,
                                 call, ret_work)
                 : rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
    return rcmi_call_out(comm, call, status);
}

rcm_status rcmi_barrier_parting(rcm_comm *comm) {
    const rcm_status status = rcmi_comm_usable(comm);
    return status == RCM_OK ? barrier_issue(comm, RCMI_FORM_PARTING, NULL, NULL) : status;
}

rcm_status rcmi_uneven_call(rcm_comm *comm, struct rcmi_request *request,
                            const struct rcmi_uneven *in, const struct rcmi_uneven *out,
                            rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    const struct rcm_call *call = request->call;
    if (status != RCM_OK)
        return rcmi_call_out(comm, call,
                             rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work));
    status = rcmi_uneven_make(request, in, out, comm->rank, comm->size, comm->engine->node);
    status = status == RCM_OK ? request_issue(comm, request, NULL, ret_work)
                              : rcmi_comm_decline(comm, status);
    return rcmi_call_out(comm, call, status);
}

rcm_status rcmi_uneven_stage(rcm_comm *comm, struct rcmi_request *request,
                             const struct rcmi_uneven *in, const struct rcmi_uneven *out,
                             struct rcmi_bind *ret_bind) {
    rcm_status status =
        rcmi_uneven_make(request, in, out, comm->rank, comm->size, comm->engine->node);
    if (status != RCM_OK)
        return status;
    status = rcmi_request_stage(comm, request, ret_bind);
    if (status != RCM_OK)
        free(request->blocks);
    return status;
}

rcm_status rcmi_request_call(rcm_comm *comm, struct rcmi_request *request, rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    const struct rcmi_called *again = status == RCM_OK ? request_again(comm, request) : NULL;
    if (again)
        status =
            rcmi_request_check_buffers(request, &again->plan->in, &again->plan->out, again->bytes);
    else if (status == RCM_OK)
        status = rcmi_request_check(request, comm->rank, comm->size);
    if (status != RCM_OK && request->stages)
        request->stages->end(request->stages, status);
    const struct rcm_call *call = request->call;
    status = status == RCM_OK
                 ? request_issue(comm, request, again, ret_work)
                 : rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
    return rcmi_call_out(comm, call, status);
}
