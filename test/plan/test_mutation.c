/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verifier must detect every mistake. One rank's plan gets one mistake, for every step and
 * every kind of mistake: the step is deleted, duplicated or swapped with the next one of its lane,
 * or one of its operands, its result, its channel, its chunk or the length of its span is changed.
 *
 * Each mutant is rejected, or has the same results as the original in many random interleavings at
 * its minimum of slots. No deletion and no changed target may pass, except where an operand only
 * gets its other name: IN and OUT of one chunk, which may be the same memory.
 *
 * The mutants' stable flags are cleared, so that no mutant is rejected because of them.
 *
 *     test_plan_mutation [all]     without "all", fewer interleavings and fewer ranks
 */
#include "interpreter.h"
#include "shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "error.h"

#define PLAYS       (TEST_SANITIZED ? 20 : all ? 300 : 100)
#define RANKS_MAX   (TEST_SANITIZED ? 5 : all ? 17 : 7)
#define SEVERAL_MAX 8 /* up to that many ranks, three of them are mutated in turn; beyond, one */

enum kind { DELETE, DUPLICATE, SWAP, RETARGET, RENAME, KINDS };
static const char *const kind_names[KINDS] = {"delete", "duplicate", "swap", "retarget", "rename"};

static bool all;
static struct { long mutants, rejected, equal; } counts[KINDS];

/* The plan under mutation. */
struct subject {
    const struct rcmi_shape *shape;
    struct rcmi_plan **plans;
    enum rcmi_counts counts;
    struct play_element *results;     /* of the original, rank after rank */
    size_t count, stride;             /* elements of a block, and of a rank in results */
    const struct rcmi_plan *original; /* of the mutated rank */
};

/* ---- Mutable copies -------------------------------------------------------------------------- */

static void *copy_array(const void *from, size_t n, size_t size, size_t spare) {
    void *to = calloc(n + spare, size);
    assert_non_null(to);
    if (n > 0)
        memcpy(to, from, n * size);
    return to;
}

/* With space for one more step and one more channel. */
static struct rcmi_plan *mutant_copy(const struct rcmi_plan *plan) {
    struct rcmi_plan *m = copy_array(plan, 1, sizeof(*plan), 0);
    m->lanes = copy_array(plan->lanes, plan->nlanes, sizeof(*plan->lanes), 1);
    m->steps = copy_array(plan->steps, plan->nsteps, sizeof(*plan->steps), 1);
    m->operands = copy_array(plan->operands, plan->noperands, sizeof(*plan->operands), 1);
    m->channels = copy_array(plan->channels, plan->nchannels, sizeof(*plan->channels), 1);
    m->listed = copy_array(plan->listed, plan->nlisted, sizeof(*plan->listed), 1);
    for (uint32_t i = 0; i < m->nsteps; i++)
        m->steps[i].stable = m->steps[i].stable_in_place = m->steps[i].lasting = m->steps[i].early =
            false;
    return m;
}

static void mutant_free(struct rcmi_plan *m) {
    free(m->lanes);
    free(m->steps);
    free(m->operands);
    free(m->channels);
    free(m->listed);
    free(m);
}

static uint32_t lane_of_step(const struct rcmi_plan *plan, uint32_t step) {
    uint32_t lane = 0;
    while (step >= plan->lanes[lane].first_step + plan->lanes[lane].nsteps)
        lane++;
    return lane;
}

static void mutant_shift_lanes(struct rcmi_plan *m, uint32_t lane, int by) {
    m->lanes[lane].nsteps += (uint32_t)by;
    m->nsteps += (uint32_t)by;
    while (++lane < m->nlanes)
        m->lanes[lane].first_step += (uint32_t)by;
}

/* ---- Judging a mutant ------------------------------------------------------------------------ */

static struct play_options mutant_options(const struct subject *s, uint64_t seed) {
    const bool uneven = s->counts != RCMI_COUNTS_SAME && seed / 2 % 2;
    return (struct play_options){
        .count = s->count,
        .uneven = uneven,
        .by_step = uneven && s->counts == RCMI_COUNTS_PAIR,
        .slot = 1,
        .slots = s->plans[0]->min_slots,
        .in_place = seed % 2 && !rcmi_collective_at((int)s->original->collective)->apart,
        .seed = seed};
}

