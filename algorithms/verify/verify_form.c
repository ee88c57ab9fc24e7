/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One plan alone; the only part that assumes nothing. Afterwards every index in the plan is in
 * range, every step has the operands of its kind, and every channel end belongs to the lane that
 * uses it.
 */
#include "verify.h"

#include <stdlib.h>
#include "error.h"

struct form {
    const struct rcmi_shape *shape;
    const struct rcmi_plan *plan;
    uint32_t step, lane;
};

static rcm_status form_fail(const struct form *f, const char *what) {
    char words[128];
    rcmi_step_describe(f->plan, f->step, words, sizeof(words));
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "%s: rank %d step %u (%s): %s", f->plan->algorithm,
                     f->plan->rank, f->step, words, what);
}

static rcm_status channel_fail(const struct form *f, uint32_t channel, const char *what) {
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "%s: rank %d channel %u with peer %d: %s",
                     f->plan->algorithm, f->plan->rank, channel, f->plan->channels[channel].peer,
                     what);
}

static bool host_has_others(const struct rcmi_shape *shape, int rank) {
    for (int r = 0; r < shape->nranks; r++)
        if (r != rank && shape->host_of[r] == shape->host_of[rank])
            return true;
    return false;
}

static rcm_status form_channels(const struct form *f) {
    for (uint32_t i = 0; i < f->plan->nchannels; i++) {
        const struct rcmi_plan_channel *c = &f->plan->channels[i];
        if (c->lane >= f->plan->nlanes)
            return channel_fail(f, i, "belongs to a lane that does not exist");
        if (c->number >= RCMI_CHANNEL_NUMBERS)
            return channel_fail(f, i, "its number is too large");
        if (c->outgoing && c->multicast) {
            if (c->peer != -1 || !host_has_others(f->shape, f->plan->rank))
                return channel_fail(f, i, "is a multicast with a peer, or without readers");
            continue;
        }
        if (c->peer < 0 || c->peer >= f->plan->nranks || c->peer == f->plan->rank)
            return channel_fail(f, i, "has a peer that does not exist");
        if (c->multicast && f->shape->host_of[c->peer] != f->shape->host_of[f->plan->rank])
            return channel_fail(f, i, "is a multicast from another host");
    }
    return RCM_OK;
}

/* Lanes are consecutive and cover all steps. */
static rcm_status form_lanes(const struct form *f) {
    uint32_t next = 0;
    for (uint32_t lane = 0; lane < f->plan->nlanes; lane++) {
        if (f->plan->lanes[lane].first_step != next ||
            f->plan->lanes[lane].nsteps > f->plan->nsteps - next)
            return rcmi_fail(RCM_ERR_INTERNAL, 0,
                             "%s: rank %d: lane %u does not follow the lane before",
                             f->plan->algorithm, f->plan->rank, lane);
        next += f->plan->lanes[lane].nsteps;
    }
    if (next != f->plan->nsteps)
        return rcmi_fail(RCM_ERR_INTERNAL, 0, "%s: rank %d: steps outside of lanes",
                         f->plan->algorithm, f->plan->rank);
    return RCM_OK;
}

struct kind {
    int channels_min, channels_max, buffers_min, buffers_max;
    int dst_min, dst_max, out_min, out_max;
};

static const struct kind *kind_of(uint8_t op) {
    static const struct kind kinds[] = {
        [RCMI_STEP_SEND] = {0, 0, 1, 1, 0, 0, 1, 1},
        [RCMI_STEP_RECV] = {1, 1, 0, 0, 1, 1, 0, 0},
        [RCMI_STEP_RECV_REDUCE] = {1, 1, 1, 1, 1, 1, 0, 0},
        [RCMI_STEP_COPY] = {0, 0, 1, 1, 1, 1, 0, 0},
        [RCMI_STEP_REDUCE_N] = {0, RCMI_SOURCES_MAX, 0, RCMI_SOURCES_MAX, 0, 1, 0, 1},
        [RCMI_STEP_RECV_REDUCE_SEND] = {1, 1, 1, 1, 0, 1, 1, 1},
        [RCMI_STEP_RECV_COPY_SEND] = {1, 1, 0, 0, 1, 1, 1, 1},
        [RCMI_STEP_SIGNAL] = {0, 0, 0, 0, 0, 0, 1, 1},
        [RCMI_STEP_WAIT] = {1, 1, 0, 0, 0, 0, 0, 0},
    };
    return op >= RCMI_STEP_SEND && op <= RCMI_STEP_WAIT ? &kinds[op] : NULL;
}

