/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binding plans: channels are found (exec_ends.c), chunks become byte ranges, operands become
 * addresses. Done once per call; a run that ended is kept and used again for the same plan, and
 * when size and type are the same too only the buffers change.
 */
#include "exec_internal.h"
#include "operator.h"
#include <stdlib.h>
#include <string.h>

rcm_status rcmi_exec_create(const struct rcmi_exec_config *config, struct rcmi_exec **ret_exec) {
    struct rcmi_exec *exec = calloc(1, sizeof(*exec));
    if (!exec)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator's executor");
    exec->config = *config;
    exec->operations = (struct rcmi_operations){
        .device = config->device, .wake = rcmi_exec_wake, .arg = config->node};
    *ret_exec = exec;
    return RCM_OK;
}

size_t rcmi_exec_memory(const struct rcmi_exec *exec) {
    return atomic_load_explicit(&exec->run_bytes, memory_order_relaxed);
}

/* One thread at a time changes it. */
static void exec_weigh(struct rcmi_exec *exec, size_t more) {
    atomic_store_explicit(&exec->run_bytes, rcmi_exec_memory(exec) + more, memory_order_relaxed);
}

static void run_free(struct rcmi_run *run) {
    exec_weigh(run->exec, 0 - run->bytes);
    free(run->traces);
    free(run->scratch);
    free(run->base);
    free(run->counts);
    free(run->lanes);
    free(run->steps);
    free(run->places);
    free(run->pieces);
    free(run->ports);
    free(run->last_step);
    free(run->laters);
    rcmi_operator_drop(run->held);
    free(run);
}

void rcmi_exec_free(struct rcmi_exec *exec) {
    if (!exec)
        return;
    while (exec->idle) {
        struct rcmi_run *run = exec->idle;
        exec->idle = run->next;
        run_free(run);
    }
    rcmi_exec_close_channels(exec);
    rcmi_operations_settle(&exec->operations);
    free(exec);
}

/* ---- Slices ---------------------------------------------------------------------------------- */

/* Slices, and how many of them side by side: from what all ranks know alike. */
struct slicing {
    size_t bytes, n;
    uint32_t stripes;
};

/* Bytes of the longest element. */
#define SLICE_ELEMENT ((size_t)16)
_Static_assert(RCMI_SPAN_MAX *SLICE_ELEMENT <= 1024, "RINGCOMM_SLOT_BYTES may be 1024");

/* Enough slices for overlap, but none so small that its messages cost more than its bytes. */
struct slice_rule {
    size_t most, least; /* bytes of a slice */
    uint32_t enough;    /* no smaller slices to have more than so many */
    uint32_t stripes;
    bool halving; /* a slice is `most` halved so many times, and the last one what is left; else
                     they are of one length */
};

/* Do blocks of so many bytes go by messages that the reader gets? What ranks find out about their
 * links does not change it: a message that cannot be got comes in parts, or piece by piece through
 * its slot. */
static bool exec_gets(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                      enum rcmi_mem_kind kind, size_t bytes) {
    return kind == RCMI_MEM_HOST && plan->gets != RCMI_GETS_NONE &&
           exec->config.shape->nhosts == 1 &&
           rcmi_range_has(rcmi_node_protocol(exec->config.node)->get, bytes);
}

static size_t exec_get_slice(const struct rcmi_exec *exec, const struct rcmi_plan *plan) {
    const size_t slots = exec->config.slots / plan->min_slots;
    const size_t held = (slots > 0 ? slots : 1) * exec->config.slot_bytes;
    return plan->gets == RCMI_GETS_HELD && held < RCMI_GET_MAX ? held : RCMI_GET_MAX;
}