static void play_and_compare(struct subject *s, enum kind kind, uint32_t step) {
    struct player *player = player_create(s->shape, s->plans);
    for (uint64_t seed = 0; seed < PLAYS; seed++) {
        const struct play_options options = mutant_options(s, seed);
        const enum play_outcome outcome = player_play(player, &options);
        bool same = outcome == PLAY_DONE && player_right(player);
        for (int r = 0; same && !options.uneven && r < s->shape->nranks; r++)
            same = s->original->collective == RCM_BARRIER ||
                   memcmp(player_out(player, r), s->results + (size_t)r * s->stride,
                          player_out_count(player, r) * sizeof(*s->results)) == 0;
        if (!same) {
            char words[128];
            rcmi_step_describe(s->original, step, words, sizeof(words));
            fail_msg("the verifier accepts %s, %d ranks, with a %s of rank %d's step %u (%s), but "
                     "run %llu ends with outcome %d",
                     s->original->algorithm, s->shape->nranks, kind_names[kind], s->original->rank,
                     step, words, (unsigned long long)seed, outcome);
        }
    }
    player_free(player);
}

/* Takes ownership of the mutant. */
static void judge(struct subject *s, enum kind kind, uint32_t step, struct rcmi_plan *m) {
    struct rcmi_plan *kept = s->plans[m->rank];
    s->plans[m->rank] = m;
    counts[kind].mutants++;
    if (test_plans_verify(s->shape, s->plans, NULL, s->counts) != RCM_OK) {
        counts[kind].rejected++;
    } else {
        counts[kind].equal++;
        play_and_compare(s, kind, step);
        if (kind == DELETE || kind == RETARGET) {
            char words[128];
            rcmi_step_describe(m, step < m->nsteps ? step : 0, words, sizeof(words));
            fail_msg("%s, %d ranks: a %s of rank %d's step %u survives (now %s)", m->algorithm,
                     s->shape->nranks, kind_names[kind], m->rank, step, words);
        }
    }
    s->plans[m->rank] = kept;
    mutant_free(m);
}

/* ---- Delete, duplicate, swap ----------------------------------------------------------------- */

static void mutate_delete(struct subject *s, uint32_t step) {
    struct rcmi_plan *m = mutant_copy(s->original);
    memmove(&m->steps[step], &m->steps[step + 1], (m->nsteps - step - 1) * sizeof(*m->steps));
    mutant_shift_lanes(m, lane_of_step(s->original, step), -1);
    judge(s, DELETE, step, m);
}

static void mutate_duplicate(struct subject *s, uint32_t step) {
    struct rcmi_plan *m = mutant_copy(s->original);
    memmove(&m->steps[step + 1], &m->steps[step], (m->nsteps - step) * sizeof(*m->steps));
    mutant_shift_lanes(m, lane_of_step(s->original, step), 1);
    judge(s, DUPLICATE, step, m);
}

static void mutate_swap(struct subject *s, uint32_t step) {
    const uint32_t lane = lane_of_step(s->original, step);
    if (step + 1 == s->original->lanes[lane].first_step + s->original->lanes[lane].nsteps)
        return;
    struct rcmi_plan *m = mutant_copy(s->original);
    const struct rcmi_step first = m->steps[step];
    m->steps[step] = m->steps[step + 1];
    m->steps[step + 1] = first;
    judge(s, SWAP, step, m);
}

/* ---- Retarget -------------------------------------------------------------------------------- */

/* Channel `i` of all that the step might use instead: those of the plan, then new ones with every
 * peer. RCMI_NO_CHANNEL: not an alternative. *ret_end: there are no more. */
static uint32_t other_channel(struct rcmi_plan *m, uint32_t step, bool outgoing, uint32_t i,
                              bool *ret_end) {
    const uint32_t n = m->nchannels;
    *ret_end = i >= n + (uint32_t)m->nranks;
    if (*ret_end)
        return RCMI_NO_CHANNEL;
    if (i < n)
        return m->channels[i].outgoing == outgoing ? i : RCMI_NO_CHANNEL;
    const int peer = (int)(i - n);
    for (uint32_t k = 0; k < n; k++)
        if (m->channels[k].peer == peer && m->channels[k].outgoing == outgoing &&
            !m->channels[k].multicast)
            return RCMI_NO_CHANNEL;
    if (peer == m->rank)
        return RCMI_NO_CHANNEL;
    m->channels[m->nchannels++] = (struct rcmi_plan_channel){
        .outgoing = outgoing, .peer = peer, .lane = (uint16_t)lane_of_step(m, step)};
    return n;
}

static void retarget_out(struct subject *s, uint32_t step) {
    const uint32_t old = s->original->steps[step].out;
    bool end = old == RCMI_NO_CHANNEL;
    for (uint32_t i = 0; !end; i++) {
        struct rcmi_plan *m = mutant_copy(s->original);
        const uint32_t channel = other_channel(m, step, true, i, &end);
        m->steps[step].out = channel;
        if (channel == RCMI_NO_CHANNEL || channel == old)
            mutant_free(m);
        else
            judge(s, RETARGET, step, m);
    }
}

