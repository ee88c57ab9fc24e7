/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running bound plans: see exec.h. Binding is in exec_bind.c.
 */
#include "cpu.h"
#include "exec_internal.h"
#include "kernels.h"

/* Where ranks share cores slots are written through the cache below this. */
#define TRIED_MIN_CROWDED ((size_t)4096)

/* The part of a step's chunk that slice s moves. */
static size_t slice_length(const struct rcmi_bound_step *step, size_t offset, size_t slice_bytes) {
    if (offset >= step->bytes)
        return 0;
    size_t left = step->bytes - offset;
    return left < slice_bytes ? left : slice_bytes;
}

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

/* Looks at the oldest message of an incoming channel end whose turn it is. */
static rcm_status run_peek(struct rcmi_run *run, struct rcmi_lane_state *lane,
                           const struct rcmi_bound_step *step, uint32_t channel, size_t bytes,
                           const void **ret_bytes) {
    const struct rcmi_port *port = &lane->ports[channel];
    const struct rcmi_end *end = port->end;
    struct rcmi_slot slot = {.reply = NULL};
    if (end->serving != port->turn)
        return RCM_AGAIN;
    rcm_status status = rcmi_channel_peek(end->channel, &slot);
    if (status != RCM_OK)
        return status;
    if (run->fetch == RCMI_RUN_OPENS && port == run->ports)
        return RCM_AGAIN; /* it came just now, and rcmi_run_fetch looks at it first */
    if ((slot.meta & ~RCMI_META_ELSEWHERE) != lane->meta)
        return run_mismatch(run, end, &slot);
    if (slot.meta & RCMI_META_ELSEWHERE && slot.len == 0)
        return run_peek_answer(lane, step, end, ret_bytes);
    if (slot.len != bytes || slot.meta & RCMI_META_ELSEWHERE)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d sent %zu bytes where %zu belong", end->peer, slot.len,
                                bytes);
    if (step->answer == channel)
        lane->reply = slot.reply;
    *ret_bytes = slot.bytes;
    return RCM_OK;
}

static char *run_address(const struct rcmi_run *run, const struct rcmi_place *place,
                         size_t offset) {
    char *base = run->base[place->where];
    return base ? base + place->offset + offset : NULL; /* NULL if there is nothing to move */
}

/* A message has not come: notes who is waited for, lets a socket receive straight into the result.
 */
static void lane_blocked(const struct rcmi_run *run, struct rcmi_lane_state *lane,
                         const struct rcmi_bound_step *step, const struct rcmi_port *port,
                         size_t offset, size_t bytes) {
    struct rcmi_end *end = port->end;
    lane->waits_for = end;
    if (!step->receives_into_dst || end->expecting || end->serving != port->turn ||
        run->fetch == RCMI_RUN_OPENS)
        return; /* (then the message may be there, and the place would be for the next one) */
    rcmi_channel_expect(end->channel, run_address(run, &step->dst, offset), bytes);
    end->expecting = true;
}

/* Where the result may be written before the step is reached, says so to the writers of this slice
 * and the next ones: as many as they can be ahead. */
static void lane_invite(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                        struct rcmi_end *end, size_t offset) {
    while (end->invited < run->exec->config.slots) {
        const size_t at = offset + (size_t)end->invited * run->stripes * run->slice_bytes;
        const size_t bytes = slice_length(step, at, run->slice_bytes);
        if (bytes < RCMI_LEND_MIN || !rcmi_channel_invite(end->channel, end->invited,
                                                          run_address(run, &step->dst, at), bytes))
            return;
        end->invited++;
    }
}

/* Finds every source of a step. On RCM_AGAIN notes whom the lane waits for. */
static rcm_status step_sources(struct rcmi_run *run, struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step, size_t offset, size_t bytes,
                               const void **srcs) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_place *src = &run->places[step->first_src + (uint32_t)i];
        if (src->where != RCMI_CHANNEL) {
            srcs[i] = run_address(run, src, offset);
            continue;
        }
        const struct rcmi_port *port = &lane->ports[src->channel];
        if (step->invites && port->end->serving == port->turn)
            lane_invite(run, step, port->end, offset);
        rcm_status status = run_peek(run, lane, step, src->channel, bytes, &srcs[i]);
        if (status == RCM_AGAIN)
            lane_blocked(run, lane, step, port, offset, bytes);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

