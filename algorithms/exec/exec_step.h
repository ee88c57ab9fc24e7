/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step finds its sources and how its message leaves, and gives back what it used. Inlined into
 * exec.c, for the sake of small calls.
 */
#ifndef RCMI_EXEC_STEP_H
#define RCMI_EXEC_STEP_H

#include "exec_internal.h"

#define HOT inline __attribute__((always_inline))

/* Is a message of len bytes right where `bytes` are left? It may be a part of them only where it
 * has to go by a slot and all do not fit one. */
static inline bool run_length_fits(const struct rcmi_run *run, const struct rcmi_end *end,
                                   size_t len, size_t bytes) {
    return len == bytes || (run->gets && len == end->channel->slot_bytes && len < bytes);
}

/* Looks at the oldest message of an incoming channel end that the run may use. *bytes: what is left
 * of the step's slice, then what the message holds of it. */
static HOT rcm_status run_peek(struct rcmi_run *run, struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step, uint32_t channel, size_t *bytes,
                               const void **ret_bytes) {
    const struct rcmi_port *port = &lane->ports[channel];
    const struct rcmi_end *end = port->end;
    struct rcmi_slot slot = {.reply = NULL};
    if (end->now_served != port->ticket)
        return RCM_AGAIN;
    rcm_status status = rcmi_channel_peek(end->channel, &slot);
    if (status == RCM_OK && rcmi_beside_is(&slot))
        status = rcmi_beside_read(run, end, &slot);
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
        return rcmi_run_peek_answer(lane, step, end, ret_bytes);
    }
    if (!run_length_fits(run, end, slot.len, *bytes) || slot.meta & RCMI_META_ELSEWHERE)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d sent %zu bytes where %zu belong", end->peer, slot.len,
                                *bytes);
    *bytes = slot.len;
    if (!slot.bytes && run->by_step)
        return rcmi_beside_peek(lane, port, &slot, ret_bytes);
    if (!slot.bytes)
        return rcmi_run_get(run, lane, step, end, &slot, ret_bytes);
    if (step->answer == channel)
        lane->reply = slot.reply;
    *ret_bytes = slot.bytes;
    return RCM_OK;
}

/* Posts receives for this slice and the next ones, `most` in all, so that they may be written
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

/* Does a socket carry its messages? False also before the channel is ready. */
static inline bool end_is_socket(const struct rcmi_end *end) {
    const struct rcmi_channel *channel = end->channel;
    /* Acquire pairs with the release store of the loop thread, which chose the transport before. */
    return atomic_load_explicit(&channel->state, memory_order_acquire) == RCM_OK &&
           !channel->transport->shared_slots;
}

/* A message has not come: notes the peer, lets a socket receive straight into the
 * result. */
static inline void lane_blocked(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step, const struct rcmi_port *port,
                                size_t offset) {
    struct rcmi_end *end = port->end;
    lane->waits_for = port;
    if (step->receives_into_dst && end->now_served == port->ticket && end_is_socket(end))
        lane_post(run, lane, step, end, offset, 1);
}

/* Finds every source of a step. On RCM_AGAIN notes which rank the lane waits for. */
static HOT rcm_status step_sources(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, size_t offset, size_t *bytes,
                                   const void **srcs) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_place *src = &run->places[step->first_src + (uint32_t)i];
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

/* Sends a stable buffer without a copy where the channel can. RCM_ERR_UNSUPPORTED: it cannot. */
static inline rcm_status step_zero_copy(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                        struct rcmi_port *port, const struct rcmi_place *place,
                                        size_t offset, size_t len) {
    struct rcmi_channel *channel = port->data;
    const struct rcmi_mem mem = rcmi_run_mem(run, lane, place, offset, len);
    const rcm_status status = rcmi_channel_send_zero_copy(channel, &mem, lane->meta, run->gets);
    if (status == RCM_OK) {
        port->zero_copy = rcmi_channel_sent(channel);
        run->zero_copy = true;
    }
    return status;
}

/* The slot of the message that was just sent is kept for its answer. */
static inline void end_keep(const struct rcmi_run *run, struct rcmi_end *end, void *slot) {
    end->kept[(end->kept_first + end->nkept++) % run->exec->config.slots] = slot;
}

/* May a message that will be answered go out, and into this slot? */
static inline bool end_is_full(const struct rcmi_run *run, const struct rcmi_end *end) {
    return end->nkept == run->exec->config.slots;
}

static inline bool end_keeps(const struct rcmi_run *run, const struct rcmi_end *end,
                             const void *slot) {
    for (uint32_t i = 0; i < end->nkept; i++)
        if (end->kept[(end->kept_first + i) % run->exec->config.slots] == slot)
            return true;
    return false;
}

/* Sends a stable source without a copy: *bytes of it, else as much as a slot has, which *bytes is
 * then. RCM_ERR_UNSUPPORTED: neither can be. */
