/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verifier's part for answers. A message that is answered keeps its slot until its sender has
 * received the answer, which may stand in that slot. So of a channel that has any answers, each
 * message has one, from the step that receives it; and the sender receives them one after the
 * other, in the order of the messages. Nobody else may read an answer: it stands in no other slot.
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

/* The step that sends what this one, which has a channel as its first source, receives; of a
 * channel with that reader alone. v->nsteps: it has several. */
static uint32_t answer_sender(const struct rcmi_verifier *v, uint32_t step) {
    const uint32_t index = rcmi_verify_srcs(v, step)[0].index;
    const struct rcmi_verify_end *end = &v->ends[v->end_base[v->rank_of[step]] + index];
    const struct rcmi_verify_channel *channel = &v->channels[end->channel];
    uint32_t i = 0;
    while (v->uses[end->first_use + i] != step)
        i++;
    return channel->nreaders == 1 ? v->uses[v->ends[channel->writer].first_use + i] : v->nsteps;
}

/* The step receives the i-th answer on a channel that this rank writes. */
static rcm_status answer_check(struct rcmi_verifier *v, uint32_t step, uint32_t i) {
    const struct rcmi_verify_end *asked = answer_end(v, step);
    const struct rcmi_verify_channel *channel = &v->channels[asked->channel];
    if (i >= asked->nuses || channel->nreaders != 1)
        return rcmi_verify_fail_at(v, step, "receives an answer that nobody owes");
    const uint32_t question = v->uses[asked->first_use + i];
    if (rcmi_verify_step(v, question)->op != RCMI_STEP_SEND ||
        rcmi_verify_step(v, question)->nchunks > 1)
        return rcmi_verify_fail_at(v, question, "is answered, and no plain send");
    const struct rcmi_verify_end *reader = &v->ends[v->readers[channel->first_reader]];
    const uint32_t sender = answer_sender(v, step);
    if (sender == v->nsteps || !step_answers(v, sender, false) || answer_end(v, sender) != reader ||
        v->uses[reader->first_use + i] != sender)
        return rcmi_verify_fail_at(v, step, "receives what is no answer to message %u", i);
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

/* Each answer is received, and no message of such a channel goes without an answer. */
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
            return rcmi_verify_fail_at(v, step, "is wrong about being answered");
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