static struct slice_rule exec_message_rule(const struct rcmi_exec *exec,
                                           const struct rcmi_plan *plan, enum rcmi_mem_kind kind,
                                           bool gets) {
    const size_t slot =
        exec->config.slot_bytes * (kind == RCMI_MEM_DEVICE ? RCMI_DEVICE_SLOT_SCALE : 1);
    const size_t bulk = exec->config.bulk_bytes;
    const bool oversubscribed = exec->config.shape->ranks_per_cpu > 1;
    if (gets) {
        const size_t most = exec_get_slice(exec, plan);
        return (struct slice_rule){
            .most = most, .least = most, .enough = 1, .stripes = 1, .halving = true};
    }
    if (!rcmi_exec_is_spread(exec))
        return (struct slice_rule){plan->halves && oversubscribed ? slot / 2 : slot, RCMI_SLICE_MIN,
                                   plan->stripes, plan->stripes, true};
    if (plan->whole)
        return (struct slice_rule){.most = bulk, .least = bulk, .enough = 1, .stripes = 1};
    const size_t most = RCMI_NETWORK_SLICE_SLOTS * slot;
    return (struct slice_rule){
        .most = most < bulk ? most : bulk,
        .least = exec->config.shape->loopback ? RCMI_LOOPBACK_SLICE_MIN : RCMI_NETWORK_SLICE_MIN,
        .enough = RCMI_NETWORK_SLICES,
        .stripes = plan->stripes < RCMI_NETWORK_STRIPES ? plan->stripes : RCMI_NETWORK_STRIPES,
    };
}

/* A message has a slice of each chunk of a span: at least an element, for which a slot has room,
 * but the half of the smallest one need not. */
static struct slice_rule exec_slice_rule(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                                         enum rcmi_mem_kind kind, bool gets) {
    struct slice_rule rule = exec_message_rule(exec, plan, kind, gets);
    rule.most /= plan->longest_span;
    rule.most = rule.most > SLICE_ELEMENT ? rule.most : SLICE_ELEMENT;
    rule.least /= plan->longest_span;
    return rule;
}

/* A multiple of a cache line, or, below one, of the longest element. */
static size_t slice_round(size_t bytes) {
    return bytes - bytes % (bytes < 64 ? SLICE_ELEMENT : 64);
}

static size_t slice_halved(const struct slice_rule *rule, size_t longest) {
    size_t bytes = rule->most;
    while (bytes / 2 >= rule->least && longest / bytes < rule->enough)
        bytes /= 2;
    return slice_round(bytes);
}

/* As many as `least` and `enough` allow, or more of `most`; begins are aligned as the vector is. */
static size_t slice_even(const struct slice_rule *rule, size_t longest) {
    const size_t most = slice_round(rule->most);
    size_t n = longest / rule->least;
    n = n < rule->enough ? n : rule->enough;
    n = n > 0 ? n : 1;
    const size_t bytes = (longest / n + (longest % n != 0) + 63) / 64 * 64;
    if (bytes <= most)
        return bytes > 0 ? bytes : 64;
    if (most < 64)
        return most;
    n = longest / most + (longest % most != 0);
    return (longest / n + (longest % n != 0) + 63) / 64 * 64;
}

static struct slicing exec_slicing(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                                   enum rcmi_mem_kind kind, size_t count, size_t element_bytes) {
    const size_t longest = rcmi_chunk_max(count, element_bytes, plan->parts) * element_bytes;
    const bool gets = exec_gets(exec, plan, kind, count * element_bytes);
    const struct slice_rule rule = exec_slice_rule(exec, plan, kind, gets);
    struct slicing slicing = {.n = 1, .stripes = 1};
    slicing.bytes = rule.halving ? slice_halved(&rule, longest) : slice_even(&rule, longest);
    if (longest)
        slicing.n = (longest + slicing.bytes - 1) / slicing.bytes;
    if (slicing.n > 1)
        slicing.stripes = slicing.n < rule.stripes ? (uint32_t)slicing.n : rule.stripes;
    else
        slicing.bytes *= plan->longest_span; /* no span is cut */
    return slicing;
}

/* Where only the ends of a message know its length: its slices are as long as a slot allows, one
 * message where that is enough. Nothing is got: what differs from the length is an error, no part.
 */
static struct slicing exec_slicing_by_step(const struct rcmi_exec *exec,
                                           const struct rcmi_plan *plan) {
    const size_t most = exec_slice_rule(exec, plan, RCMI_MEM_HOST, false).most;
    return (struct slicing){.bytes = slice_round(most), .n = 1, .stripes = 1};
}

static bool bind_is_by_step(const struct rcmi_bind *bind) {
    return rcmi_collective_at((int)bind->collective)->counts == RCMI_COUNTS_PAIR;
}

/* Where only pairs of ranks know counts, a rank that has no elements has no kind of memory either,
 * and sends and receives messages all the same: these go by the channels of host memory. */
static enum rcmi_mem_kind channels_kind(bool by_step, enum rcmi_mem_kind kind) {
    return by_step ? RCMI_MEM_HOST : kind;
}

