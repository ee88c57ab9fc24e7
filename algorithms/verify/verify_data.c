/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results: executes the plans once on symbolic values. A value has three aspects.
 *   contents   two sums modulo 2^64 of pseudo-random numbers, one pair for each contribution (rank,
 *              chunk). They are equal only if the same contributions were added equally often
 *              (error probability far below 2^-80).
 *   tree       hashes that depend on the order of every operand. Kernels combine the operands of a
 *              step from left to right, user-defined functions from right to left.
 *   run        the consecutive ranks that it represents, as long as its operands were consecutive.
 */
#include "verify.h"

#include <stdio.h>
#include "error.h"

struct value {
    bool defined;
    bool complete; /* set by a step */
    bool scaled;   /* read as IN: an operator may have scaled it */
    bool in_order; /* contributions of ranks first..last, one after the other */
    uint32_t first, last;
    uint64_t contents[2];
    uint64_t tree, turned; /* from left to right, from right to left */
};

struct data {
    struct rcmi_verifier *v;
    uint32_t nbuffers; /* cells of a rank's IN and OUT */
    uint32_t ncells;   /* and scratch */
    bool reduces;
    struct value *trees;   /* by chunk, of the first rank found */
    struct value *cells;   /* of all ranks */
    struct value *sent;    /* of all messages of all channels, chunk after chunk */
    uint32_t *first_sent;  /* of each message, and one more */
    uint32_t *next_of_end; /* messages already sent or received, by end */
};

struct values {
    const struct value *messages[RCMI_SOURCES_MAX]; /* NULL: that source is a buffer */
    struct value *sent;                             /* NULL: nothing */
};

/* splitmix64's finaliser. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 27;
    x *= UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static struct value value_leaf(uint32_t rank, uint32_t chunk) {
    const uint64_t name = ((uint64_t)rank << 32 | chunk) + 1;
    const uint64_t tree = mix(name * UINT64_C(0xD1B54A32D192ED03));
    return (struct value){
        .defined = true,
        .in_order = true,
        .first = rank,
        .last = rank,
        .contents = {mix(name), mix(name + UINT64_C(0x9E3779B97F4A7C15))},
        .tree = tree,
        .turned = tree,
    };
}

static uint64_t tree_add(uint64_t left, uint64_t right) {
    return mix(left * 3 + mix(right + UINT64_C(0x632BE59BD9B4E019)));
}

static void value_add(struct value *left, const struct value *right) {
    left->contents[0] += right->contents[0];
    left->contents[1] += right->contents[1];
    left->in_order = left->in_order && right->in_order && right->first == left->last + 1;
    left->last = right->last;
    left->tree = tree_add(left->tree, right->tree);
}

static struct value values_sum(const struct value *const *srcs, uint32_t n) {
    if (n == 0)
        return (struct value){.defined = false};
    struct value sum = *srcs[0];
    for (uint32_t k = 1; k < n; k++)
        value_add(&sum, srcs[k]);
    sum.turned = srcs[n - 1]->turned;
    for (uint32_t k = n - 1; k-- > 0;)
        sum.turned = tree_add(srcs[k]->turned, sum.turned);
    return sum;
}

static bool contents_equal(const struct value *a, const struct value *b) {
    return a->contents[0] == b->contents[0] && a->contents[1] == b->contents[1];
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static struct value *data_cell(const struct data *d, uint32_t rank, uint8_t where, uint32_t index) {
    const struct rcmi_plan *plan = d->v->plans[rank];
    const struct rcmi_operand operand = {.where = where, .index = index};
    const uint32_t cell =
        where == RCMI_SCRATCH ? d->nbuffers + index : rcmi_verify_cell(d->v, plan, operand);
    return &d->cells[(size_t)rank * d->ncells + cell];
}

/* Chunk i of a step's span in one of its buffers. */
static struct value *data_operand(const struct data *d, uint32_t rank, const struct rcmi_step *step,
                                  struct rcmi_operand first, uint32_t i) {
    const struct rcmi_operand operand = rcmi_span_operand(d->v->plans[rank], step, first, i);
    return data_cell(d, rank, operand.where, operand.index);
}

static void data_fill(const struct data *d) {
    for (uint32_t rank = 0; rank < d->v->nranks; rank++) {
        const struct rcmi_plan *plan = d->v->plans[rank];
        for (uint32_t i = 0; i < rcmi_plan_chunks(plan, RCMI_IN); i++)
            *data_cell(d, rank, RCMI_IN, i) = value_leaf(rank, rcmi_plan_chunk(plan, RCMI_IN, i));
    }
}

