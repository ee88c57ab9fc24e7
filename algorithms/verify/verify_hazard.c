/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hazards. Two accesses to the same chunk of a rank's IN or OUT, one of them a write, must be
 * ordered by lanes and messages; credits do not count, since there may be more slots. A step marked
 * stable allows writes to its sources only before it, or after all readers of its message have read
 * it. A step marked lasting allows no later write to its result. The message of a step marked early
 * may be written as soon as it is sent: other accesses to that chunk must come before the send, or
 * after the receive. Scratch needs no check: verify_form.c assigned each scratch chunk to one lane.
 *
 * For each rank, every step of every rank gets a vector clock: for each lane of that rank, the
 * number of its steps that must come before this step or are this step.
 */
#include "verify.h"

#include <stdlib.h>
#include <string.h>
#include "error.h"

struct access {
    uint32_t cell; /* a chunk of memory */
    uint32_t step;
    bool write;
    bool kept;  /* a read by a step marked stable, or by a lasting one of its result */
    bool own;   /* the latter */
    bool early; /* a write that may happen as soon as the message is sent */
    bool stays; /* a copy onto itself, in a reduction: changes the chunk only if the operator
                   scales, and then nothing is sent from there without a copy */
};

struct hazards {
    struct rcmi_verifier *v;
    uint32_t rank, nlanes;
    uint32_t *clocks; /* nlanes for each step */
    uint32_t *sender; /* by step: the sender of its message, if it receives one */
    bool *reached;    /* for step_leads_to */
};

static uint32_t step_position(const struct hazards *h, uint32_t step) {
    const struct rcmi_plan *plan = h->v->plans[h->rank];
    return step - h->v->step_base[h->rank] - plan->lanes[h->v->lane_of[step]].first_step;
}

static void clocks_compute(const struct hazards *h) {
    const struct rcmi_verifier *v = h->v;
    const uint32_t n = h->nlanes;
    memset(h->clocks, 0, (size_t)v->nsteps * n * sizeof(*h->clocks));
    for (uint32_t i = 0; i < v->nsteps; i++) {
        const uint32_t step = v->order[i];
        uint32_t *clock = h->clocks + (size_t)step * n;
        if (v->rank_of[step] == h->rank)
            clock[v->lane_of[step]] = step_position(h, step) + 1;
        for (uint32_t e = v->edge_base[step]; e < v->edge_base[step + 1]; e++) {
            if (v->edges[e].kind == RCMI_EDGE_CREDIT || v->edges[e].to >= v->nsteps)
                continue;
            uint32_t *later = h->clocks + (size_t)v->edges[e].to * n;
            for (uint32_t lane = 0; lane < n; lane++)
                if (later[lane] < clock[lane])
                    later[lane] = clock[lane];
        }
    }
}

/* Both steps belong to this rank. Within one lane, step numbers give the order. */
static bool step_before(const struct hazards *h, uint32_t a, uint32_t b) {
    const uint32_t lane = h->v->lane_of[a];
    if (lane == h->v->lane_of[b])
        return a < b;
    return h->clocks[(size_t)b * h->nlanes + lane] > step_position(h, a);
}

static void senders_find(const struct hazards *h) {
    const struct rcmi_verifier *v = h->v;
    for (uint32_t step = 0; step < v->nsteps; step++)
        for (uint32_t e = v->edge_base[step]; e < v->edge_base[step + 1]; e++)
            if (v->edges[e].kind == RCMI_EDGE_MESSAGE && v->edges[e].to < v->nsteps)
                h->sender[v->edges[e].to] = step;
}

/* Is step a, of this rank, before the sending of the message that the early step receives? */
static bool step_before_message(const struct hazards *h, uint32_t a, uint32_t early) {
    const uint32_t sender = h->sender[early];
    return h->clocks[(size_t)sender * h->nlanes + h->v->lane_of[a]] > step_position(h, a);
}

