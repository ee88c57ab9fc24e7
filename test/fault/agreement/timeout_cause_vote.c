/* SPDX-License-Identifier: BSD-3-Clause */
/* The vote on whose fault a timeout is (api/agreement/cause.c), step by step: one rank, and what it
 * says to what it hears. That all ranks agree is the business of the model, timeout_cause_model.c of this folder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "agreement.h"

enum { N = 5, SAID_MAX = 64, MS = 1000000 };
#define EPOCH 77u

static struct {
    int64_t now_ns;
    bool silent[N];
    int nsaid, to[SAID_MAX];
    struct rcmi_failure said[SAID_MAX];
    int spoken; /* the origin; -1 nothing */
    struct rcmi_rank_set missing;
    rcm_status failed;
} stage;

static int world_rank[N] = {0, 1, 2, 3, 4};
static struct rcmi_members members = {.size = N, .epoch = EPOCH, .world_rank = world_rank};
static struct rcmi_proposals *proposals;

/* ---- What cause.c uses of the rest ----------------------------------------------------------- */

int64_t rcmi_now_ns(void) {
    return stage.now_ns;
}

rcm_status rcmi_node_send(struct rcmi_node *node, int peer, const void *bytes, size_t len) {
    (void)node;
    assert_true(stage.nsaid < SAID_MAX && len <= sizeof(stage.said[0]));
    stage.to[stage.nsaid] = peer;
    memcpy(&stage.said[stage.nsaid++], bytes, len);
    return RCM_OK;
}

struct rcmi_loop *rcmi_node_loop(struct rcmi_node *node) {
    (void)node;
    return NULL;
}

void rcmi_loop_wake(struct rcmi_loop *loop) {
    (void)loop;
}

static void stage_agreed(void *arg, const struct rcm_error *error,
                         const struct rcmi_rank_set *missing) {
    (void)arg;
    stage.spoken = error->origin;
    stage.missing = *missing;
    stage.failed = error->status;
}

static bool stage_failed(void *arg) {
    (void)arg;
    return stage.failed != RCM_OK;
}

static bool stage_tell(void *arg, int rank) {
    const struct rcmi_failure record = {.kind = RCMI_FAILURE_RECORD};
    if (!stage_failed(arg))
        return false;
    return rcmi_node_send(NULL, rank, &record, sizeof(record)) == RCM_OK;
}

static bool stage_silent(void *arg, int rank) {
    (void)arg;
    return stage.silent[rank];
}

/* ---- The stage ------------------------------------------------------------------------------ */

static void begin(int rank) {
    memset(&stage, 0, sizeof(stage));
    const struct rcmi_proposals_config config = {.members = &members,
                                                 .failed = stage_failed,
                                                 .tell = stage_tell,
                                                 .silent = stage_silent,
                                                 .agreed = stage_agreed};
    stage.now_ns = 1000 * (int64_t)MS;
    stage.spoken = -1;
    members.rank = rank;
    assert_int_equal(rcmi_proposals_create(&config, &proposals), RCM_OK);
}

/* This rank finds something. */
static void find(enum rcmi_proposal_weight weight) {
    const struct rcm_error error = {.status = weight == RCMI_PROPOSAL_MISMATCH ? RCM_ERR_MISMATCH
                                                                               : RCM_ERR_TIMEOUT,
                                    .origin = members.rank};
    rcmi_proposals_add(proposals, &error, NULL, weight);
}

/* From a monitored barrier rank 3 is missing. */
static void find_missing(void) {
    const struct rcm_error error = {.status = RCM_ERR_TIMEOUT, .origin = 3};
    struct rcmi_rank_set missing = {.nranks = N};
    rcmi_rank_set_add(&missing, 3);
    rcmi_proposals_add(proposals, &error, &missing, RCMI_PROPOSAL_ASKED_ALL);
}

static void end(void) {
    rcmi_proposals_free(proposals);
}

/* The loop thread looks all the time. */
static void pass(int ms) {
    for (int i = 0; i < ms && stage.spoken < 0; i++) {
        stage.now_ns += MS;
        (void)rcmi_proposals_progress(proposals);
    }
}

/* Of the ballots of `rank` the number-th. */
static uint64_t ballot_of(int rank, uint64_t number) {
    return number * N + (uint64_t)(N - 1 - rank);
}