static void data_number(const struct data *d) {
    uint32_t total = 0, message = 0;
    for (uint32_t c = 0; c < d->v->nchannels; c++) {
        const struct rcmi_verify_end *end = &d->v->ends[d->v->channels[c].writer];
        for (uint32_t i = 0; i < end->nuses; i++) {
            d->first_sent[message++] = total;
            total += rcmi_verify_step(d->v, d->v->uses[end->first_use + i])->nchunks;
        }
    }
    d->first_sent[message] = total;
}

static rcm_status data_init(struct data *d) {
    uint32_t nscratch = 0;
    for (uint32_t rank = 0; rank < d->v->nranks; rank++)
        if (d->v->plans[rank]->nscratch > nscratch)
            nscratch = d->v->plans[rank]->nscratch;
    d->nbuffers = 2 * d->v->plans[0]->larger * d->v->plans[0]->parts;
    d->ncells = d->nbuffers + nscratch;
    d->reduces = rcmi_collective_at((int)d->v->plans[0]->collective)->reduces;
    d->trees = rcmi_verify_alloc(d->v, d->v->plans[0]->nchunks, sizeof(*d->trees));
    d->cells = rcmi_verify_alloc(d->v, (size_t)d->ncells * d->v->nranks, sizeof(*d->cells));
    d->first_sent = rcmi_verify_alloc(d->v, d->v->nmessages + 1, sizeof(*d->first_sent));
    d->next_of_end = rcmi_verify_alloc(d->v, d->v->nends, sizeof(*d->next_of_end));
    if (!d->cells || !d->first_sent || !d->next_of_end || !d->trees)
        return RCM_ERR_NOMEM;
    data_number(d);
    d->sent = rcmi_verify_alloc(d->v, d->first_sent[d->v->nmessages], sizeof(*d->sent));
    if (!d->sent)
        return RCM_ERR_NOMEM;
    data_fill(d);
    return RCM_OK;
}

/* ---- Execution ------------------------------------------------------------------------------- */

/* The chunks of the next message on a rank's channel end; the event order makes it the right
 * one. */
static struct value *data_message(const struct data *d, uint32_t rank, uint32_t channel) {
    const uint32_t end = d->v->end_base[rank] + channel;
    const uint32_t first = d->v->channels[d->v->ends[end].channel].first_message;
    return &d->sent[d->first_sent[first + d->next_of_end[end]++]];
}

/* Finds the received and sent messages of a step, and counts them as used. */
static void data_find(const struct data *d, uint32_t step, struct values *ret_values) {
    const struct rcmi_step *s = rcmi_verify_step(d->v, step);
    const struct rcmi_operand *srcs = rcmi_verify_srcs(d->v, step);
    const uint32_t rank = d->v->rank_of[step];
    for (uint32_t k = 0; k < s->nsrcs; k++)
        ret_values->messages[k] =
            srcs[k].where == RCMI_CHANNEL ? data_message(d, rank, srcs[k].index) : NULL;
    ret_values->sent = s->out != RCMI_NO_CHANNEL ? data_message(d, rank, s->out) : NULL;
}

/* In reductions, what is read as IN is scaled there, and nothing else is. */
static rcm_status data_check_scaling(const struct data *d, uint32_t step,
                                     const struct rcmi_operand *src, const struct value *value) {
    const bool input = src->where == RCMI_IN;
    if (!d->reduces || value->scaled != input)
        return RCM_OK;
    return rcmi_verify_fail_at(d->v, step,
                               input ? "reads its contribution after that was scaled"
                                     : "reads a contribution that was never scaled");
}

static rcm_status data_check_source(const struct data *d, uint32_t step,
                                    const struct rcmi_operand *src, const struct value *value) {
    const struct rcmi_step *s = rcmi_verify_step(d->v, step);
    if (!value->defined)
        return rcmi_verify_fail_at(d->v, step, "reads a chunk that no step has written");
    if (value->complete && (s->nsrcs > 1 || s->completes))
        return rcmi_verify_fail_at(d->v, step, "adds to, or completes, a complete value");
    return data_check_scaling(d, step, src, value);
}

