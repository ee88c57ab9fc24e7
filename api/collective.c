/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives' front doors: arguments are checked here, once, and the call gets its record
 * (meta), the hash by which ranks notice that they called different things. What happens then is
 * the plan's.
 *
 * The short way: the caller of a blocking one, where nothing else of the communicator is
 * unfinished, runs the plan itself and without a work, as long as it would spin anyway, or for a
 * few yields. What is not done by then, or goes wrong, becomes a work after all, and goes on the
 * long way (drive.c): with deadlines, reports, sleep, and an eye on everything else. So the short
 * way never waits for long, and reports no error: it is found again on the long one.
 */
#include "collective.h"
#include "comm.h"
#include "diagnosis.h"
#include "drive.h"
#include "operator.h"
#include "page.h"
#include "request.h"
#include "uneven.h"
#include <stdlib.h>
#include <string.h>

enum { LOOKS_MAX = 2048 };

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* The operator, as all ranks know it. */
static uint64_t request_op(const struct rcmi_request *r) {
    return rcmi_op_is_created(r->op) ? (uint32_t)rcmi_operator_hash(r->op) : (uint64_t)r->op;
}

/* Of what must be equal on all ranks. */
static uint64_t request_hash(const struct rcmi_request *r, const struct rcmi_plan *plan) {
    uint64_t hash = mix(plan->name_hash, (uint64_t)r->collective << 3 | r->form);
    hash = mix(hash, (uint64_t)r->dtype << 32 | request_op(r));
    hash = mix(hash, r->blocks ? r->counts_hash : r->count);
    return mix(hash, (uint64_t)r->root);
}

/* The call's record: what must be equal on all ranks above, the operation's number below. The hash
 * goes over all calls so far: where a call differed and yet was complete on a rank (each its own
 * root of a broadcast), the next one differs too. */
static uint64_t comm_record_call(rcm_comm *comm, uint64_t hash) {
    comm->history = mix(comm->history ^ comm->epoch, hash);
    return rcmi_work_meta(comm->history, comm->sequence);
}

/* The record of the last call, if this one is the same but for its buffers; else NULL. Then its
 * type, operator and root have been checked. */
