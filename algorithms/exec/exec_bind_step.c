/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binding the steps of a plan: chunks become byte ranges, operands become addresses in the run's
 * memory, spans become pieces; and the paths that a step's messages may take.
 *
 * Not here: when a run is bound, and what belongs to no step (exec_bind.c).
 */
#include "exec_internal.h"

static struct rcmi_bound_operand run_bind_buffer(const struct rcmi_run *run,
                                                 const struct rcmi_operand *operand) {
    const struct rcmi_bind *bind = &run->bind;
    const uint32_t parts = bind->plan->parts, position = operand->index / parts;
    const bool in = operand->where == RCMI_IN, uneven = rcmi_bind_is_uneven(bind);
    struct rcmi_bound_operand bound = {.where = operand->where, .index = operand->where};
    size_t block = bind->count, first, count;
    if (uneven) {
        const uint32_t i = position + (in ? 0 : bind->plan->in.n);
        block = bind->blocks[i].count;
        bound.index = RCMI_BASE_BLOCKS + i;
    }
    rcmi_chunk_range(block, run->element_bytes, parts, operand->index % parts, &first, &count);
    bound.offset = ((uneven ? 0 : position * block) + first) * run->element_bytes;
    return bound;
}

static struct rcmi_bound_operand run_bind_operand(const struct rcmi_run *run,
                                                  const struct rcmi_operand *operand) {
    struct rcmi_bound_operand bound = {.where = operand->where, .index = operand->where};
    if (operand->where == RCMI_IN || operand->where == RCMI_OUT)
        return run_bind_buffer(run, operand);
    if (operand->where == RCMI_CHANNEL)
        bound.index = operand->index;
    else if (operand->where == RCMI_SCRATCH)
        bound.offset = operand->index * run->scratch_chunk;
    return bound;
}

/* Elements of a block that this rank moves. Unequal blocks: this rank has the block in IN or
 * OUT. */
static size_t bind_block_count(const struct rcmi_bind *bind, uint32_t block) {
    const struct rcmi_plan *plan = bind->plan;
    if (!rcmi_bind_is_uneven(bind))
        return bind->count;
    const uint32_t in = rcmi_blocks_find(&plan->in, block);
    const uint32_t out = rcmi_blocks_find(&plan->out, block);
    if (in < plan->in.n)
        return bind->blocks[in].count;
    return out < plan->out.n ? bind->blocks[plan->in.n + out].count : 0;
}

/* Selects the sum of a step, if it computes. If the operator scales contributions, IN is never sent
 * or copied unscaled: wherever IN is a source it is scaled, and nothing else is. */
static void run_bind_sum(const struct rcmi_run *run, const struct rcmi_step *step,
                         struct rcmi_bound_step *bound) {
    const uint32_t own = run->scales ? rcmi_step_input(run->bind.plan, step) : step->nsrcs;
    const bool scales = own < step->nsrcs, averages = run->bind.op == RCM_AVG && step->completes;
    bound->sum = (uint8_t)(scales ? RCMI_KERNEL_SUMS + own : step->completes);
    bound->reduces = step->nsrcs > 1 || scales || (averages && run->bind.plan->nranks > 1);
}

/* Binds chunk i of a step's span; its sources start at run->operands[first_src]. */
static void run_bind_chunk(struct rcmi_run *run, const struct rcmi_step *step, uint32_t i,
                           uint32_t first_src, struct rcmi_bound_step *bound) {
    const struct rcmi_plan *plan = run->bind.plan;
    const uint32_t chunk = rcmi_step_chunk(plan, step, i);
    const struct rcmi_operand dst = rcmi_span_operand(plan, step, step->dst, i);
    size_t first, count = 0;
    *bound = (struct rcmi_bound_step){
        .first_src = first_src, .out = step->out, .nsrcs = step->nsrcs, .answer = step->answer};
    bound->dst = run_bind_operand(run, &dst);
    run_bind_sum(run, step, bound);
    if (step->op != RCMI_STEP_SIGNAL && step->op != RCMI_STEP_WAIT)
        rcmi_chunk_range(bind_block_count(&run->bind, chunk / plan->parts), run->element_bytes,
                         plan->parts, chunk % plan->parts, &first, &count);
    bound->bytes = count * run->element_bytes;
    for (uint32_t k = 0; k < step->nsrcs; k++) {
        const struct rcmi_operand src =
            rcmi_span_operand(plan, step, plan->operands[step->first_src + k], i);
        run->operands[first_src + k] = run_bind_operand(run, &src);
    }
}

