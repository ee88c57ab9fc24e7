/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running bound plans: see exec.h. Binding is in exec_bind.c, operations that finish later are in
 * exec_later.c.
 */
#include "exec_internal.h"
#include "kernels.h"

/* When what a step computes is there. */
enum finish { AT_ONCE, LATER };

/* Inlined into both ways to do a step, as if there were but one. */
#define HOT inline __attribute__((always_inline))

static rcm_status run_mismatch(const struct rcmi_run *run, const struct rcmi_end *end,
                               const struct rcmi_slot *slot) {
    if ((uint32_t)slot->meta != (uint32_t)run->bind.meta)
        return rcmi_fail_origin(RCM_ERR_MISMATCH, end->peer,
                                "rank %d is at its operation %u, this rank at its operation %u: "
                                "the ranks issue operations in different order or number",
                                end->peer, (unsigned)slot->meta, (unsigned)run->bind.meta);
    return rcmi_fail_origin(RCM_ERR_MISMATCH, end->peer,
                            "rank %d called something else than this rank (operation, count, "
                            "type, operator, root or algorithm differ)",
                            end->peer);
}

/* The two ends of a message have other ideas of how long it is. */
static rcm_status run_counts_differ(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                    const struct rcmi_bound_step *step, const struct rcmi_end *end,
                                    const struct rcmi_slot *slot) {
    const size_t sent = lane->offset + lane->part + slot->len;
    run->counts_differ = true;
    return rcmi_fail_origin(RCM_ERR_MISMATCH, end->peer,
                            "rank %d sends %zu%s elements to rank %d, which expects %zu from it",
                            end->peer, sent / run->element_bytes,
                            slot->meta & RCMI_META_LAST ? "" : " or more", run->exec->config.rank,
                            step->bytes / run->element_bytes);
}

/* Does a message belong to this call, but not at this end of its block? */
static bool run_is_cut_apart(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                             const struct rcmi_slot *slot, size_t bytes) {
    return run->by_step && (slot->meta == (lane->meta ^ RCMI_META_LAST) ||
                            (slot->meta == lane->meta && slot->len != bytes));
}

/* A message of another call is a mismatch; of this one, where one end has memory of another kind,
 * if it holds anything. */
static __attribute__((noinline)) rcm_status
run_other_meta(struct rcmi_run *run, const struct rcmi_lane_state *lane,
               const struct rcmi_bound_step *step, const struct rcmi_end *end,
               const struct rcmi_slot *slot, size_t bytes) {
    struct rcmi_slot alike = *slot;
    alike.meta ^= RCMI_META_DEVICE;
    if (!run->by_step || (alike.meta ^ lane->meta) & ~RCMI_META_LAST)
        return run_mismatch(run, end, slot);
    if (slot->len == 0 || bytes == 0)
        return run_is_cut_apart(run, lane, &alike, bytes)
                   ? run_counts_differ(run, lane, step, end, &alike)
                   : RCM_OK;
    const bool device = slot->meta & RCMI_META_DEVICE;
    run->counts_differ = true; /* what there is to say is known */
    return rcmi_fail_origin(RCM_ERR_MISMATCH, end->peer,
                            "rank %d sends from %s memory to rank %d, which has %s memory for it",
                            end->peer, device ? "device" : "host", run->exec->config.rank,
                            device ? "host" : "device");
}

/* The message that a step received is empty: the payload stands in the slot of the one that it
 * answers. */
static rcm_status run_peek_answer(const struct rcmi_lane_state *lane,
                                  const struct rcmi_bound_step *step, const struct rcmi_end *from,
                                  const void **ret_bytes) {
    const bool asked = step->answer != RCMI_NO_CHANNEL && step->out == RCMI_NO_CHANNEL;
    const struct rcmi_end *end = asked ? lane->ports[step->answer].end : NULL;
    const void *bytes = end && end->nkept > 0 ? end->kept[end->kept_first] : NULL;
    if (!bytes)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, from->peer,
                                "rank %d answered what it was not asked", from->peer);
    *ret_bytes = bytes;
    return RCM_OK;
}

static struct rcmi_mem run_mem(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_place *place, size_t offset, size_t len) {
    return rcmi_mem_part(&run->base[place->index], rcmi_lane_offset(lane, place, offset), len);
}