static inline const struct rcmi_called *request_again(const rcm_comm *comm,
                                                      const struct rcmi_request *r) {
    const struct rcmi_called *called = &comm->called[r->collective];
    const bool usual = r->form == RCMI_FORM_PLAIN && !r->blocks &&
                       !(r->call && (r->call->algorithm || r->call->flags));
    const bool same = called->count == r->count && called->dtype == r->dtype &&
                      called->op == r->op && called->root == r->root;
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

/* Of the larger buffer of a rank, as far as all ranks know that; 0. */
static size_t request_bytes(const rcm_comm *comm, const struct rcmi_request *r) {
    const struct rcmi_collective *row = rcmi_collective_at((int)r->collective);
    const size_t even = r->count * rcmi_collective_larger(row, comm->size);
    return (row->counts == RCMI_COUNTS_SAME ? even : r->total) * rcm_dtype_size(r->dtype);
}

/* By the call's name, else by what is named for the size, else by price. */
static rcm_status request_algorithm(rcm_comm *comm, struct rcmi_selection *selection,
                                    const struct rcmi_request *r,
                                    const struct rcmi_algorithm **ret_algorithm) {
    const size_t bytes = request_bytes(comm, r);
    const bool ordered = !rcmi_operator_commutes(r->op);
    rcm_status status = RCM_OK;
    if (r->call && r->call->algorithm)
        status =
            rcmi_algorithm_find(r->collective, r->call->algorithm, &comm->shape, ret_algorithm);
    else
        *ret_algorithm = rcmi_choices_find(&comm->choices, r->collective, bytes, ordered);
    if (status == RCM_OK && !*ret_algorithm)
        return rcmi_algorithm_select(selection, r->collective, bytes, ordered, ret_algorithm);
    return status == RCM_OK && ordered
               ? rcmi_algorithm_check_order(*ret_algorithm, rcm_op_name(r->op))
               : status;
}

static struct rcmi_called called_make(const struct rcmi_request *r, const struct rcmi_plan *plan) {
    return (struct rcmi_called){.plan = plan,
                                .count = r->count,
                                .bytes = r->count * rcm_dtype_size(r->dtype),
                                .in_bytes = plan->in.n * r->count * rcm_dtype_size(r->dtype),
                                .out_bytes = plan->out.n * r->count * rcm_dtype_size(r->dtype),
                                .dtype = r->dtype,
                                .op = r->op,
                                .root = r->root,
                                .hash = request_hash(r, plan)};
}

/* The operator of a call is held until the next one: by then its work, or its run, holds it. */
static rcm_status request_hold(rcm_comm *comm, const struct rcmi_request *r) {
    const rcm_status status = rcmi_operator_hold(r->op);
    if (status != RCM_OK || !rcmi_op_is_created(r->op))
        return status;
    rcmi_operator_drop(comm->held);
    comm->held = r->op;
    return RCM_OK;
}

static rcm_status request_resolve(rcm_comm *comm, const struct rcmi_request *r,
                                  struct rcmi_called *ret_called) {
    const struct rcmi_algorithm *algorithm;
    const struct rcmi_plan *plan;
    rcm_status status = request_hold(comm, r);
    if (status == RCM_OK)
        status = request_algorithm(comm, comm->selection, r, &algorithm);
    if (status == RCM_OK)
        status = rcmi_plan_cache_get(comm->plans, algorithm, r->root, &plan);
    if (status != RCM_OK)
        return status;
    *ret_called = called_make(r, plan);
    if (r->form == RCMI_FORM_PLAIN && !r->blocks && !(r->call && r->call->algorithm) &&
        !rcmi_op_is_created(r->op)) /* which may be freed, and then is none */
        comm->called[r->collective] = *ret_called;
    return RCM_OK;
}

/* More is known of some memory than its address: of which kind the buffers are, and what the
 * transports know of them. */
static rcm_status bind_know(rcm_comm *comm, struct rcmi_bind *bind) {
    if (!rcmi_bind_is_uneven(bind)) { /* else it is known since their table was made */
        bind->in = rcmi_node_mem(comm->engine->node, bind->in.bytes, bind->in.len);
        bind->out = rcmi_node_mem(comm->engine->node, bind->out.bytes, bind->out.len);
    }
    return rcmi_check_kinds(bind);
}

/* What the operations of a call come after. */
static rcm_status bind_follow(rcm_comm *comm, struct rcmi_stream stream, struct rcmi_bind *bind) {
    const struct rcmi_mem *mem = bind->in.len > 0 ? &bind->in : &bind->out;
    return rcmi_stream_follow(&comm->engine->device, stream, mem, &bind->after);
}

/* The record of a call whose buffers may be no host memory. Where only pairs of ranks know counts,
 * a rank that has no elements knows no kind either: it is in messages, not in the hash. */
static uint64_t record_kind(rcm_comm *comm, uint64_t hash, const struct rcmi_bind *bind) {
    if (bind->in.kind == RCMI_MEM_HOST)
        return comm_record_call(comm, hash);
    if (rcmi_collective_at((int)bind->collective)->counts == RCMI_COUNTS_PAIR)
        return comm_record_call(comm, hash) | RCMI_META_DEVICE;
    return comm_record_call(comm, mix(hash, (uint64_t)bind->in.kind));
}

/* in and out tell of which kind they are. */
static __attribute__((noinline)) void bind_blocks(const struct rcmi_block *blocks,
                                                  struct rcmi_bind *bind) {
    const uint32_t nin = bind->plan->in.n, nout = bind->plan->out.n;
    bind->blocks = blocks;
    bind->in = nin > 0 ? blocks[0].mem : blocks[nin].mem;
    bind->out = nout > 0 ? blocks[nin].mem : bind->in;
}

/* A part of every call, where each instruction counts. */
static inline __attribute__((always_inline)) void request_bind(const struct rcmi_request *r,
                                                               const struct rcmi_called *called,
                                                               uint64_t meta,
                                                               struct rcmi_bind *ret_bind) {
    /* Each by itself: compilers would clear all of it first, by a slow instruction. */
    ret_bind->plan = called->plan;
    ret_bind->collective = r->collective;
    ret_bind->in = rcmi_mem_host(r->in, called->in_bytes);
    ret_bind->out = rcmi_mem_host(r->out, called->out_bytes);
    ret_bind->blocks = NULL;
    ret_bind->count = r->count;
    ret_bind->told = r->blocks ? r->total : r->count;
    ret_bind->dtype = r->dtype;
    ret_bind->op = r->op;
    ret_bind->meta = meta;
    ret_bind->after = NULL;
    if (r->blocks)
        bind_blocks(r->blocks, ret_bind);
}

/* Binds, and records the call, where more is known of some memory than its address. */
static __attribute__((noinline)) rcm_status request_record_special(rcm_comm *comm,
                                                                   const struct rcmi_request *r,
                                                                   const struct rcmi_called *called,
                                                                   struct rcmi_bind *ret_bind) {
    request_bind(r, called, 0, ret_bind);
    rcm_status status = bind_know(comm, ret_bind);
    if (status == RCM_OK)
        status = bind_follow(comm, rcmi_stream_of(r->call, rcm_comm_timeout(comm)), ret_bind);
    if (status != RCM_OK)
        return status;
    comm->sequence++;
    ret_bind->meta = record_kind(comm, called->hash, ret_bind);
    const struct rcmi_call_entry entry = {comm->sequence,
                                          rcmi_call_form(r->form, ret_bind->in.kind), ret_bind};
    rcmi_call_log_add(comm->call_log, &entry);
    return RCM_OK;
}

/* Binds, and records the call: it has been made once this is RCM_OK. */
static inline __attribute__((always_inline)) rcm_status
request_record(rcm_comm *comm, const struct rcmi_request *r, const struct rcmi_called *called,
               struct rcmi_bind *ret_bind) {
    if (rcmi_mem_any_special())
        return request_record_special(comm, r, called, ret_bind);
    comm->sequence++;
    request_bind(r, called, comm_record_call(comm, called->hash), ret_bind);
    const struct rcmi_call_entry entry = {comm->sequence, r->form, ret_bind};
    rcmi_call_log_add(comm->call_log, &entry);
    return RCM_OK;
}

rcm_status rcmi_request_stage(rcm_comm *comm, const struct rcmi_request *r,
                              struct rcmi_bind *ret_bind) {
    const struct rcmi_algorithm *algorithm;
    const struct rcmi_plan *plan;
    rcm_status status = request_algorithm(comm, comm->stage_selection, r, &algorithm);
    if (status == RCM_OK)
        status = rcmi_plan_cache_get(comm->plans, algorithm, r->root, &plan);
    if (status != RCM_OK)
        return status;
    const struct rcmi_called called = called_make(r, plan);
    request_bind(r, &called, called.hash, ret_bind);
    return rcmi_mem_any_special() ? bind_know(comm, ret_bind) : RCM_OK;
}

/* ---- The short way -------------------------------------------------------------------------- */

static rcm_status run_for_a_while(rcm_comm *comm, struct rcmi_run *run) {
    struct rcmi_pause pause = comm->engine->budget;
    for (int looks = 0; looks < LOOKS_MAX; looks++) {
        bool moved = false;
        if (rcmi_run_progress(run, &moved) == RCM_OK)
            return RCM_OK;
        /* Acquire pairs with the release in comm.c: the record is complete. */
        if (atomic_load_explicit(&comm->failed, memory_order_acquire) != RCM_OK)
            return RCM_AGAIN;
        if (!moved && !rcmi_node_progress(comm->engine->node) &&
            !rcmi_caller_pauses(&comm->engine->budget, &pause))
            return RCM_AGAIN;
    }
    return RCM_AGAIN;
}

/* A blocking call, as far as its caller would spin anyway. RCM_OK: it is done. RCM_AGAIN: with NULL
 * in *ret_run nothing was begun, else the caller is the driver and calls rcmi_comm_go_on. */
static rcm_status collective_now(rcm_comm *comm, uint64_t sequence, const struct rcmi_bind *bind,
                                 struct rcmi_run **ret_run) {
    struct rcmi_run *run;
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    if (rcmi_run_start(comm->exec, bind, &run) != RCM_OK) {
        rcmi_comm_give(comm);
        return RCM_AGAIN;
    }
    rcmi_page_called(comm->page, sequence, bind->collective);
    rcmi_page_oldest(comm->page, sequence, bind);
    if (run_for_a_while(comm, run) != RCM_OK) {
        *ret_run = run;
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

/* ---- Issuing -------------------------------------------------------------------------------- */

static void request_describe(const rcm_comm *comm, const struct rcmi_request *r,
                             struct rcm_work *work) {
    work->collective = r->collective;
    work->form = r->form;
    work->blocks = r->blocks;
    work->stages = r->stages;
    work->drains = rcmi_collective_at((int)r->collective)->drains;
    work->sequence = comm->sequence;
}

/* The long way, by a work: all of it, or what the short way has left. */
static rcm_status request_work(rcm_comm *comm, const struct rcmi_request *r, struct rcm_work *work,
                               struct rcmi_run *run, rcm_work **ret_work) {
    const int64_t wait_ms = rcmi_call_waits(r->call, ret_work);
    request_describe(comm, r, work);
    if (!run)
        return rcmi_work_issue(comm, work, wait_ms, ret_work);
    rcmi_comm_go_on(comm, work, run, rcmi_deadline_in(wait_ms));
    return rcmi_work_end(comm, work, ret_work);
}

/* It was done at once. */
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

/* It could not be issued. */
static rcm_status request_decline(rcm_comm *comm, const struct rcmi_request *r, rcm_status status) {
    free(r->blocks);
    if (r->stages)
        r->stages->end(r->stages, status);
    return rcmi_comm_decline(comm, status);
}

/* ---- Persistent operations ------------------------------------------------------------------- */

static rcm_status request_may_persist(const struct rcmi_request *r, rcm_work **ret_work) {
    if (!ret_work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "call->flags has RCM_PERSISTENT and ret_work is NULL");
    if (r->stages)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "a persistent operation has the same buffers each time, but the results "
                         "of this %s are new memory",
                         rcmi_collective_name(r->collective));
    return RCM_OK;
}

/* Adds it to a persistent work, whose the blocks are then. */
static rcm_status request_keep(rcm_comm *comm, const struct rcmi_request *r,
                               const struct rcmi_called *called, struct rcm_work *work) {
    struct rcmi_template template = {.kind = RCMI_WORK_COLLECTIVE,
                                     .timeout_ms = r->call->timeout_ms,
                                     .collective = r->collective,
                                     .form = r->form,
                                     .drains = rcmi_collective_at((int)r->collective)->drains,
                                     .hash = called->hash,
                                     .special = r->blocks || rcmi_mem_any_special(),
                                     .stream = rcmi_stream_of(r->call, rcm_comm_timeout(comm)),
                                     .blocks = r->blocks};
    request_bind(r, called, 0, &template.bind);
    rcm_status status = template.special ? bind_know(comm, &template.bind) : RCM_OK;
    if (status == RCM_OK)
        status = rcmi_work_add_template(work, &template);
    if (status == RCM_OK)
        rcmi_operator_share(r->op);
    return status;
}

rcm_status rcmi_request_keep(rcm_comm *comm, const struct rcmi_request *r, struct rcm_work *work) {
    struct rcmi_called called;
    const rcm_status status = request_resolve(comm, r, &called);
    return status == RCM_OK ? request_keep(comm, r, &called, work) : status;
}

/* The call makes a work that is started later. */
static rcm_status request_persist(rcm_comm *comm, const struct rcmi_request *r,
                                  const struct rcmi_called *called, rcm_work **ret_work) {
    struct rcm_work *work = NULL;
    rcm_status status = request_may_persist(r, ret_work);
    if (status == RCM_OK)
        status = rcmi_work_new_persistent(comm, RCMI_WORK_COLLECTIVE, &work);
    if (status == RCM_OK)
        status = request_keep(comm, r, called, work);
    if (status != RCM_OK) {
        rcm_work_free(work);
        return request_decline(comm, r, status);
    }
    work->collective = r->collective;
    work->form = r->form;
    *ret_work = work;
    return RCM_OK;
}

/* What is known of the buffers may have changed. */
static rcm_status template_know(rcm_comm *comm, struct rcmi_template *template) {
    const struct rcmi_plan *plan = template->bind.plan;
    const uint32_t n = template->blocks ? plan->in.n + plan->out.n : 0;
    if (!rcmi_mem_any_special() && !template->special)
        return RCM_OK;
    template->special = rcmi_mem_any_special();
    for (uint32_t i = 0; i < n; i++) {
        struct rcmi_mem *mem = &template->blocks[i].mem;
        *mem = rcmi_node_mem(comm->engine->node, mem->bytes, mem->len);
    }
    if (n > 0)
        bind_blocks(template->blocks, &template->bind);
    return bind_know(comm, &template->bind);
}

/* The call has been made. */
static void template_record(rcm_comm *comm, const struct rcmi_template *template,
                            struct rcm_work *work) {
    comm->sequence++;
    rcmi_work_bind(work, &template->bind);
    work->bind.meta = record_kind(comm, template->hash, &template->bind);
    const struct rcmi_call_entry entry = {
        comm->sequence, rcmi_call_form(template->form, work->bind.in.kind), &work->bind};
    rcmi_call_log_add(comm->call_log, &entry);
    work->sequence = comm->sequence;
    work->collective = template->collective;
    work->form = template->form;
    work->drains = template->drains;
}

rcm_status rcmi_request_start(rcm_comm *comm, struct rcmi_template *template,
                              struct rcm_work *whole) {
    struct rcm_work *work = NULL;
    rcm_status status = template_know(comm, template);
    if (status == RCM_OK)
        status = rcmi_work_new(comm, RCMI_WORK_COLLECTIVE, false, NULL, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(comm, status);
    template_record(comm, template, work);
    if (template->timeout_ms)
        work->timeout_ms = template->timeout_ms;
    rcmi_work_part(work, whole);
    rcmi_comm_submit(comm, work);
    return RCM_OK;
}

/* ---- A call ---------------------------------------------------------------------------------- */

/* called: from request_again. */
static rcm_status request_issue(rcm_comm *comm, struct rcmi_request *r,
                                const struct rcmi_called *called, rcm_work **ret_work) {
    struct rcmi_called now;
    struct rcmi_run *run = NULL;
    struct rcm_call room; /* of r->call */
    rcm_status status = rcmi_call_in(&r->call, &room);
    if (status == RCM_OK && !called) {
        status = request_resolve(comm, r, &now);
        called = &now;
        if (status == RCM_OK && rcmi_call_persists(r->call))
            return request_persist(comm, r, called, ret_work);
    }
    if (status == RCM_OK) /* now: nothing may fail once there is a run */
        status = rcmi_work_spare(&comm->spare);
    struct rcmi_bind bind;
    if (status == RCM_OK)
        status = request_record(comm, r, called, &bind);
    if (status != RCM_OK)
        return request_decline(comm, r, status);
    if (rcmi_call_waits(r->call, ret_work) != 0 && !r->stages &&
        collective_now(comm, comm->sequence, &bind, &run) == RCM_OK)
        return request_done(r, &bind, ret_work);
    struct rcm_work *work = rcmi_work_take(&comm->spare);
    rcmi_work_begin(comm, RCMI_WORK_COLLECTIVE, !ret_work, r->call, work);
    rcmi_work_bind(work, &bind);
    work->fence = bind.after;
    return request_work(comm, r, work, run, ret_work);
}

rcm_status rcmi_request_submit(rcm_comm *comm, struct rcmi_request *r, struct rcm_work *whole) {
    struct rcmi_called called;
    struct rcmi_bind bind;
    rcm_status status = request_resolve(comm, r, &called);
    if (status == RCM_OK)
        status = rcmi_work_spare(&comm->spare);
    if (status == RCM_OK)
        status = request_record(comm, r, &called, &bind);
    if (status != RCM_OK)
        return request_decline(comm, r, status);
    struct rcm_work *work = rcmi_work_take(&comm->spare);
    rcmi_work_begin(comm, RCMI_WORK_COLLECTIVE, false, r->call, work);
    rcmi_work_bind(work, &bind);
    request_describe(comm, r, work);
    rcmi_work_part(work, whole);
    rcmi_comm_submit(comm, work);
    return RCM_OK;
}

/* ---- The front doors ------------------------------------------------------------------------ */

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
    return status == RCM_OK ? request_issue(comm, &request, again, ret_work)
                            : rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
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
    return status == RCM_OK ? request_issue(comm, &request, again, ret_work)
                            : rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
}

rcm_status rcm_barrier(rcm_comm *comm, const struct rcm_call *call, rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    if (status != RCM_OK)
        return rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
    struct rcmi_request request = {
        .collective = RCM_BARRIER, .dtype = RCM_UINT8, .op = RCM_SUM, .call = call};
    return request_issue(comm, &request, request_again(comm, &request), ret_work);
}

/* One that is not plain. */
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
        status = rcmi_fail(RCM_ERR_INVALID, 0,
                           "flags is 0x%x, no flag but RCM_FIRST_MISSING is known", flags);
    if (status != RCM_OK)
        return rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, call, ret_work);
    return barrier_issue(comm, first ? RCMI_FORM_MONITORED_FIRST : RCMI_FORM_MONITORED, call,
                         ret_work);
}