static void retarget_from(struct subject *s, uint32_t step, uint32_t operand) {
    const uint32_t old = s->original->operands[operand].index;
    bool end = false;
    for (uint32_t i = 0; !end; i++) {
        struct rcmi_plan *m = mutant_copy(s->original);
        const uint32_t channel = other_channel(m, step, false, i, &end);
        m->operands[operand].index = channel;
        if (channel == RCMI_NO_CHANNEL || channel == old)
            mutant_free(m);
        else
            judge(s, RETARGET, step, m);
    }
}

static bool is_other_name(const struct rcmi_plan *plan, struct rcmi_operand a,
                          struct rcmi_operand b) {
    return a.where != b.where && a.where <= RCMI_OUT && b.where <= RCMI_OUT &&
           rcmi_plan_chunk(plan, a.where, a.index) == rcmi_plan_chunk(plan, b.where, b.index);
}

/* Every other chunk of IN, OUT and scratch instead of this operand. operand NULL: the result. */
static void retarget_buffer(struct subject *s, uint32_t step, const uint32_t *operand) {
    const struct rcmi_operand old =
        operand ? s->original->operands[*operand] : s->original->steps[step].dst;
    for (uint8_t where = RCMI_IN; where <= RCMI_SCRATCH; where++) {
        const uint32_t n =
            where == RCMI_SCRATCH ? s->original->nscratch : rcmi_plan_chunks(s->original, where);
        for (uint32_t i = 0; i < n; i++) {
            if (where == old.where && i == old.index)
                continue;
            const struct rcmi_operand other = {.where = where, .index = i};
            struct rcmi_plan *m = mutant_copy(s->original);
            *(operand ? &m->operands[*operand] : &m->steps[step].dst) = other;
            judge(s, is_other_name(m, old, other) ? RENAME : RETARGET, step, m);
        }
    }
}

/* The chunk's position in the same buffer, or an invalid one if the buffer lacks it. */
static void chunk_replace(const struct rcmi_plan *plan, struct rcmi_operand *operand,
                          uint32_t chunk) {
    if (operand->where != RCMI_IN && operand->where != RCMI_OUT)
        return;
    const uint32_t n = rcmi_plan_chunks(plan, operand->where);
    uint32_t i = 0;
    while (i < n && rcmi_plan_chunk(plan, operand->where, i) != chunk)
        i++;
    operand->index = i;
}

/* The whole step on another chunk. */
static void retarget_chunk(struct subject *s, uint32_t step) {
    const struct rcmi_step *old = &s->original->steps[step];
    if (old->op == RCMI_STEP_SIGNAL || old->op == RCMI_STEP_WAIT)
        return; /* these have no chunk */
    for (uint32_t chunk = 0; chunk < s->original->nchunks; chunk++) {
        if (chunk == old->chunk)
            continue;
        struct rcmi_plan *m = mutant_copy(s->original);
        m->steps[step].chunk = chunk;
        chunk_replace(m, &m->steps[step].dst, chunk);
        for (uint32_t k = 0; k < old->nsrcs; k++)
            chunk_replace(m, &m->operands[old->first_src + k], chunk);
        judge(s, RETARGET, step, m);
    }
}

/* A span of one chunk more or less. A list has no more chunks, and a longer copy may be
 * harmless. */
static void retarget_run(struct subject *s, uint32_t step) {
    const uint32_t old = s->original->steps[step].nchunks;
    const bool listed = s->original->steps[step].list != RCMI_NO_LIST;
    const bool copies = s->original->steps[step].op == RCMI_STEP_COPY;
    for (uint32_t n = old - 1; n <= old + 1; n += 2) {
        if (n == 0 || n > (listed || copies ? old : s->original->longest_span))
            continue;
        struct rcmi_plan *m = mutant_copy(s->original);
        m->steps[step].nchunks = n;
        judge(s, RETARGET, step, m);
    }
}

static bool step_has_scratch(const struct rcmi_plan *plan, const struct rcmi_step *step) {
    bool has = step->dst.where == RCMI_SCRATCH;
    for (uint32_t k = 0; k < step->nsrcs; k++)
        has = has || plan->operands[step->first_src + k].where == RCMI_SCRATCH;
    return has;
}

/* A span's list with other chunks, and other positions in scratch. */
static void retarget_list(struct subject *s, uint32_t step) {
    const struct rcmi_step *old = &s->original->steps[step];
    const uint32_t nchunks = s->original->nchunks, nscratch = s->original->nscratch;
    for (uint32_t i = 0; old->list != RCMI_NO_LIST && i < 3 * old->nchunks; i++) {
        const struct rcmi_listed *entry = &s->original->listed[old->list + i / 3];
        const uint32_t by[] = {1, nchunks / 2, nchunks - 1}, places[] = {1, nscratch / 2, nscratch};
        struct rcmi_plan *m = mutant_copy(s->original);
        m->listed[old->list + i / 3].chunk = (entry->chunk + by[i % 3]) % nchunks;
        judge(s, RETARGET, step, m);
        if (!step_has_scratch(s->original, old))
            continue;
        m = mutant_copy(s->original);
        m->listed[old->list + i / 3].scratch = entry->scratch + places[i % 3];
        judge(s, RETARGET, step, m);
    }
}

