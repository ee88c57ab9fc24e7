/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Properties of plans: the partition rule, positions of chunks, and step descriptions. builder.c
 * makes plans.
 */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>

#define BOUNDARY_BYTES 64 /* a cache line; no two chunks share one */

/* Boundaries lie on multiples of this many elements. */
static size_t chunk_unit(size_t count, size_t element_bytes, uint32_t nchunks) {
    const size_t low_bit = element_bytes & (0 - element_bytes);
    const size_t unit = low_bit == 0 || low_bit >= BOUNDARY_BYTES ? 1 : BOUNDARY_BYTES / low_bit;
    return count / unit >= nchunks ? unit : 1;
}

/* Element at which unit number `at` of `units` begins. Cannot overflow for counts near SIZE_MAX,
 * where the last unit may be partial. */
static size_t chunk_boundary(size_t count, size_t unit, size_t units, size_t at) {
    return at >= units ? count : at * unit;
}

void rcmi_chunk_range(size_t count, size_t element_bytes, uint32_t nchunks, uint32_t i,
                      size_t *ret_first, size_t *ret_count) {
    const size_t unit = chunk_unit(count, element_bytes, nchunks);
    const size_t units = count / unit + (count % unit != 0);
    const size_t share = units / nchunks;
    const size_t extra = units % nchunks; /* the first `extra` chunks get one unit more */
    const size_t from = i * share + (i < extra ? i : extra);
    const size_t to = from + share + (i < extra);
    const size_t first = chunk_boundary(count, unit, units, from);

    *ret_first = first;
    *ret_count = chunk_boundary(count, unit, units, to) - first;
}

size_t rcmi_chunk_max(size_t count, size_t element_bytes, uint32_t nchunks) {
    size_t first, longest;
    rcmi_chunk_range(count, element_bytes, nchunks, 0, &first, &longest);
    return longest; /* the first chunk is never shorter than another */
}

void rcmi_plan_free(struct rcmi_plan *plan) {
    free(plan); /* one block: builder_finish.c, plan_allocate */
}

static const struct rcmi_blocks *plan_blocks(const struct rcmi_plan *plan, enum rcmi_where where) {
    return where == RCMI_IN ? &plan->in : &plan->out;
}

uint32_t rcmi_plan_chunks(const struct rcmi_plan *plan, enum rcmi_where where) {
    return plan_blocks(plan, where)->n * plan->parts;
}

uint32_t rcmi_plan_chunk(const struct rcmi_plan *plan, enum rcmi_where where, uint32_t index) {
    const struct rcmi_blocks *blocks = plan_blocks(plan, where);
    return (blocks->first + index / plan->parts * blocks->stride) * plan->parts +
           index % plan->parts;
}

uint32_t rcmi_plan_cell(const struct rcmi_plan *plan, enum rcmi_where where, uint32_t index) {
    return plan_blocks(plan, where)->at * plan->parts + index;
}

uint32_t rcmi_step_chunk(const struct rcmi_plan *plan, const struct rcmi_step *step, uint32_t i) {
    return step->list == RCMI_NO_LIST ? (step->chunk + i) % plan->nchunks
                                      : plan->listed[step->list + i].chunk;
}

static struct rcmi_operand listed_operand(const struct rcmi_plan *plan,
                                          const struct rcmi_listed *listed,
                                          struct rcmi_operand first) {
    if (first.where == RCMI_SCRATCH)
        first.index += listed->scratch;
    else if (first.where == RCMI_IN || first.where == RCMI_OUT)
        first.index =
            rcmi_blocks_find(plan_blocks(plan, first.where), listed->chunk / plan->parts) *
                plan->parts +
            listed->chunk % plan->parts;
    return first;
}

uint32_t rcmi_spans(uint32_t n) {
    return (n + RCMI_SPAN_MAX - 1) / RCMI_SPAN_MAX;
}

uint32_t rcmi_span_length(uint32_t n, uint32_t at) {
    return n - at < RCMI_SPAN_MAX ? n - at : RCMI_SPAN_MAX;
}

struct rcmi_operand rcmi_span_operand(const struct rcmi_plan *plan, const struct rcmi_step *step,
                                      struct rcmi_operand first, uint32_t i) {
    const bool scratch = first.where == RCMI_SCRATCH;
    if (step->list != RCMI_NO_LIST && (i > 0 || scratch))
        return listed_operand(plan, &plan->listed[step->list + i], first);
    if (scratch)
        first.index += i;
    else if (i > 0 && (first.where == RCMI_IN || first.where == RCMI_OUT))
        first.index = (first.index + i) % rcmi_plan_chunks(plan, first.where);
    return first;
}

uint32_t rcmi_step_input(const struct rcmi_plan *plan, const struct rcmi_step *step) {
    uint32_t i = 0;
    while (i < step->nsrcs && plan->operands[step->first_src + i].where != RCMI_IN)
        i++;
    return i;
}

