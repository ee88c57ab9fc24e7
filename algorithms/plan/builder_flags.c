/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flags that follow from all steps of a plan: which buffers keep their value while a message is in
 * flight, which writes are the last, which received data may arrive early, which messages are
 * answered. They depend on one rank's plan only; the verifier proves that they hold among all
 * ranks.
 */
#include "builder.h"

#include <stdlib.h>
#include <string.h>
#include "error.h"
/* Which step writes a chunk of OUT last, for the stable flags. */
struct last_write {
    uint32_t lane_plus_1; /* 0: none */
    bool several_lanes;
    uint32_t step;
};

static void writes_note(const struct rcmi_plan *plan, struct last_write *writes, uint32_t lane,
                        uint32_t index) {
    const struct rcmi_step *step = &plan->steps[index];
    for (uint32_t k = 0; k < step->nchunks; k++) {
        struct last_write *write = &writes[rcmi_span_operand(plan, step, step->dst, k).index];
        write->several_lanes |= write->lane_plus_1 != 0 && write->lane_plus_1 != lane + 1;
        write->lane_plus_1 = lane + 1;
        write->step = index;
    }
}

static void writes_collect(const struct rcmi_plan *plan, bool in_place, struct last_write *writes) {
    memset(writes, 0, rcmi_plan_chunks(plan, RCMI_OUT) * sizeof(*writes));
    for (uint32_t lane = 0; lane < plan->nlanes; lane++) {
        for (uint32_t i = 0; i < plan->lanes[lane].nsteps; i++) {
            const uint32_t index = plan->lanes[lane].first_step + i;
            const struct rcmi_step *step = &plan->steps[index];
            if (step->dst.where == RCMI_OUT && !(in_place && rcmi_step_stays(plan, step)))
                writes_note(plan, writes, lane, index);
        }
    }
}

/* The position in OUT of the same memory, or one beyond OUT. */
static uint32_t out_position(const struct rcmi_plan *plan, struct rcmi_operand buffer) {
    const uint32_t first = rcmi_plan_cell(plan, RCMI_OUT, 0);
    const uint32_t cell = rcmi_plan_cell(plan, buffer.where, buffer.index);
    return cell >= first ? cell - first : UINT32_MAX;
}

/* Scratch is never stable: the next slice may reuse it. */
static bool source_stable(const struct rcmi_plan *plan, const struct last_write *writes,
                          bool in_place, uint32_t lane, uint32_t step, struct rcmi_operand src) {
    if (src.where == RCMI_SCRATCH)
        return false;
    if (src.where == RCMI_CHANNEL || (src.where == RCMI_IN && !in_place))
        return true;
    const uint32_t position = out_position(plan, src);
    if (position >= rcmi_plan_chunks(plan, RCMI_OUT) || writes[position].lane_plus_1 == 0)
        return true;
    const struct last_write *write = &writes[position];
    return !write->several_lanes && write->lane_plus_1 == lane + 1 && write->step < step;
}

static bool step_stable(const struct rcmi_plan *plan, const struct last_write *writes,
                        bool in_place, uint32_t lane, uint32_t index) {
    const struct rcmi_step *step = &plan->steps[index];
    bool any_buffer = false;
    for (uint32_t i = 0; i < step->nsrcs; i++) {
        const struct rcmi_operand src = plan->operands[step->first_src + i];
        any_buffer |= src.where != RCMI_CHANNEL;
        for (uint32_t k = 0; k < step->nchunks; k++)
            if (!source_stable(plan, writes, in_place, lane, index,
                               rcmi_span_operand(plan, step, src, k)))
                return false;
    }
    return any_buffer;
}

static bool step_lasting(const struct rcmi_plan *plan, const struct last_write *writes,
                         uint32_t index) {
    const struct rcmi_step *step = &plan->steps[index];
    for (uint32_t k = 0; step->dst.where == RCMI_OUT && k < step->nchunks; k++) {
        const struct last_write *write = &writes[rcmi_span_operand(plan, step, step->dst, k).index];
        if (write->several_lanes || write->step != index)
            return false;
    }
    return step->dst.where == RCMI_OUT;
}

/* A step completes a value unless the value is already whole: received, or copied from scratch. */
static bool step_completes(const struct rcmi_plan *plan, const struct rcmi_step *step) {
    const struct rcmi_collective *row = rcmi_collective_at((int)plan->collective);
    const bool receives = step->nsrcs == 1 && plan->operands[step->first_src].where == RCMI_CHANNEL;
    return row->reduces && row->contributors == RCM_CONTRIBUTORS_ALL && step->lasting && !receives;
}

