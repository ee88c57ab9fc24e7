/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running bound plans: see exec.h. Binding is in exec_bind.c, how a step finds its sources and its
 * target in exec_step.h, steps that finish later are in exec_later.c.
 */
#include "exec_step.h"
#include "kernels.h"

/* When what a step computes is there. */
enum finish { AT_ONCE, LATER };

static void step_compute(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                         void *target, enum rcmi_stores stores, const void *const *srcs,
                         size_t bytes) {
    const struct rcmi_sum *sum = &run->sums[step->sum];
    if (step->reduces)
        (stores == RCMI_NON_TEMPORAL ? sum->by.reduce_streaming : sum->by.reduce)(
            target, srcs, step->nsrcs, bytes / run->element_bytes, &sum->context);
    else if (step->nsrcs == 1 && srcs[0] != target)
        run->kernels.copy[stores](target, srcs[0], bytes);
}

/* Computes both results of a step in one pass where it reduces: dst, if there is one, and what is
 * sent. */
static void step_compute_both(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                              void *dst, void *sent, enum rcmi_twice how, const void *const *srcs,
                              size_t bytes) {
    const struct rcmi_sum *sum = &run->sums[step->sum];
    if (dst && step->reduces) {
        sum->by.reduce_twice(dst, sent, srcs, step->nsrcs, bytes / run->element_bytes, how,
                             &sum->context);
        return;
    }
    step_compute(run, step, sent, how == RCMI_BOTH_NON_TEMPORAL ? RCMI_NON_TEMPORAL : RCMI_TEMPORAL,
                 srcs, bytes);
    if (dst)
        step_compute(run, step, dst, how != RCMI_BOTH_TEMPORAL ? RCMI_NON_TEMPORAL : RCMI_TEMPORAL,
                     srcs, bytes);
}

/* Fills the slot, and dst if there is one and it is not `computed` already. A slot whose message
 * will be answered is written by both sides, and its lines cost little: temporal stores. */
static void step_fill(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                      const struct rcmi_end *out, void *dst, bool computed,
                      const struct rcmi_reserved *target, const void *const *srcs, size_t bytes) {
    const enum rcmi_stores stores = step->answered ? RCMI_TEMPORAL : target->stores;
    const bool non_temporal =
        run->results == RCMI_NON_TEMPORAL && out->channel->transport->shared_slots;
    if (dst && !computed && non_temporal) {
        step_compute_both(run, step, dst, target->bytes,
                          stores == RCMI_NON_TEMPORAL ? RCMI_BOTH_NON_TEMPORAL
                                                      : RCMI_FIRST_NON_TEMPORAL,
                          srcs, bytes);
        return;
    }
    if (dst && !computed)
        step_compute(run, step, dst, RCMI_TEMPORAL, srcs, bytes);
    if (dst)
        run->kernels.copy[stores](target->bytes, dst, bytes);
    else
        step_compute(run, step, target->bytes, stores, srcs, bytes);
}

/* A piece of a span, `at` bytes into the message. target NULL: none is sent. */
static void piece_do(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                     const struct rcmi_bound_step *piece, const struct rcmi_reserved *target,
                     size_t at, const void *const *srcs, size_t bytes) {
    const bool non_temporal = run->results == RCMI_NON_TEMPORAL;
    void *dst = piece->dst.where != RCMI_NOWHERE
                    ? rcmi_run_address(run, lane, &piece->dst, lane->offset)
                    : NULL;
    if (!target) {
        step_compute(run, piece, dst, run->results, srcs, bytes);
        return;
    }
    struct rcmi_reserved part = *target;
    part.bytes = (char *)target->bytes + at;
    if (target->posted)
        step_compute_both(run, piece, dst, part.bytes,
                          non_temporal ? RCMI_BOTH_NON_TEMPORAL : RCMI_BOTH_TEMPORAL, srcs, bytes);
    else
        step_fill(run, piece, lane->ports[piece->out].end, dst, false, &part, srcs, bytes);
}

