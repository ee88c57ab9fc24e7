/* SPDX-License-Identifier: BSD-3-Clause */
/* The vote on who is at fault for a timeout (api/agreement/cause.c), step by step: one rank, and
 * its answers to messages. The agreement of all ranks is tested by timeout_cause_model.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "agreement.h"

enum { N = 5, SENT_MAX = 64, MS = 1000000 };
#define EPOCH 77u

static struct {
    int64_t now_ns;
    bool silent[N];
    int nsent, to[SENT_MAX];
    struct rcmi_failure sent[SENT_MAX];
    int decided; /* the decided origin; -1: none */
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
    assert_true(stage.nsent < SENT_MAX && len <= sizeof(stage.sent[0]));
    stage.to[stage.nsent] = peer;
    memcpy(&stage.sent[stage.nsent++], bytes, len);
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
    stage.decided = error->origin;
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

/* ---- One rank ------------------------------------------------------------------------------- */

static void begin(int rank) {
    memset(&stage, 0, sizeof(stage));
    const struct rcmi_proposals_config config = {.members = &members,
                                                 .failed = stage_failed,
                                                 .send_record = stage_tell,
                                                 .silent = stage_silent,
                                                 .agreed = stage_agreed};
    stage.now_ns = 1000 * (int64_t)MS;
    stage.decided = -1;
    members.rank = rank;
    assert_int_equal(rcmi_proposals_create(&config, &proposals), RCM_OK);
}

/* This rank has a finding. */
static void find(enum rcmi_proposal_weight weight) {
    const struct rcm_error error = {.status = weight == RCMI_PROPOSAL_MISMATCH ? RCM_ERR_MISMATCH
                                                                               : RCM_ERR_TIMEOUT,
                                    .origin = members.rank};
    rcmi_proposals_add(proposals, &error, NULL, weight);
}

/* Rank 3 is missing from a monitored barrier. */
static void find_missing(void) {
    const struct rcm_error error = {.status = RCM_ERR_TIMEOUT, .origin = 3};
    struct rcmi_rank_set missing = {.nranks = N};
    rcmi_rank_set_add(&missing, 3);
    rcmi_proposals_add(proposals, &error, &missing, RCMI_PROPOSAL_QUERIED_ALL);
}

static void end(void) {
    rcmi_proposals_free(proposals);
}

/* The loop thread runs all the time. */
static void pass(int ms) {
    for (int i = 0; i < ms && stage.decided < 0; i++) {
        stage.now_ns += MS;
        (void)rcmi_proposals_progress(proposals);
    }
}

/* The number-th ballot of `rank`. */
static uint64_t ballot_of(int rank, uint64_t number) {
    return number * N + (uint64_t)(N - 1 - rank);
}

/* A message arrives. Findings name the rank that made them: `origin`. */
static void receive(int from, enum rcmi_failure_kind kind, uint64_t ballot, uint64_t accepted,
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
    rcmi_proposals_receive(proposals, from, &decoded, &again);
}

