/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a step acquires its sources and the path of its message, and releases what it used. Inlined
 * into exec.c for the speed of small calls.
 */
#ifndef RCMI_EXEC_STEP_H
#define RCMI_EXEC_STEP_H

#include "exec_internal.h"

#define HOT inline __attribute__((always_inline))

/* Is a message of `len` bytes valid if `bytes` are left? It may be a part only if the message goes
 * through slots and does not fit one. */
static inline bool run_length_fits(const struct rcmi_run *run, const struct rcmi_end *end,
                                   size_t len, size_t bytes) {
    return len == bytes || (run->gets && len == end->channel->slot_bytes && len < bytes);
}

/* Peeks at the oldest message of an incoming channel end, once the run has the end. *bytes: in:
 * what is left of the step's slice; out: what the message holds of it. */
static HOT rcm_status run_peek(struct rcmi_run *run, struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step, uint32_t channel, size_t *bytes,
                               const void **ret_bytes) {
    const struct rcmi_port *port = &lane->ports[channel];
    const struct rcmi_end *end = port->end;
    struct rcmi_slot slot = {.reply = NULL};
    if (end->now_served != port->ticket)
        return RCM_AGAIN;
    rcm_status status = rcmi_channel_peek(end->channel, &slot);
    if (status == RCM_OK && rcmi_oob_is(&slot))
        status = rcmi_oob_read(run, end, &slot);
    if (status != RCM_OK)
        return status;
    if (rcmi_run_is_cut_apart(run, lane, &slot, *bytes))
        return rcmi_run_differs(run, lane, step, end, &slot);
    if ((slot.meta & ~RCMI_META_ELSEWHERE) != lane->meta) {
        status = rcmi_run_other_meta(run, lane, step, end, &slot, *bytes);
        if (status != RCM_OK)
            return status;
    }
    if (slot.meta & RCMI_META_ELSEWHERE && slot.len == 0) {
        rcmi_channel_peeked_beside(end->channel, *bytes);
        return rcmi_run_peek_answer(lane, step, end, *bytes, ret_bytes);
    }
    if (!run_length_fits(run, end, slot.len, *bytes) || slot.meta & RCMI_META_ELSEWHERE)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d sent %zu bytes instead of %zu", end->peer, slot.len,
                                *bytes);
    *bytes = slot.len;
    if (!slot.bytes && run->by_step)
        return rcmi_oob_peek(lane, port, &slot, ret_bytes);
    if (!slot.bytes)
        return rcmi_run_get(run, lane, step, end, &slot, ret_bytes);
    if (step->answer == channel)
        lane->reply = slot.reply;
    *ret_bytes = slot.bytes;
    return RCM_OK;
}

/* Posts receives for this slice and the next ones, at most `most`, so that the transport can write
 * straight to the result. */
static inline void lane_post(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                             const struct rcmi_bound_step *step, struct rcmi_end *end,
                             size_t offset, uint32_t most) {
    while (end->posted < most && !run->gets && !run->no_posts) {
        const size_t at = offset + (size_t)end->posted * run->stripes * run->slice_bytes;
        const size_t bytes = rcmi_slice_length(step, at, run->slice_bytes);
        const struct rcmi_posted posted = {.mem = rcmi_run_mem(run, lane, &step->dst, at, bytes),
                                           .ahead = end->posted};
        if (bytes < RCMI_ZERO_COPY_MIN)
            return;
        if (!rcmi_channel_post_receive(end->channel, &posted)) {
            run->no_posts = end->posted == 0;
            return;
        }
        end->posted++;
    }
}

/* Is its transport a socket? False also before the channel is ready. */
static inline bool end_is_socket(const struct rcmi_end *end) {
    const struct rcmi_channel *channel = end->channel;
    /* Acquire: pairs with the loop thread's release store, which follows its choice of
     * transport. */
    return atomic_load_explicit(&channel->state, memory_order_acquire) == RCM_OK &&
           !channel->transport->shared_slots;
}

