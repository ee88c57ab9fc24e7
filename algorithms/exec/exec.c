/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running bound plans: see exec.h. Each lane is at one step of its plan. A step has three phases:
 *
 *      acquire   finds its sources and the path of its message: through a slot, into memory that
 *                the reader posted, or straight from its source or result
 *      compute   copies or reduces; the only phase that depends on the kind of memory: if the CPU
 *                does not touch it, operations run while other lanes progress (exec_operation.c)
 *      publish   sends the message and releases the slots of the sources
 *
 * Not here: binding (exec_bind.c), how a step acquires (exec_step.h).
 */
#include "exec_step.h"
#include "kernels.h"

/* ---- Computing ------------------------------------------------------------------------------- */

static void chunk_compute(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                          void *target, enum rcmi_stores stores, const void *const *srcs,
                          size_t bytes) {
    const struct rcmi_sum *sum = &run->sums[step->sum];
    if (step->reduces)
        (stores == RCMI_NON_TEMPORAL ? sum->by.reduce_streaming : sum->by.reduce)(
            target, srcs, step->nsrcs, bytes / run->element_bytes, &sum->context);
    else if (step->nsrcs == 1 && srcs[0] != target)
        run->kernels.copy[stores](target, srcs[0], bytes);
}

/* Computes dst (if there is one) and the sent copy; a reduction makes both in one pass. */
static void chunk_compute_both(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                               void *dst, void *sent, enum rcmi_twice how, const void *const *srcs,
                               size_t bytes) {
    const struct rcmi_sum *sum = &run->sums[step->sum];
    if (dst && step->reduces) {
        sum->by.reduce_twice(dst, sent, srcs, step->nsrcs, bytes / run->element_bytes, how,
                             &sum->context);
        return;
    }
    chunk_compute(run, step, sent,
                  how == RCMI_BOTH_NON_TEMPORAL ? RCMI_NON_TEMPORAL : RCMI_TEMPORAL, srcs, bytes);
    if (dst)
        chunk_compute(run, step, dst, how != RCMI_BOTH_TEMPORAL ? RCMI_NON_TEMPORAL : RCMI_TEMPORAL,
                      srcs, bytes);
}

/* Fills the slot, and dst if there is one. Both sides write the slot of a message that will be
 * answered, so its cache lines are cheap: temporal stores. */
static void chunk_fill(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                       const struct rcmi_channel *channel, void *dst, void *slot,
                       enum rcmi_stores better, const void *const *srcs, size_t bytes) {
    const enum rcmi_stores stores = step->answered ? RCMI_TEMPORAL : better;
    if (!dst) {
        chunk_compute(run, step, slot, stores, srcs, bytes);
    } else if (run->results == RCMI_NON_TEMPORAL && channel->transport->shared_slots) {
        chunk_compute_both(run, step, dst, slot,
                           stores == RCMI_NON_TEMPORAL ? RCMI_BOTH_NON_TEMPORAL
                                                       : RCMI_FIRST_NON_TEMPORAL,
                           srcs, bytes);
    } else {
        chunk_compute(run, step, dst, RCMI_TEMPORAL, srcs, bytes);
        run->kernels.copy[stores](slot, dst, bytes);
    }
}

/* Computes a step, or one piece of its span. target: the message, or the piece's part of it. */
static HOT void chunk_do(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                         const struct rcmi_bound_step *step, const struct rcmi_step_io *io,
                         void *dst, void *target, const void *const *srcs, size_t bytes) {
    const bool non_temporal = run->results == RCMI_NON_TEMPORAL;
    const enum rcmi_stores stores = io->target.stores;
    if (io->path == RCMI_PATH_NONE)
        chunk_compute(run, step, dst, run->results, srcs, bytes);
    else if (io->path == RCMI_PATH_SLOT)
        chunk_fill(run, step, lane->ports[step->out].data, dst, target, stores, srcs, bytes);
    else if (io->path == RCMI_PATH_POSTED)
        chunk_compute_both(run, step, dst, target,
                           non_temporal ? RCMI_BOTH_NON_TEMPORAL : RCMI_BOTH_TEMPORAL, srcs, bytes);
    else if (io->path == RCMI_PATH_ANSWER)
        chunk_compute_both(run, step, dst, lane->reply,
                           non_temporal ? RCMI_FIRST_NON_TEMPORAL : RCMI_BOTH_TEMPORAL, srcs,
                           bytes);
    else if (io->path == RCMI_PATH_DST)
        chunk_compute(run, step, dst, RCMI_TEMPORAL, srcs, bytes);
    else if (io->path == RCMI_PATH_COPY)
        run->kernels.copy[step->answered ? RCMI_TEMPORAL : stores](target, dst, bytes);
}