static rcm_status form_scratch_buffer(const struct form *f, struct rcmi_operand operand,
                                      const struct rcmi_step *s) {
    for (uint32_t i = 0; i < s->nchunks; i++)
        if (rcmi_span_operand(f->plan, s, operand, i).index >= f->plan->nscratch)
            return form_fail(f, "no such scratch chunk");
    return RCM_OK;
}

static rcm_status form_buffer(const struct form *f, struct rcmi_operand operand,
                              const struct rcmi_step *s) {
    if (operand.where == RCMI_SCRATCH)
        return form_scratch_buffer(f, operand, s);
    if (operand.where != RCMI_IN && operand.where != RCMI_OUT)
        return form_fail(f, "an operand is neither IN, OUT nor scratch");
    const uint32_t n = rcmi_plan_chunks(f->plan, operand.where);
    if (operand.index >= n || s->nchunks > n)
        return form_fail(f, "an operand is outside of its buffer");
    for (uint32_t i = 0; i < s->nchunks; i++) {
        const uint32_t position = rcmi_span_operand(f->plan, s, operand, i).index;
        if (position >= n ||
            rcmi_plan_chunk(f->plan, operand.where, position) != rcmi_step_chunk(f->plan, s, i))
            return form_fail(f, "an operand is another chunk");
    }
    return RCM_OK;
}

static rcm_status form_end(const struct form *f, uint32_t channel, bool outgoing) {
    if (channel >= f->plan->nchannels)
        return form_fail(f, "no such channel");
    if (f->plan->channels[channel].outgoing != outgoing)
        return form_fail(f, "uses a channel in the wrong direction");
    if (f->plan->channels[channel].lane != f->lane)
        return form_fail(f, "uses a channel end of another lane");
    return RCM_OK;
}

/* Does the span overwrite a scratch chunk that it reads for another chunk? */
static bool spans_cross(const struct rcmi_plan *plan, const struct rcmi_step *s,
                        struct rcmi_operand src) {
    for (uint32_t i = 0; s->dst.where == RCMI_SCRATCH && i < s->nchunks; i++)
        for (uint32_t k = 0; k < s->nchunks; k++)
            if (i != k && rcmi_span_operand(plan, s, src, i).index ==
                              rcmi_span_operand(plan, s, s->dst, k).index)
                return true;
    return false;
}

/* All entries exist, the first is the step's chunk, and no chunk occurs twice. */
static rcm_status form_list(const struct form *f, const struct rcmi_step *s) {
    if (s->list == RCMI_NO_LIST)
        return RCM_OK;
    if (s->list > f->plan->nlisted || s->nchunks > f->plan->nlisted - s->list)
        return form_fail(f, "a list outside of the plan");
    const struct rcmi_listed *list = &f->plan->listed[s->list];
    if (list[0].chunk != s->chunk)
        return form_fail(f, "a list that begins with another chunk");
    for (uint32_t i = 0; i < s->nchunks; i++) {
        if (list[i].chunk >= f->plan->nchunks)
            return form_fail(f, "a list with no such chunk");
        for (uint32_t k = 0; k < i; k++)
            if (list[i].chunk == list[k].chunk || list[i].scratch == list[k].scratch)
                return form_fail(f, "a list with a chunk, or a scratch position, twice");
    }
    return RCM_OK;
}

