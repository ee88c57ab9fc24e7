/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion of works: the only place where an operation with a work ends. Parts complete their
 * whole, and stages begin the next one. See work.h. Other effects of a completion: notice.h.
 */
#include "comm.h"
#include "status_page.h"
#include <stdlib.h>
#include <string.h>

/* Stores the reason of a work that fails alone, without its communicator. Without memory there is
 * none. */
static void work_keep_reason(struct rcm_work *work, rcm_status status) {
    if (work->reason || status >= RCM_OK || status != rcmi_last_error()->status ||
        atomic_load_explicit(&work->comm->failed, memory_order_relaxed) != RCM_OK)
        return;
    work->reason = strdup(rcm_last_error());
}

/* Copies the received message to a whole with one receive, for queries after its completion. */
static void part_report(const struct rcm_work *work) {
    if (work->kind != RCMI_WORK_RECV || work->whole->kind == RCMI_WORK_BATCH)
        return;
    work->whole->message = work->message;
    work->whole->transfer = work->transfer;
}

static inline void work_drop_fence(struct rcm_work *work) {
    if (!work->fence)
        return;
    rcmi_stream_drop(work->fence);
    work->fence = NULL;
}

void rcmi_work_complete(struct rcm_work *work, rcm_status status) {
    rcm_comm *comm = work->comm;
    const bool blocking = work->blocking, attended = work->attended;
    struct rcm_work *whole = work->whole;
    bool noticed = false;
    free(work->blocks);
    work->blocks = NULL;
    work_drop_fence(work);
    rcmi_operator_drop(work->bind.op);
    if (work->stages)
        work->stages->end(work->stages, status);
    if (work->shown)
        rcmi_page_show_transfer(comm->page, RCMI_TRANSFER_NONE, NULL, 0);
    work_keep_reason(work, status);
    if (whole)
        part_report(work);
    /* Release pairs with the acquire of tests and waits. The work may be freed after it. */
    atomic_store_explicit(&work->status, status, memory_order_release);
    if (!blocking) {
        noticed = rcmi_notice_close(work, &comm->engine->notices);
        if (!noticed)
            rcmi_work_unref(work);
    }
    /* Release pairs with the acquire in rcm_destroy, which then finds the notice in the list. */
    atomic_fetch_sub_explicit(&comm->unfinished, 1, memory_order_release);
    if (!attended)
        rcmi_node_ring(comm->engine->node);
    if (noticed)
        rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
    if (whole)
        rcmi_work_part_done(whole, status);
}

/* Runs in a part's driver, perhaps another communicator's: only this call keeps the whole's
 * communicator from ending. A failed one may end before its whole does. */
static void whole_complete(struct rcm_work *whole, rcm_status status) {
    rcm_comm *comm = whole->comm;
    if (rcmi_comm_enter(comm)) {
        rcmi_work_complete(whole, status);
        rcmi_comm_exit(comm);
        return;
    }
    work_drop_fence(whole);
    atomic_store_explicit(&whole->status, status, memory_order_release);
    rcmi_work_unref(whole);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

void rcmi_work_whole(struct rcm_work *work) {
    atomic_init(&work->parts_left, 1);
    atomic_init(&work->parts_status, RCM_OK);
    atomic_fetch_add_explicit(&work->comm->issued, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&work->comm->unfinished, 1, memory_order_relaxed);
}

void rcmi_work_whole_again(struct rcm_work *work) {
    rcmi_notice_reopen(work);
    free(work->reason);
    work->reason = NULL;
    rcmi_work_ref(work); /* the driver's */
    atomic_store_explicit(&work->status, RCM_PENDING, memory_order_relaxed);
    rcmi_work_whole(work);
}

/* Copies by the CPU wait for no stream. */
static struct rcmi_operation *fence_of(const struct rcm_work *whole, enum rcmi_mem_kind kind) {
    return rcmi_mem_kind_row(kind)->at_once ? NULL : whole->fence;
}

void rcmi_work_part(struct rcm_work *work, struct rcm_work *whole) {
    atomic_store_explicit(&work->refs, 1, memory_order_relaxed); /* the driver's */
    work->whole = whole;
    work->bind.after = fence_of(whole, work->bind.in.kind);
    work->transfer.after = fence_of(whole, work->transfer.mem.kind);
    whole->sequence = work->sequence;
    atomic_fetch_add_explicit(&whole->parts_left, 1, memory_order_relaxed);
}

void rcmi_work_part_done(struct rcm_work *whole, rcm_status status) {
    int none = RCM_OK;
    if (status != RCM_OK &&
        atomic_compare_exchange_strong_explicit(&whole->parts_status, &none, status,
                                                memory_order_relaxed, memory_order_relaxed))
        work_keep_reason(whole, status);
    /* Acquire-release: the last one sees the status of all. */
    if (atomic_fetch_sub_explicit(&whole->parts_left, 1, memory_order_acq_rel) == 1)
        whole_complete(
            whole, (rcm_status)atomic_load_explicit(&whole->parts_status, memory_order_relaxed));
}

/* ---- Stages ---------------------------------------------------------------------------------- */

/* Binds a stage, and starts it: no other collective has taken a ticket since the previous stage. */
static rcm_status work_start_stage(struct rcm_work *work, const struct rcmi_bind *bind) {
    const uint64_t hash = (work->bind.meta ^ bind->meta) * UINT64_C(0x9e3779b97f4a7c15);
    rcmi_run_end(work->run);
    work->run = NULL;
    free(work->blocks);
    work->blocks = (struct rcmi_block *)bind->blocks; /* now owned by the work */
    work->bind = *bind;
    work->bind.meta = rcmi_work_meta(hash ^ hash >> 29, work->sequence);
    work->stage++;
    return rcmi_run_start(work->comm->exec, &work->bind, &work->run);
}

rcm_status rcmi_work_next_stage(struct rcm_work *work) {
    struct rcmi_bind bind;
    if (work->last_stage)
        return RCM_OK;
    rcm_status status = work->stages->next(work->stages, work->comm, &bind, &work->last_stage);
    if (status != RCM_AGAIN)
        return status;
    status = work_start_stage(work, &bind);
    return status == RCM_OK ? RCM_AGAIN : status;
}
