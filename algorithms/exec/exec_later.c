/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps that finish later: what they compute is begun here, as an operation of the kind of memory
 * (kernels/operation.h) that the run is bound to.
 *
 *      begin     the sources are there, and where the message is to be written; or it will be sent
 *                from where it lies, memory that is registered
 *      go on     until the operation is done; of a span in pieces there is one after the other
 *      then      the message is committed, the sources are released
 *
 * A lane has one operation at a time, so a step never needs what runs; lanes and stripes overlap,
 * and so do runs. Sources and targets may be slots, which are host memory: the kind takes both.
 *
 * Not here: how a step finds its sources and where it writes to (exec_step.h), steps that are done
 * at once, and which step is next (exec.c).
 */
#include <stdlib.h>
#include "exec_step.h"

/* The lane's step begins: sources and target are found, and its message has so many bytes. */
static void later_begin(struct rcmi_later *later, size_t bytes) {
    later->begun = true;
    later->bytes = bytes;
    later->piece = 0;
    later->at = 0;
}

/* A result that is its own only source has nothing to be done. */
static void operation_add_result(struct rcmi_operation *o, void *result) {
    if (result && (o->reduces || result != o->srcs[0]))
        o->results[o->nresults++] = result;
}

/* piece: of the step, or the step itself. Of a message, from byte later->at on. */
static void operation_set(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                          const struct rcmi_bound_step *piece, size_t bytes) {
    struct rcmi_later *later = lane->later;
    struct rcmi_operation *o = &later->operation;
    const size_t offset = lane->offset + lane->part;
    char *target = later->target.bytes;
    o->nresults = 0;
    o->nsrcs = piece->nsrcs;
    o->bytes = bytes;
    o->reduces = piece->reduces;
    o->after = run->bind.after;
    o->op = run->sums[piece->sum].op;
    o->context = run->sums[piece->sum].context;
    for (uint32_t i = 0; i < piece->nsrcs; i++) {
        const struct rcmi_place *src = &run->places[piece->first_src + i];
        o->srcs[i] = src->where == RCMI_CHANNEL ? (const char *)later->srcs[i] + later->at
                                                : rcmi_run_address(run, lane, src, offset);
    }
    if (piece->dst.where != RCMI_NOWHERE)
        operation_add_result(o, rcmi_run_address(run, lane, &piece->dst, offset));
    operation_add_result(o, target ? target + later->at : NULL);
}

static bool operation_is_needed(const struct rcmi_operation *o) {
    return o->bytes > 0 && o->nsrcs > 0 && o->nresults > 0;
}

/* ---- Messages that are sent from where they lie ---------------------------------------------- */

/* Where the message lies that is sent so. */
static const struct rcmi_place *later_place(const struct rcmi_run *run,
                                            const struct rcmi_lane_state *lane,
                                            const struct rcmi_bound_step *step) {
    return lane->later->from == RCMI_LATER_SOURCE ? &run->places[step->first_src] : &step->dst;
}

/* From where the step's message of so many bytes is to be sent, as far as is known. */
static enum rcmi_later_from later_from(const struct rcmi_run *run,
                                       const struct rcmi_lane_state *lane,
                                       const struct rcmi_bound_step *step, size_t bytes) {
    const enum rcmi_later_from from = (enum rcmi_later_from)step->later_zero_copy;
    if (from == RCMI_LATER_SLOT || run->no_zero_copy || bytes < RCMI_ZERO_COPY_MIN)
        return RCMI_LATER_SLOT;
    const struct rcmi_place *place =
        from == RCMI_LATER_SOURCE ? &run->places[step->first_src] : &step->dst;
    const struct rcmi_channel *channel = rcmi_port_data(&lane->ports[step->out]);
    if (!rcmi_channel_may_zero_copy(channel, &run->base[place->index]) ||
        (from == RCMI_LATER_RESULT && bytes > channel->slot_bytes))
        return RCMI_LATER_SLOT;
    return from;
}