/* All pieces of a span, messages being where received and target say. */
static void pieces_do(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                      const struct rcmi_bound_step *step, const struct rcmi_reserved *target,
                      const void *const *received) {
    const void *srcs[RCMI_SOURCES_MAX];
    size_t at = 0;
    for (uint32_t i = 0; i < step->npieces; i++) {
        const struct rcmi_bound_step *piece = &run->pieces[step->first_piece + i];
        const size_t bytes = rcmi_slice_length(piece, lane->offset, run->slice_bytes);
        for (uint32_t k = 0; k < piece->nsrcs && bytes > 0; k++) {
            const struct rcmi_place *src = &run->places[piece->first_src + k];
            srcs[k] = src->where == RCMI_CHANNEL ? (const char *)received[k] + at
                                                 : rcmi_run_address(run, lane, src, lane->offset);
        }
        if (bytes > 0)
            piece_do(run, lane, piece, target, at, srcs, bytes);
        at += bytes;
    }
}

/* Not inlined: what counts messages would take registers of the loop that has none to send. */
static __attribute__((noinline)) void end_commit(struct rcmi_end *end, size_t bytes,
                                                 uint64_t meta) {
    rcmi_channel_commit(end->channel, bytes, meta);
}

/* The payload stands in the slot of the message that this one answers. */
static __attribute__((noinline)) void end_answer(struct rcmi_end *end, size_t bytes,
                                                 uint64_t meta) {
    rcmi_channel_commit(end->channel, 0, meta | RCMI_META_ELSEWHERE);
    rcmi_channel_sent_beside(end->channel, bytes);
}

/* Computes what a step sends and sends it: from where the reader posted memory for it, in the slot
 * of the message that it answers, from dst where that keeps it, or from its slot. */
static rcm_status step_send(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                            const struct rcmi_bound_step *step, void *dst,
                            const struct rcmi_reserved *target, const void *const *srcs,
                            size_t bytes) {
    struct rcmi_end *out = lane->ports[step->out].end;
    if (step->npieces > 0) {
        pieces_do(run, lane, step, target, srcs);
        end_commit(out, bytes, lane->meta);
        return RCM_OK;
    }
    const bool non_temporal = run->results == RCMI_NON_TEMPORAL;
    const bool from_dst = step->zero_copy_dst && bytes >= RCMI_ZERO_COPY_MIN && !run->no_zero_copy;
    if (target->posted) {
        step_compute_both(run, step, dst, target->bytes,
                          non_temporal ? RCMI_BOTH_NON_TEMPORAL : RCMI_BOTH_TEMPORAL, srcs, bytes);
        end_commit(out, bytes, lane->meta);
        return RCM_OK;
    }
    if (step->answer != RCMI_NO_CHANNEL && lane->reply) {
        step_compute_both(run, step, dst, lane->reply,
                          non_temporal ? RCMI_FIRST_NON_TEMPORAL : RCMI_BOTH_TEMPORAL, srcs, bytes);
        end_answer(out, bytes, lane->meta);
        return RCM_OK;
    }
    if (from_dst) {
        step_compute(run, step, dst, RCMI_TEMPORAL, srcs, bytes);
        const rcm_status status = step_zero_copy(run, lane, &lane->ports[step->out], &step->dst,
                                                 lane->offset + lane->part, bytes);
        if (status != RCM_ERR_UNSUPPORTED && status != RCM_AGAIN)
            return status;
        run->no_zero_copy = status == RCM_ERR_UNSUPPORTED;
    }
    step_fill(run, step, out, dst, from_dst, target, srcs, bytes);
    end_commit(out, bytes, lane->meta);
    return RCM_OK;
}

/* Does one step if it can be done now. *bytes: what is left of its slice, then what it moved. */
static rcm_status step_try(struct rcmi_run *run, struct rcmi_lane_state *lane,
                           const struct rcmi_bound_step *step, size_t *bytes) {
    const void *srcs[RCMI_SOURCES_MAX];
    const size_t offset = lane->offset + lane->part;
    rcm_status status = step_sources(run, lane, step, offset, bytes, srcs);
    if (status != RCM_OK)
        return status;

    void *dst =
        step->dst.where != RCMI_NOWHERE ? rcmi_run_address(run, lane, &step->dst, offset) : NULL;
    if (step->out == RCMI_NO_CHANNEL) {
        if (step->npieces > 0)
            pieces_do(run, lane, step, NULL, srcs);
        else
            step_compute(run, step, dst, run->results, srcs, *bytes);
        step_release(run, lane, step);
        return RCM_OK;
    }

    struct rcmi_end *out = lane->ports[step->out].end;
    struct rcmi_reserved target;
    status = step_target(run, lane, step, bytes, &target);
    if (status != RCM_OK || !target.bytes)
        return status;

    status = step_send(run, lane, step, dst, &target, srcs, *bytes);
    if (status != RCM_OK)
        return status;
    if (step->answered)
        end_keep(run, out, *bytes > RCMI_TINY ? target.bytes : NULL);
    step_release(run, lane, step);
    return RCM_OK;
}