rcm_status rcmi_exec_prepare(struct rcmi_exec *exec, const struct rcmi_plan *plan,
                             enum rcmi_mem_kind kind, size_t bytes) {
    const bool by_step = rcmi_collective_at((int)plan->collective)->counts == RCMI_COUNTS_PAIR;
    const enum rcmi_mem_kind channels = channels_kind(by_step, kind);
    const struct slicing slicing = exec_slicing(exec, plan, channels, bytes / plan->larger, 1);
    rcm_status result = RCM_OK;
    for (uint32_t i = 0; i < plan->nchannels * slicing.stripes; i++) {
        struct rcmi_end *end;
        rcm_status status = rcmi_exec_end(exec, &plan->channels[i % plan->nchannels],
                                          i / plan->nchannels, channels, &end);
        if (status == RCM_OK)
            status = rcmi_channel_state(end->channel);
        if (status == RCM_AGAIN)
            result = RCM_AGAIN;
        else if (status != RCM_OK)
            return status;
    }
    return result;
}

/* ---- Unequal blocks -------------------------------------------------------------------------- */

const struct rcmi_block *rcmi_bind_counts(const struct rcmi_bind *bind, uint32_t *ret_n) {
    const struct rcmi_plan *plan = bind->plan;
    const bool in = plan->in.n > plan->out.n;
    *ret_n = 0;
    if (!rcmi_bind_is_uneven(bind) ||
        rcmi_collective_at((int)bind->collective)->counts != RCMI_COUNTS_ALL)
        return NULL;
    *ret_n = in ? plan->in.n : plan->out.n;
    return in ? bind->blocks : bind->blocks + plan->in.n;
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static void *array_new(uint32_t n, size_t size) {
    return calloc(n ? n : 1, size);
}

/* Pieces that spans of a plan may be in, and places for their sources. */
static uint32_t plan_pieces(const struct rcmi_plan *plan, uint32_t *ret_places) {
    uint32_t pieces = 0;
    *ret_places = 0;
    for (uint32_t i = 0; i < plan->nsteps; i++) {
        const struct rcmi_step *step = &plan->steps[i];
        if (step->nchunks == 1)
            continue;
        pieces += step->nchunks;
        *ret_places += step->nchunks * step->nsrcs;
    }
    return pieces;
}

enum { KERNEL_SUMS = 2 }; /* of struct rcmi_kernels */

static uint32_t plan_sums(const struct rcmi_plan *plan) {
    const bool reduces = rcmi_collective_at((int)plan->collective)->reduces;
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->nsteps && reduces; i++) {
        const uint32_t own = rcmi_step_input(plan, &plan->steps[i]);
        if (own < plan->steps[i].nsrcs && own >= n)
            n = own + 1;
    }
    return KERNEL_SUMS + n;
}

static rcm_status run_new(struct rcmi_exec *exec, const struct rcmi_plan *plan,
                          struct rcmi_run **ret_run) {
    const uint32_t nsums = plan_sums(plan);
    struct rcmi_run *run = calloc(1, sizeof(*run) + nsums * sizeof(run->sums[0]));
    if (!run)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a collective");
    uint32_t places;
    run->exec = exec;
    run->nsums = nsums;
    run->pieces = array_new(plan_pieces(plan, &places), sizeof(*run->pieces));
    run->lanes = array_new(plan->nlanes * plan->stripes, sizeof(*run->lanes));
    run->steps = array_new(plan->nsteps, sizeof(*run->steps));
    run->places = array_new(plan->noperands + places, sizeof(*run->places));
    run->ports = array_new(plan->nchannels * plan->stripes, sizeof(*run->ports));
    run->last_step = array_new(plan->nchannels, sizeof(*run->last_step));
    if (exec->config.trace)
        run->traces = rcmi_trace_lanes(plan);
    run->nbases = RCMI_BASE_BLOCKS;
    run->base = array_new(run->nbases, sizeof(*run->base));
    if (!run->base || !run->pieces || !run->lanes || !run->steps || !run->places || !run->ports ||
        !run->last_step) {
        run_free(run);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a plan of %u steps", plan->nsteps);
    }
    *ret_run = run;
    return RCM_OK;
}

