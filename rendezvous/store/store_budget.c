/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits a thread's store calls, each and together, and measures their duration. */
#include "error.h"
#include "rendezvous.h"
#include "store.h"

#define FINAL_MS     1000
#define FINAL_MAX_MS 5000
/* A store is slow if its calls took 1/SLOW_PART of the time and at least SLOW_LEAST_NS. */
#define SLOW_PART     8
#define SLOW_LEAST_NS INT64_C(100000000)

static _Thread_local int64_t patience_ms = RCMI_STORE_TIMEOUT_MS;

static _Thread_local struct rcmi_store_budget *thread_budget;

rcmi_deadline rcmi_call_deadline(void) {
    const rcmi_deadline deadline = rcmi_deadline_in(patience_ms);
    return thread_budget && thread_budget->deadline < deadline ? thread_budget->deadline : deadline;
}

struct rcmi_store_budget *rcmi_store_budget(struct rcmi_store_budget *budget) {
    struct rcmi_store_budget *before = thread_budget;
    thread_budget = budget;
    return before;
}

void rcmi_store_counted(const char *name, int64_t began) {
    struct rcmi_store_budget *budget = thread_budget;
    const int64_t ns = rcmi_now_ns() - began;
    if (!budget)
        return;
    budget->calls++;
    budget->total_ns += ns;
    if (ns > budget->longest_ns) {
        budget->longest_ns = ns;
        budget->longest = name;
    }
}

rcm_status rcmi_store_call_begin(const char *name, struct rcmi_store_call *ret_call) {
    if (thread_budget && rcmi_deadline_passed(thread_budget->deadline))
        return rcmi_fail(RCM_ERR_TIMEOUT, 0, "the deadline passed before %s of the store began",
                         name);
    *ret_call = (struct rcmi_store_call){
        .name = name, .began = rcmi_now_ns(), .budget = rcmi_store_budget(NULL)};
    return RCM_OK;
}

void rcmi_store_call_end(const struct rcmi_store_call *call) {
    (void)rcmi_store_budget(call->budget);
    rcmi_store_counted(call->name, call->began);
}

rcm_status rcmi_store_slow(const struct rcmi_store_budget *budget, const rcm_store *store,
                           int64_t began_ns, rcm_status status) {
    const int64_t now = rcmi_now_ns(), end = now < budget->deadline ? now : budget->deadline;
    if (status != RCM_ERR_TIMEOUT || budget->total_ns < SLOW_LEAST_NS ||
        budget->total_ns < (end - began_ns) / SLOW_PART)
        return status;
    return rcmi_fail_context("the store (%.200s) is slow: %d calls took %.2f s, the longest, %s, "
                             "%.2f s; raise RINGCOMM_TIMEOUT or options.timeout_ms",
                             store->url[0] ? store->url : store->ops->name, budget->calls,
                             (double)budget->total_ns / 1e9, budget->longest,
                             (double)budget->longest_ns / 1e9);
}

void rcmi_store_final_begin(struct rcmi_store_final *final) {
    const rcmi_deadline least = rcmi_deadline_in(FINAL_MS), most = rcmi_deadline_in(FINAL_MAX_MS);
    const rcmi_deadline outer = thread_budget ? thread_budget->deadline : most;
    final->own = (struct rcmi_store_budget){.deadline = outer < least  ? least
                                                        : outer > most ? most
                                                                       : outer};
    final->patience = rcmi_store_patience(FINAL_MS);
    final->outer = rcmi_store_budget(&final->own);
}

void rcmi_store_final_end(const struct rcmi_store_final *final) {
    (void)rcmi_store_budget(final->outer);
    (void)rcmi_store_patience(final->patience);
}

int64_t rcmi_store_patience(int64_t ms) {
    int64_t before = patience_ms;
    patience_ms = ms;
    return before;
}