static inline rcm_status step_send_stable(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                          const struct rcmi_bound_step *step, size_t *bytes) {
    struct rcmi_port *port = &lane->ports[step->out];
    const struct rcmi_place *src = &run->places[step->first_src];
    const size_t offset = lane->offset + lane->part;
    rcm_status status = run->bind.after ? rcmi_run_await(run, port, src) : RCM_OK;
    if (status == RCM_OK)
        status = step_zero_copy(run, lane, port, src, offset, *bytes);
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    const size_t most = port->data->slot_bytes; /* known, for the channel is ready */
    if (*bytes <= most || most < RCMI_ZERO_COPY_MIN)
        return status;
    *bytes = most;
    return step_zero_copy(run, lane, port, src, offset, most);
}

/* By which way goes a message for which there is a slot? */
static inline enum rcmi_way step_way(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                     const struct rcmi_bound_step *step,
                                     const struct rcmi_port *port, const struct rcmi_step_io *io) {
    if (io->target.posted)
        return RCMI_WAY_POSTED;
    if (step->answer != RCMI_NO_CHANNEL && lane->reply && step->npieces == 0)
        return RCMI_WAY_ANSWER;
    if (step->zero_copy_dst && io->bytes >= RCMI_ZERO_COPY_MIN && !run->no_zero_copy &&
        rcmi_channel_may_zero_copy(port->data, &run->base[step->dst.index]))
        return RCMI_WAY_DST;
    return RCMI_WAY_SLOT;
}

/* Sends what is stable from where it lies, or finds how else the step's message leaves. io->bytes:
 * at most a slot of them. */
static HOT rcm_status step_reserve(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, struct rcmi_step_io *io) {
    const struct rcmi_port *port = &lane->ports[step->out];
    const struct rcmi_end *out = port->end;
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (out->now_served != port->ticket || (step->answered && end_is_full(run, out)) ||
        (run->gets && out->nkept > 0)) /* a slot with an answer may be what a get comes by */
        return RCM_AGAIN;
    if (port->beside && (status = rcmi_beside_announce(lane, port, io->bytes)) != RCM_OK)
        return status;
    status = RCM_ERR_UNSUPPORTED;
    if (step->zero_copy && io->bytes >= RCMI_ZERO_COPY_MIN)
        status = step_send_stable(run, lane, step, &io->bytes);
    io->way = RCMI_WAY_SENT;
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    struct rcmi_channel *channel = port->data;
    if (run->gets && rcmi_channel_state(channel) == RCM_OK && io->bytes > channel->slot_bytes)
        io->bytes = channel->slot_bytes;
    struct rcmi_reserved target; /* not io's, which stays in registers */
    status = rcmi_channel_reserve(channel, io->bytes, &target);
    if (status != RCM_OK)
        return status;
    io->target = target;
    io->way = step_way(run, lane, step, port, io);
    return end_keeps(run, out, target.bytes) ? RCM_AGAIN : RCM_OK;
}

/* Finds all that a step works on. On RCM_AGAIN notes which rank the lane waits for. */
static HOT rcm_status step_acquire(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, const void **srcs,
                                   struct rcmi_step_io *io) {
    const size_t offset = lane->offset + lane->part;
    rcm_status status = step_sources(run, lane, step, offset, &io->bytes, srcs);
    if (status != RCM_OK)
        return status;
    io->dst =
        step->dst.where != RCMI_NOWHERE ? rcmi_run_address(run, lane, &step->dst, offset) : NULL;
    io->way = RCMI_WAY_NONE;
    io->target = (struct rcmi_reserved){.bytes = NULL};
    if (step->out == RCMI_NO_CHANNEL)
        return RCM_OK;
    status = step_reserve(run, lane, step, io);
    if (status == RCM_AGAIN)
        lane->waits_for = &lane->ports[step->out];
    return status;
}

/* Ends a step's use of its incoming slots. */
static inline void step_release(const struct rcmi_run *run, struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_place *src = &run->places[step->first_src + (uint32_t)i];
        if (src->where != RCMI_CHANNEL)
            continue;
        struct rcmi_end *end = lane->ports[src->index].end;
        if (end->posted > 0)
            end->posted--;
        if (lane->beside)
            rcmi_channel_release(lane->ports[src->index].beside->channel);
        lane->beside = false;
        rcmi_channel_release(end->channel);
    }
    if (step->answer != RCMI_NO_CHANNEL && step->out == RCMI_NO_CHANNEL) {
        struct rcmi_end *asked = lane->ports[step->answer].end;
        if (asked->nkept > 0) { /* else it answered before it was asked */
            asked->kept_first = (asked->kept_first + 1) % run->exec->config.slots;
            asked->nkept--;
        }
    }
}

#endif