rcm_status rcmi_barrier_parting(rcm_comm *comm) {
    const rcm_status status = rcmi_comm_usable(comm);
    return status == RCM_OK ? barrier_issue(comm, RCMI_FORM_PARTING, NULL, NULL) : status;
}

rcm_status rcmi_uneven_call(rcm_comm *comm, struct rcmi_request *request,
                            const struct rcmi_uneven *in, const struct rcmi_uneven *out,
                            rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    if (status != RCM_OK)
        return rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, request->call, ret_work);
    status = rcmi_uneven_make(request, in, out, comm->rank, comm->size, comm->engine->node);
    return status == RCM_OK ? request_issue(comm, request, NULL, ret_work)
                            : rcmi_comm_decline(comm, status);
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
    return status == RCM_OK
               ? request_issue(comm, request, again, ret_work)
               : rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, request->call, ret_work);
}

/* ---- Preparing -----------------------------------------------------------------------------
 */

struct prepare {
    rcm_comm *comm;
    const struct rcmi_plan *plan;
    enum rcmi_mem_kind kind;
    size_t bytes;
};

static rcm_status prepare_check(void *arg) {
    const struct prepare *prepare = arg;
    rcm_status failed = rcmi_comm_failure(prepare->comm);
    return failed != RCM_OK ? failed
                            : rcmi_exec_prepare(prepare->comm->exec, prepare->plan, prepare->kind,
                                                prepare->bytes);
}