/* Counts what a run keeps. */
static void run_weigh(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    const size_t of_stripe =
        plan->nlanes * sizeof(*run->lanes) + plan->nchannels * sizeof(*run->ports);
    uint32_t places;
    const size_t pieces = plan_pieces(plan, &places);
    const size_t bytes = sizeof(*run) + run->nsums * sizeof(run->sums[0]) +
                         plan->stripes * of_stripe + run->scratch_bytes +
                         (plan->nsteps + pieces) * sizeof(*run->steps) +
                         (plan->noperands + places) * sizeof(*run->places) +
                         run->nbases * (sizeof(*run->base) + sizeof(*run->counts));
    exec_weigh(run->exec, bytes - run->bytes);
    run->bytes = bytes;
}

/* A kept run of the same plan, if there is one. */
static struct rcmi_run *run_reuse(struct rcmi_exec *exec, const struct rcmi_plan *plan) {
    for (struct rcmi_run **at = &exec->idle; *at; at = &(*at)->next) {
        if ((*at)->bind.plan == plan) {
            struct rcmi_run *run = *at;
            *at = run->next;
            return run;
        }
    }
    return NULL;
}

/* Binds a chunk of IN or OUT. */
static struct rcmi_place run_place_buffer(const struct rcmi_run *run,
                                          const struct rcmi_operand *operand) {
    const struct rcmi_bind *bind = &run->bind;
    const uint32_t parts = bind->plan->parts, position = operand->index / parts;
    const bool in = operand->where == RCMI_IN, uneven = rcmi_bind_is_uneven(bind);
    struct rcmi_place place = {.where = operand->where, .index = operand->where};
    size_t block = bind->count, first, count;
    if (uneven) {
        const uint32_t i = position + (in ? 0 : bind->plan->in.n);
        block = bind->blocks[i].count;
        place.index = RCMI_BASE_BLOCKS + i;
    }
    rcmi_chunk_range(block, run->element_bytes, parts, operand->index % parts, &first, &count);
    place.offset = ((uneven ? 0 : position * block) + first) * run->element_bytes;
    return place;
}

static struct rcmi_place run_place(const struct rcmi_run *run, const struct rcmi_operand *operand) {
    struct rcmi_place place = {.where = operand->where, .index = operand->where};
    if (operand->where == RCMI_IN || operand->where == RCMI_OUT)
        return run_place_buffer(run, operand);
    if (operand->where == RCMI_CHANNEL)
        place.index = operand->index;
    else if (operand->where == RCMI_SCRATCH)
        place.offset = operand->index * run->scratch_chunk;
    return place;
}

/* Elements of a block that this rank moves: of unequal ones it has it in IN or OUT. */
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

/* By which sum a step computes, if it does. What this rank contributes is never sent or copied as
 * it is where the operator scales it: wherever IN is a source it is scaled, and nothing else is. */
static void run_bind_sum(const struct rcmi_run *run, const struct rcmi_step *step,
                         struct rcmi_bound_step *bound) {
    const uint32_t own = run->scales ? rcmi_step_input(run->bind.plan, step) : step->nsrcs;
    const bool scales = own < step->nsrcs, averages = run->bind.op == RCM_AVG && step->completes;
    bound->sum = (uint8_t)(scales ? KERNEL_SUMS + own : step->completes);
    bound->reduces = step->nsrcs > 1 || scales || (averages && run->bind.plan->nranks > 1);
}

/* Chunk i of a step's span, its sources from place first_src on. */
static void run_bind_chunk(struct rcmi_run *run, const struct rcmi_step *step, uint32_t i,
                           uint32_t first_src, struct rcmi_bound_step *bound) {
    const struct rcmi_plan *plan = run->bind.plan;
    const uint32_t chunk = rcmi_step_chunk(plan, step, i);
    const struct rcmi_operand dst = rcmi_span_operand(plan, step, step->dst, i);
    size_t first, count = 0;
    *bound = (struct rcmi_bound_step){
        .first_src = first_src, .out = step->out, .nsrcs = step->nsrcs, .answer = step->answer};
    bound->dst = run_place(run, &dst);
    run_bind_sum(run, step, bound);
    if (step->op != RCMI_STEP_SIGNAL && step->op != RCMI_STEP_WAIT)
        rcmi_chunk_range(bind_block_count(&run->bind, chunk / plan->parts), run->element_bytes,
                         plan->parts, chunk % plan->parts, &first, &count);
    bound->bytes = count * run->element_bytes;
    for (uint32_t k = 0; k < step->nsrcs; k++) {
        const struct rcmi_operand src =
            rcmi_span_operand(plan, step, plan->operands[step->first_src + k], i);
        run->places[first_src + k] = run_place(run, &src);
    }
}

