/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: probes, receives of probed messages, and cancels. A probe is a work whose thread
 * waits for it, so that it has a deadline and is in reports. A probe that only looks once, and a
 * cancel, are works too, which the next driver completes in issue order.
 */
#include "drive.h"
#include "engine.h"
#include "failure.h"
#include "message.h"
#include "p2p.h"
#include "transfer.h"

/* ---- Probes ---------------------------------------------------------------------------------- */

enum { NOT_FOUND = -2 }; /* not a source */

/* A probe of any kind. The caller owns the description and, if taken, the message. */
struct probe {
    rcm_comm *comm;
    int src;
    uint64_t tag;
    uint32_t how; /* RCMI_PROBE_... */
    struct rcm_message *ret_message;
    rcm_matched **ret_matched;
};

static rcm_status probe_check(const struct probe *probe) {
    if ((probe->how & RCMI_PROBE_TAKE) && !probe->ret_matched)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_matched is NULL");
    return probe->ret_message ? rcmi_message_out_check("ret_message", probe->ret_message) : RCM_OK;
}

/* Cancels a receive without a message; makes a probe look once more. */
static void transfer_cancel(rcm_comm *comm, rcm_work *work) {
    struct rcm_work cancel;
    rcmi_work_begin(comm, RCMI_WORK_CANCEL, true, NULL, &cancel);
    cancel.target = work;
    rcmi_comm_run(comm, &cancel, RCMI_NEVER);
}

/* Waits for a message, as long as the call permits. *ret_found has no source if there is none. */
static rcm_status probe_run(const struct probe *probe, const struct rcm_call *call,
                            struct rcm_message *ret_found, void **ret_taken) {
    struct rcm_work *work;
    const rcm_status status = rcmi_work_new(probe->comm, RCMI_WORK_PROBE, true, call, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(probe->comm, status);
    work->message_to = ret_found;
    work->matched_to = ret_taken;
    work->transfer = (struct rcmi_transfer){
        .peer = probe->src, .tag = probe->tag, .probe = probe->how, .mem = rcmi_mem_host(NULL, 0)};
    rcmi_comm_run(probe->comm, work,
                  rcmi_deadline_in(call && call->wait_ms > 0 ? call->wait_ms : -1));
    if (rcm_work_status(work) == RCM_PENDING) {
        transfer_cancel(probe->comm, work);
        (void)rcmi_comm_wait(probe->comm, work, RCMI_NEVER);
    }
    return rcmi_work_end(probe->comm, work, NULL);
}

static rcm_status probe_take(const struct probe *probe, const struct rcm_call *call) {
    struct rcm_message found = {.size = sizeof found, .source = NOT_FOUND};
    void *taken = NULL;
    const struct rcmi_message_call m = {
        .kind = RCMI_WORK_PROBE, .dtype = RCM_UINT8, .peer = probe->src, .tag = probe->tag};
    struct rcm_call room;
    rcm_status status = rcmi_comm_why_not(probe->comm);
    if (status != RCM_OK)
        return rcmi_comm_refuse(probe->comm, RCMI_WORK_PROBE, status, call, NULL);
    status = probe_check(probe);
    if (status == RCM_OK)
        status = rcmi_work_may_wait(-1);
    if (status == RCM_OK)
        status = rcmi_message_check(probe->comm, &m);
    if (status == RCM_OK)
        status = rcmi_call_in_alone(&call, &room);
    if (status == RCM_OK)
        status = probe_run(probe, call, &found, &taken);
    if (status != RCM_OK)
        return status;
    if (found.source == NOT_FOUND)
        return RCM_PENDING;
    if (probe->ret_message)
        rcmi_message_out(&found, probe->ret_message);
    if (probe->ret_matched)
        *probe->ret_matched = taken;
    return RCM_OK;
}

static rcm_status probe_call(const struct probe *probe, const struct rcm_call *call) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, rcmi_call_out(probe->comm, call, probe_take(probe, call)));
}

/* Looks at the messages that have arrived by now. */
static rcm_status probe_once(struct probe *probe) {
    struct rcmi_engine *engine = NULL;
    const rcm_status status = rcmi_comm_own(probe->comm, &engine);
    if (status != RCM_OK)
        return status;
    (void)rcmi_node_progress(engine->node);
    probe->how |= RCMI_PROBE_ONCE;
    return probe_call(probe, NULL);
}

rcm_status rcm_probe(rcm_comm *comm, int src, uint64_t tag, const struct rcm_call *call,
                     struct rcm_message *ret_message) {
    const struct probe probe = {comm, src, tag, 0, ret_message, NULL};
    return probe_call(&probe, call);
}

rcm_status rcm_iprobe(rcm_comm *comm, int src, uint64_t tag, struct rcm_message *ret_message) {
    struct probe probe = {comm, src, tag, 0, ret_message, NULL};
    return probe_once(&probe);
}

rcm_status rcm_mprobe(rcm_comm *comm, int src, uint64_t tag, const struct rcm_call *call,
                      struct rcm_message *ret_message, rcm_matched **ret_matched) {
    const struct probe probe = {comm, src, tag, RCMI_PROBE_TAKE, ret_message, ret_matched};
    return probe_call(&probe, call);
}

rcm_status rcm_improbe(rcm_comm *comm, int src, uint64_t tag, struct rcm_message *ret_message,
                       rcm_matched **ret_matched) {
    struct probe probe = {comm, src, tag, RCMI_PROBE_TAKE, ret_message, ret_matched};
    return probe_once(&probe);
}

rcm_status rcm_mrecv(rcm_comm *comm, rcm_matched *matched, void *buffer, size_t count,
                     rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    const struct rcmi_message_call m = {.kind = RCMI_WORK_RECV,
                                        .buffer = buffer,
                                        .count = count,
                                        .dtype = dtype,
                                        .peer = RCM_ANY_SOURCE,
                                        .tag = RCM_ANY_TAG,
                                        .matched = matched};
    const rcm_status status = rcmi_comm_why_not(comm);
    if (status == RCM_OK && !matched)
        return rcmi_call_out(comm, call, rcmi_fail(RCM_ERR_INVALID, 0, "matched is NULL"));
    return rcmi_message_call(comm, &m, call, ret_work);
}

/* ---- Cancel ---------------------------------------------------------------------------------- */

static rcm_status cancel_check(const rcm_work *work) {
    rcm_status status = rcmi_work_own(work);
    if (status == RCM_OK && work->kind != RCMI_WORK_RECV)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "work is a %s, not a receive", rcmi_work_name(work));
    if (status == RCM_OK && work->templates)
        status = rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "work is persistent: it cannot be canceled");
    return status == RCM_OK ? rcmi_work_may_wait(-1) : status;
}

rcm_status rcm_work_cancel(rcm_work *work) {
    const rcm_status status = cancel_check(work);
    if (status != RCM_OK)
        return status;
    if (rcm_work_status(work) == RCM_PENDING && rcmi_comm_enter(work->comm)) {
        struct rcmi_error *before = rcmi_errors_begin();
        transfer_cancel(work->comm, work);
        rcmi_comm_exit(work->comm);
        (void)rcmi_errors_end(before, RCM_OK);
    }
    return rcm_work_status(work) == RCM_PENDING ? RCM_PENDING : RCM_OK;
}