/* bytes: of the larger buffer. */
static rcm_status request_of(const rcm_comm *comm, enum rcm_collective collective, size_t bytes,
                             const struct rcm_call *call, struct rcmi_request *ret_request) {
    const struct rcmi_collective *row = rcmi_collective_at((int)collective);
    if (!row)
        return rcmi_fail(RCM_ERR_INVALID, 0, "collective %d is none", (int)collective);
    *ret_request = (struct rcmi_request){.collective = collective,
                                         .count = bytes / rcmi_collective_larger(row, comm->size),
                                         .dtype = RCM_UINT8,
                                         .call = call};
    return RCM_OK;
}

/* Memory of a device: it is opened. */
static rcm_status prepare_kind(rcm_comm *comm, enum rcm_mem_kind kind, rcmi_deadline deadline,
                               enum rcmi_mem_kind *ret_kind) {
    if (kind != RCM_MEM_HOST && kind != RCM_MEM_DEVICE)
        return rcmi_fail(RCM_ERR_INVALID, 0, "kind is %d, no kind of memory", (int)kind);
    *ret_kind = kind == RCM_MEM_DEVICE ? RCMI_MEM_DEVICE : RCMI_MEM_HOST;
    if (kind == RCM_MEM_HOST)
        return RCM_OK;
    return rcmi_rank_device_open(rcmi_comm_device(comm), deadline);
}

