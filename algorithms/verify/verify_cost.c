/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counted work (cost.h): counts what the plans of all ranks do step by step, and compares it with
 * the algorithm's counts. All numbers must be equal, with two exceptions. The number of a chain's
 * messages between hosts may be an estimate, at most one more than in the chain with most of them.
 * A chain's vectors count only if they exceed what the busiest rank moves.
 */
#include "verify.h"

#include "cost.h"
#include "error.h"

static bool leaves_host(const struct rcmi_verifier *v, int rank, uint32_t channel) {
    const int *host_of = v->shape->host_of;
    return host_of[v->plans[rank]->channels[channel].peer] != host_of[rank];
}

/* How often a step copies its span because it sends it to another host, or receives it from one. */
static int step_packs(const struct rcmi_verifier *v, uint32_t step) {
    const struct rcmi_step *s = rcmi_verify_step(v, step);
    const struct rcmi_operand *srcs = rcmi_verify_srcs(v, step);
    const int rank = (int)v->rank_of[step];
    int packs = s->out != RCMI_NO_CHANNEL && leaves_host(v, rank, s->out);
    for (uint32_t i = 0; i < s->nsrcs; i++)
        packs += srcs[i].where == RCMI_CHANNEL && leaves_host(v, rank, srcs[i].index);
    return packs;
}

static void step_count(const struct rcmi_verifier *v, uint32_t step, struct rcmi_tally *tally) {
    const struct rcmi_step *s = rcmi_verify_step(v, step);
    const int rank = (int)v->rank_of[step];
    const struct rcmi_plan *plan = v->plans[rank];
    const bool empty = s->op == RCMI_STEP_SIGNAL || s->op == RCMI_STEP_WAIT;
    const double vectors = empty ? 0 : (double)s->nchunks / (plan->larger * plan->parts);
    if (s->out != RCMI_NO_CHANNEL && plan->channels[s->out].multicast)
        rcmi_tally_multicast(tally, rank, 1, vectors);
    else if (s->out != RCMI_NO_CHANNEL)
        rcmi_tally_send(tally, rank, plan->channels[s->out].peer, 1, vectors);
    if (s->nchunks > 1)
        rcmi_tally_local(tally, rank, step_packs(v, step) * vectors, 0);
    if (s->op == RCMI_STEP_COPY)
        rcmi_tally_local(tally, rank, vectors, 0);
    if (s->nsrcs > 1)
        rcmi_tally_local(tally, rank, 0, (s->nsrcs - 1) * vectors);
}

/* The vectors along the chain that carries most, and the messages between hosts along the chain
 * with most of these. */
struct chains {
    double *vectors;
    uint32_t *between;
    double most_vectors;
    uint32_t most_between;
};

static double step_vectors(const struct rcmi_verifier *v, uint32_t step) {
    const struct rcmi_step *s = rcmi_verify_step(v, step);
    const struct rcmi_plan *plan = v->plans[v->rank_of[step]];
    return s->op == RCMI_STEP_SIGNAL ? 0 : (double)s->nchunks / (plan->larger * plan->parts);
}

static void edge_follow(const struct rcmi_verifier *v, uint32_t step,
                        const struct rcmi_verify_edge *edge, const struct chains *c) {
    const int *host_of = v->shape->host_of;
    const bool message = edge->kind == RCMI_EDGE_MESSAGE;
    const bool leaves = host_of[v->rank_of[step]] != host_of[v->rank_of[edge->to % v->nsteps]];
    const double vectors = c->vectors[step] + (message ? step_vectors(v, step) : 0);
    const uint32_t between = c->between[step] + (message && leaves);
    if (c->vectors[edge->to] < vectors)
        c->vectors[edge->to] = vectors;
    if (c->between[edge->to] < between)
        c->between[edge->to] = between;
}