/* Findings name who made them: `origin`. */
static void hear(int from, enum rcmi_failure_kind kind, uint64_t ballot, uint64_t accepted,
                 int origin, enum rcmi_proposal_weight weight) {
    const rcm_status status = weight == RCMI_PROPOSAL_MISMATCH ? RCM_ERR_MISMATCH : RCM_ERR_TIMEOUT;
    const struct rcm_error error = {.status = status, .origin = origin};
    struct rcmi_failure message, decoded;
    struct rcm_error again;
    rcmi_failure_encode(EPOCH, &error, NULL, &message);
    message.kind = kind;
    message.ballot = ballot;
    message.accepted = accepted;
    message.weight = weight;
    assert_true(rcmi_failure_decode(&message, rcmi_failure_bytes(&message), &decoded, &again));
    rcmi_proposals_hear(proposals, from, &decoded, &again);
}

/* All that was said since the last look: so many, all of this kind; the last one. */
static const struct rcmi_failure *heard(int n, enum rcmi_failure_kind kind) {
    assert_int_equal(stage.nsaid, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(stage.said[i].kind, kind);
    stage.nsaid = 0;
    return n > 0 ? &stage.said[n - 1] : NULL;
}

/* Rank 0 has a finding, and is about to ask. */
static uint64_t ask(void) {
    begin(0);
    find(RCMI_PROPOSAL_LATE);
    pass(2);
    assert_int_equal(heard(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(0, 1));
    return ballot_of(0, 1);
}

/* ---- Proposers ------------------------------------------------------------------------------ */

static void test_hands_over(void **state) {
    (void)state;
    begin(3);
    stage.silent[0] = true;
    find(RCMI_PROPOSAL_LATE);
    pass(140);
    assert_int_equal(heard(1, RCMI_FAILURE_PROPOSAL)->origin, 3);
    assert_int_equal(stage.to[0], 1);
    pass(20);
    assert_int_equal(heard(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(3, 1));
    end();
}

static void test_speaks_for_another(void **state) {
    (void)state;
    begin(1);
    hear(3, RCMI_FAILURE_PROPOSAL, 0, 0, 3, RCMI_PROPOSAL_LATE);
    pass(2);
    assert_int_equal(heard(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(1, 1));
    end();
}

static void test_gives_way(void **state) {
    (void)state;
    (void)ask();
    hear(1, RCMI_FAILURE_PREPARE, ballot_of(1, 2), 0, 1, RCMI_PROPOSAL_LATE);
    assert_int_equal(heard(1, RCMI_FAILURE_PROMISE)->ballot, ballot_of(1, 2));
    pass(140);
    assert_int_equal(stage.nsaid, 0);
    pass(20); /* nothing came of it */
    assert_int_equal(heard(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(0, 3));
    end();
}

static void test_hears_of_a_higher_ballot(void **state) {
    (void)state;
    (void)ask();
    hear(2, RCMI_FAILURE_PROMISE, ballot_of(4, 7), 0, 2, RCMI_PROPOSAL_LATE);
    pass(140);
    assert_int_equal(stage.nsaid, 0);
    pass(20);
    assert_int_equal(heard(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(0, 8));
    end();
}

/* ---- What is spoken ------------------------------------------------------------------------- */

static void test_majority(void **state) {
    (void)state;
    const uint64_t ballot = ask();
    for (int i = 0; i < 3; i++) /* twice is once */
        hear(1, RCMI_FAILURE_PROMISE, ballot, 0, 1, RCMI_PROPOSAL_LATE);
    pass(50);
    assert_int_equal(stage.nsaid, 0);
    hear(2, RCMI_FAILURE_PROMISE, ballot, 0, 2, RCMI_PROPOSAL_ASKED_ALL);
    pass(1);
    assert_int_equal(heard(N - 1, RCMI_FAILURE_ACCEPT)->origin, 2); /* it asked all */
    hear(3, RCMI_FAILURE_PROMISE, ballot, 0, 3,
         RCMI_PROPOSAL_LATE); /* a promise is not yet an acceptance */
    hear(1, RCMI_FAILURE_PROMISE, ballot, ballot, 2, RCMI_PROPOSAL_ASKED_ALL);
    pass(90); /* patience counts from the proposal */
    assert_int_equal(stage.spoken, -1);
    hear(2, RCMI_FAILURE_PROMISE, ballot, ballot, 2, RCMI_PROPOSAL_ASKED_ALL);
    pass(1);
    assert_int_equal(stage.spoken, 2);
    end();
}

/* The list travels with the finding, and is chosen with it. */
static void test_missing(void **state) {
    (void)state;
    begin(0);
    find_missing();
    pass(2);
    const struct rcmi_failure *said = heard(N - 1, RCMI_FAILURE_PREPARE);
    const uint64_t ballot = said->ballot;
    assert_true(said->missing.nranks == N && said->missing.bits[0] == 1u << 3);
    for (int r = 1; r < 3; r++)
        hear(r, RCMI_FAILURE_PROMISE, ballot, 0, r, RCMI_PROPOSAL_LATE);
    pass(50);
    assert_int_equal(heard(N - 1, RCMI_FAILURE_ACCEPT)->missing.bits[0], 1u << 3);
    for (int r = 1; r < 3; r++)
        hear(r, RCMI_FAILURE_PROMISE, ballot, ballot, 3, RCMI_PROPOSAL_ASKED_ALL);
    pass(1);
    assert_int_equal(stage.spoken, 3);
    assert_true(stage.missing.nranks == N && stage.missing.bits[0] == 1u << 3);
    end();
}

static void test_words_of_another_ballot(void **state) {
    (void)state;
    (void)ask();
    hear(1, RCMI_FAILURE_PREPARE, ballot_of(1, 2), 0, 1, RCMI_PROPOSAL_LATE);
    pass(151);
    stage.nsaid = 0;
    for (int r = 1; r < N; r++) /* to the first question, late */
        hear(r, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 0, r, RCMI_PROPOSAL_LATE);
    pass(50);
    assert_int_equal(stage.nsaid, 0);
    end();
}

static void test_proposes_what_was_accepted(void **state) {
    (void)state;
    const uint64_t ballot = ask();
    hear(1, RCMI_FAILURE_PROMISE, ballot, 2, 1, RCMI_PROPOSAL_LATE);
    hear(2, RCMI_FAILURE_PROMISE, ballot, 3, 2, RCMI_PROPOSAL_LATE);
    hear(3, RCMI_FAILURE_PROMISE, ballot, 1, 3, RCMI_PROPOSAL_ASKED_ALL);
    hear(4, RCMI_FAILURE_PROMISE, ballot, 0, 4, RCMI_PROPOSAL_ASKED_ALL);
    pass(50);
    assert_int_equal(heard(N - 1, RCMI_FAILURE_ACCEPT)->origin, 2);
    end();
}

/* Nothing is better, so nothing else is waited for. */
static void test_mismatch(void **state) {
    (void)state;
    begin(0);
    find(RCMI_PROPOSAL_MISMATCH);
    pass(2);
    stage.nsaid = 0;
    hear(1, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 0, 1, RCMI_PROPOSAL_ASKED_ALL);
    hear(2, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 0, -1, RCMI_PROPOSAL_NONE);
    pass(1);
    const struct rcmi_failure *proposed = heard(N - 1, RCMI_FAILURE_ACCEPT);
    assert_int_equal(proposed->origin, 0);
    assert_int_equal(proposed->status, RCM_ERR_MISMATCH);
    end();
}

static void test_alone(void **state) {
    (void)state;
    (void)ask();
    hear(1, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 2, 1, RCMI_PROPOSAL_LATE);
    pass(90);
    assert_int_equal(stage.spoken, -1);
    pass(20);
    assert_int_equal(stage.spoken, 1);
    end();
}

/* Who was away looks twice; and nobody waits for ever, whatever is asked. */
static void test_away(void **state) {
    (void)state;
    (void)ask();
    stage.now_ns += 1000 * (int64_t)MS;
    (void)rcmi_proposals_progress(proposals);
    assert_int_equal(stage.spoken, -1);
    for (uint64_t k = 2; k < 100 && stage.spoken < 0; k++) {
        hear(1, RCMI_FAILURE_PREPARE, ballot_of(1, k), 0, 1, RCMI_PROPOSAL_LATE);
        pass(10);
        stage.nsaid = 0;
        assert_true(stage.spoken < 0 || k > 40);
    }
    assert_int_equal(stage.spoken, 0);
    end();
}

/* ---- A voter -------------------------------------------------------------------------------- */

static void test_voter(void **state) {
    (void)state;
    begin(4);
    hear(1, RCMI_FAILURE_PREPARE, ballot_of(1, 2), 0, 1, RCMI_PROPOSAL_LATE);
    assert_int_equal(heard(1, RCMI_FAILURE_PROMISE)->weight, RCMI_PROPOSAL_NONE);
    hear(1, RCMI_FAILURE_ACCEPT, ballot_of(1, 2), ballot_of(1, 2), 1, RCMI_PROPOSAL_LATE);
    assert_int_equal(heard(1, RCMI_FAILURE_PROMISE)->accepted, ballot_of(1, 2));
    hear(0, RCMI_FAILURE_ACCEPT, ballot_of(0, 1), ballot_of(0, 1), 0, RCMI_PROPOSAL_LATE);
    const struct rcmi_failure *promise = heard(1, RCMI_FAILURE_PROMISE);
    assert_int_equal(promise->ballot, ballot_of(1, 2));
    assert_int_equal(promise->origin, 1);
    hear(3, RCMI_FAILURE_PROPOSAL, 0, 0, 3, RCMI_PROPOSAL_ASKED_ALL); /* what is accepted, stays */
    hear(0, RCMI_FAILURE_PREPARE, ballot_of(0, 3), 0, 0, RCMI_PROPOSAL_LATE);
    promise = heard(1, RCMI_FAILURE_PROMISE);
    assert_int_equal(promise->ballot, ballot_of(0, 3));
    assert_int_equal(promise->accepted, ballot_of(1, 2));
    assert_int_equal(promise->origin, 1);
    end();
}

static void test_ballot_of_another(void **state) {
    (void)state;
    const uint64_t ballot = ask();
    hear(1, RCMI_FAILURE_ACCEPT, ballot, ballot, 1, RCMI_PROPOSAL_ASKED_ALL);
    hear(1, RCMI_FAILURE_PREPARE, ballot_of(2, 9), 0, 1, RCMI_PROPOSAL_LATE);
    assert_int_equal(stage.nsaid, 0);
    pass(200);
    assert_int_equal(stage.spoken, 0);
    end();
}

static void test_after_the_end(void **state) {
    (void)state;
    (void)ask();
    pass(200);
    assert_int_equal(stage.spoken, 0);
    hear(1, RCMI_FAILURE_PREPARE, ballot_of(1, 2), 0, 1, RCMI_PROPOSAL_LATE);
    hear(2, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 0, 2, RCMI_PROPOSAL_LATE);
    (void)heard(1, RCMI_FAILURE_RECORD);
    end();
}

/* Who waits looks now and then; the loop thread comes or does not. */
static void await_ms(int ms, int each, bool loop_runs) {
    for (int gone = 0; gone < ms && stage.spoken < 0; gone += each) {
        stage.now_ns += (int64_t)each * MS;
        if (loop_runs)
            (void)rcmi_proposals_progress(proposals);
        rcmi_proposals_await(proposals);
    }
}

static void test_stuck_loop(void **state) {
    (void)state;
    begin(3);
    find(RCMI_PROPOSAL_LATE);
    await_ms(2500, 100, false);
    assert_int_equal(stage.spoken, -1);
    await_ms(1500, 100, false);
    assert_int_equal(stage.spoken, 3);
    end();
}

/* A machine that stands still keeps both threads from running. */
static void test_stuck_machine(void **state) {
    (void)state;
    begin(3);
    find(RCMI_PROPOSAL_LATE);
    await_ms(20000, 10000, false);
    assert_int_equal(stage.spoken, -1);
    await_ms(90, 10, true);
    stage.now_ns += 2500 * (int64_t)MS;
    await_ms(100, 50, false);
    assert_int_equal(stage.spoken, -1);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hands_over),
        cmocka_unit_test(test_speaks_for_another),
        cmocka_unit_test(test_gives_way),
        cmocka_unit_test(test_hears_of_a_higher_ballot),
        cmocka_unit_test(test_majority),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_words_of_another_ballot),
        cmocka_unit_test(test_proposes_what_was_accepted),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_away),
        cmocka_unit_test(test_voter),
        cmocka_unit_test(test_ballot_of_another),
        cmocka_unit_test(test_after_the_end),
        cmocka_unit_test(test_stuck_loop),
        cmocka_unit_test(test_stuck_machine),
    };
    return cmocka_run_group_tests_name("vote", tests, NULL, NULL);
}
