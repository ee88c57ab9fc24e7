/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether results are written past the caches. What does not stay there until somebody reads it had
 * better be: its lines need not be fetched before they are written, and others stay. Small results
 * stay and large ones do not; in between it depends on the machine's caches, on what else is in
 * them, and on how many ranks share them. So both are tried, for whole runs within a host, each
 * rank for itself.
 *
 * Where copies are made by the string instruction (cpu.h), results that do not fit the second-level
 * cache may take it twice as long, for many runs in a row, if each rank has a core (seen with two).
 * So those are copied by vectors, or both are tried where they stay in the caches.
 *
 * Not here: how slots are written (slot_stores in exec.c).
 */
#include "cpu.h"
#include "exec_internal.h"

/* The first one is kept as long as the other is not clearly faster. */
enum { FIRST, OTHER };

static bool is_on_one_host(const struct rcmi_exec *exec) {
    return exec->config.shape->nhosts == 1;
}

/* Who only sends writes no results. */
struct rcmi_rows *rcmi_run_results(struct rcmi_run *run, size_t bytes, bool only_sends) {
    if (run->large || only_sends || bytes < RCMI_LARGE_MIN || !is_on_one_host(run->exec))
        return NULL;
    int size = 0;
    while (size < RCMI_RESULT_SIZES - 1 && bytes >= RCMI_LARGE_MIN << (size + 1))
        size++;
    return &run->exec->results[run->bind.plan->sums][size];
}

static size_t results_bytes(const struct rcmi_run *run) {
    return run->bind.count * run->element_bytes;
}

static void results_choose(struct rcmi_run *run, int way) {
    const bool strings =
        rcmi_cpu_copies_strings() && !run->bind.plan->sums && run->exec->config.shape->crowd <= 1;
    const bool stay = strings && results_bytes(run) < RCMI_LARGE_BYTES;
    run->results_way = (uint8_t)way;
    run->large = way == OTHER && !stay;
    run->by_vectors = strings && (way == OTHER || !stay);
}

/* A run beside others takes the time of those too, and is no occasion to try something. Waiting for
 * other ranks is measured as well, but of several runs the best one counts. */
void rcmi_run_results_begin(struct rcmi_run *run) {
    run->results_ns = 0;
    if (!run->results)
        return;
    if (run->exec->running > 0) {
        results_choose(run, run->results->faster.way);
        return;
    }
    results_choose(run, rcmi_rows_way(run->results));
    run->results_ns = rcmi_now_ns();
    run->results_start = run->exec->starts;
}

void rcmi_run_results_end(struct rcmi_run *run) {
    const float ns = (float)(rcmi_now_ns() - run->results_ns);
    if (run->exec->starts - run->results_start > 1)
        return;
    rcmi_rows_learn(run->results, run->results_way, ns * 1024.0f / (float)results_bytes(run));
}
