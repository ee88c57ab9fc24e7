/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a traced executor records. exec.c and exec_bind.c call this only for traced runs.
 */
#include "exec_internal.h"
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

struct rcmi_lane_trace {
    int64_t waited; /* start of the wait; 0: none */
    const struct rcmi_end *waits_for;
};

/* ---- Time ------------------------------------------------------------------------------------ */

static bool counter_is_even(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1); /* invariant TSC */
#else
    return false;
#endif
}

void rcmi_trace_set_clock(struct rcmi_trace *trace) {
    trace->by_counter = counter_is_even();
    trace->first = rcmi_trace_now(trace);
    trace->first_ns = rcmi_now_ns();
}

double rcmi_trace_unit_ns(const struct rcmi_trace *trace) {
    const int64_t units = rcmi_trace_now(trace) - trace->first;
    return trace->by_counter && units > 0
               ? (double)(rcmi_now_ns() - trace->first_ns) / (double)units
               : 1;
}

/* ---- Recording ------------------------------------------------------------------------------- */

struct rcmi_lane_trace *rcmi_trace_lanes(const struct rcmi_plan *plan) {
    return calloc((size_t)plan->nlanes * plan->stripes, sizeof(struct rcmi_lane_trace));
}

/* Writes each field: the event's memory was used before. */
static struct rcmi_trace_event *event_next(const struct rcmi_run *run, enum rcmi_trace_kind kind,
                                           int64_t begin, int64_t end) {
    struct rcmi_trace_event *event = rcmi_trace_next(run->exec->config.trace);
    event->begin = begin;
    event->end = end;
    event->algorithm = run->bind.plan->algorithm;
    event->number = (uint32_t)run->bind.meta;
    event->track = run->track;
    event->kind = (uint8_t)kind;
    return event;
}

static void event_set_step(struct rcmi_trace_event *event, const struct rcmi_run *run,
                           const struct rcmi_lane_state *lane, const struct rcmi_end *end) {
    event->step = lane->pc;
    event->lane = (uint16_t)(lane - run->lanes);
    event->peer = end ? end->peer : -1;
}

static void trace_wait(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                       const struct rcmi_lane_trace *at, int64_t until, bool unfinished) {
    const struct rcmi_channel *channel = at->waits_for ? at->waits_for->channel : NULL;
    struct rcmi_trace_event *event = event_next(run, RCMI_TRACE_WAIT, at->waited, until);
    event_set_step(event, run, lane, at->waits_for);
    event->to_send = at->waits_for && at->waits_for->outgoing;
    event->unfinished = unfinished;
    rcmi_trace_publish(run->exec->config.trace);
    if (channel)
        rcmi_count(&run->exec->config.trace->waited[channel->transport_number],
                   (uint64_t)(until - at->waited));
}

/* The end through which a step moves data; NULL: none. */
static const struct rcmi_end *step_end(const struct rcmi_run *run,
                                       const struct rcmi_lane_state *lane,
                                       const struct rcmi_bound_step *step) {
    if (step->out != RCMI_NO_CHANNEL)
        return lane->ports[step->out].end;
    for (uint32_t i = step->first_src; i < step->first_src + step->nsrcs; i++)
        if (run->operands[i].where == RCMI_CHANNEL)
            return lane->ports[run->operands[i].index].end;
    return NULL;
}

static void trace_moved(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                        const struct rcmi_bound_step *step, int64_t began, int64_t now) {
    const struct rcmi_end *end = step_end(run, lane, step);
    struct rcmi_trace_event *event = event_next(run, RCMI_TRACE_STEP, began, now);
    event_set_step(event, run, lane, end);
    event->name = rcmi_step_name(run->bind.plan->steps[lane->pc].op);
    event->bytes = rcmi_message_length(run, step, lane->offset);
    rcmi_trace_publish(run->exec->config.trace);
    if (end)
        rcmi_count(&run->exec->config.trace->moved[end->channel->transport_number],
                   (uint64_t)(now - began));
}

/* Takes the first free track. No more operations than tracks run concurrently. */
static void run_begins(struct rcmi_run *run) {
    struct rcmi_trace *trace = run->exec->config.trace;
    run->trace_began = run->traced;
    run->track = ~trace->tracks != 0 ? (uint8_t)__builtin_ctzll(~trace->tracks) : 0;
    trace->tracks |= UINT64_C(1) << run->track;
}

void rcmi_trace_pass(struct rcmi_run *run) {
    run->traced = rcmi_trace_now(run->exec->config.trace);
    if (run->trace_began == 0)
        run_begins(run);
}

void rcmi_trace_step(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                     const struct rcmi_bound_step *step, rcm_status status) {
    struct rcmi_lane_trace *at = &run->traces[lane - run->lanes];
    const int64_t began = run->traced;
    if (status == RCM_AGAIN) { /* does not read the clock: the rank may be spinning */
        at->waited = at->waited != 0 ? at->waited : began;
        at->waits_for = lane->waits_for ? lane->waits_for->end : NULL;
    }
    if (status != RCM_OK)
        return;
    run->traced = rcmi_trace_now(run->exec->config.trace);
    if (at->waited != 0)
        trace_wait(run, lane, at, began, false);
    at->waited = 0;
    trace_moved(run, lane, step, began, run->traced);
}

/* Resets the waits: a reused run may have more stripes. */
static void lanes_end(const struct rcmi_run *run, int64_t now) {
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++) {
        if (run->traces[i].waited != 0)
            trace_wait(run, &run->lanes[i], &run->traces[i], now, true);
        run->traces[i] = (struct rcmi_lane_trace){0};
    }
}

/* The end of the last step, when the clock was last read; now, if a lane is still waiting. */
static int64_t run_ended(const struct rcmi_run *run) {
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++)
        if (run->traces[i].waited != 0)
            return rcmi_trace_now(run->exec->config.trace);
    return run->traced;
}

void rcmi_trace_end_run(struct rcmi_run *run) {
    const int64_t now = run_ended(run);
    lanes_end(run, now);
    if (run->trace_began == 0) /* it did not begin */
        return;
    struct rcmi_trace_event *event = event_next(run, RCMI_TRACE_OPERATION, run->trace_began, now);
    event->peer = -1;
    event->name = rcmi_collective_name(run->bind.collective);
    event->bytes = run->bind.count * run->element_bytes;
    rcmi_trace_publish(run->exec->config.trace);
    run->exec->config.trace->tracks &= ~(UINT64_C(1) << run->track);
    run->trace_began = 0;
}
