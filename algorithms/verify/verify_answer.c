/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers. An answered message keeps its slot until its sender has received the answer, which may
 * be in that slot. On a channel with answers, therefore, each message must have one, sent by the
 * step that receives it, and the sender must receive the answers in message order. No other rank
 * may read an answer: it is in no other slot.
 */
#include "verify.h"

#include "error.h"

static struct rcmi_verify_end *answer_end(const struct rcmi_verifier *v, uint32_t step) {
    return &v->ends[v->end_base[v->rank_of[step]] + rcmi_verify_step(v, step)->answer];
}

static bool step_answers(const struct rcmi_verifier *v, uint32_t step, bool receives) {
    const struct rcmi_step *s = rcmi_verify_step(v, step);
    return s->answer != RCMI_NO_CHANNEL && (s->out == RCMI_NO_CHANNEL) == receives;
}

/* The step that sends what this step receives; its first source is a channel. v->nsteps: the
 * channel has several readers. */
static uint32_t answer_sender(const struct rcmi_verifier *v, uint32_t step) {
    const uint32_t index = rcmi_verify_srcs(v, step)[0].index;
    const struct rcmi_verify_end *end = &v->ends[v->end_base[v->rank_of[step]] + index];
    const struct rcmi_verify_channel *channel = &v->channels[end->channel];
    uint32_t i = 0;
    while (v->uses[end->first_use + i] != step)
        i++;
    return channel->nreaders == 1 ? v->uses[v->ends[channel->writer].first_use + i] : v->nsteps;
}

/* Checks the step that receives the i-th answer on a channel that this rank writes. */
static rcm_status answer_check(struct rcmi_verifier *v, uint32_t step, uint32_t i) {
    const struct rcmi_verify_end *answered = answer_end(v, step);
    const struct rcmi_verify_channel *channel = &v->channels[answered->channel];
    if (i >= answered->nuses || channel->nreaders != 1)
        return rcmi_verify_fail_at(v, step, "receives an answer that no rank sends");
    const uint32_t question = v->uses[answered->first_use + i];
    if (rcmi_verify_step(v, question)->op != RCMI_STEP_SEND ||
        rcmi_verify_step(v, question)->nchunks > 1)
        return rcmi_verify_fail_at(v, question, "is answered, but is not a plain send");
    const struct rcmi_verify_end *reader = &v->ends[v->readers[channel->first_reader]];
    const uint32_t sender = answer_sender(v, step);
    if (sender == v->nsteps || !step_answers(v, sender, false) || answer_end(v, sender) != reader ||
        v->uses[reader->first_use + i] != sender)
        return rcmi_verify_fail_at(v, step, "receives a message that does not answer message %u",
                                   i);
    v->answers[channel->first_message + i] = step + 1;
    return RCM_OK;
}

static rcm_status answers_collect(struct rcmi_verifier *v, uint32_t *count, uint32_t *lane) {
    for (uint32_t step = 0; step < v->nsteps; step++) {
        if (!step_answers(v, step, true))
            continue;
        const uint32_t end = (uint32_t)(answer_end(v, step) - v->ends);
        if (count[end] > 0 && lane[end] != v->lane_of[step])
            return rcmi_verify_fail_at(v, step, "receives answers in a second lane");
        lane[end] = v->lane_of[step];
        const rcm_status status = answer_check(v, step, count[end]++);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

/* Each answer is received, and on a channel with answers every message has one. */
static rcm_status answers_complete(struct rcmi_verifier *v, const uint32_t *count) {
    for (uint32_t step = 0; step < v->nsteps; step++) {
        if (rcmi_verify_step(v, step)->answer == RCMI_NO_CHANNEL)
            continue;
        const uint32_t writer = v->channels[answer_end(v, step)->channel].writer;
        if (count[writer] != v->ends[writer].nuses)
            return rcmi_verify_fail_at(v, step, "%u of %u messages on its channel are answered",
                                       count[writer], v->ends[writer].nuses);
    }
    for (uint32_t step = 0; step < v->nsteps; step++) {
        const struct rcmi_step *s = rcmi_verify_step(v, step);
        const bool answered =
            s->out != RCMI_NO_CHANNEL && count[v->end_base[v->rank_of[step]] + s->out] > 0;
        if (s->answered != answered)
            return rcmi_verify_fail_at(v, step, "has a wrong flag answered");
    }
    return RCM_OK;
}

rcm_status rcmi_verify_answers(struct rcmi_verifier *v) {
    uint32_t *count = rcmi_verify_alloc(v, v->nends, sizeof(*count));
    uint32_t *lane = rcmi_verify_alloc(v, v->nends, sizeof(*lane));
    v->answers = rcmi_verify_alloc(v, v->nmessages, sizeof(*v->answers));
    if (!count || !lane || !v->answers)
        return RCM_ERR_NOMEM;
    const rcm_status status = answers_collect(v, count, lane);
    return status == RCM_OK ? answers_complete(v, count) : status;
}