/* The payload is still in the sender's memory: gets it into the step's dst. */
static rcm_status run_get(const struct rcmi_run *run, struct rcmi_lane_state *lane,
                          const struct rcmi_bound_step *step, const struct rcmi_end *end,
                          const struct rcmi_slot *slot, const void **ret_bytes) {
    if (!step->receives_into_dst || !run->gets)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d sent a message that is to be got where none may be",
                                end->peer);
    const struct rcmi_mem place =
        run_mem(run, lane, &step->dst, lane->offset + lane->part, slot->len);
    *ret_bytes = place.bytes;
    if (lane->got)
        return RCM_OK;
    const rcm_status status =
        rcmi_channel_get(end->channel, &place, slot->remote,
                         !rcmi_node_oversubscribed(run->exec->config.node), &lane->moved);
    lane->got = status == RCM_OK;
    if (status == RCM_ERR_UNSUPPORTED) /* of a message that was peeked: it has changed since */
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d changed a message while it was got", end->peer);
    return status;
}

/* Is a message of len bytes right where `bytes` are left? It may be a part of them only where it
 * has to go by a slot and all do not fit one. */
static bool run_length_fits(const struct rcmi_run *run, const struct rcmi_end *end, size_t len,
                            size_t bytes) {
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
    if (status != RCM_OK)
        return status;
    if (run_is_cut_apart(run, lane, &slot, *bytes))
        return run_counts_differ(run, lane, step, end, &slot);
    if ((slot.meta & ~RCMI_META_ELSEWHERE) != lane->meta) {
        status = run_other_meta(run, lane, step, end, &slot, *bytes);
        if (status != RCM_OK)
            return status;
    }
    if (slot.meta & RCMI_META_ELSEWHERE && slot.len == 0) {
        rcmi_channel_peeked_beside(end->channel, *bytes);
        return run_peek_answer(lane, step, end, ret_bytes);
    }
    if (!run_length_fits(run, end, slot.len, *bytes) || slot.meta & RCMI_META_ELSEWHERE)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d sent %zu bytes where %zu belong", end->peer, slot.len,
                                *bytes);
    *bytes = slot.len;
    if (!slot.bytes)
        return run_get(run, lane, step, end, &slot, ret_bytes);
    if (step->answer == channel)
        lane->reply = slot.reply;
    *ret_bytes = slot.bytes;
    return RCM_OK;
}

/* Posts receives for this slice and the next ones, `most` in all, so that they may be written
 * straight to the result. */
