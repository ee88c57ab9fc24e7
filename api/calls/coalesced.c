/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_coalesced: one collective on several buffers, as one work. Each part is a separate
 * collective. They are issued together, so that their messages overlap, and the work is complete
 * when all are.
 */
#include "collectives.h"
#include "drive.h"
#include "engine.h"
#include "failure.h"
#include "request.h"
#include "work.h"

static struct rcmi_request part_request(const struct rcmi_request *common,
                                        const struct rcm_part *part) {
    struct rcmi_request request = *common;
    request.in = common->collective == RCM_BROADCAST ? part->recv : part->send;
    request.out = part->recv;
    request.count = part->count;
    request.dtype = part->dtype;
    return request;
}

static rcm_status parts_check(rcm_comm *comm, const struct rcmi_request *common,
                              const struct rcm_part *parts, size_t n) {
    const struct rcmi_collective *row = rcmi_collective_at((int)common->collective);
    if (!row || row->in == RCMI_BLOCKS_NONE || row->counts != RCMI_COUNTS_SAME)
        return rcmi_fail(RCM_ERR_INVALID, 0, "collective %d is not one with equal blocks",
                         (int)common->collective);
    if (n > 0 && !parts)
        return rcmi_fail(RCM_ERR_INVALID, 0, "parts is NULL and n is %zu", n);
    for (size_t i = 0; i < n; i++) {
        const struct rcmi_request request = part_request(common, &parts[i]);
        if (rcmi_request_check(&request, rcm_rank(comm), rcm_size(comm)) != RCM_OK)
            return rcmi_fail_context("parts[%zu]", i);
    }
    return RCM_OK;
}

/* Determines the memory kinds of all parts and, unless the call persists, makes one fence for
 * all. */
static rcm_status parts_follow(rcm_comm *comm, const struct rcmi_request *common,
                               const struct rcm_part *parts, size_t n,
                               struct rcmi_operation **ret_fence) {
    const struct rcmi_stream stream = rcmi_stream_of(common->call, rcm_comm_timeout(comm));
    struct rcmi_engine *engine = NULL;
    const rcm_status owned = rcmi_comm_own(comm, &engine);
    for (size_t i = 0; i < n && owned == RCM_OK && rcmi_mem_any_special(); i++) {
        const struct rcmi_request request = part_request(common, &parts[i]);
        struct rcmi_mem mem;
        rcm_status status =
            rcmi_request_check_kinds(engine->node, &request, rcm_rank(comm), rcm_size(comm), &mem);
        if (status == RCM_OK && !rcmi_call_persists(common->call))
            status = rcmi_stream_follow(rcmi_comm_device(comm), stream, &mem, ret_fence);
        if (status != RCM_OK)
            return rcmi_fail_context("parts[%zu]", i);
    }
    return owned;
}

/* If one cannot be issued, comm has failed, and with it the earlier ones. */
static rcm_status parts_issue(rcm_comm *comm, const struct rcmi_request *common,
                              const struct rcm_part *parts, size_t n, struct rcm_work *whole) {
    struct rcm_call each = common->call ? *common->call : (struct rcm_call)RCM_CALL_INIT;
    rcm_status status = RCM_OK;
    each.stream = NULL;
    each.flags |= RCM_NO_STREAM; /* they use the whole's fence */
    rcmi_work_whole(whole);
    for (size_t i = 0; i < n && status == RCM_OK; i++) {
        struct rcmi_request request = part_request(common, &parts[i]);
        request.call = &each;
        status = rcmi_request_submit(comm, &request, whole);
    }
    rcmi_work_part_done(whole, status);
    rcmi_comm_kick(comm);
    return status;
}

/* Makes a work that is started later. */
static rcm_status parts_persist(rcm_comm *comm, const struct rcmi_request *common,
                                const struct rcm_part *parts, size_t n, rcm_work **ret_work) {
    struct rcm_work *whole = NULL;
    if (!ret_work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "call->flags has RCM_PERSISTENT and ret_work is NULL");
    if (n == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "n is 0, a persistent operation has parts");
    rcm_status status = rcmi_work_new_persistent(comm, RCMI_WORK_COLLECTIVE, &whole);
    for (size_t i = 0; i < n && status == RCM_OK; i++) {
        const struct rcmi_request request = part_request(common, &parts[i]);
        status = rcmi_request_keep(comm, &request, whole);
    }
    if (status != RCM_OK) {
        rcm_work_free(whole);
        return rcmi_comm_decline(comm, status);
    }
    whole->collective = common->collective;
    *ret_work = whole;
    return RCM_OK;
}

static rcm_status coalesced(rcm_comm *comm, enum rcm_collective collective,
                            const struct rcm_part *parts, size_t n, rcm_op op, int root,
                            const struct rcm_call *call, rcm_work **ret_work) {
    const struct rcmi_collective *row = rcmi_collective_at((int)collective);
    struct rcmi_request common = {.collective = collective,
                                  .op = row && row->reduces ? op : RCM_SUM,
                                  .root = row && rcmi_collective_is_rooted(row) ? root : 0,
                                  .call = call};
    struct rcm_call room; /* of common.call */
    struct rcmi_operation *fence = NULL;
    struct rcm_work *whole;
    rcm_status status = rcmi_comm_why_not(comm);
    if (status == RCM_OK)
        status = parts_check(comm, &common, parts, n);
    if (status == RCM_OK)
        status = rcmi_call_in(&common.call, &room);
    if (status != RCM_OK)
        return rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, common.call, ret_work);
    status = parts_follow(comm, &common, parts, n, &fence);
    if (status != RCM_OK) {
        rcmi_stream_drop(fence);
        return rcmi_comm_decline(comm, status);
    }
    if (rcmi_call_persists(common.call))
        return parts_persist(comm, &common, parts, n, ret_work);
    status = rcmi_work_may_wait(rcmi_call_waits(common.call, ret_work));
    if (status == RCM_OK)
        status = rcmi_work_new(comm, RCMI_WORK_COLLECTIVE, false, common.call, &whole);
    if (status != RCM_OK) {
        rcmi_stream_drop(fence);
        return rcmi_comm_decline(comm, status);
    }
    whole->collective = collective;
    whole->fence = fence;
    status = parts_issue(comm, &common, parts, n, whole);
    return rcmi_work_issue_whole(whole, status, common.call, ret_work);
}

rcm_status rcm_coalesced(rcm_comm *comm, enum rcm_collective collective,
                         const struct rcm_part *parts, size_t n, rcm_op op, int root,
                         const struct rcm_call *call, rcm_work **ret_work) {
    return rcmi_call_out(comm, call,
                         coalesced(comm, collective, parts, n, op, root, call, ret_work));
}
