/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps on memory that the CPU does not touch: operations of that kind (kernels/operation.h), for a
 * span one per piece in sequence.
 *
 * A lane has one operation at a time, so a step never depends on an unfinished one. Lanes, stripes
 * and runs overlap. Sources and targets may be slots, which are host memory; the kind accepts both.
 *
 * Not here: where sources and targets are (exec_step.h), what follows an operation (exec.c).
 */
#include <stdlib.h>
#include "exec_internal.h"

/* ---- Operations of a step -------------------------------------------------------------------- */

/* Adds a result, unless it is its own only source. */
static void operation_add_result(struct rcmi_operation *o, void *result) {
    if (result && (o->reduces || result != o->srcs[0]))
        o->results[o->nresults++] = result;
}

static void operation_set_copy(struct rcmi_lane_operation *own) {
    struct rcmi_operation *o = &own->operation;
    o->reduces = false;
    o->nsrcs = o->nresults = 1;
    o->srcs[0] = own->io.dst;
    o->results[0] = own->io.target.bytes;
}

/* piece: of the step, or the step itself. Its part of the message starts at own->at. */
static void operation_set(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                          const struct rcmi_bound_step *piece) {
    struct rcmi_lane_operation *own = lane->operation;
    const struct rcmi_step_io *io = &own->io;
    struct rcmi_operation *o = &own->operation;
    const size_t offset = lane->offset + lane->part;
    o->reduces = piece->reduces;
    o->op = run->sums[piece->sum].op;
    o->context = run->sums[piece->sum].context;
    o->nresults = 0;
    o->nsrcs = piece->nsrcs;
    for (uint32_t i = 0; i < piece->nsrcs; i++) {
        const struct rcmi_bound_operand *src = &run->operands[piece->first_src + i];
        o->srcs[i] = src->where == RCMI_CHANNEL ? (const char *)own->srcs[i] + own->at
                                                : rcmi_run_address(run, lane, src, offset);
    }
    if (piece->dst.where != RCMI_NOWHERE)
        operation_add_result(o, rcmi_run_address(run, lane, &piece->dst, offset));
    if (io->path != RCMI_PATH_NONE && io->path != RCMI_PATH_DST)
        operation_add_result(o, (char *)io->target.bytes + own->at);
}

/* Begins the operation of a piece. RCM_OK: it has nothing to do. */
static rcm_status piece_begin(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                              const struct rcmi_bound_step *piece, size_t bytes) {
    struct rcmi_lane_operation *own = lane->operation;
    struct rcmi_operation *o = &own->operation;
    if (bytes == 0)
        return RCM_OK;
    if (own->io.path == RCMI_PATH_COPY)
        operation_set_copy(own);
    else
        operation_set(run, lane, piece);
    o->bytes = bytes;
    o->after = run->bind.after;
    if (o->nsrcs == 0 || o->nresults == 0)
        return RCM_OK;
    const rcm_status status = rcmi_operation_begin(o);
    return status == RCM_OK ? RCM_AGAIN : status;
}

/* Begins the next piece that has work. RCM_OK: none has; RCM_AGAIN: an operation is in progress. */
static rcm_status pieces_go_on(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step) {
    struct rcmi_lane_operation *own = lane->operation;
    const bool spans = step->npieces > 0;
    const uint32_t n = own->io.path == RCMI_PATH_SENT ? 0 : spans ? step->npieces : 1;
    while (own->piece < n) {
        const struct rcmi_bound_step *piece =
            spans ? &run->pieces[step->first_piece + own->piece] : step;
        const size_t bytes =
            spans ? rcmi_slice_length(piece, lane->offset, run->slice_bytes) : own->io.bytes;
        const rcm_status status = piece_begin(run, lane, piece, bytes);
        if (status != RCM_OK && status != RCM_AGAIN) /* a later check fails too */
            return status;
        own->piece++;
        own->at += bytes;
        if (status == RCM_AGAIN)
            return status;
    }
    own->piece = 0;
    own->at = 0;
    return RCM_OK;
}

/* The rank whose memory a step reads; of several, one known to have failed. */
static int step_writer(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                       const struct rcmi_bound_step *step) {
    int found = run->exec->config.rank;
    for (uint32_t i = step->nsrcs; i-- > 0;) {
        const struct rcmi_bound_operand *src = &run->operands[step->first_src + i];
        if (src->where != RCMI_CHANNEL)
            continue;
        const struct rcmi_end *end = lane->ports[src->index].end;
        found = end->peer;
        if (rcmi_channel_state(end->channel) < 0)
            break;
    }
    return found;
}

/* The origin is this rank, unless the memory of an ended process was read. */
static rcm_status operation_failed(const struct rcmi_run *run, int writer) {
    struct rcmi_error why = *rcmi_last_error();
    why.origin = why.status == RCM_ERR_PEER ? writer : run->exec->config.rank;
    *rcmi_last_error() = why; /* the checks since may have set another error */
    return rcmi_fail_context("rank %d", why.origin);
}

rcm_status rcmi_operation_compute(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                  const struct rcmi_bound_step *step) {
    rcm_status status = rcmi_operation_look(&lane->operation->operation);
    if (status == RCM_OK)
        status = pieces_go_on(run, lane, step);
    return status == RCM_OK || status == RCM_AGAIN
               ? status
               : operation_failed(run, step_writer(run, lane, step));
}

rcm_status rcmi_run_await(struct rcmi_run *run, const struct rcmi_port *port,
                          const struct rcmi_bound_operand *src) {
    rcm_status status = rcmi_channel_state(port->data);
    if (status != RCM_OK)
        return status;
    if (!rcmi_channel_may_zero_copy(port->data, &run->base[src->index]))
        return RCM_ERR_UNSUPPORTED;
    status = rcmi_fence_await(&run->watch, &run->awaits, &run->bind.after);
    return status == RCM_OK || status == RCM_AGAIN ? status
                                                   : operation_failed(run, run->exec->config.rank);
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

rcm_status rcmi_run_operations_bind(struct rcmi_run *run) {
    const struct rcmi_bind *bind = &run->bind;
    const struct rcmi_mem_row *row = rcmi_mem_kind_row(bind->in.kind);
    const uint32_t nlanes = bind->plan->nlanes * bind->plan->stripes;
    const struct rcmi_operation zero = {
        .dtype = bind->dtype, .kind = bind->in.kind, .all = &run->exec->operations};
    if (!row)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "nothing copies or reduces %s here",
                         rcmi_mem_kind_name(bind->in.kind));
    if (row->at_once)
        return RCM_OK;
    if (!run->operations)
        run->operations = calloc(nlanes ? nlanes : 1, sizeof(*run->operations));
    if (!run->operations)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the operations of %u lanes", nlanes);
    run->watch = zero;
    run->awaits = false;
    for (uint32_t i = 0; i < nlanes; i++)
        run->operations[i] = (struct rcmi_lane_operation){.operation = zero};
    return RCM_OK;
}