/* Sends a stable buffer without a copy where the channel can. RCM_ERR_UNSUPPORTED: it cannot. */
static rcm_status step_lend(struct rcmi_run *run, struct rcmi_end *end, uint64_t meta,
                            const void *bytes, size_t len) {
    rcm_status status = rcmi_channel_lend(end->channel, bytes, len, meta);
    if (status == RCM_OK)
        run->lent = true;
    return status;
}

/* streaming: with non-temporal stores, but for small pieces. Results are written so only if they
 * would not stay in the caches anyway; slots: see step_fill. */
static void step_compute(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                         void *target, bool streaming, const void *const *srcs, size_t bytes) {
    if (step->nsrcs > 1)
        (streaming ? run->reduce_streaming : run->reduce)(target, srcs, step->nsrcs,
                                                          bytes / run->element_bytes);
    else if (step->nsrcs == 1 && srcs[0] != target)
        (streaming ? rcmi_copy_streaming : rcmi_copy)(target, srcs[0], bytes);
}

/* Of a step that sends nothing. */
static void step_result(const struct rcmi_run *run, const struct rcmi_bound_step *step, void *dst,
                        const void *const *srcs, size_t bytes) {
    if (step->nsrcs == 1 && run->by_vectors && !run->large)
        rcmi_copy_vectors(dst, srcs[0], bytes);
    else
        step_compute(run, step, dst, run->large, srcs, bytes);
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
static void step_release(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                         const struct rcmi_bound_step *step) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_place *src = &run->places[step->first_src + (uint32_t)i];
        if (src->where != RCMI_CHANNEL)
            continue;
        struct rcmi_end *end = lane->ports[src->channel].end;
        end->expecting = false;
        if (end->invited > 0)
            end->invited--;
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

/* Computes what a step sends straight to where it is sent from, and into dst if there is one. */
static void step_compute_direct(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                                void *dst, void *direct, enum rcmi_twice how,
                                const void *const *srcs, size_t bytes) {
    if (dst && step->nsrcs > 1) {
        run->reduce_twice(dst, direct, srcs, step->nsrcs, bytes / run->element_bytes, how);
        return;
    }
    step_compute(run, step, direct, how == RCMI_BOTH_PAST, srcs, bytes);
    if (dst)
        step_compute(run, step, dst, how != RCMI_BOTH_THROUGH, srcs, bytes);
}

/* How a slot is written; *ret_try is to be ended once it is.
 *
 * Slots that another core reads can be written past the cache, which costs the same wherever that
 * core is, or through it, which costs a fraction of that if it is near, or the same one, and
 * several times as much if it is far; and cores are moved about on some machines. So both are tried
 * for each channel, but for the smallest; where ranks share cores, those are small that fit there.
 * Not for copies by the string instruction (cpu.h): wherever the core is, through it is as fast.
 * (What makes lines expensive to write again is that the other core has read them. Who answers has
 * written them too, and they cost little.) */
static enum rcmi_stores slot_stores(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                                    struct rcmi_end *out, size_t bytes, struct rcmi_try *ret_try) {
    const bool crowded = run->exec->config.shape->crowd > 1;
    *ret_try = (struct rcmi_try){.of = NULL};
    if (!out->channel->transport->shared_slots || step->answered ||
        bytes < (crowded ? TRIED_MIN_CROWDED : RCMI_FASTER_MIN) ||
        (step->nsrcs == 1 && rcmi_cpu_copies_strings()))
        return RCMI_STORES_THROUGH;
    *ret_try = rcmi_try_begin(&out->stores, bytes);
    if (ret_try->way == RCMI_STORES_PAST && bytes < RCMI_FASTER_LARGE)
        ret_try->more = RCMI_PAST_FETCH;
    else if (ret_try->way == RCMI_STORES_PAST && crowded && !out->multicast)
        ret_try->more = RCMI_PAST_FETCH_CROWDED;
    return ret_try->way == RCMI_STORES_PAST ? RCMI_STORES_PAST : RCMI_STORES_THROUGH;
}

/* Fills the slot, and dst if there is one and it is not `computed` already. Results too large to
 * stay in the cache are written past it, in the same pass as the slot. */
static void step_fill(const struct rcmi_run *run, const struct rcmi_bound_step *step,
                      struct rcmi_end *out, void *dst, bool computed, void *slot,
                      const void *const *srcs, size_t bytes) {
    const bool shared = out->channel->transport->shared_slots;
    const bool whole = shared && run->large && dst && !computed;
    if (dst && !computed && !whole)
        step_compute(run, step, dst, false, srcs, bytes);
    struct rcmi_try try;
    const enum rcmi_stores stores = slot_stores(run, step, out, bytes, &try);
    const bool past = stores == RCMI_STORES_PAST;
    if (whole)
        step_compute_direct(run, step, dst, slot, past ? RCMI_BOTH_PAST : RCMI_FIRST_PAST, srcs,
                            bytes);
    else if (dst)
        rcmi_copy_to_peer(slot, dst, bytes, stores);
    else if (step->nsrcs == 1)
        rcmi_copy_to_peer(slot, srcs[0], bytes, stores);
    else
        step_compute(run, step, slot, past, srcs, bytes);
    rcmi_try_end(&try, bytes);
}

/* Computes what a step sends and sends it: from where the reader wants it, from dst where that
 * keeps it, or from its slot. The slot was reserved, so there is room for a lent message too. */
static rcm_status step_send(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                            const struct rcmi_bound_step *step, void *dst, void *slot,
                            const void *const *srcs, size_t bytes) {
    struct rcmi_end *out = lane->ports[step->out].end;
    void *direct = bytes >= RCMI_LEND_MIN ? rcmi_channel_direct(out->channel, bytes) : NULL;
    const bool lends = step->may_lend_dst && bytes >= RCMI_LEND_MIN && !run->unlendable;
    if (direct) {
        step_compute_direct(run, step, dst, direct, run->large ? RCMI_BOTH_PAST : RCMI_BOTH_THROUGH,
                            srcs, bytes);
        rcmi_channel_commit(out->channel, bytes, lane->meta);
        return RCM_OK;
    }
    if (step->answer != RCMI_NO_CHANNEL && lane->reply) {
        step_compute_direct(run, step, dst, lane->reply,
                            run->large ? RCMI_FIRST_PAST : RCMI_BOTH_THROUGH, srcs, bytes);
        rcmi_channel_commit(out->channel, 0, lane->meta | RCMI_META_ELSEWHERE);
        return RCM_OK;
    }
    if (lends) {
        step_compute(run, step, dst, false, srcs, bytes);
        const rcm_status status = step_lend(run, out, lane->meta, dst, bytes);
        if (status != RCM_ERR_UNSUPPORTED && status != RCM_AGAIN)
            return status;
        run->unlendable = status == RCM_ERR_UNSUPPORTED;
    }
    step_fill(run, step, out, dst, lends, slot, srcs, bytes);
    rcmi_channel_commit(out->channel, bytes, lane->meta);
    return RCM_OK;
}

/* Sends what is stable from where it lies, or finds the slot for the step's message. *ret_slot
 * NULL: it is sent. */
static rcm_status step_reserve(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step, const void *src, size_t bytes,
                               void **ret_slot) {
    const struct rcmi_port *port = &lane->ports[step->out];
    struct rcmi_end *out = port->end;
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (out->serving != port->turn || (step->answered && end_is_full(run, out)))
        return RCM_AGAIN;
    if (step->may_lend && bytes >= RCMI_LEND_MIN)
        status = step_lend(run, out, lane->meta, src, bytes);
    if (status == RCM_OK) {
        if (step->answered)
            end_keep(run, out, NULL);
        *ret_slot = NULL;
        return RCM_OK;
    }
    if (status == RCM_ERR_UNSUPPORTED)
        status = rcmi_channel_reserve(out->channel, ret_slot);
    return status == RCM_OK && end_keeps(run, out, *ret_slot) ? RCM_AGAIN : status;
}

/* Does one step if it can be done now. */
static rcm_status step_try(struct rcmi_run *run, struct rcmi_lane_state *lane,
                           const struct rcmi_bound_step *step, size_t offset) {
    const void *srcs[RCMI_SOURCES_MAX];
    const size_t bytes = slice_length(step, offset, run->slice_bytes);
    rcm_status status = step_sources(run, lane, step, offset, bytes, srcs);
    if (status != RCM_OK)
        return status;

    void *dst = step->dst.where != RCMI_NOWHERE ? run_address(run, &step->dst, offset) : NULL;
    if (step->out == RCMI_NO_CHANNEL) {
        step_result(run, step, dst, srcs, bytes);
        step_release(run, lane, step);
        return RCM_OK;
    }

    struct rcmi_end *out = lane->ports[step->out].end;
    void *slot = NULL;
    status = step_reserve(run, lane, step, srcs[0], bytes, &slot);
    if (status == RCM_AGAIN)
        lane->waits_for = out;
    if (status != RCM_OK || !slot)
        return status;

    status = step_send(run, lane, step, dst, slot, srcs, bytes);
    if (status != RCM_OK)
        return status;
    if (step->answered)
        end_keep(run, out, bytes > RCMI_TINY ? slot : NULL);
    step_release(run, lane, step);
    return RCM_OK;
}

/* Hands on the channel ends on which this was the run's last step. */
static void step_pass_ends(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                           const struct rcmi_bound_step *step) {
    for (int i = 0; i < step->nsrcs; i++) {
        const struct rcmi_place *src = &run->places[step->first_src + (uint32_t)i];
        if (src->where == RCMI_CHANNEL && run->last_step[src->channel] == step)
            lane->ports[src->channel].end->serving++;
    }
    if (step->out != RCMI_NO_CHANNEL && run->last_step[step->out] == step) {
        struct rcmi_port *port = &lane->ports[step->out];
        port->sent = run->lingers ? rcmi_channel_sent(port->end->channel) : 0;
        port->end->serving++;
    }
}

/* All steps for the first slice of its stripe, then all for the next one, ... as far as it goes. */
static rcm_status lane_progress(struct rcmi_run *run, struct rcmi_lane_state *lane, bool *moved) {
    while (lane->slice < run->nslices) {
        const bool last_slice = lane->slice + run->stripes >= run->nslices;
        lane->meta = run->bind.meta | (last_slice ? RCMI_META_LAST : 0);
        while (lane->pc < lane->end) {
            const struct rcmi_bound_step *step = &run->steps[lane->pc];
            rcm_status status = step_try(run, lane, step, lane->offset);
            if (status != RCM_OK)
                return status;
            if (last_slice)
                step_pass_ends(run, lane, step);
            lane->waits_for = NULL;
            lane->pc++;
            run->exec->steps_done++;
            *moved = true;
        }
        lane->slice += run->stripes;
        lane->offset += run->stripes * run->slice_bytes;
        lane->pc = lane->begin;
    }
    return RCM_OK;
}

/* May the run end, as far as this channel goes: what was lent to it, and what it has to carry? */
static bool port_done(const struct rcmi_run *run, const struct rcmi_port *port) {
    struct rcmi_channel *channel = port->end->channel;
    return !port->end->outgoing || ((!run->lent || rcmi_channel_quiet(channel)) &&
                                    (!run->lingers || rcmi_channel_taken(channel, port->sent)));
}

/* The first channel that the run waits for at its end; NULL: none. */
static const struct rcmi_end *run_lingers_for(const struct rcmi_run *run) {
    if (!run->lent && !run->lingers)
        return NULL;
    for (uint32_t i = 0; i < run->bind.plan->nchannels * run->stripes; i++)
        if (!port_done(run, &run->ports[i]))
            return run->ports[i].end;
    return NULL;
}

rcm_status rcmi_run_progress(struct rcmi_run *run, bool *moved) {
    bool done = true;
    if (run->fetch != RCMI_RUN_BY_SLOTS) {
        const rcm_status status = rcmi_run_fetch(run, moved);
        if (status != RCM_OK)
            return status;
    }
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
    if (!done || run_lingers_for(run))
        return RCM_AGAIN;
    if (run->results_ns)
        rcmi_run_results_end(run);
    if (run->began_ns)
        rcmi_run_fetch_learn(run, RCMI_FETCH_NEVER);
    return RCM_OK;
}

void rcmi_run_waits_for(const struct rcmi_run *run, struct rcmi_run_wait *ret_wait) {
    *ret_wait = (struct rcmi_run_wait){.peer = -1, .nsteps = run->bind.plan->nsteps};
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
    const struct rcmi_end *end = run_lingers_for(run);
    if (end) {
        ret_wait->peer = end->peer;
        ret_wait->to_send = true;
        ret_wait->step = ret_wait->nsteps;
    }
}

uint64_t rcmi_exec_steps(const struct rcmi_exec *exec) {
    return exec->steps_done;
}
