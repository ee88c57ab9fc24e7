/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binding plans: cuts chunks into slices (exec_slices.c), finds channels (exec_ends.c), binds steps
 * (exec_bind_step.c), allocates scratch (exec_scratch.c). Done once per call. A reused run
 * (exec_runs.c) only gets new buffers if size and type are the same too.
 */
#include "exec_internal.h"
#include "operator.h"
#include <stdlib.h>
#include <string.h>

static bool bind_is_by_step(const struct rcmi_bind *bind) {
    return rcmi_collective_at((int)bind->collective)->counts == RCMI_COUNTS_PAIR;
}

/* If only pairs of ranks have the counts, a rank without elements has no memory kind, but it sends
 * and receives messages all the same. These use host-memory channels; device payloads are
 * out-of-band (exec_out_of_band.c). */
static enum rcmi_mem_kind channels_kind(bool by_step, enum rcmi_mem_kind kind) {
    return by_step ? RCMI_MEM_HOST : kind;
}

/* A peer that left after its channel was ready had prepared too. */
static rcm_status end_is_prepared(const struct rcmi_end *end) {
    const rcm_status status = rcmi_channel_state(end->channel);
    return status < 0 && rcmi_channel_peer_left(end->channel) &&
                   rcmi_channel_was_ready(end->channel)
               ? RCM_OK
               : status;
}

