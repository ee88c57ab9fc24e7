/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of persistent works, issued by each start. Not here: the works (work.h). */
#include "collective_bind.h"
#include "comm.h"
#include "diagnosis.h"
#include "drive.h"
#include "operator.h"
#include "work.h"

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

/* Adds it to a persistent work, which then owns the blocks. */
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
    rcmi_request_bind(r, called, 0, &template.bind);
    rcm_status status = template.special ? rcmi_bind_know(comm, &template.bind) : RCM_OK;
    if (status == RCM_OK)
        status = rcmi_work_add_template(work, &template);
    if (status == RCM_OK)
        rcmi_operator_share(r->op);
    return status;
}

rcm_status rcmi_request_keep(rcm_comm *comm, const struct rcmi_request *r, struct rcm_work *work) {
    struct rcmi_called called;
    const rcm_status status = rcmi_request_resolve(comm, r, &called);
    return status == RCM_OK ? request_keep(comm, r, &called, work) : status;
}

rcm_status rcmi_request_persist(rcm_comm *comm, const struct rcmi_request *r,
                                const struct rcmi_called *called, rcm_work **ret_work) {
    struct rcm_work *work = NULL;
    rcm_status status = request_may_persist(r, ret_work);
    if (status == RCM_OK)
        status = rcmi_work_new_persistent(comm, RCMI_WORK_COLLECTIVE, &work);
    if (status == RCM_OK)
        status = request_keep(comm, r, called, work);
    if (status != RCM_OK) {
        rcm_work_free(work);
        return rcmi_request_decline(comm, r, status);
    }
    work->collective = r->collective;
    work->form = r->form;
    *ret_work = work;
    return RCM_OK;
}

/* Records the call. */
static void template_record(rcm_comm *comm, const struct rcmi_template *template,
                            struct rcm_work *work) {
    comm->sequence++;
    rcmi_work_bind(work, &template->bind);
    work->bind.meta = rcmi_bind_record(comm, template->hash, &template->bind);
    const struct rcmi_call_entry entry = {
        comm->sequence, rcmi_call_form(template->form, work->bind.in.kind), &work->bind};
    rcmi_call_log_add(comm->call_log, &entry);
    work->sequence = comm->sequence;
    work->collective = template->collective;
    work->form = template->form;
    work->drains = template->drains;
}

rcm_status rcmi_request_start(rcm_comm *comm, const struct rcmi_template *template,
                              struct rcm_work *whole) {
    struct rcm_work *work = NULL;
    const rcm_status status = rcmi_work_new(comm, RCMI_WORK_COLLECTIVE, false, NULL, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(comm, status);
    template_record(comm, template, work);
    if (template->timeout_ms)
        work->timeout_ms = template->timeout_ms;
    rcmi_work_part(work, whole);
    rcmi_comm_submit(comm, work);
    return RCM_OK;
}