/* No message has arrived: stores the peer, and lets a socket receive straight into the result. */
static inline void lane_blocked(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step, const struct rcmi_port *port,
                                size_t offset) {
    struct rcmi_end *end = port->end;
    lane->waits_for = port;
    if (step->receives_into_dst && end->now_served == port->ticket && end_is_socket(end))
        lane_post(run, lane, step, end, offset, 1);
}

/* Finds every source of a step. On RCM_AGAIN, stores the end that the lane waits for. */
static HOT rcm_status step_sources(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, size_t offset, size_t *bytes,
                                   const void **srcs) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_bound_operand *src = &run->operands[step->first_src + (uint32_t)i];
        if (src->where != RCMI_CHANNEL) {
            srcs[i] = rcmi_run_address(run, lane, src, offset);
            continue;
        }
        const struct rcmi_port *port = &lane->ports[src->index];
        if (step->early && port->end->now_served == port->ticket)
            lane_post(run, lane, step, port->end, offset, run->exec->config.slots);
        rcm_status status = run_peek(run, lane, step, src->index, bytes, &srcs[i]);
        if (status == RCM_AGAIN)
            lane_blocked(run, lane, step, port, offset);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

/* Sends a stable buffer by zero-copy. RCM_ERR_UNSUPPORTED: the channel cannot. */
static inline rcm_status step_zero_copy(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                        struct rcmi_port *port,
                                        const struct rcmi_bound_operand *operand, size_t offset,
                                        size_t len) {
    struct rcmi_channel *channel = port->data;
    const struct rcmi_mem mem = rcmi_run_mem(run, lane, operand, offset, len);
    const rcm_status status = rcmi_channel_send_zero_copy(channel, &mem, lane->meta, run->gets);
    if (status == RCM_OK) {
        port->zero_copy = rcmi_channel_sent(channel);
        run->zero_copy = true;
    }
    return status;
}

/* Keeps the memory of the message just sent for its answer. */
static inline void end_keep(const struct rcmi_run *run, struct rcmi_end *end, void *bytes,
                            size_t len) {
    end->kept[(end->kept_first + end->nkept++) % run->exec->config.slots] =
        (struct rcmi_kept){bytes, len};
}

/* Are as many messages unanswered as the channel has slots? */
static inline bool end_is_full(const struct rcmi_run *run, const struct rcmi_end *end) {
    return end->nkept == run->exec->config.slots;
}

/* Does an answer come to a part of this memory? */
static inline bool end_keeps(const struct rcmi_run *run, const struct rcmi_end *end,
                             const void *bytes, size_t len) {
    const uintptr_t begin = (uintptr_t)bytes;
    for (uint32_t i = 0; i < end->nkept; i++) {
        const struct rcmi_kept *kept = &end->kept[(end->kept_first + i) % run->exec->config.slots];
        const uintptr_t from = (uintptr_t)kept->bytes;
        if (from && begin < from + kept->len && from < begin + len)
            return true;
    }
    return false;
}

/* Sends a stable source by zero-copy: *bytes of it; else as much as a slot holds, and sets *bytes
 * to that. RCM_ERR_UNSUPPORTED: neither is possible. */
static inline rcm_status step_send_stable(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                          const struct rcmi_bound_step *step, size_t *bytes) {
    struct rcmi_port *port = &lane->ports[step->out];
    const struct rcmi_bound_operand *src = &run->operands[step->first_src];
    const size_t offset = lane->offset + lane->part;
    rcm_status status = run->bind.after ? rcmi_run_await(run, port, src) : RCM_OK;
    if (status == RCM_OK)
        status = step_zero_copy(run, lane, port, src, offset, *bytes);
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    const size_t most = port->data->slot_bytes; /* valid: the channel is ready */
    if (*bytes <= most || most < RCMI_ZERO_COPY_MIN)
        return status;
    *bytes = most;
    return step_zero_copy(run, lane, port, src, offset, most);
}

