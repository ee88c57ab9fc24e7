/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous operations: see operation.h. */
#include "operation.h"
#include <sched.h>
#include "error.h"

static const struct rcmi_mem_row *operation_ready(struct rcmi_operation *o) {
    atomic_fetch_add_explicit(&o->all->running, 1, memory_order_relaxed);
    atomic_store_explicit(&o->status, RCM_PENDING, memory_order_relaxed);
    return rcmi_mem_kind_row(o->kind);
}

static rcm_status operation_begun(struct rcmi_operation *o, rcm_status status) {
    if (status == RCM_OK)
        return RCM_OK;
    atomic_store_explicit(&o->status, RCM_OK, memory_order_relaxed);
    atomic_fetch_sub_explicit(&o->all->running, 1, memory_order_relaxed);
    return status;
}

rcm_status rcmi_operation_begin(struct rcmi_operation *o) {
    return operation_begun(o, operation_ready(o)->begin(o));
}

rcm_status rcmi_operation_follow(struct rcmi_operation *o, void *stream) {
    return operation_begun(o, operation_ready(o)->follow(o, stream));
}

static rcm_status operation_failed(const struct rcmi_operation *o, rcm_status status) {
    const struct rcmi_mem_row *row = rcmi_mem_kind_row(o->kind);
    char why[200];
    row->explain(o->code, why, sizeof why);
    if (o->nresults == 0)
        return rcmi_fail(status, 0, "the work enqueued on the stream of %s failed: %s", row->name,
                         why);
    return rcmi_fail(status, 0, "%s of %zu bytes in %s failed: %s",
                     o->reduces ? "a reduction" : "a copy", o->bytes, row->name, why);
}

rcm_status rcmi_operation_look(const struct rcmi_operation *o) {
    /* Pairs with the release in _end: results are visible. */
    const rcm_status status = (rcm_status)atomic_load_explicit(&o->status, memory_order_acquire);
    if (status == RCM_PENDING)
        return RCM_AGAIN;
    return status == RCM_OK ? RCM_OK : operation_failed(o, status);
}

void rcmi_operation_end(struct rcmi_operation *o, rcm_status status, int code) {
    struct rcmi_operations *all = o->all;
    atomic_fetch_add_explicit(&all->waking, 1, memory_order_relaxed);
    o->code = code;
    atomic_store_explicit(&o->status, status, memory_order_release);
    /* Release: a thread that sees none running, or waking, also sees what was written before. */
    atomic_fetch_sub_explicit(&all->running, 1, memory_order_release);
    all->wake(all->arg);
    atomic_fetch_sub_explicit(&all->waking, 1, memory_order_release);
}

/* Checks given_up first: `after` may be gone once the owner has given up. */
rcm_status rcmi_operation_may_run(const struct rcmi_operation *o, int *ret_code) {
    *ret_code = 0;
    if (atomic_load_explicit(&o->all->given_up, memory_order_relaxed))
        return RCM_ERR_CANCELED;
    /* Pairs with the release in _end. */
    const rcm_status status =
        (rcm_status)atomic_load_explicit(&o->after->status, memory_order_acquire);
    if (status < RCM_OK)
        *ret_code = o->after->code;
    return status;
}

void rcmi_operations_give_up(struct rcmi_operations *all) {
    atomic_store_explicit(&all->given_up, true, memory_order_relaxed);
}

bool rcmi_operations_quiet(const struct rcmi_operations *all) {
    return atomic_load_explicit(&all->running, memory_order_acquire) == 0;
}

void rcmi_operations_settle(const struct rcmi_operations *all) {
    while (atomic_load_explicit(&all->waking, memory_order_acquire) > 0)
        sched_yield(); /* wake does not block */
}