static bool place_follows(const struct rcmi_place *a, const struct rcmi_place *b, size_t bytes) {
    return a->where == RCMI_NOWHERE || a->where == RCMI_CHANNEL ||
           (a->index == b->index && a->offset + bytes == b->offset);
}

/* Does b begin where a ends, in all their buffers? */
static bool piece_follows(const struct rcmi_run *run, const struct rcmi_bound_step *a,
                          const struct rcmi_bound_step *b) {
    for (uint32_t k = 0; k < a->nsrcs; k++)
        if (!place_follows(&run->places[a->first_src + k], &run->places[b->first_src + k],
                           a->bytes))
            return false;
    return place_follows(&a->dst, &b->dst, a->bytes);
}

/* A span that is not cut into slices goes in as few pieces as its memory is in. */
static uint32_t run_bind_pieces(struct rcmi_run *run, const struct rcmi_step *step,
                                struct rcmi_bound_step *pieces) {
    const bool cut = run->nslices > 1 || run->by_step;
    uint32_t n = 0, places = run->nplaces;
    for (uint32_t i = 0; i < step->nchunks; i++) {
        run_bind_chunk(run, step, i, places, &pieces[n]);
        if (!cut && n > 0 && piece_follows(run, &pieces[n - 1], &pieces[n])) {
            pieces[n - 1].bytes += pieces[n].bytes;
            continue;
        }
        places += step->nsrcs;
        n++;
    }
    return n;
}

/* The step is bound to the first chunk of its span. */
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
    bound->later_zero_copy = RCMI_LATER_SLOT;
    run->npieces += n;
    run->nplaces += n * step->nsrcs;
}

/* By which other ways than slots its messages may go, where the CPU and peers touch its memory. */
static void run_bind_ways(const struct rcmi_step *step, bool in_place, bool late_in_place,
                          struct rcmi_bound_step *bound) {
    bound->zero_copy = step->op == RCMI_STEP_SEND && !bound->reduces &&
                       (in_place ? step->stable_in_place : step->stable);
    bound->zero_copy_dst = step->out != RCMI_NO_CHANNEL && step->lasting;
    bound->receives_into_dst = step->op == RCMI_STEP_RECV || step->op == RCMI_STEP_RECV_COPY_SEND;
    bound->early = step->early && !(in_place && late_in_place);
    bound->answered = step->answered;
}

/* Where the CPU does not touch it: by a channel of its kind from memory that is registered. */
static void run_bind_later_ways(const struct rcmi_run *run, const struct rcmi_step *step,
                                bool in_place, struct rcmi_bound_step *bound) {
    bound->answer = RCMI_NO_CHANNEL; /* each message goes by a slot of its own */
    if (run->kind == RCMI_MEM_HOST || step->out == RCMI_NO_CHANNEL)
        return;
    if (step->op == RCMI_STEP_SEND && !bound->reduces &&
        (in_place ? step->stable_in_place : step->stable))
        bound->later_zero_copy = RCMI_LATER_SOURCE;
    else if (step->lasting && bound->dst.where == RCMI_OUT)
        bound->later_zero_copy = RCMI_LATER_RESULT;
}

static void run_bind_step(struct rcmi_run *run, uint32_t i, bool in_place) {
    const struct rcmi_plan *plan = run->bind.plan;
    const struct rcmi_step *step = &plan->steps[i];
    struct rcmi_bound_step *bound = &run->steps[i];
    run_bind_chunk(run, step, 0, step->first_src, bound);
    if (run->bind.in.kind == RCMI_MEM_HOST)
        run_bind_ways(step, in_place, plan->late_in_place, bound);
    else
        run_bind_later_ways(run, step, in_place, bound);
    if (step->nchunks > 1)
        run_bind_span(run, step, bound);
    for (uint32_t k = 0; k < step->nsrcs; k++)
        if (plan->operands[step->first_src + k].where == RCMI_CHANNEL)
            run->last_step[plan->operands[step->first_src + k].index] = bound;
    if (step->out != RCMI_NO_CHANNEL)
        run->last_step[step->out] = bound;
}