static bool operand_follows(const struct rcmi_bound_operand *a, const struct rcmi_bound_operand *b,
                            size_t bytes) {
    return a->where == RCMI_NOWHERE || a->where == RCMI_CHANNEL ||
           (a->index == b->index && a->offset + bytes == b->offset);
}

/* Does b begin where a ends, in all their buffers? */
static bool piece_follows(const struct rcmi_run *run, const struct rcmi_bound_step *a,
                          const struct rcmi_bound_step *b) {
    for (uint32_t k = 0; k < a->nsrcs; k++)
        if (!operand_follows(&run->operands[a->first_src + k], &run->operands[b->first_src + k],
                             a->bytes))
            return false;
    return operand_follows(&a->dst, &b->dst, a->bytes);
}

/* Binds the pieces of a span: merges contiguous chunks, unless the span is cut into slices. */
static uint32_t run_bind_pieces(struct rcmi_run *run, const struct rcmi_step *step,
                                struct rcmi_bound_step *pieces) {
    const bool cut = run->nslices > 1 || run->by_step;
    uint32_t n = 0, operands = run->noperands;
    for (uint32_t i = 0; i < step->nchunks; i++) {
        run_bind_chunk(run, step, i, operands, &pieces[n]);
        if (!cut && n > 0 && piece_follows(run, &pieces[n - 1], &pieces[n])) {
            pieces[n - 1].bytes += pieces[n].bytes;
            continue;
        }
        operands += step->nsrcs;
        n++;
    }
    return n;
}

/* On entry, the step is bound to the first chunk of its span. */
static void run_bind_span(struct rcmi_run *run, const struct rcmi_step *step,
                          struct rcmi_bound_step *bound) {
    struct rcmi_bound_step *pieces = &run->pieces[run->npieces];
    const uint32_t n = run_bind_pieces(run, step, pieces);
    for (uint32_t i = 0; i < n; i++)
        bound->bytes = bound->bytes > pieces[i].bytes ? bound->bytes : pieces[i].bytes;
    if (n == 1)
        return;
    bound->first_piece = run->npieces;
    bound->npieces = n;
    bound->zero_copy = bound->zero_copy_dst = bound->receives_into_dst = bound->early = false;
    run->npieces += n;
    run->noperands += n * step->nsrcs;
}

/* Sets which paths other than slots its messages may take. Peers and sockets write only to memory
 * that the CPU touches. */
static void run_bind_paths(const struct rcmi_run *run, const struct rcmi_step *step, bool in_place,
                           struct rcmi_bound_step *bound) {
    const bool touched = rcmi_mem_kind_row(run->bind.in.kind)->at_once;
    const bool receives = step->op == RCMI_STEP_RECV || step->op == RCMI_STEP_RECV_COPY_SEND;
    bound->zero_copy = step->op == RCMI_STEP_SEND && !bound->reduces &&
                       (in_place ? step->stable_in_place : step->stable);
    bound->zero_copy_dst = step->out != RCMI_NO_CHANNEL && step->lasting;
    bound->receives_into_dst = touched && receives;
    bound->early = touched && step->early && !(in_place && run->bind.plan->late_in_place);
    bound->answered = touched && step->answered;
    bound->answer = touched ? bound->answer : RCMI_NO_CHANNEL;
}

void rcmi_run_bind_step(struct rcmi_run *run, uint32_t i, bool in_place) {
    const struct rcmi_plan *plan = run->bind.plan;
    const struct rcmi_step *step = &plan->steps[i];
    struct rcmi_bound_step *bound = &run->steps[i];
    run_bind_chunk(run, step, 0, step->first_src, bound);
    run_bind_paths(run, step, in_place, bound);
    if (step->nchunks > 1)
        run_bind_span(run, step, bound);
    for (uint32_t k = 0; k < step->nsrcs; k++)
        if (plan->operands[step->first_src + k].where == RCMI_CHANNEL)
            run->last_step[plan->operands[step->first_src + k].index] = bound;
    if (step->out != RCMI_NO_CHANNEL)
        run->last_step[step->out] = bound;
}