/* Must b, of any rank, come after a? Steps are visited with causes before effects. */
static bool step_leads_to(const struct hazards *h, uint32_t a, uint32_t b) {
    const struct rcmi_verifier *v = h->v;
    memset(h->reached, 0, v->nsteps * sizeof(*h->reached));
    h->reached[a] = true;
    for (uint32_t i = 0; i < v->nsteps && v->order[i] != b; i++) {
        const uint32_t step = v->order[i];
        if (!h->reached[step])
            continue;
        for (uint32_t e = v->edge_base[step]; e < v->edge_base[step + 1]; e++)
            if (v->edges[e].kind != RCMI_EDGE_CREDIT && v->edges[e].to < v->nsteps)
                h->reached[v->edges[e].to] = true;
    }
    return h->reached[b];
}

/* Does the write come after every reader of the step's message has read it? A step that reads the
 * message and sends the written value works element by element. */
static bool read_before(const struct hazards *h, uint32_t step, const struct access *write) {
    const struct rcmi_verifier *v = h->v;
    const uint32_t out = rcmi_verify_step(v, step)->out;
    if (out == RCMI_NO_CHANNEL)
        return false;
    const struct rcmi_verify_end *end = &v->ends[v->end_base[h->rank] + out];
    const struct rcmi_verify_channel *channel = &v->channels[end->channel];
    const uint32_t writer = write->early ? h->sender[write->step] : write->step;
    uint32_t message = 0;
    while (v->uses[end->first_use + message] != step)
        message++;
    for (uint32_t i = 0; i < channel->nreaders; i++) {
        const struct rcmi_verify_end *to = &v->ends[v->readers[channel->first_reader + i]];
        if (!step_leads_to(h, v->uses[to->first_use + message], writer))
            return false;
    }
    return true;
}

static void access_add(struct access *accesses, uint32_t *n, const struct hazards *h, uint32_t step,
                       struct rcmi_operand first, const struct access *kind) {
    const struct rcmi_plan *plan = h->v->plans[h->rank];
    if (first.where != RCMI_IN && first.where != RCMI_OUT)
        return;
    const struct rcmi_step *s = rcmi_verify_step(h->v, step);
    for (uint32_t i = 0; i < s->nchunks; i++) {
        struct access *access = &accesses[(*n)++];
        *access = *kind;
        access->cell = rcmi_verify_cell(h->v, plan, rcmi_span_operand(plan, s, first, i));
        access->step = step;
    }
}

static uint32_t accesses_collect(const struct hazards *h, struct access *accesses) {
    const struct rcmi_verifier *v = h->v;
    const bool reduces = rcmi_collective_at((int)v->plans[0]->collective)->reduces;
    uint32_t n = 0;
    for (uint32_t step = v->step_base[h->rank]; step < v->step_base[h->rank + 1]; step++) {
        const struct rcmi_step *s = rcmi_verify_step(v, step);
        const bool kept = v->options.in_place ? s->stable_in_place : s->stable;
        const bool noop = rcmi_verify_is_noop(v, step);
        if (noop && !reduces)
            continue;
        const bool early = s->early && !(v->options.in_place && v->plans[h->rank]->late_in_place);
        for (uint32_t i = 0; i < s->nsrcs; i++)
            access_add(accesses, &n, h, step, rcmi_verify_srcs(v, step)[i],
                       &(struct access){.kept = kept});
        access_add(accesses, &n, h, step, s->dst,
                   &(struct access){.write = true, .early = early, .stays = noop});
        if (s->lasting)
            access_add(accesses, &n, h, step, s->dst, &(struct access){.kept = true, .own = true});
    }
    return n;
}

static int access_compare(const void *pa, const void *pb) {
    const struct access *a = pa, *b = pb;
    if (a->cell != b->cell)
        return a->cell < b->cell ? -1 : 1;
    return a->step < b->step ? -1 : a->step > b->step;
}