/* Checks the messages sent since the last check: n, all of this kind. Returns the last one. */
static const struct rcmi_failure *check_sent(int n, enum rcmi_failure_kind kind) {
    assert_int_equal(stage.nsent, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(stage.sent[i].kind, kind);
    stage.nsent = 0;
    return n > 0 ? &stage.sent[n - 1] : NULL;
}

/* Rank 0 has a finding, and sends its first ballot. */
static uint64_t start_ballot(void) {
    begin(0);
    find(RCMI_PROPOSAL_LATE);
    pass(2);
    assert_int_equal(check_sent(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(0, 1));
    return ballot_of(0, 1);
}

/* ---- Proposers ------------------------------------------------------------------------------ */

static void test_hands_over(void **state) {
    (void)state;
    begin(3);
    stage.silent[0] = true;
    find(RCMI_PROPOSAL_LATE);
    pass(140);
    assert_int_equal(check_sent(1, RCMI_FAILURE_PROPOSAL)->origin, 3);
    assert_int_equal(stage.to[0], 1);
    pass(20);
    assert_int_equal(check_sent(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(3, 1));
    end();
}

static void test_proposes_for_another(void **state) {
    (void)state;
    begin(1);
    receive(3, RCMI_FAILURE_PROPOSAL, 0, 0, 3, RCMI_PROPOSAL_LATE);
    pass(2);
    assert_int_equal(check_sent(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(1, 1));
    end();
}

static void test_gives_way(void **state) {
    (void)state;
    (void)start_ballot();
    receive(1, RCMI_FAILURE_PREPARE, ballot_of(1, 2), 0, 1, RCMI_PROPOSAL_LATE);
    assert_int_equal(check_sent(1, RCMI_FAILURE_PROMISE)->ballot, ballot_of(1, 2));
    pass(140);
    assert_int_equal(stage.nsent, 0);
    pass(20); /* the ballot had no result */
    assert_int_equal(check_sent(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(0, 3));
    end();
}

static void test_receives_higher_ballot(void **state) {
    (void)state;
    (void)start_ballot();
    receive(2, RCMI_FAILURE_PROMISE, ballot_of(4, 7), 0, 2, RCMI_PROPOSAL_LATE);
    pass(140);
    assert_int_equal(stage.nsent, 0);
    pass(20);
    assert_int_equal(check_sent(N - 1, RCMI_FAILURE_PREPARE)->ballot, ballot_of(0, 8));
    end();
}

/* ---- Decisions ------------------------------------------------------------------------------ */

static void test_majority(void **state) {
    (void)state;
    const uint64_t ballot = start_ballot();
    for (int i = 0; i < 3; i++) /* duplicates count once */
        receive(1, RCMI_FAILURE_PROMISE, ballot, 0, 1, RCMI_PROPOSAL_LATE);
    pass(50);
    assert_int_equal(stage.nsent, 0);
    receive(2, RCMI_FAILURE_PROMISE, ballot, 0, 2, RCMI_PROPOSAL_QUERIED_ALL);
    pass(1);
    /* Rank 2 has queried all ranks. */
    assert_int_equal(check_sent(N - 1, RCMI_FAILURE_ACCEPT)->origin, 2);
    receive(3, RCMI_FAILURE_PROMISE, ballot, 0, 3,
            RCMI_PROPOSAL_LATE); /* a promise is no acceptance */
    receive(1, RCMI_FAILURE_PROMISE, ballot, ballot, 2, RCMI_PROPOSAL_QUERIED_ALL);
    pass(90); /* the timeout counts from the proposal */
    assert_int_equal(stage.decided, -1);
    receive(2, RCMI_FAILURE_PROMISE, ballot, ballot, 2, RCMI_PROPOSAL_QUERIED_ALL);
    pass(1);
    assert_int_equal(stage.decided, 2);
    end();
}

/* The list of missing ranks is sent with the finding, and decided with it. */
static void test_missing(void **state) {
    (void)state;
    begin(0);
    find_missing();
    pass(2);
    const struct rcmi_failure *sent = check_sent(N - 1, RCMI_FAILURE_PREPARE);
    const uint64_t ballot = sent->ballot;
    assert_true(sent->missing.nranks == N && sent->missing.bits[0] == 1u << 3);
    for (int r = 1; r < 3; r++)
        receive(r, RCMI_FAILURE_PROMISE, ballot, 0, r, RCMI_PROPOSAL_LATE);
    pass(50);
    assert_int_equal(check_sent(N - 1, RCMI_FAILURE_ACCEPT)->missing.bits[0], 1u << 3);
    for (int r = 1; r < 3; r++)
        receive(r, RCMI_FAILURE_PROMISE, ballot, ballot, 3, RCMI_PROPOSAL_QUERIED_ALL);
    pass(1);
    assert_int_equal(stage.decided, 3);
    assert_true(stage.missing.nranks == N && stage.missing.bits[0] == 1u << 3);
    end();
}

static void test_messages_of_another_ballot(void **state) {
    (void)state;
    (void)start_ballot();
    receive(1, RCMI_FAILURE_PREPARE, ballot_of(1, 2), 0, 1, RCMI_PROPOSAL_LATE);
    pass(151);
    stage.nsent = 0;
    for (int r = 1; r < N; r++) /* late answers to the first ballot */
        receive(r, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 0, r, RCMI_PROPOSAL_LATE);
    pass(50);
    assert_int_equal(stage.nsent, 0);
    end();
}

static void test_proposes_what_was_accepted(void **state) {
    (void)state;
    const uint64_t ballot = start_ballot();
    receive(1, RCMI_FAILURE_PROMISE, ballot, 2, 1, RCMI_PROPOSAL_LATE);
    receive(2, RCMI_FAILURE_PROMISE, ballot, 3, 2, RCMI_PROPOSAL_LATE);
    receive(3, RCMI_FAILURE_PROMISE, ballot, 1, 3, RCMI_PROPOSAL_QUERIED_ALL);
    receive(4, RCMI_FAILURE_PROMISE, ballot, 0, 4, RCMI_PROPOSAL_QUERIED_ALL);
    pass(50);
    assert_int_equal(check_sent(N - 1, RCMI_FAILURE_ACCEPT)->origin, 2);
    end();
}

/* No finding has more weight, so it waits for no other. */
static void test_mismatch(void **state) {
    (void)state;
    begin(0);
    find(RCMI_PROPOSAL_MISMATCH);
    pass(2);
    stage.nsent = 0;
    receive(1, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 0, 1, RCMI_PROPOSAL_QUERIED_ALL);
    receive(2, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 0, -1, RCMI_PROPOSAL_NONE);
    pass(1);
    const struct rcmi_failure *proposed = check_sent(N - 1, RCMI_FAILURE_ACCEPT);
    assert_int_equal(proposed->origin, 0);
    assert_int_equal(proposed->status, RCM_ERR_MISMATCH);
    end();
}

static void test_alone(void **state) {
    (void)state;
    (void)start_ballot();
    receive(1, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 2, 1, RCMI_PROPOSAL_LATE);
    pass(90);
    assert_int_equal(stage.decided, -1);
    pass(20);
    assert_int_equal(stage.decided, 1);
    end();
}

/* A rank that was away checks twice; no rank waits forever, whatever arrives. */
static void test_away(void **state) {
    (void)state;
    (void)start_ballot();
    stage.now_ns += 1000 * (int64_t)MS;
    (void)rcmi_proposals_progress(proposals);
    assert_int_equal(stage.decided, -1);
    for (uint64_t k = 2; k < 100 && stage.decided < 0; k++) {
        receive(1, RCMI_FAILURE_PREPARE, ballot_of(1, k), 0, 1, RCMI_PROPOSAL_LATE);
        pass(10);
        stage.nsent = 0;
        assert_true(stage.decided < 0 || k > 40);
    }
    assert_int_equal(stage.decided, 0);
    end();
}

/* ---- A voter -------------------------------------------------------------------------------- */

static void test_voter(void **state) {
    (void)state;
    begin(4);
    receive(1, RCMI_FAILURE_PREPARE, ballot_of(1, 2), 0, 1, RCMI_PROPOSAL_LATE);
    assert_int_equal(check_sent(1, RCMI_FAILURE_PROMISE)->weight, RCMI_PROPOSAL_NONE);
    receive(1, RCMI_FAILURE_ACCEPT, ballot_of(1, 2), ballot_of(1, 2), 1, RCMI_PROPOSAL_LATE);
    assert_int_equal(check_sent(1, RCMI_FAILURE_PROMISE)->accepted, ballot_of(1, 2));
    receive(0, RCMI_FAILURE_ACCEPT, ballot_of(0, 1), ballot_of(0, 1), 0, RCMI_PROPOSAL_LATE);
    const struct rcmi_failure *promise = check_sent(1, RCMI_FAILURE_PROMISE);
    assert_int_equal(promise->ballot, ballot_of(1, 2));
    assert_int_equal(promise->origin, 1);
    /* An accepted finding stays. */
    receive(3, RCMI_FAILURE_PROPOSAL, 0, 0, 3, RCMI_PROPOSAL_QUERIED_ALL);
    receive(0, RCMI_FAILURE_PREPARE, ballot_of(0, 3), 0, 0, RCMI_PROPOSAL_LATE);
    promise = check_sent(1, RCMI_FAILURE_PROMISE);
    assert_int_equal(promise->ballot, ballot_of(0, 3));
    assert_int_equal(promise->accepted, ballot_of(1, 2));
    assert_int_equal(promise->origin, 1);
    end();
}

static void test_ballot_of_another(void **state) {
    (void)state;
    const uint64_t ballot = start_ballot();
    receive(1, RCMI_FAILURE_ACCEPT, ballot, ballot, 1, RCMI_PROPOSAL_QUERIED_ALL);
    receive(1, RCMI_FAILURE_PREPARE, ballot_of(2, 9), 0, 1, RCMI_PROPOSAL_LATE);
    assert_int_equal(stage.nsent, 0);
    pass(200);
    assert_int_equal(stage.decided, 0);
    end();
}

static void test_after_the_end(void **state) {
    (void)state;
    (void)start_ballot();
    pass(200);
    assert_int_equal(stage.decided, 0);
    receive(1, RCMI_FAILURE_PREPARE, ballot_of(1, 2), 0, 1, RCMI_PROPOSAL_LATE);
    receive(2, RCMI_FAILURE_PROMISE, ballot_of(0, 1), 0, 2, RCMI_PROPOSAL_LATE);
    (void)check_sent(1, RCMI_FAILURE_RECORD);
    end();
}

/* A waiting thread checks at intervals; the loop thread runs or not. */
static void await_ms(int ms, int each, bool loop_runs) {
    for (int gone = 0; gone < ms && stage.decided < 0; gone += each) {
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
    assert_int_equal(stage.decided, -1);
    await_ms(1500, 100, false);
    assert_int_equal(stage.decided, 3);
    end();
}

/* On a machine that stands still neither thread runs. */
static void test_stuck_machine(void **state) {
    (void)state;
    begin(3);
    find(RCMI_PROPOSAL_LATE);
    await_ms(20000, 10000, false);
    assert_int_equal(stage.decided, -1);
    await_ms(90, 10, true);
    stage.now_ns += 2500 * (int64_t)MS;
    await_ms(100, 50, false);
    assert_int_equal(stage.decided, -1);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hands_over),
        cmocka_unit_test(test_proposes_for_another),
        cmocka_unit_test(test_gives_way),
        cmocka_unit_test(test_receives_higher_ballot),
        cmocka_unit_test(test_majority),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_messages_of_another_ballot),
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