bool rcmi_step_stays(const struct rcmi_plan *plan, const struct rcmi_step *step) {
    const struct rcmi_operand *src = &plan->operands[step->first_src];
    if (step->op != RCMI_STEP_COPY || src->where != RCMI_IN || step->dst.where != RCMI_OUT)
        return false;
    for (uint32_t i = 0; i < step->nchunks; i++)
        if (rcmi_plan_cell(plan, RCMI_IN, rcmi_span_operand(plan, step, *src, i).index) !=
            rcmi_plan_cell(plan, RCMI_OUT, rcmi_span_operand(plan, step, step->dst, i).index))
            return false;
    return true;
}

const char *rcmi_step_name(uint8_t op) {
    static const char *const names[] = {
        [RCMI_STEP_SEND] = "send",
        [RCMI_STEP_RECV] = "recv",
        [RCMI_STEP_RECV_REDUCE] = "recv_reduce",
        [RCMI_STEP_COPY] = "copy",
        [RCMI_STEP_REDUCE_N] = "reduce_n",
        [RCMI_STEP_RECV_REDUCE_SEND] = "recv_reduce_send",
        [RCMI_STEP_RECV_COPY_SEND] = "recv_copy_send",
        [RCMI_STEP_SIGNAL] = "signal",
        [RCMI_STEP_WAIT] = "wait",
    };
    const char *name = op < sizeof(names) / sizeof(names[0]) ? names[op] : NULL;
    return name ? name : "?";
}

/* A text that grows to the right and is truncated at its end. */
struct text {
    char *at;
    size_t left;
};

static void text_add(struct text *text, const char *before, const char *word, long number) {
    const int n = number < 0 ? snprintf(text->at, text->left, "%s%s", before, word)
                             : snprintf(text->at, text->left, "%s%s%ld", before, word, number);
    const size_t used = n < 0 ? 0 : (size_t)n < text->left ? (size_t)n : text->left;
    text->at += used;
    text->left -= used;
}

static void text_add_channel(struct text *text, const char *before, const struct rcmi_plan *plan,
                             uint32_t index) {
    if (index >= plan->nchannels) {
        text_add(text, before, "channel ?", (long)index);
        return;
    }
    const struct rcmi_plan_channel *channel = &plan->channels[index];
    if (channel->outgoing && channel->multicast)
        text_add(text, before, "to host", -1);
    else
        text_add(text, before, channel->outgoing ? "to " : "from ", channel->peer);
    if (!channel->outgoing && channel->multicast)
        text_add(text, "", " (to host)", -1);
    if (channel->number != 0)
        text_add(text, "", " #", channel->number);
}

static void text_add_operand(struct text *text, const char *before, const struct rcmi_plan *plan,
                             struct rcmi_operand operand) {
    static const char *const words[] = {"nowhere", "in.", "out.", "scratch.", ""};

    if (operand.where == RCMI_CHANNEL)
        text_add_channel(text, before, plan, operand.index);
    else if (operand.where < RCMI_CHANNEL)
        text_add(text, before, words[operand.where],
                 operand.where == RCMI_NOWHERE ? -1 : (long)operand.index);
    else
        text_add(text, before, "?", (long)operand.where);
}

void rcmi_step_describe(const struct rcmi_plan *plan, uint32_t index, char *text, size_t size) {
    const struct rcmi_step *step = &plan->steps[index];
    struct text to = {.at = text, .left = size};

    text_add(&to, "", rcmi_step_name(step->op), -1);
    if (step->op != RCMI_STEP_SIGNAL && step->op != RCMI_STEP_WAIT)
        text_add(&to, " ", step->nchunks > 1 ? "chunks " : "chunk ", (long)step->chunk);
    for (uint32_t i = 1; i < step->nchunks && step->list != RCMI_NO_LIST; i++)
        text_add(&to, ",", "", (long)rcmi_step_chunk(plan, step, i));
    if (step->nchunks > 1 && step->list == RCMI_NO_LIST)
        text_add(&to, "..", "", (long)rcmi_step_chunk(plan, step, step->nchunks - 1));
    for (uint32_t i = 0; i < step->nsrcs; i++)
        text_add_operand(&to, i == 0 ? ": " : " + ", plan,
                         rcmi_span_operand(plan, step, plan->operands[step->first_src + i], 0));
    if (step->dst.where != RCMI_NOWHERE)
        text_add_operand(&to, " -> ", plan, rcmi_span_operand(plan, step, step->dst, 0));
    if (step->out != RCMI_NO_CHANNEL)
        text_add_channel(&to, step->dst.where != RCMI_NOWHERE ? ", " : " -> ", plan, step->out);
}