rcm_status rcm_comm_prepare(rcm_comm *comm, enum rcm_collective collective, size_t bytes, int root,
                            const char *algorithm) {
    return rcm_comm_prepare_kind(comm, RCM_MEM_HOST, collective, bytes, root, algorithm);
}

rcm_status rcm_comm_prepare_kind(rcm_comm *comm, enum rcm_mem_kind kind,
                                 enum rcm_collective collective, size_t bytes, int root,
                                 const char *algorithm) {
    struct rcm_call call = RCM_CALL_INIT;
    struct rcmi_request request = {0};
    struct prepare prepare = {.comm = comm, .bytes = bytes};
    const struct rcmi_algorithm *chosen;
    const rcmi_deadline deadline = rcmi_deadline_in(comm->timeout_ms);
    call.algorithm = algorithm;
    rcm_status status = rcmi_comm_usable(comm);
    if (status != RCM_OK)
        return rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, NULL, NULL);
    status = request_of(comm, collective, bytes, &call, &request);
    if (status == RCM_OK)
        status = rcmi_check_root(comm->size, root);
    if (status == RCM_OK)
        status = prepare_kind(comm, kind, deadline, &prepare.kind);
    if (status == RCM_OK)
        status = request_algorithm(comm, comm->selection, &request, &chosen);
    if (status == RCM_OK)
        status = rcmi_plan_cache_get(comm->plans, chosen, root, &prepare.plan);
    if (status == RCM_OK)
        status = rcmi_comm_wait_for(comm, prepare_check, &prepare, deadline);
    if (status == RCM_AGAIN)
        status = rcmi_fail(RCM_ERR_TIMEOUT, 0, "not all ranks prepared %s within %.1f s",
                           rcmi_collective_name(collective), (double)comm->timeout_ms / 1000);
    return rcmi_comm_decline(comm, status);
}

const char *rcm_comm_algorithm(rcm_comm *comm, enum rcm_collective collective, size_t bytes) {
    struct rcmi_request request = {0};
    const struct rcmi_algorithm *algorithm;
    if (rcmi_comm_usable(comm) != RCM_OK ||
        request_of(comm, collective, bytes, NULL, &request) != RCM_OK ||
        request_algorithm(comm, comm->selection, &request, &algorithm) != RCM_OK)
        return "";
    return algorithm->name;
}