static void pieces_do(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                      const struct rcmi_bound_step *step, struct rcmi_step_io io,
                      const void *const *received) {
    const void *srcs[RCMI_SOURCES_MAX];
    size_t at = 0;
    for (uint32_t i = 0; i < step->npieces; i++) {
        const struct rcmi_bound_step *piece = &run->pieces[step->first_piece + i];
        const size_t bytes = rcmi_slice_length(piece, lane->offset, run->slice_bytes);
        if (bytes == 0)
            continue;
        for (uint32_t k = 0; k < piece->nsrcs; k++) {
            const struct rcmi_bound_operand *src = &run->operands[piece->first_src + k];
            srcs[k] = src->where == RCMI_CHANNEL ? (const char *)received[k] + at
                                                 : rcmi_run_address(run, lane, src, lane->offset);
        }
        void *dst = piece->dst.where != RCMI_NOWHERE
                        ? rcmi_run_address(run, lane, &piece->dst, lane->offset)
                        : NULL;
        void *target = io.path != RCMI_PATH_NONE ? (char *)io.target.bytes + at : NULL;
        chunk_do(run, lane, piece, &io, dst, target, srcs, bytes);
        at += bytes;
    }
}

static HOT rcm_status step_compute(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step,
                                   const struct rcmi_lane_operation *operation,
                                   const struct rcmi_step_io *io, const void *const *srcs) {
    if (operation)
        return rcmi_operation_compute(run, lane, step);
    if (step->npieces > 0)
        pieces_do(run, lane, step, *io, srcs);
    else
        chunk_do(run, lane, step, io, io->dst, io->target.bytes, srcs, io->bytes);
    return RCM_OK;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

/* Not inlined: message counting would occupy registers of the loop that has none to send. */
static __attribute__((noinline)) void end_commit(struct rcmi_channel *channel, size_t bytes,
                                                 uint64_t meta) {
    rcmi_channel_commit(channel, bytes, meta);
}

/* The payload is in the slot of the answered message. */
static __attribute__((noinline)) void end_answer(struct rcmi_channel *channel, size_t bytes,
                                                 uint64_t meta) {
    rcmi_channel_commit(channel, 0, meta | RCMI_META_ELSEWHERE);
    rcmi_channel_sent_beside(channel, bytes);
}

/* Sends the step's result by zero-copy. RCM_PENDING: not possible, copy it instead. */
static rcm_status step_send_dst(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step, size_t bytes) {
    const rcm_status status = step_zero_copy(run, lane, &lane->ports[step->out], &step->dst,
                                             lane->offset + lane->part, bytes);
    if (status != RCM_ERR_UNSUPPORTED && status != RCM_AGAIN)
        return status;
    run->no_zero_copy = status == RCM_ERR_UNSUPPORTED;
    return RCM_PENDING;
}

/* Sends the step's message, if it has one, and releases its sources. RCM_PENDING: the result must
 * be copied into the slot first. */
static HOT rcm_status step_publish(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, struct rcmi_step_io *io) {
    struct rcmi_port *port = io->path != RCMI_PATH_NONE ? &lane->ports[step->out] : NULL;
    if (io->path == RCMI_PATH_DST) {
        const rcm_status status = step_send_dst(run, lane, step, io->bytes);
        io->path = status == RCM_PENDING ? RCMI_PATH_COPY : io->path;
        if (status != RCM_OK)
            return status;
    } else if (io->path == RCMI_PATH_ANSWER) {
        end_answer(port->end->channel, io->bytes, lane->meta);
    } else if (port && io->path != RCMI_PATH_SENT) {
        end_commit(port->data, io->bytes, lane->meta);
    }
    if (port && step->answered) {
        const bool by_slot = io->path != RCMI_PATH_SENT && io->path != RCMI_PATH_DST;
        end_keep(run, port->end, by_slot && io->bytes > RCMI_TINY ? io->target.bytes : NULL,
                 io->bytes);
    }
    step_release(run, lane, step);
    return RCM_OK;
}

/* Fallback: the step's result is in memory that cannot be sent from. */
static __attribute__((noinline)) rcm_status step_copy(struct rcmi_run *run,
                                                      struct rcmi_lane_state *lane,
                                                      const struct rcmi_bound_step *step,
                                                      struct rcmi_step_io io) {
    const rcm_status status = step_compute(run, lane, step, lane->operation, &io, NULL);
    return status == RCM_OK ? step_publish(run, lane, step, &io) : status;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Does a step, or continues it, as far as possible now. *bytes: in: what is left of its slice; out:
 * what it moved. */
static HOT rcm_status step_do(struct rcmi_run *run, struct rcmi_lane_state *lane,
                              const struct rcmi_bound_step *step, size_t *bytes,
                              struct rcmi_lane_operation *operation, const void **srcs,
                              struct rcmi_step_io *io) {
    rcm_status status = RCM_OK;
    if (!operation || !operation->begun) {
        io->bytes = *bytes;
        status = step_acquire(run, lane, step, srcs, io);
        if (status != RCM_OK)
            return status;
    }
    if (operation && !operation->begun) {
        operation->begun = lane->moved = true;
        lane->waits_for = NULL;
    }
    status = step_compute(run, lane, step, operation, io, srcs);
    if (status == RCM_OK)
        status = step_publish(run, lane, step, io);
    if (status == RCM_PENDING)
        status = step_copy(run, lane, step, *io);
    if (status != RCM_OK)
        return status;
    if (operation)
        operation->begun = operation->announced = false;
    *bytes = io->bytes;
    return RCM_OK;
}

static __attribute__((noinline)) rcm_status step_go_on(struct rcmi_run *run,
                                                       struct rcmi_lane_state *lane,
                                                       const struct rcmi_bound_step *step,
                                                       size_t *bytes) {
    struct rcmi_lane_operation *operation = lane->operation;
    return step_do(run, lane, step, bytes, operation, operation->srcs, &operation->io);
}

static HOT rcm_status step_try(struct rcmi_run *run, struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step, size_t *bytes) {
    const void *srcs[RCMI_SOURCES_MAX];
    struct rcmi_step_io io;
    return lane->operation ? step_go_on(run, lane, step, bytes)
                           : step_do(run, lane, step, bytes, NULL, srcs, &io);
}

/* Passes on the channel ends on which this was the run's last step. */
static HOT void step_pass_ends(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_bound_operand *src = &run->operands[step->first_src + (uint32_t)i];
        if (src->where == RCMI_CHANNEL && run->last_step[src->index] == step)
            lane->ports[src->index].end->now_served++;
    }
    if (step->out != RCMI_NO_CHANNEL && run->last_step[step->out] == step) {
        struct rcmi_port *port = &lane->ports[step->out];
        port->sent = run->drains ? rcmi_channel_sent(port->end->channel) : 0;
        port->end->now_served++;
    }
}

/* Does one step, or a part of it if its slice needs several messages. RCM_OK: the step is done. */
static HOT rcm_status lane_step(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step, bool *moved) {
    const size_t slice = rcmi_message_length(run, step, lane->offset);
    rcm_status status;
    do {
        size_t bytes = slice - lane->part;
        status = step_try(run, lane, step, &bytes);
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

/* Is this slice the last one of its stripe, or in the order by step, of the step? */
static bool lane_at_last(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                         const struct rcmi_bound_step *step) {
    if (run->by_step)
        return step->bytes - lane->offset <= run->slice_bytes;
    return lane->slice + run->stripes >= run->nslices;
}

/* Does all steps for the first slice of the lane's stripe, then all for the next slice, and so on.
 * In the order by step: each step for all its slices, then the next step. Returns where it cannot
 * go on. */
static HOT rcm_status lane_progress(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                    bool *moved) {
    while (lane->slice < run->nslices) {
        while (lane->pc < lane->end) {
            const struct rcmi_bound_step *step = &run->steps[lane->pc];
            const bool last = lane_at_last(run, lane, step);
            lane->meta = run->bind.meta | (last ? RCMI_META_LAST : 0);
            rcm_status status = lane_step(run, lane, step, moved);
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

static void run_help(const struct rcmi_run *run, bool *moved) {
    for (uint32_t i = 0; i < run->bind.plan->nchannels * run->stripes; i++)
        if (run->ports[i].end->outgoing && rcmi_channel_help(run->ports[i].end->channel))
            *moved = true;
}

rcm_status rcmi_run_progress(struct rcmi_run *run, bool *moved) {
    bool done = true;
    if (rcmi_run_scratch_is_due(run)) {
        const rcm_status status = rcmi_run_scratch_look(run);
        if (status != RCM_OK)
            return status;
    }
    if (run->traces)
        rcmi_trace_pass(run);
    if (run->gets && run->zero_copy)
        run_help(run, moved);
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++) {
        struct rcmi_lane_state *lane = &run->lanes[i];
        if (lane->slice >= run->nslices)
            continue;
        rcm_status status = lane_progress(run, lane, moved);
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