/* Hands on the channel ends on which this was the run's last step. */
static HOT void step_pass_ends(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_place *src = &run->places[step->first_src + (uint32_t)i];
        if (src->where == RCMI_CHANNEL && run->last_step[src->index] == step)
            lane->ports[src->index].end->now_served++;
    }
    if (step->out != RCMI_NO_CHANNEL && run->last_step[step->out] == step) {
        struct rcmi_port *port = &lane->ports[step->out];
        port->sent = run->drains ? rcmi_channel_sent(port->end->channel) : 0;
        port->end->now_served++;
    }
}

/* One step, or a part of it where its slice goes by several messages. RCM_OK: it is done. */
static HOT rcm_status lane_step(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step, bool *moved,
                                enum finish finish) {
    const size_t slice = rcmi_message_length(run, step, lane->offset);
    rcm_status status;
    do {
        size_t bytes = slice - lane->part;
        status = finish == AT_ONCE ? step_try(run, lane, step, &bytes)
                                   : rcmi_later_try(run, lane, step, &bytes);
        *moved = *moved || status == RCM_OK || lane->moved;
        lane->moved = false;
        if (status != RCM_OK)
            return status;
        lane->part += bytes;
        lane->got = false;
    } while (lane->part < slice);
    lane->part = 0;
    return RCM_OK;
}

/* Is this slice the last one of its stripe, or in the order by step of the step? */
static bool lane_at_last(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                         const struct rcmi_bound_step *step) {
    if (run->by_step)
        return step->bytes - lane->offset <= run->slice_bytes;
    return lane->slice + run->stripes >= run->nslices;
}

/* All steps for the first slice of its stripe, then all for the next one, ... or by step: each step
 * for all its slices, then the next one. As far as it goes. */
static HOT rcm_status lane_progress(struct rcmi_run *run, struct rcmi_lane_state *lane, bool *moved,
                                    enum finish finish) {
    while (lane->slice < run->nslices) {
        while (lane->pc < lane->end) {
            const struct rcmi_bound_step *step = &run->steps[lane->pc];
            const bool last = lane_at_last(run, lane, step);
            lane->meta = run->bind.meta | (last ? RCMI_META_LAST : 0);
            rcm_status status = lane_step(run, lane, step, moved, finish);
            if (run->traces)
                rcmi_trace_step(run, lane, step, status);
            if (status != RCM_OK)
                return status;
            if (last)
                step_pass_ends(run, lane, step);
            if (run->by_step)
                lane->offset = last ? 0 : lane->offset + run->slice_bytes;
            lane->waits_for = NULL;
            lane->pc += last || !run->by_step;
            run->exec->steps_done++;
        }
        lane->slice += run->stripes;
        lane->offset += run->stripes * run->slice_bytes;
        lane->pc = lane->begin;
    }
    return RCM_OK;
}

static __attribute__((noinline)) rcm_status
lane_progress_later(struct rcmi_run *run, struct rcmi_lane_state *lane, bool *moved) {
    return lane_progress(run, lane, moved, LATER);
}

/* What readers are getting from here. */
static void run_help(const struct rcmi_run *run, bool *moved) {
    for (uint32_t i = 0; i < run->bind.plan->nchannels * run->stripes; i++)
        if (run->ports[i].end->outgoing && rcmi_channel_help(run->ports[i].end->channel))
            *moved = true;
}

rcm_status rcmi_run_progress(struct rcmi_run *run, bool *moved) {
    bool done = true;
    if (run->traces)
        rcmi_trace_pass(run);
    if (run->gets && run->zero_copy)
        run_help(run, moved);
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++) {
        struct rcmi_lane_state *lane = &run->lanes[i];
        if (lane->slice >= run->nslices)
            continue;
        rcm_status status = lane->later ? lane_progress_later(run, lane, moved)
                                        : lane_progress(run, lane, moved, AT_ONCE);
        if (status == RCM_AGAIN)
            done = false;
        else if (status != RCM_OK)
            return status;
    }
    return done && !rcmi_run_drains(run) ? RCM_OK : rcmi_run_waits(run);
}

uint64_t rcmi_exec_steps(const struct rcmi_exec *exec) {
    return exec->steps_done;
}