/* Each stripe has its own, of which a chunk is as long as a slice. */
static rcm_status run_scratch(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    const size_t longest =
        rcmi_chunk_max(run->bind.count, run->element_bytes, plan->parts) * run->element_bytes;
    const size_t slice = longest < run->slice_bytes ? longest : run->slice_bytes;
    run->scratch_chunk = (slice + 63) / 64 * 64;
    const size_t bytes = plan->nscratch * run->stripes * run->scratch_chunk;
    if (bytes > run->scratch_bytes) {
        void *scratch = NULL;
        if (posix_memalign(&scratch, 64, bytes) != 0)
            return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %zu bytes of scratch", bytes);
        free(run->scratch);
        run->scratch = scratch;
        run->scratch_bytes = bytes;
    }
    run->base[RCMI_SCRATCH] = rcmi_mem_host(run->scratch, run->scratch_bytes);
    return RCM_OK;
}

/* Room for blocks that have each an address of their own, and their counts. */
static rcm_status run_bases_grow(struct rcmi_run *run, uint32_t nblocks) {
    const uint32_t n = RCMI_BASE_BLOCKS + nblocks;
    if (n <= run->nbases && run->counts)
        return RCM_OK;
    struct rcmi_mem *base = realloc(run->base, n * sizeof(*base));
    if (base)
        run->base = base;
    size_t *counts = realloc(run->counts, n * sizeof(*counts));
    if (counts)
        run->counts = counts;
    if (!base || !counts)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %u blocks", nblocks);
    run->nbases = n;
    return RCM_OK;
}

/* Binds to blocks of these lengths. */
static rcm_status run_bind_blocks(struct rcmi_run *run) {
    const struct rcmi_bind *bind = &run->bind;
    const uint32_t n = bind->plan->in.n + bind->plan->out.n;
    run->ncounts = 0;
    if (!rcmi_bind_is_uneven(bind))
        return RCM_OK;
    const rcm_status status = run_bases_grow(run, n);
    if (status != RCM_OK)
        return status;
    for (uint32_t i = 0; i < n; i++)
        run->counts[i] = bind->blocks[i].count;
    run->ncounts = n;
    return RCM_OK;
}

/* Each lane does all it can in all stripes before the next lane goes on: a rank that has sent
 * everything does not wait for the answer to the last of it. */
static void run_bind_lanes(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    const bool host = run->bind.in.kind == RCMI_MEM_HOST;
    struct rcmi_lane_state *state = run->lanes;
    for (uint32_t i = 0; i < plan->nlanes; i++) {
        const struct rcmi_lane *lane = &plan->lanes[i];
        for (uint32_t stripe = 0; stripe < run->stripes; stripe++, state++)
            *state =
                (struct rcmi_lane_state){.later = host ? NULL : &run->laters[state - run->lanes],
                                         .begin = lane->first_step,
                                         .end = lane->first_step + lane->nsteps,
                                         .stripe = stripe,
                                         .ports = &run->ports[stripe * plan->nchannels],
                                         .scratch = stripe * plan->nscratch * run->scratch_chunk};
    }
}

/* The channels of all stripes in use. */
static rcm_status run_open(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    for (; run->open_stripes < run->stripes; run->open_stripes++) {
        struct rcmi_port *ports = &run->ports[run->open_stripes * plan->nchannels];
        for (uint32_t i = 0; i < plan->nchannels; i++) {
            rcm_status status = rcmi_exec_end(run->exec, &plan->channels[i], run->open_stripes,
                                              run->kind, &ports[i].end);
            if (status != RCM_OK)
                return status;
        }
    }
    return RCM_OK;
}

/* The channels that it has are those of another kind, perhaps. */
static void run_bind_kind(struct rcmi_run *run) {
    const enum rcmi_mem_kind kind = channels_kind(run->by_step, run->bind.in.kind);
    if (run->kind != kind)
        run->open_stripes = 0;
    run->kind = kind;
}

static bool run_only_sends(const struct rcmi_plan *plan) {
    for (uint32_t i = 0; i < plan->nchannels; i++)
        if (!plan->channels[i].outgoing)
            return false;
    return plan->nchannels > 0;
}

static bool run_may_yield(const struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    const size_t bytes = run->bind.count / plan->parts * run->element_bytes;
    return run->exec->config.shape->ranks_per_cpu > 1 && bytes >= RCMI_YIELD_MIN &&
           bytes < RCMI_YIELD_MAX && run_only_sends(plan);
}

/* Results that would not stay in the caches until they are read are written by non-temporal stores.
 */