static void mutate_retarget(struct subject *s, uint32_t step) {
    const struct rcmi_step *old = &s->original->steps[step];
    retarget_out(s, step);
    retarget_chunk(s, step);
    retarget_run(s, step);
    retarget_list(s, step);
    if (old->dst.where != RCMI_NOWHERE)
        retarget_buffer(s, step, NULL);
    for (uint32_t k = 0; k < old->nsrcs; k++) {
        const uint32_t operand = old->first_src + k;
        if (s->original->operands[operand].where == RCMI_CHANNEL)
            retarget_from(s, step, operand);
        else
            retarget_buffer(s, step, &operand);
    }
}

/* ---- All plans ------------------------------------------------------------------------------- */

static void subject_play_original(struct subject *s) {
    struct player *player = player_create(s->shape, s->plans);
    const struct play_options options = {
        .count = s->count, .slot = 1, .slots = s->plans[0]->min_slots, .seed = 12345};
    assert_int_equal(player_play(player, &options), PLAY_DONE);
    assert_true(player_right(player));
    s->stride = s->count * s->plans[0]->larger;
    s->results = calloc((size_t)s->shape->nranks * s->stride, sizeof(*s->results));
    assert_non_null(s->results);
    for (int r = 0; r < s->shape->nranks; r++)
        memcpy(s->results + (size_t)r * s->stride, player_out(player, r),
               player_out_count(player, r) * sizeof(*s->results));
    player_free(player);
}

static void mutate_rank(struct subject *s, int rank) {
    s->original = s->plans[rank];
    for (uint32_t step = 0; step < s->original->nsteps; step++) {
        mutate_delete(s, step);
        mutate_duplicate(s, step);
        mutate_swap(s, step);
        mutate_retarget(s, step);
    }
}

static void mutate_algorithm(const struct rcmi_algorithm *algorithm,
                             const struct rcmi_shape *shape) {
    const int p = shape->nranks;
    if (!algorithm->supports(shape))
        return;
    const int root = test_root(algorithm, 1 % p);
    struct subject s = {.shape = shape,
                        .plans = test_plans_emit(algorithm, shape, root),
                        .counts = test_counts(algorithm)};
    s.count = 2 * s.plans[0]->parts; /* two slices of one element */
    subject_play_original(&s);
    mutate_rank(&s, p / 2);
    if (p > 1 && p <= SEVERAL_MAX)
        mutate_rank(&s, 0);
    if (p > 2 && p <= SEVERAL_MAX)
        mutate_rank(&s, p - 1);
    free(s.results);
    test_plans_free(s.plans, p);
}

/* The first of the algorithms that differ only in their parameter. */
static bool is_first_of_emitter(size_t row) {
    size_t first = 0;
    while (rcmi_algorithms[first]->emit != rcmi_algorithms[row]->emit)
        first++;
    return rcmi_algorithms[first]->parameter == rcmi_algorithms[row]->parameter;
}

static void test_mutants(void **state) {
    static const int ranks[] = {1, 2, 3, 4, 5, 6, 7, 17};
    static struct test_shape s;
    (void)state;
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]) && ranks[i] <= RANKS_MAX; i++) {
        for (size_t a = 0; rcmi_algorithms[a]; a++) {
            if (!is_first_of_emitter(a))
                continue;
            mutate_algorithm(rcmi_algorithms[a], test_shape_one_host(&s, ranks[i]));
            if (ranks[i] == 6)
                mutate_algorithm(rcmi_algorithms[a], test_shape_dealt(&s, ranks[i], 2));
        }
    }
    printf("# %-10s %8s %9s %6s\n", "kind", "mutants", "rejected", "equal");
    for (int kind = 0; kind < KINDS; kind++)
        printf("# %-10s %8ld %9ld %6ld\n", kind_names[kind], counts[kind].mutants,
               counts[kind].rejected, counts[kind].equal);
    printf("# accepted mutants were run %d times each\n", PLAYS);
    assert_int_equal(counts[DELETE].equal, 0);
    assert_int_equal(counts[RETARGET].equal, 0);
    for (int kind = 0; kind < KINDS; kind++)
        assert_true(counts[kind].mutants > 100);
}

int main(int argc, char **argv) {
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests_name("plan mutation", tests, NULL, NULL);
}
