/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of unequal length.
 *
 * A rank moves only blocks whose length it has: those of its IN and OUT. If only the two ends of a
 * message have its length, plans run in the order by step, and a message may have more slices than
 * there are slots. A step that sends and the step that receives then end only together, as if there
 * were no slots. All steps joined by messages are therefore one event. Some lengths cause a
 * deadlock if and only if the lanes order these events in a cycle.
 */
#include "verify.h"

#include "error.h"

static rcm_status step_knows(const struct rcmi_verifier *v, uint32_t step) {
    const struct rcmi_step *s = rcmi_verify_step(v, step);
    const struct rcmi_plan *plan = v->plans[v->rank_of[step]];
    if (s->op == RCMI_STEP_SIGNAL || s->op == RCMI_STEP_WAIT)
        return RCM_OK;
    for (uint32_t i = 0; i < s->nchunks; i++) {
        const uint32_t block = rcmi_step_chunk(plan, s, i) / plan->parts;
        if (rcmi_blocks_find(&plan->in, block) == plan->in.n &&
            rcmi_blocks_find(&plan->out, block) == plan->out.n)
            return rcmi_verify_fail_at(v, step,
                                       "moves a block whose length its rank does not have");
    }
    return RCM_OK;
}

/* ---- Steps that end together ----------------------------------------------------------------- */

struct events {
    const struct rcmi_verifier *v;
    uint32_t *set;          /* by step: another step of its set, or itself (union-find) */
    uint32_t *first;        /* by set (its representative step): first step + 1 */
    uint32_t *next;         /* the next step of the same set + 1 */
    uint32_t *waits_for;    /* by set: lanes that have not reached it */
    uint32_t *ready, nsets; /* sets that all their lanes have reached */
};

static uint32_t set_of(const struct events *e, uint32_t step) {
    while (e->set[step] != step)
        step = e->set[step] = e->set[e->set[step]];
    return step;
}

static void channel_join(const struct events *e, const struct rcmi_verify_channel *channel) {
    const struct rcmi_verifier *v = e->v;
    const struct rcmi_verify_end *writer = &v->ends[channel->writer];
    for (uint32_t k = 0; k < channel->nreaders; k++) {
        const struct rcmi_verify_end *reader = &v->ends[v->readers[channel->first_reader + k]];
        for (uint32_t i = 0; i < channel->nmessages; i++)
            e->set[set_of(e, v->uses[writer->first_use + i])] =
                set_of(e, v->uses[reader->first_use + i]);
    }
}

/* The step after this one in its lane, or v->nsteps. */
static uint32_t step_after(const struct rcmi_verifier *v, uint32_t step) {
    const bool last = step + 1 >= v->nsteps || v->rank_of[step + 1] != v->rank_of[step] ||
                      v->lane_of[step + 1] != v->lane_of[step];
    return last ? v->nsteps : step + 1;
}

static rcm_status events_init(struct rcmi_verifier *v, struct events *e) {
    *e = (struct events){.v = v};
    uint32_t **const arrays[] = {&e->set, &e->first, &e->next, &e->waits_for, &e->ready};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        *arrays[i] = rcmi_verify_alloc(v, v->nsteps, sizeof(**arrays[i]));
        if (!*arrays[i])
            return RCM_ERR_NOMEM;
    }
    for (uint32_t step = 0; step < v->nsteps; step++)
        e->set[step] = step;
    for (uint32_t c = 0; c < v->nchannels; c++)
        channel_join(e, &v->channels[c]);
    for (uint32_t step = 0; step < v->nsteps; step++) {
        const uint32_t set = set_of(e, step), after = step_after(v, step);
        e->next[step] = e->first[set];
        e->first[set] = step + 1;
        e->nsets += set == step;
        if (after < v->nsteps)
            e->waits_for[set_of(e, after)]++;
    }
    return RCM_OK;
}

/* Advances all lanes past the steps of a set. */
static uint32_t set_pass(const struct events *e, uint32_t set, uint32_t found) {
    for (uint32_t step = e->first[set]; step > 0; step = e->next[step - 1]) {
        const uint32_t after = step_after(e->v, step - 1);
        if (after < e->v->nsteps && --e->waits_for[set_of(e, after)] == 0)
            e->ready[found++] = set_of(e, after);
    }
    return found;
}

static rcm_status events_order(const struct events *e) {
    uint32_t taken = 0, found = 0;
    for (uint32_t step = 0; step < e->v->nsteps; step++)
        if (e->set[step] == step && e->waits_for[step] == 0)
            e->ready[found++] = step;
    while (taken < found)
        found = set_pass(e, e->ready[taken++], found);
    for (uint32_t step = 0; taken < e->nsets && step < e->v->nsteps; step++)
        if (e->waits_for[set_of(e, step)] > 0)
            return rcmi_verify_fail_at(e->v, step,
                                       "deadlocks if messages are longer than all slots together");
    return RCM_OK;
}

rcm_status rcmi_verify_lengths(struct rcmi_verifier *v) {
    struct events e;
    for (uint32_t step = 0; v->options.counts != RCMI_COUNTS_SAME && step < v->nsteps; step++) {
        const rcm_status status = step_knows(v, step);
        if (status != RCM_OK)
            return status;
    }
    if (v->options.counts != RCMI_COUNTS_PAIR)
        return RCM_OK;
    const rcm_status status = events_init(v, &e);
    return status == RCM_OK ? events_order(&e) : status;
}