static enum rcmi_stores run_result_stores(const struct rcmi_run *run) {
    const struct rcmi_protocol *protocol = rcmi_node_protocol(run->exec->config.node);
    const size_t bytes = run->bind.plan->larger * run->bind.count * run->element_bytes;
    const bool sums = run->bind.plan->sums;
    if (rcmi_range_has(sums ? protocol->sum_non_temporal : protocol->copy_non_temporal, bytes))
        return RCMI_NON_TEMPORAL;
    return !sums && rcmi_range_has(protocol->copy_vectors, bytes) ? RCMI_VECTORS : RCMI_TEMPORAL;
}

/* The kernels of the operator, which the run holds: while it is kept its number is no other one's.
 */
static void run_bind_operator(struct rcmi_run *run) {
    const struct rcmi_bind *bind = &run->bind;
    rcmi_operator_share(bind->op);
    rcmi_operator_drop(run->held);
    run->held = bind->op;
    rcmi_kernels_of(bind->dtype, bind->op, (uint32_t)bind->plan->nranks, &run->kernels);
    run->scales = rcmi_op_scales(bind->op);
    memcpy(run->sums, run->kernels.sums, sizeof(run->kernels.sums));
    for (uint32_t i = KERNEL_SUMS; i < run->nsums && run->scales; i++)
        run->sums[i] = rcmi_kernels_scaled(bind->dtype, bind->op, i - KERNEL_SUMS);
}

/* Everything that depends on size and type, not on where the buffers are. Seldom called. */
static __attribute__((noinline)) rcm_status run_bind(struct rcmi_run *run, bool in_place) {
    const struct rcmi_plan *plan = run->bind.plan;
    run->element_bytes = rcm_dtype_size(run->bind.dtype);
    run->results = run_result_stores(run);
    run->drains = run->exec->config.shape->ranks_per_cpu > 1 &&
                  run->bind.count / plan->parts * run->element_bytes >= RCMI_DRAIN_MIN;
    run->yields = run_may_yield(run);
    run->by_step = bind_is_by_step(&run->bind);
    run_bind_kind(run);
    run->gets = !run->by_step &&
                exec_gets(run->exec, plan, run->kind, run->bind.count * run->element_bytes);
    const struct slicing slicing = run->by_step ? exec_slicing_by_step(run->exec, plan)
                                                : exec_slicing(run->exec, plan, run->kind,
                                                               run->bind.count, run->element_bytes);
    rcm_status status = rcmi_later_bind(run);
    if (status != RCM_OK)
        return status;
    run_bind_operator(run);
    run->nslices = slicing.n;
    run->slice_bytes = slicing.bytes;
    run->stripes = slicing.stripes;
    status = run_scratch(run);
    if (status == RCM_OK)
        status = run_open(run);
    if (status != RCM_OK)
        return status;
    run->nplaces = plan->noperands;
    run->npieces = 0;
    for (uint32_t i = 0; i < plan->nsteps; i++)
        run_bind_step(run, i, in_place);
    run_bind_lanes(run);
    status = run_bind_blocks(run);
    run_weigh(run);
    return status;
}

/* Where both are one memory, IN begins so far behind OUT. */
static intptr_t bind_distance(const struct rcmi_bind *bind) {
    const struct rcmi_plan *plan = bind->plan;
    const intptr_t block = (intptr_t)(bind->count * rcm_dtype_size(bind->dtype));
    return ((intptr_t)plan->in.at - (intptr_t)plan->out.at) * block;
}

/* Of equal blocks, whose buffers are one memory at that distance; of unequal ones. */
static bool bind_at_distance(const struct rcmi_bind *bind, intptr_t distance) {
    return (intptr_t)bind->in.bytes - (intptr_t)bind->out.bytes == distance;
}

static bool bind_blocks_meet(const struct rcmi_bind *bind) {
    const struct rcmi_plan *plan = bind->plan;
    return plan->in.n > 0 && plan->out.n > 0 &&
           bind->blocks[plan->out.at].mem.bytes == bind->blocks[plan->in.n + plan->in.at].mem.bytes;
}

/* Is b, but for where its buffers are, what the run was bound to last? Of unequal blocks, of which
 * few calls are: not inlined into all of them. */
static __attribute__((noinline)) bool run_fits_blocks(const struct rcmi_run *run,
                                                      const struct rcmi_bind *b) {
    const uint32_t n = b->plan->in.n + b->plan->out.n;
    if (!rcmi_bind_is_uneven(b) || run->ncounts != n || run->in_place != bind_blocks_meet(b))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (run->counts[i] != b->blocks[i].count)
            return false;
    return true;
}

