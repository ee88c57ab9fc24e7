/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes and sets of plans; see shapes.h. */
#include "shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct rcmi_shape *test_shape_dealt(struct test_shape *s, int nranks, int nhosts) {
    assert_in_range(nranks, 1, TEST_RANKS_MAX);
    for (int r = 0; r < nranks; r++)
        s->host_of[r] = r % nhosts;
    s->shape = (struct rcmi_shape){
        .nranks = nranks, .nhosts = nhosts < nranks ? nhosts : nranks, .host_of = s->host_of};
    return &s->shape;
}

struct rcmi_shape *test_shape_one_host(struct test_shape *s, int nranks) {
    return test_shape_dealt(s, nranks, 1);
}

struct rcmi_shape *test_shape_uneven(struct test_shape *s, int nranks) {
    int host = 0, left = 1;
    assert_in_range(nranks, 1, TEST_RANKS_MAX);
    for (int r = 0; r < nranks; r++) {
        if (left == 0) {
            host++;
            left = host + 1;
        }
        left--;
        s->host_of[r] = host;
    }
    s->shape = (struct rcmi_shape){.nranks = nranks, .nhosts = host + 1, .host_of = s->host_of};
    return &s->shape;
}

struct rcmi_plan *test_plan_emit(const struct rcmi_algorithm *algorithm,
                                 const struct rcmi_shape *shape, int rank, int root) {
    struct rcmi_plan *plan = NULL;
    assert_int_equal(algorithm->emit(algorithm, shape, rank, root, &plan), RCM_OK);
    return plan;
}

struct rcmi_plan **test_plans_emit(const struct rcmi_algorithm *algorithm,
                                   const struct rcmi_shape *shape, int root) {
    struct rcmi_plan **plans = calloc((size_t)shape->nranks, sizeof(struct rcmi_plan *));
    assert_non_null(plans);
    for (int r = 0; r < shape->nranks; r++)
        plans[r] = test_plan_emit(algorithm, shape, r, root);
    return plans;
}

static bool operands_same(struct rcmi_operand a, struct rcmi_operand b) {
    return a.where == b.where && a.index == b.index;
}

static bool steps_same(const struct rcmi_plan *p, const struct rcmi_plan *q, uint32_t i) {
    const struct rcmi_step *a = &p->steps[i], *b = &q->steps[i];
    bool same = a->op == b->op && a->nsrcs == b->nsrcs && a->chunk == b->chunk &&
                a->nchunks == b->nchunks && a->list == b->list && a->out == b->out &&
                a->answer == b->answer && a->stable == b->stable &&
                a->stable_in_place == b->stable_in_place && a->lasting == b->lasting &&
                a->early == b->early && a->completes == b->completes &&
                a->answered == b->answered && operands_same(a->dst, b->dst);
    for (uint32_t k = 0; same && k < a->nsrcs; k++)
        same = operands_same(p->operands[a->first_src + k], q->operands[b->first_src + k]);
    return same;
}

/* Compares the plans of one rank by one algorithm. */
static bool plans_same(const struct rcmi_plan *p, const struct rcmi_plan *q) {
    bool same = p->nsteps == q->nsteps && p->nchannels == q->nchannels && p->nlanes == q->nlanes &&
                p->nlisted == q->nlisted && p->parts == q->parts && p->nscratch == q->nscratch &&
                p->longest_span == q->longest_span && p->min_slots == q->min_slots &&
                p->stripes == q->stripes && p->whole == q->whole && p->halves == q->halves &&
                p->late_in_place == q->late_in_place && p->gets == q->gets;
    for (uint32_t i = 0; same && i < p->nlanes; i++)
        same = p->lanes[i].nsteps == q->lanes[i].nsteps;
    for (uint32_t i = 0; same && i < p->nsteps; i++)
        same = steps_same(p, q, i);
    for (uint32_t i = 0; same && i < p->nchannels; i++) {
        const struct rcmi_plan_channel *a = &p->channels[i], *b = &q->channels[i];
        same = a->outgoing == b->outgoing && a->multicast == b->multicast && a->peer == b->peer &&
               a->number == b->number && a->lane == b->lane;
    }
    for (uint32_t i = 0; same && i < p->nlisted; i++)
        same = p->listed[i].chunk == q->listed[i].chunk &&
               p->listed[i].scratch == q->listed[i].scratch;
    return same;
}

bool test_plans_as_on_one_host(const struct rcmi_algorithm *algorithm,
                               const struct rcmi_shape *shape, struct rcmi_plan **plans) {
    static struct test_shape one;
    const struct rcmi_shape *here = test_shape_one_host(&one, shape->nranks);
    bool same = algorithm->supports(here);
    for (int r = 0; same && r < shape->nranks; r++) {
        const int root = plans[r]->root;
        const struct rcmi_formula a = algorithm->formula(algorithm, shape, r, root);
        const struct rcmi_formula b = algorithm->formula(algorithm, here, r, root);
        struct rcmi_plan *plan = test_plan_emit(algorithm, here, r, root);
        same = plans_same(plans[r], plan) && a.rounds == b.rounds && a.chunks_sent == b.chunks_sent;
        rcmi_plan_free(plan);
    }
    return same;
}

void test_plans_free(struct rcmi_plan **plans, int nranks) {
    for (int r = 0; r < nranks; r++)
        rcmi_plan_free(plans[r]);
    free(plans);
}

const struct rcmi_algorithm *test_algorithm(enum rcm_collective collective, const char *name) {
    for (size_t i = 0; rcmi_algorithms[i]; i++)
        if (rcmi_algorithms[i]->collective == collective &&
            strcmp(rcmi_algorithms[i]->name, name) == 0)
            return rcmi_algorithms[i];
    fail_msg("no %s algorithm %s", rcmi_collective_name(collective), name);
    return NULL;
}

rcm_status test_plans_verify(const struct rcmi_shape *shape, struct rcmi_plan **plans,
                             const struct rcmi_algorithm *formula, enum rcmi_counts counts) {
    const struct rcmi_plan *const *all = (const struct rcmi_plan *const *)plans;
    struct rcmi_verify_options options = {.formula = formula, .counts = counts};
    const rcm_status status = rcmi_verify(shape, all, &options);
    options.in_place = true;
    if (status != RCM_OK || rcmi_collective_at((int)plans[0]->collective)->apart)
        return status;
    return rcmi_verify(shape, all, &options);
}

enum rcmi_counts test_counts(const struct rcmi_algorithm *algorithm) {
    enum rcmi_counts counts = RCMI_COUNTS_SAME;
    for (int c = 1; c < RCMI_COLLECTIVES; c++)
        if (rcmi_algorithm_does(algorithm, (enum rcm_collective)c) &&
            rcmi_collective_at(c)->counts > counts)
            counts = rcmi_collective_at(c)->counts;
    return counts;
}

int test_root(const struct rcmi_algorithm *algorithm, int root) {
    return rcmi_collective_is_rooted(rcmi_collective_at((int)algorithm->collective)) ? root : 0;
}