static rcm_status form_sources(const struct form *f, const struct rcmi_step *s, int *ret_channels,
                               int *ret_buffers) {
    const struct rcmi_operand *srcs = f->plan->operands + s->first_src;
    if (s->first_src > f->plan->noperands || s->nsrcs > f->plan->noperands - s->first_src)
        return form_fail(f, "sources outside of the plan");
    for (uint32_t i = 0; i < s->nsrcs; i++) {
        const bool channel = srcs[i].where == RCMI_CHANNEL;
        const rcm_status status =
            channel ? form_end(f, srcs[i].index, false) : form_buffer(f, srcs[i], s);
        if (status != RCM_OK)
            return status;
        for (uint32_t j = 0; channel && j < i; j++)
            if (srcs[j].where == RCMI_CHANNEL && srcs[j].index == srcs[i].index)
                return form_fail(f, "reads one channel twice");
        if (srcs[i].where == RCMI_SCRATCH && spans_cross(f->plan, s, srcs[i]))
            return form_fail(f, "a span is written over itself");
        *(channel ? ret_channels : ret_buffers) += 1;
    }
    return RCM_OK;
}

static rcm_status form_results(const struct form *f, const struct rcmi_step *s) {
    rcm_status status = RCM_OK;
    if (s->dst.where == RCMI_IN)
        return form_fail(f, "writes its input");
    if (s->dst.where != RCMI_NOWHERE)
        status = form_buffer(f, s->dst, s);
    if (status == RCM_OK && s->out != RCMI_NO_CHANNEL)
        status = form_end(f, s->out, true);
    return status;
}

/* Checks an answer to a message that the step receives, or to one that this rank sends. */
static rcm_status form_answer(const struct form *f, const struct rcmi_step *s) {
    const struct rcmi_operand *srcs = f->plan->operands + s->first_src;
    if (s->answer == RCMI_NO_CHANNEL)
        return RCM_OK;
    if (s->nchunks > 1)
        return form_fail(f, "a span cannot be an answer");
    if (s->answer >= f->plan->nchannels)
        return form_fail(f, "answers on no channel");
    if (s->out == RCMI_NO_CHANNEL)
        return s->op == RCMI_STEP_RECV && f->plan->channels[s->answer].outgoing
                   ? RCM_OK
                   : form_fail(f, "cannot receive an answer");
    for (uint32_t i = 0; i < s->nsrcs; i++)
        if (srcs[i].where == RCMI_CHANNEL && srcs[i].index == s->answer)
            return RCM_OK;
    return form_fail(f, "answers what it does not receive");
}

static bool within(int value, int min, int max) {
    return value >= min && value <= max;
}

static rcm_status form_step(const struct form *f) {
    const struct rcmi_step *s = &f->plan->steps[f->step];
    const struct kind *kind = kind_of(s->op);
    const int dst = s->dst.where != RCMI_NOWHERE, out = s->out != RCMI_NO_CHANNEL;
    int channels = 0, buffers = 0;
    if (!kind)
        return form_fail(f, "no such kind of step");
    if (s->chunk >= f->plan->nchunks)
        return form_fail(f, "no such chunk");
    if (!within((int)s->nchunks, 1, (int)f->plan->longest_span))
        return form_fail(f, "moves no chunk, or too many");
    rcm_status status = form_list(f, s);
    if (status == RCM_OK)
        status = form_sources(f, s, &channels, &buffers);
    if (status == RCM_OK)
        status = form_results(f, s);
    if (status == RCM_OK)
        status = form_answer(f, s);
    if (status != RCM_OK)
        return status;
    if (!within(channels, kind->channels_min, kind->channels_max) ||
        !within(buffers, kind->buffers_min, kind->buffers_max))
        return form_fail(f, "its sources are not those of its kind");
    if (!within(dst, kind->dst_min, kind->dst_max) || !within(out, kind->out_min, kind->out_max))
        return form_fail(f, "its results are not those of its kind");
    if (s->op == RCMI_STEP_REDUCE_N &&
        (!within(s->nsrcs, 1, RCMI_SOURCES_MAX) || (dst == 0 && out == 0)))
        return form_fail(f, "reduces nothing, too much, or to nowhere");
    return RCM_OK;
}