/* It cannot be: begins to copy it from there into the slot that is the target by now. */
static rcm_status later_copy(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                             const struct rcmi_bound_step *step) {
    struct rcmi_later *later = lane->later;
    struct rcmi_operation *o = &later->operation;
    o->srcs[0] =
        rcmi_run_address(run, lane, later_place(run, lane, step), lane->offset + lane->part);
    o->results[0] = later->target.bytes;
    o->nsrcs = o->nresults = 1;
    o->bytes = later->bytes;
    o->reduces = false;
    o->after = run->bind.after;
    later->from = RCMI_LATER_SLOT;
    return rcmi_operation_begin(o);
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* A stable source is there once what the run comes after has ended. */
static void operation_set_wait(const struct rcmi_run *run, struct rcmi_operation *o) {
    o->nresults = o->nsrcs = 0;
    o->bytes = 0;
    o->after = run->bind.after;
}

/* Begins the next piece that has anything to be done. RCM_OK: none has; RCM_AGAIN: it runs. */
static rcm_status later_next(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                             const struct rcmi_bound_step *step) {
    struct rcmi_later *later = lane->later;
    const uint32_t npieces = step->npieces > 0 ? step->npieces : 1;
    while (later->piece < npieces) {
        const struct rcmi_bound_step *piece =
            step->npieces > 0 ? &run->pieces[step->first_piece + later->piece] : step;
        const size_t bytes = step->npieces > 0
                                 ? rcmi_slice_length(piece, lane->offset, run->slice_bytes)
                                 : later->bytes;
        const bool waits = later->from == RCMI_LATER_SOURCE;
        if (waits)
            operation_set_wait(run, &later->operation);
        else if (bytes > 0)
            operation_set(run, lane, piece, bytes);
        const bool needed =
            waits ? run->bind.after != NULL : bytes > 0 && operation_is_needed(&later->operation);
        const rcm_status status = needed ? rcmi_operation_begin(&later->operation) : RCM_OK;
        if (status != RCM_OK) /* it is not done, also for a later look */
            return status;
        later->piece++;
        later->at += bytes;
        if (needed)
            return RCM_AGAIN;
    }
    return RCM_OK;
}

/* The rank whose memory a step reads, of several the one that has failed as far as is known. */
static int later_writer(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                        const struct rcmi_bound_step *step) {
    int found = run->exec->config.rank;
    for (uint32_t i = step->nsrcs; i-- > 0;) {
        const struct rcmi_place *src = &run->places[step->first_src + i];
        if (src->where != RCMI_CHANNEL)
            continue;
        const struct rcmi_end *end = lane->ports[src->index].end;
        found = end->peer;
        if (rcmi_channel_state(end->channel) < 0)
            break;
    }
    return found;
}

/* This rank is the origin, but where memory is read of a process that has ended. */
static rcm_status later_failed(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step) {
    struct rcmi_error why = *rcmi_last_error();
    why.origin =
        why.status == RCM_ERR_PEER ? later_writer(run, lane, step) : run->exec->config.rank;
    *rcmi_last_error() = why; /* what was looked at may have told another error */
    return rcmi_fail_context("rank %d", why.origin);
}

/* Once it has begun: RCM_AGAIN while an operation of the step runs, RCM_OK when all that it
 * computes is there, or an error. */
static rcm_status later_go_on(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                              const struct rcmi_bound_step *step) {
    rcm_status status = rcmi_operation_look(&lane->later->operation);
    if (status == RCM_OK)
        status = later_next(run, lane, step);
    return status == RCM_OK || status == RCM_AGAIN ? status : later_failed(run, lane, step);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Where operations finish later: finds where the step's message is to be written. */
static rcm_status step_slot_later(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                  const struct rcmi_bound_step *step, size_t *bytes) {
    const struct rcmi_port *port = &lane->ports[step->out];
    if (!port->beside)
        return step_target(run, lane, step, bytes, &lane->later->target);
    const rcm_status status =
        rcmi_channel_reserve(port->beside->channel, *bytes, &lane->later->target);
    if (status == RCM_AGAIN)
        lane->waits_for = port->end;
    return status;
}

/* The same, or that it is to be sent from where it lies. */
static rcm_status step_target_later(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                    const struct rcmi_bound_step *step, size_t *bytes) {
    struct rcmi_later *later = lane->later;
    const struct rcmi_port *port = &lane->ports[step->out];
    rcm_status status = RCM_OK;
    if (port->beside)
        status = rcmi_beside_announce(lane, port, *bytes);
    if (status != RCM_OK)
        return status;
    if (step->later_zero_copy != RCMI_LATER_SLOT)
        later->from = (uint8_t)later_from(run, lane, step, *bytes);
    return later->from == RCMI_LATER_SLOT ? step_slot_later(run, lane, step, bytes) : RCM_OK;
}

/* Sends a message that lies in the run's memory. RCM_ERR_UNSUPPORTED: it cannot be sent so. */
static rcm_status step_send_from_place(struct rcmi_run *run, struct rcmi_lane_state *lane,
                                       const struct rcmi_bound_step *step) {
    struct rcmi_port *port = &lane->ports[step->out];
    const rcm_status status = port->end->now_served != port->ticket
                                  ? RCM_AGAIN
                                  : step_zero_copy(run, lane, port, later_place(run, lane, step),
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
        rcmi_channel_commit(rcmi_port_data(&lane->ports[step->out]), later->bytes, lane->meta);
        later->announced = false;
        return RCM_OK;
    }
    if (!run->no_zero_copy)
        status = step_send_from_place(run, lane, step);
    if (status == RCM_OK)
        later->announced = false;
    if (status != RCM_ERR_UNSUPPORTED)
        return status;
    run->no_zero_copy = true;
    if (later->from == RCMI_LATER_SOURCE) { /* nothing was done: the step begins again */
        later->begun = false;
        lane->moved = true;
        return RCM_AGAIN;
    }
    size_t bytes = later->bytes;
    status = step_slot_later(run, lane, step, &bytes);
    if (status == RCM_OK)
        status = later_copy(run, lane, step);
    return status == RCM_OK ? RCM_AGAIN : status;
}

rcm_status rcmi_later_try(struct rcmi_run *run, struct rcmi_lane_state *lane,
                          const struct rcmi_bound_step *step, size_t *bytes) {
    struct rcmi_later *later = lane->later;
    rcm_status status = RCM_OK;
    if (!later->begun) {
        later->target.bytes = NULL;
        later->from = RCMI_LATER_SLOT;
        if (rcmi_run_scratch_is_due(run))
            status = rcmi_run_scratch_look(run);
        if (status == RCM_OK)
            status = step_sources(run, lane, step, lane->offset + lane->part, bytes, later->srcs);
        if (status == RCM_OK && step->out != RCMI_NO_CHANNEL)
            status = step_target_later(run, lane, step, bytes);
        if (status != RCM_OK)
            return status;
        later_begin(later, *bytes);
        lane->moved = true;
        lane->waits_for = NULL;
    }
    *bytes = later->bytes;
    status = later_go_on(run, lane, step);
    if (status == RCM_OK && step->out != RCMI_NO_CHANNEL)
        status = step_send_later(run, lane, step);
    if (status != RCM_OK)
        return status;
    later->begun = false;
    step_release(run, lane, step);
    return RCM_OK;
}

/* ---- All of an exec -------------------------------------------------------------------------- */

void rcmi_exec_wake(void *arg) {
    rcmi_node_ring(arg);
}

bool rcmi_exec_quiesce(struct rcmi_exec *exec) {
    rcmi_operations_give_up(&exec->operations);
    return rcmi_operations_quiet(&exec->operations);
}

/* ---- Binding --------------------------------------------------------------------------------- */

static rcm_status laters_make(struct rcmi_run *run, uint32_t nlanes) {
    if (!run->laters)
        run->laters = calloc(nlanes ? nlanes : 1, sizeof(*run->laters));
    if (!run->laters)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the operations of %u lanes", nlanes);
    return RCM_OK;
}

rcm_status rcmi_later_bind(struct rcmi_run *run) {
    const struct rcmi_bind *bind = &run->bind;
    const uint32_t nlanes = bind->plan->nlanes * bind->plan->stripes;
    if (bind->in.kind == RCMI_MEM_HOST)
        return RCM_OK;
    if (!rcmi_mem_kind_row(bind->in.kind))
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "nothing copies or reduces %s here",
                         rcmi_mem_kind_name(bind->in.kind));
    const rcm_status status = laters_make(run, nlanes);
    for (uint32_t i = 0; i < nlanes && status == RCM_OK; i++) {
        struct rcmi_operation *o = &run->laters[i].operation;
        run->laters[i].begun = run->laters[i].announced = false;
        o->dtype = bind->dtype;
        o->kind = bind->in.kind;
        o->all = &run->exec->operations;
    }
    return status;
}
