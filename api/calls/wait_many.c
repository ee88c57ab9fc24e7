/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for one of several works, or for all. Waiting for all is waiting for each. To wait for
 * one, a thread drives the communicator of the first incomplete work, as in rcm_work_wait. The loop
 * thread drives the others, whose completions wake the thread. If the works belong to several
 * engines (ranks that are threads), the thread drives none of them, and any completion in the
 * process wakes it.
 */
#include "drive.h"
#include "entry.h"
#include "error.h"
#include "failure.h"
#include "notice.h"
#include "work.h"

static rcm_status work_status(const struct rcm_work *work) {
    return (rcm_status)atomic_load_explicit(&work->status, memory_order_acquire);
}

/* The works to wait for; entries may be NULL. */
struct several {
    rcm_work *const *works;
    size_t n, index; /* index: of a complete one */
    uint32_t seen;   /* completions of the process at the last look */
    rcm_status look; /* result of that look */
    bool any;        /* at least one is not NULL */
};

/* RCM_OK with the index of the first complete one, or n if there are none; else RCM_AGAIN. */
static rcm_status several_look(struct several *s) {
    s->any = false;
    for (size_t i = 0; i < s->n; i++) {
        if (!s->works[i])
            continue;
        s->any = true;
        s->index = i;
        if (work_status(s->works[i]) != RCM_PENDING)
            return RCM_OK;
    }
    s->index = s->n;
    return s->any ? RCM_AGAIN : RCM_OK;
}

/* Looks again if any work of the process was completed since; else returns the last result. */
static rcm_status several_check(void *arg) {
    struct several *s = arg;
    const uint32_t now = rcmi_notice_completed();
    if (now == s->seen)
        return s->look;
    s->seen = now;
    s->look = several_look(s);
    return s->look;
}

static rcm_status several_own(const struct several *s) {
    if (s->n > 0 && !s->works)
        return rcmi_fail(RCM_ERR_INVALID, 0, "works is NULL and n is %zu", s->n);
    for (size_t i = 0; i < s->n; i++)
        if (s->works[i] && rcmi_work_own(s->works[i]) != RCM_OK)
            return rcmi_fail_context("works[%zu]", i);
    return RCM_OK;
}

static struct rcm_comm *several_comm(const struct several *s) {
    size_t i = 0;
    while (!s->works[i])
        i++;
    return s->works[i]->comm;
}

/* Communicators of incomplete works still exist. */
static bool several_share_engine(const struct several *s) {
    struct rcmi_engine *first = NULL, *other = NULL;
    for (size_t i = 0; i < s->n; i++) {
        if (!s->works[i] || rcmi_comm_own(s->works[i]->comm, &other) != RCM_OK)
            continue;
        if (first && other != first)
            return false;
        first = other;
    }
    return true;
}

/* The loop threads drive the works. */
static void several_sleep(struct several *s, rcmi_deadline deadline) {
    while (several_check(s) == RCM_AGAIN && !rcmi_deadline_passed(deadline))
        rcmi_notice_sleep(s->seen, deadline);
}

static rcm_status several_result(const struct several *s, size_t *ret_index) {
    *ret_index = s->index;
    return s->any ? rcm_work_test(s->works[s->index]) : RCM_OK;
}

static rcm_status several_begin(struct several *s, size_t *ret_index) {
    const rcm_status status = several_own(s);
    if (status != RCM_OK)
        return status;
    if (!ret_index)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_index is NULL");
    s->seen = rcmi_notice_completed();
    s->look = several_look(s);
    return s->look;
}

static rcm_status test_any(rcm_work *const *works, size_t n, size_t *ret_index) {
    struct several s = {.works = works, .n = n};
    rcm_status status = several_begin(&s, ret_index);
    for (size_t i = 0; i < n && status == RCM_AGAIN; i++) {
        if (works[i])
            (void)rcm_work_test(works[i]); /* drives */
        status = several_check(&s);
    }
    if (status == RCM_AGAIN)
        return RCM_PENDING;
    return status == RCM_OK ? several_result(&s, ret_index) : status;
}

rcm_status rcm_work_test_any(rcm_work *const *works, size_t n, size_t *ret_index) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, test_any(works, n, ret_index));
}

static rcm_status wait_any(rcm_work *const *works, size_t n, int64_t timeout_ms,
                           size_t *ret_index) {
    RCMI_ENTRY;
    struct several s = {.works = works, .n = n};
    const rcmi_deadline deadline = rcmi_deadline_in(timeout_ms);
    rcm_status status = several_begin(&s, ret_index);
    if (status == RCM_OK)
        return several_result(&s, ret_index);
    if (status != RCM_AGAIN)
        return status;
    status = rcmi_work_may_wait(timeout_ms);
    if (status != RCM_OK)
        return status;
    if (several_share_engine(&s))
        rcmi_comm_wait_until(several_comm(&s), several_check, &s, deadline);
    else
        several_sleep(&s, deadline);
    return several_look(&s) == RCM_OK ? several_result(&s, ret_index) : RCM_PENDING;
}

rcm_status rcm_work_wait_any(rcm_work *const *works, size_t n, int64_t timeout_ms,
                             size_t *ret_index) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, wait_any(works, n, timeout_ms, ret_index));
}

static rcm_status wait_all(rcm_work *const *works, size_t n, int64_t timeout_ms) {
    RCMI_ENTRY;
    const struct several s = {.works = works, .n = n};
    const rcmi_deadline deadline = rcmi_deadline_in(timeout_ms);
    rcm_status status = several_own(&s);
    rcm_work *failed = NULL;
    for (size_t i = 0; i < n && status == RCM_OK; i++) {
        if (!works[i])
            continue;
        const int64_t left_ms = deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(deadline);
        const rcm_status one = rcm_work_wait(works[i], left_ms);
        if (work_status(works[i]) == RCM_PENDING) /* or it must not wait */
            status = one;
        else if (one != RCM_OK && !failed)
            failed = works[i];
    }
    return status == RCM_OK && failed ? rcm_work_test(failed) : status;
}

rcm_status rcm_work_wait_all(rcm_work *const *works, size_t n, int64_t timeout_ms) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, wait_all(works, n, timeout_ms));
}