/* The path of a message that has a slot. */
static inline enum rcmi_path step_path(const struct rcmi_run *run,
                                       const struct rcmi_lane_state *lane,
                                       const struct rcmi_bound_step *step,
                                       const struct rcmi_port *port,
                                       const struct rcmi_step_io *io) {
    if (io->target.posted)
        return RCMI_PATH_POSTED;
    if (step->answer != RCMI_NO_CHANNEL && lane->reply && step->npieces == 0)
        return RCMI_PATH_ANSWER;
    if (step->zero_copy_dst && io->bytes >= RCMI_ZERO_COPY_MIN && !run->no_zero_copy &&
        rcmi_channel_may_zero_copy(port->data, &run->base[step->dst.index]))
        return RCMI_PATH_DST;
    return RCMI_PATH_SLOT;
}

/* Sends a stable source by zero-copy, or finds another path for the step's message. io->bytes:
 * reduced to what one slot holds if necessary. */
static HOT rcm_status step_reserve(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, struct rcmi_step_io *io) {
    const struct rcmi_port *port = &lane->ports[step->out];
    const struct rcmi_end *out = port->end;
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (out->now_served != port->ticket || (step->answered && end_is_full(run, out)) ||
        /* a get, or an announcement, may use the slot of an answer */
        ((run->gets || port->oob) && out->nkept > 0))
        return RCM_AGAIN;
    if (port->oob && (status = rcmi_oob_announce(lane, port, io->bytes)) != RCM_OK)
        return status;
    status = RCM_ERR_UNSUPPORTED;
    if (step->zero_copy && io->bytes >= RCMI_ZERO_COPY_MIN)
        status = step_send_stable(run, lane, step, &io->bytes);
    io->path = RCMI_PATH_SENT;
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    struct rcmi_channel *channel = port->data;
    if (run->gets && rcmi_channel_state(channel) == RCM_OK && io->bytes > channel->slot_bytes)
        io->bytes = channel->slot_bytes;
    struct rcmi_reserved target; /* not io->target: io stays in registers */
    status = rcmi_channel_reserve(channel, io->bytes, &target);
    if (status != RCM_OK)
        return status;
    io->target = target;
    io->path = step_path(run, lane, step, port, io);
    return end_keeps(run, out, target.bytes, io->bytes) ? RCM_AGAIN : RCM_OK;
}

/* Acquires all operands of a step. On RCM_AGAIN, stores the end that the lane waits for. */
static HOT rcm_status step_acquire(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, const void **srcs,
                                   struct rcmi_step_io *io) {
    const size_t offset = lane->offset + lane->part;
    rcm_status status = step_sources(run, lane, step, offset, &io->bytes, srcs);
    if (status != RCM_OK)
        return status;
    io->dst =
        step->dst.where != RCMI_NOWHERE ? rcmi_run_address(run, lane, &step->dst, offset) : NULL;
    io->path = RCMI_PATH_NONE;
    io->target = (struct rcmi_reserved){.bytes = NULL};
    if (step->out == RCMI_NO_CHANNEL)
        return RCM_OK;
    status = step_reserve(run, lane, step, io);
    if (status == RCM_AGAIN)
        lane->waits_for = &lane->ports[step->out];
    return status;
}

/* Releases the incoming slots of a step. */
static inline void step_release(const struct rcmi_run *run, struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_bound_operand *src = &run->operands[step->first_src + (uint32_t)i];
        if (src->where != RCMI_CHANNEL)
            continue;
        struct rcmi_end *end = lane->ports[src->index].end;
        if (end->posted > 0)
            end->posted--;
        if (lane->oob)
            rcmi_channel_release(lane->ports[src->index].oob->channel);
        lane->oob = false;
        rcmi_channel_release(end->channel);
    }
    if (step->answer != RCMI_NO_CHANNEL && step->out == RCMI_NO_CHANNEL) {
        struct rcmi_end *answered = lane->ports[step->answer].end;
        if (answered->nkept > 0) { /* else the answer came before its message */
            answered->kept_first = (answered->kept_first + 1) % run->exec->config.slots;
            answered->nkept--;
        }
    }
}

#endif
