/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the parts of the verifier, listed in verify.h, on the plans of all ranks. plan.h, above
 * rcmi_verify, lists what is proved.
 */
#include "verify.h"

#include <string.h>
#include "error.h"

/* ---- All plans are of the same kind ---------------------------------------------------------- */

static rcm_status plans_check(const struct rcmi_shape *shape,
                              const struct rcmi_plan *const *plans) {
    for (int rank = 0; rank < shape->nranks; rank++) {
        const struct rcmi_plan *plan = plans[rank], *first = plans[0];
        if (plan->rank != rank || plan->nranks != shape->nranks)
            return rcmi_fail(RCM_ERR_INTERNAL, 0, "plan %d of %d is for rank %d of %d", rank,
                             shape->nranks, plan->rank, plan->nranks);
        if (plan->collective != first->collective || plan->root != first->root ||
            plan->parts != first->parts || plan->min_slots != first->min_slots ||
            plan->stripes != first->stripes || plan->whole != first->whole ||
            plan->halves != first->halves || plan->longest_span != first->longest_span ||
            plan->late_in_place != first->late_in_place || plan->gets != first->gets ||
            strcmp(plan->algorithm, first->algorithm) != 0)
            return rcmi_fail(RCM_ERR_INTERNAL, 0,
                             "ranks 0 and %d have plans of %s %s and %s %s: algorithm, root, "
                             "chunks, slots, stripes and slicing must be the same",
                             rank, rcmi_collective_name(first->collective), first->algorithm,
                             rcmi_collective_name(plan->collective), plan->algorithm);
        const rcm_status status = rcmi_verify_form(shape, plan);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

/* ---- Numbering of steps ---------------------------------------------------------------------- */

static void steps_number(struct rcmi_verifier *v) {
    for (uint32_t rank = 0; rank < v->nranks; rank++) {
        const struct rcmi_plan *plan = v->plans[rank];
        for (uint32_t lane = 0; lane < plan->nlanes; lane++) {
            for (uint32_t i = 0; i < plan->lanes[lane].nsteps; i++) {
                const uint32_t step = v->step_base[rank] + plan->lanes[lane].first_step + i;
                v->rank_of[step] = rank;
                v->lane_of[step] = lane;
            }
        }
    }
}

static rcm_status verifier_init(struct rcmi_verifier *v) {
    v->step_base = rcmi_verify_alloc(v, v->nranks + 1, sizeof(*v->step_base));
    if (!v->step_base)
        return RCM_ERR_NOMEM;
    for (uint32_t rank = 0; rank < v->nranks; rank++)
        v->step_base[rank + 1] = v->step_base[rank] + v->plans[rank]->nsteps;
    v->nsteps = v->step_base[v->nranks];
    v->rank_of = rcmi_verify_alloc(v, v->nsteps, sizeof(*v->rank_of));
    v->lane_of = rcmi_verify_alloc(v, v->nsteps, sizeof(*v->lane_of));
    if (!v->rank_of || !v->lane_of)
        return RCM_ERR_NOMEM;
    steps_number(v);
    return RCM_OK;
}

/* ---- Formula --------------------------------------------------------------------------------- */

static uint64_t plan_chunks_sent(const struct rcmi_plan *plan) {
    uint64_t sent = 0;
    for (uint32_t i = 0; i < plan->nsteps; i++)
        if (plan->steps[i].out != RCMI_NO_CHANNEL && plan->steps[i].op != RCMI_STEP_SIGNAL)
            sent += plan->steps[i].nchunks;
    return sent;
}

/* A slot holds as many elements of a reduction as rcmi_spans_fit assumes. */
static rcm_status spans_check(const struct rcmi_verifier *v) {
    const struct rcmi_algorithm *algorithm = v->options.formula;
    const uint32_t longest = v->plans[0]->longest_span, most = algorithm->spans ? v->nranks : 1;
    if (longest <= most || !rcmi_collective_at((int)v->plans[0]->collective)->reduces)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INTERNAL, 0,
                     "%s on %u ranks: a message has %u chunks, but at most %u are declared",
                     algorithm->name, v->nranks, longest, most);
}

static rcm_status formula_check(struct rcmi_verifier *v) {
    const struct rcmi_algorithm *algorithm = v->options.formula;
    const rcm_status status = spans_check(v);
    if (status != RCM_OK)
        return status;
    uint32_t *depth = rcmi_verify_alloc(v, v->nsteps, sizeof(*depth));
    if (!depth)
        return RCM_ERR_NOMEM;
    const uint32_t rounds = rcmi_verify_rounds(v, depth);
    for (uint32_t rank = 0; rank < v->nranks; rank++) {
        const struct rcmi_formula want =
            algorithm->formula(algorithm, v->shape, (int)rank, v->plans[rank]->root);
        const uint64_t sent = plan_chunks_sent(v->plans[rank]);
        if (want.rounds != rounds)
            return rcmi_fail(RCM_ERR_INTERNAL, 0,
                             "%s on %u ranks: the longest chain has %u messages, but the formula "
                             "gives %u",
                             algorithm->name, v->nranks, rounds, want.rounds);
        if (want.chunks_sent != sent)
            return rcmi_fail(
                RCM_ERR_INTERNAL, 0,
                "%s on %u ranks: rank %u sends %llu chunks, but the formula gives %llu",
                algorithm->name, v->nranks, rank, (unsigned long long)sent,
                (unsigned long long)want.chunks_sent);
    }
    return RCM_OK;
}

/* ---- All parts ------------------------------------------------------------------------------- */

static rcm_status result_check(struct rcmi_verifier *v) {
    return v->plans[0]->collective == RCM_BARRIER ? rcmi_verify_barrier(v) : rcmi_verify_data(v);
}

static rcm_status verifier_run(struct rcmi_verifier *v) {
    rcm_status (*const parts[])(struct rcmi_verifier *) = {
        verifier_init,     rcmi_verify_match,   rcmi_verify_answers,
        rcmi_verify_graph, rcmi_verify_lengths, rcmi_verify_hazards,
        result_check,      formula_check,       rcmi_verify_cost, /* the last two need a formula */
    };
    const size_t nparts = sizeof(parts) / sizeof(parts[0]) - (v->options.formula ? 0 : 2);
    for (size_t i = 0; i < nparts; i++) {
        const rcm_status status = parts[i](v);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

rcm_status rcmi_verify(const struct rcmi_shape *shape, const struct rcmi_plan *const *plans,
                       const struct rcmi_verify_options *options) {
    struct rcmi_verifier v = {
        .shape = shape,
        .plans = plans,
        .options = *options,
        .nranks = (uint32_t)shape->nranks,
    };
    rcm_status status = plans_check(shape, plans);
    if (status != RCM_OK)
        return status;
    v.slots = options->slots ? options->slots : plans[0]->min_slots;
    status = verifier_run(&v);
    rcmi_verifier_free(&v);
    return status;
}