static rcm_status data_chunk(const struct data *d, uint32_t step, const struct values *values,
                             uint32_t i) {
    const struct rcmi_step *s = rcmi_verify_step(d->v, step);
    const struct rcmi_operand *srcs = rcmi_verify_srcs(d->v, step);
    const uint32_t rank = d->v->rank_of[step];
    const struct value *read[RCMI_SOURCES_MAX];
    for (uint32_t k = 0; k < s->nsrcs; k++) {
        read[k] =
            values->messages[k] ? &values->messages[k][i] : data_operand(d, rank, s, srcs[k], i);
        const rcm_status status = data_check_source(d, step, &srcs[k], read[k]);
        if (status != RCM_OK)
            return status;
    }
    struct value sum = values_sum(read, s->nsrcs);
    sum.complete = sum.complete || s->completes;
    sum.scaled = true;
    if (s->dst.where != RCMI_NOWHERE)
        *data_operand(d, rank, s, s->dst, i) = sum;
    if (values->sent)
        values->sent[i] = sum;
    return RCM_OK;
}

static rcm_status data_step(const struct data *d, uint32_t step) {
    struct values values;
    rcm_status status = RCM_OK;
    data_find(d, step, &values);
    for (uint32_t i = 0; status == RCM_OK && i < rcmi_verify_step(d->v, step)->nchunks; i++)
        status = data_chunk(d, step, &values, i);
    return status;
}

/* ---- Results --------------------------------------------------------------------------------- */

static struct value data_expected(const struct data *d, uint32_t of, uint32_t chunk) {
    const struct rcmi_plan *first = d->v->plans[0];
    const struct rcmi_collective *collective = rcmi_collective_at((int)first->collective);
    if (!collective->reduces)
        return value_leaf((uint32_t)rcmi_collective_source(collective, first->nranks, first->root,
                                                           chunk / first->parts),
                          chunk);
    struct value sum = value_leaf(0, chunk);
    const uint32_t contributors = rcmi_collective_contributors(collective, first->nranks, (int)of);
    for (uint32_t rank = 1; rank < contributors; rank++) {
        const struct value leaf = value_leaf(rank, chunk);
        value_add(&sum, &leaf);
    }
    return sum;
}

/* Names the one contribution too much or too little, if that is the only difference. */
static void contents_explain(const struct data *d, uint32_t chunk, const struct value *got,
                             const struct value *want, char *text, size_t size) {
    snprintf(text, size, "does not hold each contribution exactly once");
    for (uint32_t rank = 0; rank < d->v->nranks; rank++) {
        const struct value leaf = value_leaf(rank, chunk);
        struct value more = *want, less = *got;
        value_add(&more, &leaf);
        value_add(&less, &leaf);
        if (contents_equal(got, &more))
            snprintf(text, size, "holds the contribution of rank %u once too often", rank);
        if (contents_equal(want, &less))
            snprintf(text, size, "lacks the contribution of rank %u", rank);
    }
}

/* A result of all ranks must have one order of operands; a result of some ranks must have rank
 * order. */
static rcm_status data_check_order(const struct data *d, uint32_t rank, uint32_t chunk,
                                   const struct value *got) {
    const struct rcmi_plan *plan = d->v->plans[rank];
    const struct rcmi_collective *collective = rcmi_collective_at((int)plan->collective);
    const bool all = collective->contributors == RCM_CONTRIBUTORS_ALL;
    if (collective->reduces && !got->scaled)
        return rcmi_fail(
            RCM_ERR_INTERNAL, 0,
            "%s on %u ranks: rank %u's chunk %u is its contribution, but was never scaled",
            plan->algorithm, d->v->nranks, rank, chunk);
    if (got->complete != (collective->reduces && all))
        return rcmi_fail(RCM_ERR_INTERNAL, 0,
                         "%s on %u ranks: rank %u's chunk %u %s step that "
                         "completes it",
                         plan->algorithm, d->v->nranks, rank, chunk,
                         got->complete ? "should not have gone through a" : "went through no");
    const struct rcmi_algorithm *guarantee = d->v->options.formula;
    if ((!all || (guarantee && guarantee->ordered)) && !got->in_order)
        return rcmi_fail(RCM_ERR_INTERNAL, 0,
                         "%s on %u ranks: rank %u does not add up chunk %u in rank order",
                         plan->algorithm, d->v->nranks, rank, chunk);
    if (!all)
        return RCM_OK;
    if (!d->trees[chunk].defined)
        d->trees[chunk] = *got;
    if (got->tree != d->trees[chunk].tree || got->turned != d->trees[chunk].turned)
        return rcmi_fail(RCM_ERR_INTERNAL, 0,
                         "%s on %u ranks: ranks 0 and %u add up chunk %u in different orders",
                         plan->algorithm, d->v->nranks, rank, chunk);
    return RCM_OK;
}