static rcm_status pair_check(const struct hazards *h, const struct access *a,
                             const struct access *b) {
    char other[160];
    if (!a->write && !b->write)
        return RCM_OK;
    if (a->step != b->step && !step_before(h, a->step, b->step) &&
        !step_before(h, b->step, a->step)) {
        rcmi_verify_describe(h->v, b->step, other, sizeof(other));
        return rcmi_verify_fail_at(h->v, a->step, "and %s touch the same chunk%s in no order",
                                   other, h->v->options.in_place ? " (in place)" : "");
    }
    const struct access *early = a->early ? a : b, *with = a->early ? b : a;
    if (early->early && early->step != with->step && !step_before(h, early->step, with->step) &&
        !step_before_message(h, with->step, early->step)) {
        rcmi_verify_describe(h->v, with->step, other, sizeof(other));
        return rcmi_verify_fail_at(h->v, early->step,
                                   "is marked early, but %s touches the chunk when the message "
                                   "may already be in flight%s",
                                   other, h->v->options.in_place ? " (in place)" : "");
    }
    const struct access *kept = a->kept ? a : b;
    const struct access *write = a->kept ? b : a;
    const bool itself = kept->own && write->step == kept->step;
    if (kept->kept && !itself && !write->stays && !step_before(h, write->step, kept->step) &&
        (kept->own || !read_before(h, kept->step, write))) {
        rcmi_verify_describe(h->v, write->step, other, sizeof(other));
        return rcmi_verify_fail_at(h->v, kept->step, "is marked %s, but %s writes its %s%s",
                                   kept->own ? "lasting" : "stable", other,
                                   kept->own ? "result" : "source",
                                   h->v->options.in_place ? " (in place)" : "");
    }
    return RCM_OK;
}

static rcm_status cells_check(const struct hazards *h, struct access *accesses, uint32_t n) {
    if (n > 0)
        qsort(accesses, n, sizeof(*accesses), access_compare);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = i + 1; j < n && accesses[j].cell == accesses[i].cell; j++) {
            const rcm_status status = pair_check(h, &accesses[i], &accesses[j]);
            if (status != RCM_OK)
                return status;
        }
    }
    return RCM_OK;
}

/* Steps may share operands, so noperands is no bound. */
static uint32_t accesses_bound(const struct rcmi_plan *plan) {
    uint32_t n = 0; /* a result is written, and read if lasting */
    for (uint32_t i = 0; i < plan->nsteps; i++)
        n += (plan->steps[i].nsrcs + 2u) * plan->steps[i].nchunks;
    return n;
}

static bool plan_has_early(const struct rcmi_plan *plan) {
    for (uint32_t i = 0; i < plan->nsteps; i++)
        if (plan->steps[i].early)
            return true;
    return false;
}

rcm_status rcmi_verify_hazards(struct rcmi_verifier *v) {
    uint32_t lanes_max = 1, accesses_max = 1;
    for (uint32_t rank = 0; rank < v->nranks; rank++) {
        const struct rcmi_plan *plan = v->plans[rank];
        if (plan->nlanes > lanes_max)
            lanes_max = plan->nlanes;
        if (accesses_bound(plan) > accesses_max)
            accesses_max = accesses_bound(plan);
    }
    struct access *accesses = rcmi_verify_alloc(v, accesses_max, sizeof(*accesses));
    struct hazards h = {.v = v};
    h.clocks = rcmi_verify_alloc(v, (size_t)v->nsteps * lanes_max, sizeof(*h.clocks));
    h.sender = rcmi_verify_alloc(v, v->nsteps, sizeof(*h.sender));
    h.reached = rcmi_verify_alloc(v, v->nsteps, sizeof(*h.reached));
    if (!accesses || !h.clocks || !h.sender || !h.reached)
        return RCM_ERR_NOMEM;
    senders_find(&h);
    for (h.rank = 0; h.rank < v->nranks; h.rank++) {
        h.nlanes = v->plans[h.rank]->nlanes;
        if (h.nlanes > 1 || plan_has_early(v->plans[h.rank]))
            clocks_compute(&h);
        const rcm_status status = cells_check(&h, accesses, accesses_collect(&h, accesses));
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}