static bool run_fits(const struct rcmi_run *run, const struct rcmi_bind *b) {
    const struct rcmi_bind *a = &run->bind;
    const bool same = a->plan == b->plan && a->count == b->count && a->dtype == b->dtype &&
                      a->op == b->op && a->in.kind == b->in.kind && a->out.kind == b->out.kind;
    if (rcmi_bind_is_uneven(b) || run->ncounts > 0)
        return same && run_fits_blocks(run, b);
    return same && run->in_place == bind_at_distance(b, run->distance);
}

static __attribute__((noinline)) void run_place_blocks(struct rcmi_run *run,
                                                       const struct rcmi_bind *bind) {
    for (uint32_t i = 0; i < run->ncounts; i++)
        run->base[RCMI_BASE_BLOCKS + i] = bind->blocks[i].mem;
}

/* All lanes stand at their first steps, and the run has its tickets. */
static void run_set_out(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    for (uint32_t i = 0; i < plan->nchannels * run->stripes; i++) {
        run->ports[i].ticket = run->ports[i].end->tickets++;
        run->ports[i].zero_copy = 0;
    }
    for (uint32_t i = 0; i < plan->nlanes * run->stripes; i++) {
        struct rcmi_lane_state *lane = &run->lanes[i];
        lane->pc = lane->begin;
        lane->slice = lane->stripe;
        lane->offset = lane->stripe * run->slice_bytes;
        lane->part = 0;
        lane->got = lane->moved = false;
        lane->reply = NULL;
        lane->waits_for = NULL;
    }
}

rcm_status rcmi_run_start(struct rcmi_exec *exec, const struct rcmi_bind *bind,
                          struct rcmi_run **ret_run) {
    const struct rcmi_plan *plan = bind->plan;
    if (exec->config.slots < plan->min_slots)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "algorithm %s needs %u slots per channel, RINGCOMM_SLOTS is %u",
                         plan->algorithm, plan->min_slots, exec->config.slots);
    struct rcmi_run *run = run_reuse(exec, plan);
    if (!run) {
        rcmi_exec_trim(exec);
        rcm_status status = run_new(exec, plan, &run);
        if (status != RCM_OK)
            return status;
    }
    if (!run_fits(run, bind)) {
        run->bind = *bind;
        run->distance = bind_distance(bind);
        run->in_place = rcmi_bind_is_uneven(bind) ? bind_blocks_meet(bind)
                                                  : bind_at_distance(bind, run->distance);
        rcm_status status = run_bind(run, run->in_place);
        if (status != RCM_OK) {
            run_free(run);
            return status;
        }
    }
    run->bind.after = bind->after;
    run->bind.meta = bind->meta;   /* and base is what is used of where the buffers are */
    run->base[RCMI_IN] = bind->in; /* only read: no step writes to IN */
    run->base[RCMI_OUT] = bind->out;
    if (run->ncounts > 0)
        run_place_blocks(run, bind);
    run->zero_copy = run->no_zero_copy = run->no_posts = run->counts_differ = false;
    run_set_out(run);
    *ret_run = run;
    return RCM_OK;
}

/* The oldest ones go. */
void rcmi_exec_trim(struct rcmi_exec *exec) {
    while (rcmi_exec_memory(exec) > RCMI_RUNS_MAX && exec->idle && exec->idle->next) {
        struct rcmi_run **last = &exec->idle->next;
        while ((*last)->next)
            last = &(*last)->next;
        run_free(*last);
        *last = NULL;
    }
}

size_t rcmi_run_bytes(const struct rcmi_run *run) {
    return run->bytes;
}

bool rcmi_run_yields(const struct rcmi_run *run) {
    return run->yields && !run->ports[0].end->channel->transport->shared_slots;
}

/* If the port's ticket is served: what the run posted is withdrawn. */
static void port_withdraw(const struct rcmi_port *port) {
    struct rcmi_end *end = port->end;
    if (end->now_served != port->ticket || end->posted == 0)
        return;
    (void)rcmi_channel_post_receive(end->channel, NULL);
    end->posted = 0;
}

void rcmi_run_end(struct rcmi_run *run) {
    if (run->traces)
        rcmi_trace_end_run(run);
    for (uint32_t i = 0; i < run->bind.plan->nchannels * run->stripes; i++)
        port_withdraw(&run->ports[i]);
    run->next = run->exec->idle;
    run->exec->idle = run;
}
