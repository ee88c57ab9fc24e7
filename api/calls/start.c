/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts of persistent works. Such a work is a whole (completion.c). Each start issues its
 * templates as parts, which are ordinary works, and it is complete when they are. The call that
 * made it checked its arguments and chose its plan (collective.c, message.c).
 */
#include "collective_bind.h"
#include "drive.h"
#include "engine.h"
#include "error.h"
#include "failure.h"
#include "message.h"
#include "request.h"
#include "work.h"

static rcm_status start_check(const rcm_work *work) {
    const rcm_status status = rcmi_work_own(work);
    if (status != RCM_OK)
        return status;
    if (!work->templates)
        return rcmi_fail(RCM_ERR_INVALID, 0, "work is a %s without RCM_PERSISTENT",
                         rcmi_work_name(work));
    if (atomic_load_explicit(&work->status, memory_order_acquire) == RCM_PENDING)
        return rcmi_fail(RCM_ERR_INVALID, 0, "work is a %s that is still running",
                         rcmi_work_name(work));
    return RCM_OK;
}

static rcm_status templates_issue(struct rcm_comm *comm, struct rcm_work *work) {
    rcm_status status = RCM_OK;
    for (struct rcmi_template *t = work->templates; t && status == RCM_OK; t = t->next)
        status = t->kind == RCMI_WORK_COLLECTIVE ? rcmi_request_start(comm, t, work)
                                                 : rcmi_message_start(comm, t, work);
    return status;
}

/* Looks up a buffer again: its kind and registration may have changed. */
static rcm_status buffer_look(struct rcmi_node *node, struct rcmi_mem *mem) {
    struct rcmi_mem now;
    const rcm_status status = rcmi_node_mem(node, mem->bytes, mem->len, &now);
    if (status != RCM_OK)
        return status;
    if (mem->len > 0 && mem->kind != RCMI_MEM_HOST && now.kind != mem->kind)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "%p was %s when this operation was made persistent, and was freed since: "
                         "free the work before its buffers",
                         mem->bytes, rcmi_mem_kind_name(mem->kind));
    *mem = now;
    return RCM_OK;
}

static rcm_status bind_look(struct rcmi_node *node, struct rcmi_template *t) {
    struct rcmi_bind *bind = &t->bind;
    const uint32_t n = t->blocks ? bind->plan->in.n + bind->plan->out.n : 0;
    rcm_status status = RCM_OK;
    const bool special = rcmi_mem_any_special();
    if (!special && !t->special)
        return RCM_OK;
    t->special = special;
    for (uint32_t i = 0; i < n && status == RCM_OK; i++)
        status = buffer_look(node, &t->blocks[i].mem);
    if (n > 0 && status == RCM_OK)
        rcmi_bind_blocks(t->blocks, bind);
    if (n == 0 && !rcmi_bind_is_uneven(bind)) {
        status = buffer_look(node, &bind->in);
        if (status == RCM_OK)
            status = buffer_look(node, &bind->out);
    }
    return status == RCM_OK ? rcmi_check_kinds(bind) : status;
}

/* Looks up all buffers before anything is issued. */
static rcm_status templates_look(const struct rcm_comm *comm, const struct rcm_work *work) {
    struct rcmi_engine *engine = NULL;
    rcm_status status = rcmi_comm_own(comm, &engine);
    for (struct rcmi_template *t = work->templates; t && status == RCM_OK; t = t->next)
        status = t->kind == RCMI_WORK_COLLECTIVE ? bind_look(engine->node, t)
                                                 : buffer_look(engine->node, &t->transfer.mem);
    return status;
}

/* Makes the fence of this start: all of its operations have one stream. */
static rcm_status templates_follow(struct rcm_comm *comm, const struct rcm_work *work,
                                   struct rcmi_operation **ret_fence) {
    rcm_status status = templates_look(comm, work);
    for (const struct rcmi_template *t = work->templates; t && status == RCM_OK; t = t->next) {
        const struct rcmi_mem *mem = t->kind != RCMI_WORK_COLLECTIVE ? &t->transfer.mem
                                     : t->bind.in.len > 0            ? &t->bind.in
                                                                     : &t->bind.out;
        status = rcmi_stream_follow(rcmi_comm_device(comm), t->stream, mem, ret_fence);
    }
    return status;
}

/* Bytes of a work that is one collective; SIZE_MAX for others. */
static size_t only_collective_bytes(const struct rcm_work *work) {
    const struct rcmi_template *t = work->templates;
    return t && !t->next && t->kind == RCMI_WORK_COLLECTIVE ? rcmi_bind_bytes(&t->bind) : SIZE_MAX;
}

/* If one cannot be issued, comm has failed, and with it the earlier ones. A rank that is no member
 * issues nothing. */
static rcm_status work_start(struct rcm_comm *comm, struct rcm_work *work) {
    rcm_status status = rcmi_comm_why_not(comm);
    const bool absent = status == RCMI_ABSENT;
    struct rcmi_operation *fence = NULL;
    if (status == RCM_OK)
        status = templates_follow(comm, work, &fence);
    if (status != RCM_OK && !absent) {
        rcmi_stream_drop(fence);
        return rcmi_comm_decline(comm, status);
    }
    const size_t bytes = only_collective_bytes(work);
    rcmi_work_whole_again(work);
    work->fence = fence;
    rcmi_notice_hand_out(work);
    status = absent ? RCM_OK : templates_issue(comm, work);
    rcmi_work_part_done(work, status);
    if (!absent)
        rcmi_comm_kick_small(comm, bytes);
    return status;
}

rcm_status rcm_work_start(rcm_work *work) {
    rcm_status status = start_check(work);
    if (status != RCM_OK)
        return status;
    struct rcm_comm *comm = work->comm;
    if (!rcmi_comm_enter(comm))
        return rcmi_fail(RCM_ERR_INVALID, 0, "the communicator of this %s was destroyed",
                         rcmi_work_name(work));
    status = work_start(comm, work);
    rcmi_comm_exit(comm);
    return status;
}