/* Rejects a scratch chunk used by two lanes: one lane may be a slice ahead and overwrite it. */
static rcm_status form_scratch_use(const struct form *f, const struct rcmi_step *s,
                                   struct rcmi_operand buffer, uint32_t *owners) {
    for (uint32_t i = 0; buffer.where == RCMI_SCRATCH && i < s->nchunks; i++) {
        uint32_t *owner = &owners[rcmi_span_operand(f->plan, s, buffer, i).index];
        if (*owner != 0 && *owner != f->lane + 1)
            return form_fail(f, "uses a scratch chunk of another lane");
        *owner = f->lane + 1;
    }
    return RCM_OK;
}

static rcm_status form_scratch_step(const struct form *f, uint32_t *owners) {
    const struct rcmi_step *s = &f->plan->steps[f->step];
    rcm_status status = form_scratch_use(f, s, s->dst, owners);
    for (uint32_t k = 0; status == RCM_OK && k < s->nsrcs; k++)
        status = form_scratch_use(f, s, f->plan->operands[s->first_src + k], owners);
    return status;
}

/* For a plan whose messages may be got: see enum rcmi_gets. */
static rcm_status form_gets(const struct form *f) {
    const struct rcmi_plan *plan = f->plan;
    const bool star = plan->gets == RCMI_GETS_STAR;
    if (star && plan->rank != plan->root && plan->nchannels > 1)
        return rcmi_fail(RCM_ERR_INTERNAL, 0,
                         "%s: rank %d has %u channels where each has one, with the root",
                         plan->algorithm, plan->rank, plan->nchannels);
    for (uint32_t i = 0; star && plan->rank != plan->root && i < plan->nchannels; i++)
        if (plan->channels[i].peer != plan->root)
            return channel_fail(f, i, "the root is not its other end");
    return RCM_OK;
}

static rcm_status form_gets_step(const struct form *f) {
    const struct rcmi_step *s = &f->plan->steps[f->step];
    const bool one = s->nsrcs <= 1 && s->nchunks <= 1 && s->answer == RCMI_NO_CHANNEL;
    if (!one || s->op == RCMI_STEP_RECV_COPY_SEND || s->op == RCMI_STEP_REDUCE_N)
        return form_fail(f, "sums, forwards, answers or moves a span where messages may be got");
    if (s->out != RCMI_NO_CHANNEL && f->plan->channels[s->out].multicast && f->plan->nranks > 2)
        return form_fail(f, "sends to several readers where messages may be got");
    return RCM_OK;
}

static rcm_status form_steps(struct form *f, uint32_t *owners) {
    rcm_status status = RCM_OK;
    for (f->lane = 0; status == RCM_OK && f->lane < f->plan->nlanes; f->lane++) {
        const struct rcmi_lane *lane = &f->plan->lanes[f->lane];
        for (uint32_t i = 0; status == RCM_OK && i < lane->nsteps; i++) {
            f->step = lane->first_step + i;
            status = form_step(f);
            if (status == RCM_OK)
                status = form_scratch_step(f, owners);
            if (status == RCM_OK && f->plan->gets != RCMI_GETS_NONE)
                status = form_gets_step(f);
        }
    }
    return status;
}

rcm_status rcmi_verify_form(const struct rcmi_shape *shape, const struct rcmi_plan *plan) {
    struct form f = {.shape = shape, .plan = plan};
    if (plan->nchunks == 0 || plan->min_slots == 0 || plan->root < 0 || plan->root >= plan->nranks)
        return rcmi_fail(RCM_ERR_INTERNAL, 0, "%s: rank %d: no chunks, no slots, or no root",
                         plan->algorithm, plan->rank);
    if (plan->longest_span == 0 || plan->longest_span > RCMI_SPAN_MAX)
        return rcmi_fail(RCM_ERR_INTERNAL, 0, "%s: rank %d: spans of %u chunks", plan->algorithm,
                         plan->rank, plan->longest_span);
    rcm_status status = form_lanes(&f);
    if (status == RCM_OK)
        status = form_channels(&f);
    if (status != RCM_OK)
        return status;
    uint32_t *owners = calloc((size_t)plan->nscratch + 1, sizeof(*owners)); /* lane + 1 */
    if (!owners)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to verify a plan of %s", plan->algorithm);
    status = form_steps(&f, owners);
    free(owners);
    return status == RCM_OK ? form_gets(&f) : status;
}