static rcm_status chains_find(struct rcmi_verifier *v, struct chains *c) {
    *c = (struct chains){.vectors = rcmi_verify_alloc(v, v->nsteps, sizeof(*c->vectors)),
                         .between = rcmi_verify_alloc(v, v->nsteps, sizeof(*c->between))};
    if (!c->vectors || !c->between)
        return RCM_ERR_NOMEM;
    for (uint32_t i = 0; i < v->nsteps; i++) {
        const uint32_t step = v->order[i];
        if (c->vectors[step] > c->most_vectors)
            c->most_vectors = c->vectors[step];
        if (c->between[step] > c->most_between)
            c->most_between = c->between[step];
        for (uint32_t e = v->edge_base[step]; e < v->edge_base[step + 1]; e++)
            if (v->edges[e].kind != RCMI_EDGE_CREDIT && v->edges[e].to < v->nsteps)
                edge_follow(v, step, &v->edges[e], c);
    }
    return RCM_OK;
}

static bool near(double a, double b) {
    const double apart = a > b ? a - b : b - a;
    return apart <= 1e-9 * (1 + a);
}

static rcm_status number_check(const struct rcmi_verifier *v, const char *what, double declared,
                               double counted) {
    if (near(declared, counted))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INTERNAL, 0,
                     "%s on %u ranks: %s: the plans have %.6g, the algorithm counts %.6g",
                     v->options.formula->name, v->nranks, what, counted, declared);
}

static rcm_status load_check(const struct rcmi_verifier *v, const char *whose,
                             const struct rcmi_load *declared, const struct rcmi_load *counted) {
    const struct {
        const char *what;
        double declared, counted;
    } numbers[] = {
        {"messages within hosts", declared->messages[RCMI_WITHIN], counted->messages[RCMI_WITHIN]},
        {"messages between hosts", declared->messages[RCMI_BETWEEN],
         counted->messages[RCMI_BETWEEN]},
        {"vectors moved within hosts", declared->moved[RCMI_WITHIN], counted->moved[RCMI_WITHIN]},
        {"vectors moved between hosts", declared->moved[RCMI_BETWEEN],
         counted->moved[RCMI_BETWEEN]},
        {"vectors added", declared->sums, counted->sums},
    };
    rcm_status status = RCM_OK;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && status == RCM_OK; i++)
        status = number_check(v, numbers[i].what, numbers[i].declared, numbers[i].counted);
    return status == RCM_OK ? status : rcmi_fail_context("%s", whose);
}

static double more(double a, double b) {
    return a > b ? a : b;
}

static rcm_status chain_check(struct rcmi_verifier *v, const struct rcmi_cost *declared) {
    struct chains chains;
    const rcm_status status = chains_find(v, &chains);
    const double own = declared->busiest.moved[RCMI_WITHIN] + declared->busiest.moved[RCMI_BETWEEN];
    if (status != RCM_OK)
        return status;
    if (declared->hops[RCMI_BETWEEN] > chains.most_between + 1)
        return rcmi_fail(RCM_ERR_INTERNAL, 0,
                         "%s on %u ranks: the algorithm counts %.6g messages of the chain between "
                         "hosts, the plans have at most %u",
                         v->options.formula->name, v->nranks, declared->hops[RCMI_BETWEEN],
                         chains.most_between);
    return number_check(v, "vectors along a chain", more(2 * declared->chain, own),
                        more(2 * chains.most_vectors, own));
}

static rcm_status cost_compare(struct rcmi_verifier *v, const struct rcmi_cost *counted) {
    struct rcmi_cost declared;
    rcm_status status = rcmi_cost_count(v->options.formula, v->shape, v->plans[0]->root, &declared);
    if (status == RCM_OK)
        status = load_check(v, "of all ranks", &declared.mean, &counted->mean);
    if (status == RCM_OK)
        status = load_check(v, "of the busiest rank", &declared.busiest, &counted->busiest);
    if (status == RCM_OK)
        status = number_check(v, "vectors through a card", declared.card, counted->card);
    return status == RCM_OK ? chain_check(v, &declared) : status;
}

rcm_status rcmi_verify_cost(struct rcmi_verifier *v) {
    struct rcmi_tally tally;
    struct rcmi_cost counted;
    if (v->nranks == 1)
        return RCM_OK;
    rcm_status status = rcmi_tally_init(&tally, v->shape);
    if (status != RCM_OK)
        return status;
    for (uint32_t step = 0; step < v->nsteps; step++)
        step_count(v, step, &tally);
    rcmi_tally_total(&tally, 0, &counted);
    rcmi_tally_free(&tally);
    return cost_compare(v, &counted);
}
