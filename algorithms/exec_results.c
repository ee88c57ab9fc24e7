/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether results are written past the caches. What does not stay there until somebody reads it had
 * better be: its lines need not be fetched before they are written, and others stay. Small results
 * stay and large ones do not; in between it depends on the machine's caches, on what else is in
 * them, and on how many ranks share them. So both are tried, for whole runs within a host, each
 * rank for itself.
 *
 * Not here: how slots are written (slot_stores in exec.c).
 */
#include "exec_internal.h"

/* The first one is kept as long as the other is not clearly faster. */
enum { THROUGH, PAST };

static bool is_on_one_host(const struct rcmi_exec *exec) {
    return exec->config.shape->nhosts == 1;
}

/* Who only sends writes no results. */
struct rcmi_rows *rcmi_run_results(struct rcmi_run *run, size_t bytes, bool only_sends) {
    if (run->large || only_sends || bytes < RCMI_LARGE_MIN || !is_on_one_host(run->exec))
        return NULL;
    const int size = bytes < 2 * RCMI_LARGE_MIN ? 0 : bytes < 4 * RCMI_LARGE_MIN ? 1 : 2;
    return &run->exec->results[run->bind.plan->sums][size];
}

/* A run beside others takes the time of those too, and is no occasion to try something. Waiting for
 * other ranks is measured as well, but of several runs the best one counts. */
void rcmi_run_results_begin(struct rcmi_run *run) {
    run->results_ns = 0;
    if (!run->results)
        return;
    if (run->exec->running > 0) {
        run->large = run->results->faster.way == PAST;
        return;
    }
    run->large = rcmi_rows_way(run->results) == PAST;
    run->results_ns = rcmi_now_ns();
    run->results_start = run->exec->starts;
}

void rcmi_run_results_end(struct rcmi_run *run) {
    const size_t bytes = run->bind.count * run->element_bytes;
    if (run->exec->starts - run->results_start > 1)
        return;
    rcmi_rows_learn(run->results, run->large ? PAST : THROUGH,
                    (float)(rcmi_now_ns() - run->results_ns) * 1024.0f / (float)bytes);
}