rcm_status rcmi_exec_prepare(struct rcmi_exec *exec, const struct rcmi_plan *plan,
                             enum rcmi_mem_kind kind, size_t bytes, int *ret_peer) {
    const bool by_step = rcmi_collective_at((int)plan->collective)->counts == RCMI_COUNTS_PAIR;
    const enum rcmi_mem_kind channels = channels_kind(by_step, kind);
    const struct rcmi_slicing slicing =
        rcmi_exec_slicing(exec, plan, channels, bytes / plan->larger, 1);
    rcm_status result = RCM_OK;
    for (uint32_t i = 0; i < plan->nchannels * slicing.stripes; i++) {
        struct rcmi_end *end;
        rcm_status status = rcmi_exec_end(exec, &plan->channels[i % plan->nchannels],
                                          i / plan->nchannels, channels, &end);
        if (status == RCM_OK)
            status = end_is_prepared(end);
        if (status == RCM_AGAIN)
            *ret_peer = end->peer;
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

/* ---- Runs ------------------------------------------------------------------------------------ */

/* A kept run of the same plan; NULL: none. */
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

/* Allocates bases and counts for blocks with separate addresses. */
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

/* Lanes are ordered so that each lane does all it can in all stripes before the next lane goes on.
 * A rank that has sent everything then does not wait for the answer to its last message. */
static void run_bind_lanes(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    const bool at_once = rcmi_mem_kind_row(run->bind.in.kind)->at_once;
    struct rcmi_lane_state *state = run->lanes;
    for (uint32_t i = 0; i < plan->nlanes; i++) {
        const struct rcmi_lane *lane = &plan->lanes[i];
        for (uint32_t stripe = 0; stripe < run->stripes; stripe++, state++)
            *state = (struct rcmi_lane_state){
                .operation = at_once ? NULL : &run->operations[state - run->lanes],
                .begin = lane->first_step,
                .end = lane->first_step + lane->nsteps,
                .stripe = stripe,
                .ports = &run->ports[stripe * plan->nchannels],
                .scratch = stripe * plan->nscratch * run->scratch_chunk};
    }
}

static bool run_has_ends(const struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    for (uint32_t stripe = run->open_stripes; stripe < run->stripes; stripe++)
        for (uint32_t i = 0; i < plan->nchannels; i++)
            if (!rcmi_exec_has_end(run->exec, &plan->channels[i], stripe, run->kind))
                return false;
    return true;
}

static rcm_status run_open_each(struct rcmi_run *run) {
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

struct opening {
    struct rcmi_run *run;
    rcm_status status;
    struct rcmi_error error; /* the thread's error, which would stay on the loop thread */
};

static void open_on_loop(void *arg) {
    struct opening *opening = arg;
    opening->status = run_open_each(opening->run);
    if (opening->status != RCM_OK)
        opening->error = *rcmi_last_error();
}

/* Opening runs on the loop thread, which is woken once for all ends. */
static rcm_status run_open(struct rcmi_run *run) {
    struct opening opening = {.run = run};
    if (run_has_ends(run))
        return run_open_each(run);
    rcmi_loop_call(rcmi_node_loop(run->exec->config.node), open_on_loop, &opening);
    run->opens = true;
    if (opening.status != RCM_OK)
        *rcmi_last_error() = opening.error;
    return opening.status;
}

/* If the memory kind changed, all channels must be found again. */
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

/* A sum in place writes lines that it has just read, so they are in the caches: below this size
 * temporal stores are faster. Zen 3, all_reduce of float32: 4 MiB 211 us, non-temporal 641; from 16
 * MiB on the same. Sapphire Rapids: 16 MiB 1,888 and 3,307 us. */
#define IN_PLACE_NON_TEMPORAL ((size_t)64 << 20)

/* Results that would not stay in the caches until they are read are written by non-temporal
 * stores. */
static enum rcmi_stores run_result_stores(const struct rcmi_run *run, bool in_place) {
    const struct rcmi_protocol *protocol = rcmi_node_protocol(run->exec->config.node);
    const size_t bytes = run->bind.plan->larger * run->bind.count * run->element_bytes;
    const bool sums = run->bind.plan->sums;
    if (sums && in_place && bytes < IN_PLACE_NON_TEMPORAL)
        return RCMI_TEMPORAL;
    if (rcmi_range_has(sums ? protocol->sum_non_temporal : protocol->copy_non_temporal, bytes))
        return RCMI_NON_TEMPORAL;
    return !sums && rcmi_range_has(protocol->copy_vectors, bytes) ? RCMI_VECTORS : RCMI_TEMPORAL;
}

/* Binds the kernels of the operator. The run holds a reference, so the operator's number is not
 * reused meanwhile. */
static void run_bind_operator(struct rcmi_run *run) {
    const struct rcmi_bind *bind = &run->bind;
    rcmi_operator_share(bind->op);
    rcmi_operator_drop(run->held);
    run->held = bind->op;
    rcmi_kernels_of(bind->dtype, bind->op, (uint32_t)bind->plan->nranks, &run->kernels);
    run->scales = rcmi_op_scales(bind->op);
    run->reads_scale = run->scales && rcmi_op_reads_scale(bind->op);
    memcpy(run->sums, run->kernels.sums, sizeof(run->kernels.sums));
    for (uint32_t i = RCMI_KERNEL_SUMS; i < run->nsums && run->scales; i++)
        run->sums[i] = rcmi_kernels_scaled(bind->dtype, bind->op, i - RCMI_KERNEL_SUMS);
}

/* Binds everything that depends on size and type, not on buffer addresses. Called rarely. */
static __attribute__((noinline)) rcm_status run_bind(struct rcmi_run *run, bool in_place) {
    const struct rcmi_plan *plan = run->bind.plan;
    run->element_bytes = rcm_dtype_size(run->bind.dtype);
    run->results = run_result_stores(run, in_place);
    run->drains = run->exec->config.shape->ranks_per_cpu > 1 &&
                  run->bind.count / plan->parts * run->element_bytes >= RCMI_DRAIN_MIN;
    run->yields = run_may_yield(run);
    run->by_step = bind_is_by_step(&run->bind);
    run_bind_kind(run);
    run->gets = !run->by_step &&
                rcmi_exec_gets(run->exec, plan, run->kind, run->bind.count * run->element_bytes);
    const struct rcmi_slicing slicing =
        run->by_step
            ? rcmi_exec_slicing_by_step(run->exec, plan, run->bind.in.kind)
            : rcmi_exec_slicing(run->exec, plan, run->kind, run->bind.count, run->element_bytes);
    rcm_status status = rcmi_run_operations_bind(run);
    if (status != RCM_OK)
        return status;
    run_bind_operator(run);
    run->nslices = slicing.n;
    run->slice_bytes = slicing.bytes;
    run->stripes = slicing.stripes;
    status = rcmi_run_scratch_bind(run);
    if (status == RCM_OK)
        status = run_open(run);
    if (status != RCM_OK)
        return status;
    run->noperands = plan->noperands;
    run->npieces = 0;
    for (uint32_t i = 0; i < plan->nsteps; i++)
        rcmi_run_bind_step(run, i, in_place);
    run_bind_lanes(run);
    status = run_bind_blocks(run);
    if (status == RCM_OK)
        status = rcmi_oob_open(run);
    rcmi_run_weigh(run);
    return status;
}

/* The offset of IN from OUT if both are the same memory. */
static intptr_t bind_distance(const struct rcmi_bind *bind) {
    const struct rcmi_plan *plan = bind->plan;
    const intptr_t block = (intptr_t)(bind->count * rcm_dtype_size(bind->dtype));
    return ((intptr_t)plan->in.at - (intptr_t)plan->out.at) * block;
}

/* For equal blocks: are the buffers the same memory at that distance? (bind_blocks_meet: for
 * unequal ones.) */
static bool bind_at_distance(const struct rcmi_bind *bind, intptr_t distance) {
    return (intptr_t)bind->in.bytes - (intptr_t)bind->out.bytes == distance;
}

static bool bind_blocks_meet(const struct rcmi_bind *bind) {
    const struct rcmi_plan *plan = bind->plan;
    return plan->in.n > 0 && plan->out.n > 0 &&
           bind->blocks[plan->out.at].mem.bytes == bind->blocks[plan->in.n + plan->in.at].mem.bytes;
}

/* Is b, except for buffer addresses, what the run was last bound to? For unequal blocks, which are
 * rare: not inlined into every call. */
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
                      a->op == b->op && a->in.kind == b->in.kind && a->out.kind == b->out.kind &&
                      !run->reads_scale;
    if (rcmi_bind_is_uneven(b) || run->ncounts > 0)
        return same && run_fits_blocks(run, b);
    return same && run->in_place == bind_at_distance(b, run->distance);
}

static __attribute__((noinline)) void run_set_blocks(struct rcmi_run *run,
                                                     const struct rcmi_bind *bind) {
    for (uint32_t i = 0; i < run->ncounts; i++)
        run->base[RCMI_BASE_BLOCKS + i] = bind->blocks[i].mem;
}

/* Resets all lanes to their first steps and takes the run's channel tickets. */
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
        rcm_status status = rcmi_run_new(exec, plan, &run);
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
            rcmi_run_free(run);
            return status;
        }
    }
    run->bind.after = bind->after;
    run->bind.meta = bind->meta;   /* run->base has the buffer addresses that are used */
    run->base[RCMI_IN] = bind->in; /* read-only: no step writes to IN */
    run->base[RCMI_OUT] = bind->out;
    if (run->ncounts > 0)
        run_set_blocks(run, bind);
    run->zero_copy = run->no_zero_copy = run->no_posts = run->counts_differ = false;
    run_set_out(run);
    *ret_run = run;
    return RCM_OK;
}

bool rcmi_run_yields(const struct rcmi_run *run) {
    return run->yields && !run->ports[0].end->channel->transport->shared_slots;
}

/* If the port's ticket is served, withdraws the receives that the run posted. */
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