static void lane_post(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                      const struct rcmi_bound_step *step, struct rcmi_end *end, size_t offset,
                      uint32_t most) {
    while (end->posted < most && !run->gets && !run->no_posts) {
        const size_t at = offset + (size_t)end->posted * run->stripes * run->slice_bytes;
        const size_t bytes = rcmi_slice_length(step, at, run->slice_bytes);
        const struct rcmi_posted posted = {.mem = run_mem(run, lane, &step->dst, at, bytes),
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
static bool end_is_socket(const struct rcmi_end *end) {
    const struct rcmi_channel *channel = end->channel;
    /* Acquire pairs with the release store of the loop thread, which chose the transport before. */
    return atomic_load_explicit(&channel->state, memory_order_acquire) == RCM_OK &&
           !channel->transport->shared_slots;
}

/* A message has not come: notes the peer, lets a socket receive straight into the result.
 */
static void lane_blocked(struct rcmi_run *run, struct rcmi_lane_state *lane,
                         const struct rcmi_bound_step *step, const struct rcmi_port *port,
                         size_t offset) {
    struct rcmi_end *end = port->end;
    lane->waits_for = end;
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
static rcm_status step_zero_copy(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                 struct rcmi_port *port, const struct rcmi_place *place,
                                 size_t offset, size_t len) {
    struct rcmi_channel *channel = port->end->channel;
    const struct rcmi_mem mem = run_mem(run, lane, place, offset, len);
    const rcm_status status = rcmi_channel_send_zero_copy(channel, &mem, lane->meta, run->gets);
    if (status == RCM_OK) {
        port->zero_copy = rcmi_channel_sent(channel);
        run->zero_copy = true;
    }
    return status;
}

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

/* The slot of the message that was just sent is kept for its answer. */
static void end_keep(const struct rcmi_run *run, struct rcmi_end *end, void *slot) {
    end->kept[(end->kept_first + end->nkept++) % run->exec->config.slots] = slot;
}

/* May a message that will be answered go out, and into this slot? */
static bool end_is_full(const struct rcmi_run *run, const struct rcmi_end *end) {
    return end->nkept == run->exec->config.slots;
}

static bool end_keeps(const struct rcmi_run *run, const struct rcmi_end *end, const void *slot) {
    for (uint32_t i = 0; i < end->nkept; i++)
        if (end->kept[(end->kept_first + i) % run->exec->config.slots] == slot)
            return true;
    return false;
}

/* Ends a step's use of its incoming slots. */
static void step_release(const struct rcmi_run *run, struct rcmi_lane_state *lane,
                         const struct rcmi_bound_step *step) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_place *src = &run->places[step->first_src + (uint32_t)i];
        if (src->where != RCMI_CHANNEL)
            continue;
        struct rcmi_end *end = lane->ports[src->index].end;
        if (end->posted > 0)
            end->posted--;
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

/* Sends a stable source without a copy: *bytes of it, else as much as a slot has, which *bytes is
 * then. RCM_ERR_UNSUPPORTED: neither can be. */
static rcm_status step_send_stable(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, size_t *bytes) {
    struct rcmi_port *port = &lane->ports[step->out];
    const struct rcmi_place *src = &run->places[step->first_src];
    const size_t offset = lane->offset + lane->part;
    const rcm_status status = step_zero_copy(run, lane, port, src, offset, *bytes);
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    const size_t most = port->end->channel->slot_bytes; /* known, for the channel is ready */
    if (*bytes <= most || most < RCMI_ZERO_COPY_MIN)
        return status;
    *bytes = most;
    return step_zero_copy(run, lane, port, src, offset, most);
}

/* Sends what is stable from where it lies, or finds where the step's message is to be written.
 * ret_reserved->bytes NULL: it is sent. *bytes: at most a slot of them. */
static HOT rcm_status step_reserve(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                   const struct rcmi_bound_step *step, size_t *bytes,
                                   struct rcmi_reserved *ret_reserved) {
    const struct rcmi_port *port = &lane->ports[step->out];
    struct rcmi_end *out = port->end;
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (out->now_served != port->ticket || (step->answered && end_is_full(run, out)) ||
        (run->gets && out->nkept > 0)) /* a slot with an answer may be what a get comes by */
        return RCM_AGAIN;
    if (step->zero_copy && *bytes >= RCMI_ZERO_COPY_MIN)
        status = step_send_stable(run, lane, step, bytes);
    if (status == RCM_OK) {
        if (step->answered)
            end_keep(run, out, NULL);
        ret_reserved->bytes = NULL;
        return RCM_OK;
    }
    if (status == RCM_ERR_UNSUPPORTED) {
        if (run->gets && rcmi_channel_state(out->channel) == RCM_OK &&
            *bytes > out->channel->slot_bytes)
            *bytes = out->channel->slot_bytes;
        status = rcmi_channel_reserve(out->channel, *bytes, ret_reserved);
    }
    return status == RCM_OK && end_keeps(run, out, ret_reserved->bytes) ? RCM_AGAIN : status;
}

/* On RCM_AGAIN notes which rank the lane waits for. */
static HOT rcm_status step_target(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                  const struct rcmi_bound_step *step, size_t *bytes,
                                  struct rcmi_reserved *ret_reserved) {
    const rcm_status status = step_reserve(run, lane, step, bytes, ret_reserved);
    if (status == RCM_AGAIN)
        lane->waits_for = lane->ports[step->out].end;
    return status;
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

/* Where operations finish later: finds where the step's message is to be written, or that it is to
 * be sent from where it lies. */
static rcm_status step_target_later(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                    const struct rcmi_bound_step *step, size_t *bytes) {
    struct rcmi_later *later = lane->later;
    if (step->later_zero_copy != RCMI_LATER_SLOT)
        later->from = (uint8_t)rcmi_later_from(run, lane, step, *bytes);
    return later->from == RCMI_LATER_SLOT ? step_target(run, lane, step, bytes, &later->target)
                                          : RCM_OK;
}

/* Sends a message that lies in the run's memory. RCM_ERR_UNSUPPORTED: it cannot be sent so. */
static rcm_status step_send_from_place(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                       const struct rcmi_bound_step *step) {
    struct rcmi_port *port = &lane->ports[step->out];
    const rcm_status status =
        port->end->now_served != port->ticket
            ? RCM_AGAIN
            : step_zero_copy(run, lane, port, rcmi_later_place(run, lane, step),
                             lane->offset + lane->part, lane->later->bytes);
    if (status == RCM_AGAIN)
        lane->waits_for = port->end;
    return status;
}

/* What the step computes is there: sends its message. */
static rcm_status step_send_later(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                  const struct rcmi_bound_step *step) {
    struct rcmi_later *later = lane->later;
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (later->from == RCMI_LATER_SLOT) {
        rcmi_channel_commit(lane->ports[step->out].end->channel, later->bytes, lane->meta);
        return RCM_OK;
    }
    if (!run->no_zero_copy)
        status = step_send_from_place(run, lane, step);
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    run->no_zero_copy = true;
    if (later->from == RCMI_LATER_SOURCE) { /* nothing was done: the step begins again */
        later->begun = false;
        lane->moved = true;
        return RCM_AGAIN;
    }
    size_t bytes = later->bytes;
    status = step_target(run, lane, step, &bytes, &later->target);
    if (status == RCM_OK)
        status = rcmi_later_copy(run, lane, step);
    return status == RCM_OK ? RCM_AGAIN : status;
}

/* The same where operations on the run's memory finish later: until then the step holds the slots
 * that it uses. */
static rcm_status step_try_later(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                 const struct rcmi_bound_step *step, size_t *bytes) {
    struct rcmi_later *later = lane->later;
    rcm_status status = RCM_OK;
    if (!later->begun) {
        later->target.bytes = NULL;
        later->from = RCMI_LATER_SLOT;
        status = step_sources(run, lane, step, lane->offset + lane->part, bytes, later->srcs);
        if (status == RCM_OK && step->out != RCMI_NO_CHANNEL)
            status = step_target_later(run, lane, step, bytes);
        if (status != RCM_OK)
            return status;
        rcmi_later_begin(later, *bytes);
        lane->moved = true;
        lane->waits_for = NULL;
    }
    *bytes = later->bytes;
    status = rcmi_later_go_on(run, lane, step);
    if (status == RCM_OK && step->out != RCMI_NO_CHANNEL)
        status = step_send_later(run, lane, step);
    if (status != RCM_OK)
        return status;
    later->begun = false;
    step_release(run, lane, step);
    return RCM_OK;
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
                                   : step_try_later(run, lane, step, &bytes);
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

/* May the run end, as far as this channel goes: what was sent without a copy, and what it has to
 * carry? */
static bool port_done(const struct rcmi_run *run, const struct rcmi_port *port) {
    struct rcmi_channel *channel = port->end->channel;
    return !port->end->outgoing || (rcmi_channel_completed(channel, port->zero_copy) &&
                                    (!run->drains || rcmi_channel_taken(channel, port->sent)));
}

static __attribute__((noinline)) const struct rcmi_end *ports_drain(const struct rcmi_run *run) {
    for (uint32_t i = 0; i < run->bind.plan->nchannels * run->stripes; i++)
        if (!port_done(run, &run->ports[i]))
            return run->ports[i].end;
    return NULL;
}

/* The first channel that the run waits for at its end; NULL: none. Most runs wait for none, and
 * do not call anything to find that. */
static inline const struct rcmi_end *run_drains(const struct rcmi_run *run) {
    return run->zero_copy || run->drains ? ports_drain(run) : NULL;
}

/* RCM_AGAIN, or why what was sent without a copy will not go out. A lane that waits for what comes
 * of that would not find out. */
static rcm_status run_waits(const struct rcmi_run *run) {
    for (uint32_t i = 0; run->zero_copy && i < run->bind.plan->nchannels * run->stripes; i++) {
        const struct rcmi_port *port = &run->ports[i];
        if (!port->end->outgoing || port->zero_copy == 0)
            continue;
        const rcm_status status = rcmi_channel_state(port->end->channel);
        if (status != RCM_OK)
            return status;
    }
    return RCM_AGAIN;
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
    return done && !run_drains(run) ? RCM_OK : run_waits(run);
}

bool rcmi_run_counts_differ(const struct rcmi_run *run) {
    return run->counts_differ;
}

/* A lane whose operation is under way: whatever others wait for, that is this rank's own doing. */
static const struct rcmi_lane_state *run_computes(const struct rcmi_run *run) {
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++) {
        const struct rcmi_later *later = run->lanes[i].later;
        if (later && later->begun && !run->lanes[i].waits_for)
            return &run->lanes[i];
    }
    return NULL;
}

void rcmi_run_waits_for(const struct rcmi_run *run, struct rcmi_run_wait *ret_wait) {
    const struct rcmi_lane_state *computes = run_computes(run);
    *ret_wait = (struct rcmi_run_wait){.peer = -1, .nsteps = run->bind.plan->nsteps};
    if (computes) {
        ret_wait->peer = run->exec->config.rank;
        ret_wait->step = computes->pc;
        ret_wait->bytes = computes->offset;
        return;
    }
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++) {
        const struct rcmi_lane_state *lane = &run->lanes[i];
        if (lane->slice >= run->nslices)
            continue;
        ret_wait->step = lane->pc;
        ret_wait->bytes = lane->offset;
        if (!lane->waits_for)
            continue;
        ret_wait->peer = lane->waits_for->peer;
        ret_wait->to_send = lane->waits_for->outgoing;
        return;
    }
    const struct rcmi_end *end = run_drains(run);
    if (end) {
        ret_wait->peer = end->peer;
        ret_wait->to_send = true;
        ret_wait->step = ret_wait->nsteps;
    }
}

uint64_t rcmi_exec_steps(const struct rcmi_exec *exec) {
    return exec->steps_done;
}