static rcm_status plan_mark_stable(struct rcmi_plan *plan) {
    const uint32_t n = rcmi_plan_chunks(plan, RCMI_OUT);
    struct last_write *writes = calloc(n ? n : 1, sizeof(*writes));
    if (!writes)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a plan of %s with %u chunks",
                         plan->algorithm, n);
    for (int in_place = 0; in_place < 2; in_place++) {
        writes_collect(plan, in_place, writes);
        for (uint32_t lane = 0; lane < plan->nlanes; lane++) {
            for (uint32_t i = 0; i < plan->lanes[lane].nsteps; i++) {
                const uint32_t index = plan->lanes[lane].first_step + i;
                bool *flag =
                    in_place ? &plan->steps[index].stable_in_place : &plan->steps[index].stable;
                *flag = *flag || step_stable(plan, writes, in_place, lane, index);
                if (in_place)
                    continue; /* the in-place pass counts fewer writes */
                plan->steps[index].lasting = step_lasting(plan, writes, index);
                plan->steps[index].completes |= step_completes(plan, &plan->steps[index]);
            }
        }
    }
    free(writes);
    return RCM_OK;
}

/* How often each chunk of OUT and each channel is used, for the flags early and answered. */
struct uses {
    uint32_t *writes, *reads;     /* of chunks of OUT */
    uint32_t *receipts, *answers; /* of channels: steps that receive from it, or answers to it */
};

/* Counts each chunk of a buffer, if it is OUT. */
static void uses_count(const struct rcmi_plan *plan, const struct rcmi_step *step,
                       struct rcmi_operand buffer, uint32_t *counts) {
    for (uint32_t k = 0; buffer.where == RCMI_OUT && k < step->nchunks; k++)
        counts[rcmi_span_operand(plan, step, buffer, k).index]++;
}

static void uses_collect(const struct rcmi_plan *plan, const struct uses *uses) {
    for (uint32_t i = 0; i < plan->nsteps; i++) {
        const struct rcmi_step *step = &plan->steps[i];
        uses_count(plan, step, step->dst, uses->writes);
        if (step->out == RCMI_NO_CHANNEL && step->answer != RCMI_NO_CHANNEL)
            uses->answers[step->answer]++;
        for (uint32_t k = 0; k < step->nsrcs; k++) {
            const struct rcmi_operand *src = &plan->operands[step->first_src + k];
            uses_count(plan, step, *src, uses->reads);
            if (src->where == RCMI_CHANNEL)
                uses->receipts[src->index]++;
        }
    }
}

static bool step_early(const struct rcmi_plan *plan, const struct uses *uses, uint32_t index) {
    const struct rcmi_step *step = &plan->steps[index];
    if (step->op != RCMI_STEP_RECV || step->dst.where != RCMI_OUT)
        return false;
    for (uint32_t k = 0; k < step->nchunks; k++) {
        const uint32_t position = rcmi_span_operand(plan, step, step->dst, k).index;
        if (uses->writes[position] != 1 || uses->reads[position] != 0)
            return false;
    }
    return uses->receipts[plan->operands[step->first_src].index] == 1;
}

static rcm_status plan_mark_uses(struct rcmi_plan *plan) {
    const size_t chunks = rcmi_plan_chunks(plan, RCMI_OUT), channels = plan->nchannels;
    uint32_t *counts = calloc(2 * (chunks + channels) + 1, sizeof(*counts));
    if (!counts)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a plan of %s with %zu chunks",
                         plan->algorithm, chunks);
    const struct uses uses = {.writes = counts,
                              .reads = counts + chunks,
                              .receipts = counts + 2 * chunks,
                              .answers = counts + 2 * chunks + channels};
    uses_collect(plan, &uses);
    for (uint32_t i = 0; i < plan->nsteps; i++) {
        struct rcmi_step *step = &plan->steps[i];
        step->early = step_early(plan, &uses, i);
        step->answered = step->out != RCMI_NO_CHANNEL && uses.answers[step->out] > 0;
        plan->sums = plan->sums || step->nsrcs > 1;
    }
    free(counts);
    return RCM_OK;
}

rcm_status rcmi_plan_mark(struct rcmi_plan *plan) {
    const rcm_status status = plan_mark_uses(plan);
    return status == RCM_OK ? plan_mark_stable(plan) : status;
}