static rcm_status data_check(const struct data *d, uint32_t rank, uint32_t index) {
    const struct rcmi_plan *plan = d->v->plans[rank];
    const uint32_t chunk = rcmi_plan_chunk(plan, RCMI_OUT, index);
    const struct value *got = data_cell(d, rank, RCMI_OUT, index);
    const struct value want = data_expected(d, rank, chunk);
    char text[128] = "was never written";
    if (!got->defined || !contents_equal(got, &want)) {
        if (got->defined)
            contents_explain(d, chunk, got, &want, text, sizeof(text));
        return rcmi_fail(RCM_ERR_INTERNAL, 0, "%s on %u ranks%s: rank %u's out.%u %s",
                         plan->algorithm, d->v->nranks, d->v->options.in_place ? " in place" : "",
                         rank, index, text);
    }
    return data_check_order(d, rank, chunk, got);
}

static rcm_status data_check_input(const struct data *d, uint32_t rank, uint32_t index) {
    const struct rcmi_plan *plan = d->v->plans[rank];
    const struct value leaf = value_leaf(rank, rcmi_plan_chunk(plan, RCMI_IN, index));
    if (!d->v->options.in_place && data_cell(d, rank, RCMI_IN, index)->tree != leaf.tree)
        return rcmi_fail(RCM_ERR_INTERNAL, 0,
                         "%s on %u ranks: rank %u's input chunk %u was modified", plan->algorithm,
                         d->v->nranks, rank, index);
    return RCM_OK;
}

static rcm_status data_check_rank(const struct data *d, uint32_t rank) {
    const struct rcmi_plan *plan = d->v->plans[rank];
    rcm_status status = RCM_OK;
    for (uint32_t i = 0; status == RCM_OK && i < rcmi_plan_chunks(plan, RCMI_OUT); i++)
        status = data_check(d, rank, i);
    for (uint32_t i = 0; status == RCM_OK && i < rcmi_plan_chunks(plan, RCMI_IN); i++)
        status = data_check_input(d, rank, i);
    return status;
}

rcm_status rcmi_verify_data(struct rcmi_verifier *v) {
    struct data d = {.v = v};
    rcm_status status = data_init(&d);
    for (uint32_t i = 0; status == RCM_OK && i < v->nsteps; i++)
        status = data_step(&d, v->order[i]);
    for (uint32_t rank = 0; status == RCM_OK && rank < v->nranks; rank++)
        status = data_check_rank(&d, rank);
    return status;
}

/* ---- Barrier --------------------------------------------------------------------------------- */

/* reached: for each step the set of ranks whose begin must come before it. */
static void barrier_spread(const struct rcmi_verifier *v, uint64_t *reached, uint32_t words) {
    for (uint32_t i = 0; i < v->nsteps; i++) {
        const uint32_t step = v->order[i], rank = v->rank_of[step];
        uint64_t *own = reached + (size_t)step * words;
        own[rank / 64] |= UINT64_C(1) << rank % 64;
        for (uint32_t e = v->edge_base[step]; e < v->edge_base[step + 1]; e++) {
            if (v->edges[e].kind == RCMI_EDGE_CREDIT || v->edges[e].to >= v->nsteps)
                continue;
            uint64_t *later = reached + (size_t)v->edges[e].to * words;
            for (uint32_t w = 0; w < words; w++)
                later[w] |= own[w];
        }
    }
}

static bool barrier_reached(const struct rcmi_verifier *v, const uint64_t *reached, uint32_t words,
                            uint32_t rank, uint32_t other) {
    for (uint32_t step = v->step_base[rank]; step < v->step_base[rank + 1]; step++)
        if (reached[(size_t)step * words + other / 64] >> other % 64 & 1)
            return true;
    return rank == other;
}

rcm_status rcmi_verify_barrier(struct rcmi_verifier *v) {
    const uint32_t words = (v->nranks + 63) / 64;
    uint64_t *reached = rcmi_verify_alloc(v, (size_t)v->nsteps * words, sizeof(*reached));
    if (!reached)
        return RCM_ERR_NOMEM;
    barrier_spread(v, reached, words);
    for (uint32_t rank = 0; rank < v->nranks; rank++)
        for (uint32_t other = 0; other < v->nranks; other++)
            if (!barrier_reached(v, reached, words, rank, other))
                return rcmi_fail(RCM_ERR_INTERNAL, 0,
                                 "%s on %u ranks: rank %u can leave the barrier before rank %u "
                                 "has entered it",
                                 v->plans[0]->algorithm, v->nranks, rank, other);
    return RCM_OK;
}
