/* SPDX-License-Identifier: BSD-3-Clause */
/* Works: memory and references. See work.h. */
#include "work.h"
#include "entry.h"
#include "error.h"
#include "failure.h"
#include "fork.h"
#include "loop.h"
#include <stdlib.h>

rcm_status rcmi_work_make_spare(struct rcm_work **spare) {
    *spare = malloc(sizeof(**spare));
    return *spare ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a work");
}

struct rcm_work *rcmi_work_take(struct rcm_work **spare) {
    struct rcm_work *work = *spare;
    *spare = NULL;
    return work;
}

void rcmi_work_ref(struct rcm_work *work) {
    atomic_fetch_add_explicit(&work->refs, 1, memory_order_relaxed);
}

static void templates_free(struct rcmi_template *template) {
    while (template) {
        struct rcmi_template *next = template->next;
        free(template->blocks);
        rcmi_operator_drop(template->bind.op);
        free(template);
        template = next;
    }
}

void rcmi_work_unref(struct rcm_work *work) {
    /* Acquire-release: the last one sees everything the other did to the work. */
    if (atomic_fetch_sub_explicit(&work->refs, 1, memory_order_acq_rel) != 1)
        return;
    rcmi_comm_unref(work->comm);
    templates_free(work->templates);
    free(work->reason);
    free(work);
}

rcm_status rcmi_work_own(const struct rcm_work *work) {
    if (!work)
        return rcmi_fail(RCM_ERR_INVALID, 0, "work is NULL");
    if (work->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this work belongs to the parent process");
    return RCM_OK;
}

rcm_status rcmi_work_add_template(struct rcm_work *work, const struct rcmi_template *template) {
    struct rcmi_template **end = &work->templates;
    while (*end)
        end = &(*end)->next;
    *end = malloc(sizeof(**end));
    if (!*end)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a persistent operation");
    **end = *template;
    (*end)->next = NULL;
    return RCM_OK;
}

rcm_status rcmi_work_may_wait(int64_t timeout_ms) {
    if (timeout_ms != 0 && rcmi_in_operator())
        return rcmi_operator_check();
    if (timeout_ms == 0 || !rcmi_loop_on_any_thread())
        return RCM_OK;
    if (timeout_ms < 0)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "this call waits, and a callback may not wait: all communication of this "
                         "rank waits for it");
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "timeout_ms is %lld in a callback, which may not wait: all communication of "
                     "this rank waits for it",
                     (long long)timeout_ms);
}
