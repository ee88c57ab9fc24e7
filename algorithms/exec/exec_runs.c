/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executors and the memory of their runs. A finished run is kept and reused for the same plan,
 * until all together exceed RCMI_RUNS_MAX.
 *
 * Not here: what a run is bound to (exec_bind.c).
 */
#include "exec_internal.h"
#include "operator.h"
#include <stdlib.h>

rcm_status rcmi_exec_create(const struct rcmi_exec_config *config, struct rcmi_exec **ret_exec) {
    struct rcmi_exec *exec = calloc(1, sizeof(*exec));
    if (!exec)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator's executor");
    exec->config = *config;
    exec->operations = (struct rcmi_operations){
        .device = config->device, .wake = rcmi_exec_wake, .arg = config->node};
    exec->scratches = (struct rcmi_scratches){.wake = rcmi_exec_wake, .arg = config->node};
    *ret_exec = exec;
    return RCM_OK;
}

size_t rcmi_exec_memory(const struct rcmi_exec *exec) {
    return atomic_load_explicit(&exec->run_bytes, memory_order_relaxed);
}

/* Changed by one thread at a time. */
static void exec_weigh(struct rcmi_exec *exec, size_t more) {
    atomic_store_explicit(&exec->run_bytes, rcmi_exec_memory(exec) + more, memory_order_relaxed);
}

void rcmi_run_free(struct rcmi_run *run) {
    exec_weigh(run->exec, 0 - run->bytes);
    free(run->traces);
    rcmi_run_scratch_free(run);
    free(run->base);
    free(run->counts);
    free(run->lanes);
    free(run->steps);
    free(run->operands);
    free(run->pieces);
    free(run->ports);
    free(run->last_step);
    free(run->operations);
    rcmi_operator_drop(run->held);
    free(run);
}

void rcmi_exec_free(struct rcmi_exec *exec) {
    if (!exec)
        return;
    while (exec->idle) {
        struct rcmi_run *run = exec->idle;
        exec->idle = run->next;
        rcmi_run_free(run);
    }
    rcmi_exec_close_channels(exec);
    rcmi_operations_settle(&exec->operations);
    rcmi_scratches_end(&exec->scratches);
    free(exec);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void *array_new(uint32_t n, size_t size) {
    return calloc(n ? n : 1, size);
}

/* The maximum number of pieces of a plan's spans, and of their sources. */
static uint32_t plan_pieces(const struct rcmi_plan *plan, uint32_t *ret_operands) {
    uint32_t pieces = 0;
    *ret_operands = 0;
    for (uint32_t i = 0; i < plan->nsteps; i++) {
        const struct rcmi_step *step = &plan->steps[i];
        if (step->nchunks == 1)
            continue;
        pieces += step->nchunks;
        *ret_operands += step->nchunks * step->nsrcs;
    }
    return pieces;
}

static uint32_t plan_sums(const struct rcmi_plan *plan) {
    const bool reduces = rcmi_collective_at((int)plan->collective)->reduces;
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->nsteps && reduces; i++) {
        const uint32_t own = rcmi_step_input(plan, &plan->steps[i]);
        if (own < plan->steps[i].nsrcs && own >= n)
            n = own + 1;
    }
    return RCMI_KERNEL_SUMS + n;
}

rcm_status rcmi_run_new(struct rcmi_exec *exec, const struct rcmi_plan *plan,
                        struct rcmi_run **ret_run) {
    const uint32_t nsums = plan_sums(plan);
    struct rcmi_run *run = calloc(1, sizeof(*run) + nsums * sizeof(run->sums[0]));
    if (!run)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a collective");
    uint32_t operands;
    run->exec = exec;
    run->nsums = nsums;
    run->pieces = array_new(plan_pieces(plan, &operands), sizeof(*run->pieces));
    run->lanes = array_new(plan->nlanes * plan->stripes, sizeof(*run->lanes));
    run->steps = array_new(plan->nsteps, sizeof(*run->steps));
    run->operands = array_new(plan->noperands + operands, sizeof(*run->operands));
    run->ports = array_new(plan->nchannels * plan->stripes, sizeof(*run->ports));
    run->last_step = array_new(plan->nchannels, sizeof(*run->last_step));
    if (exec->config.trace)
        run->traces = rcmi_trace_lanes(plan);
    run->nbases = RCMI_BASE_BLOCKS;
    run->base = array_new(run->nbases, sizeof(*run->base));
    if (!run->base || !run->pieces || !run->lanes || !run->steps || !run->operands || !run->ports ||
        !run->last_step) {
        rcmi_run_free(run);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a plan of %u steps", plan->nsteps);
    }
    *ret_run = run;
    return RCM_OK;
}

void rcmi_run_weigh(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    const size_t of_stripe =
        plan->nlanes * sizeof(*run->lanes) + plan->nchannels * sizeof(*run->ports);
    uint32_t operands;
    const size_t pieces = plan_pieces(plan, &operands);
    const size_t bytes = sizeof(*run) + run->nsums * sizeof(run->sums[0]) +
                         plan->stripes * of_stripe + run->scratch.len +
                         (plan->nsteps + pieces) * sizeof(*run->steps) +
                         (plan->noperands + operands) * sizeof(*run->operands) +
                         run->nbases * (sizeof(*run->base) + sizeof(*run->counts));
    exec_weigh(run->exec, bytes - run->bytes);
    run->bytes = bytes;
}

/* Frees the oldest runs first. */
void rcmi_exec_trim(struct rcmi_exec *exec) {
    while (rcmi_exec_memory(exec) > RCMI_RUNS_MAX && exec->idle && exec->idle->next) {
        struct rcmi_run **last = &exec->idle->next;
        while ((*last)->next)
            last = &(*last)->next;
        rcmi_run_free(*last);
        *last = NULL;
    }
}

size_t rcmi_run_bytes(const struct rcmi_run *run) {
    return run->bytes;
}
