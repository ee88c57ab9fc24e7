/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank answers when it is asked whom it waits for (rcmi_comm_answer in api/deadline.c), for
 * states of a communicator that are too short to be met on purpose. The rest of the room is played
 * here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "comm.h"
#include "page.h"

enum { RANKS = 3, ASKER = 2 };

static struct {
    int rings, answers, records;
    struct rcmi_inquiry answer;
} seen;
static struct rcmi_activity shown; /* on the status page */
static struct rcm_work receive;    /* the one that is posted, if posted */
static bool posted;

/* ---- What deadline.c uses ---------------------------------------------------------------------
 */

rcm_status rcmi_node_send(struct rcmi_node *node, int peer, const void *bytes, size_t len) {
    (void)node;
    assert_int_equal(peer, ASKER + 10);
    assert_true(rcmi_inquiry_decode(bytes, len, &seen.answer));
    seen.answers++;
    return RCM_OK;
}

void rcmi_node_ring(struct rcmi_node *node) {
    (void)node;
    seen.rings++;
}

bool rcmi_comm_tell_failure(const rcm_comm *comm, int rank) {
    assert_int_equal(rank, ASKER);
    const bool failed = atomic_load(&comm->failed) != RCM_OK;
    seen.records += failed;
    return failed;
}

bool rcmi_page_read(const void *bytes, int64_t now_ns, struct rcmi_page_owner *ret_owner,
                    struct rcmi_activity *ret_activity) {
    (void)bytes;
    (void)now_ns;
    (void)ret_owner;
    *ret_activity = shown;
    return true;
}

void rcmi_transfers_each(const rcm_comm *comm, bool (*visit)(void *arg, struct rcm_work *work),
                         void *arg) {
    (void)comm;
    if (posted)
        (void)visit(arg, &receive);
}

bool rcmi_diagnosis_asked(struct rcmi_diagnosis *diagnosis, int rank,
                          const struct rcmi_inquiry *question) {
    (void)diagnosis;
    (void)rank;
    (void)question;
    return false;
}

/* Not used by what is tested. */
void rcmi_page_show(struct rcmi_status_page *page, uint64_t sequence, const struct rcmi_plan *plan,
                    const struct rcmi_run_wait *wait, int64_t moved_ns) {
    (void)page;
    (void)sequence;
    (void)plan;
    (void)wait;
    (void)moved_ns;
}
void rcmi_comm_show_transfer(const rcm_comm *comm, const struct rcm_work *work) {
    (void)comm;
    (void)work;
}
void rcmi_run_waits_for(const struct rcmi_run *run, struct rcmi_run_wait *ret_wait) {
    (void)run;
    *ret_wait = (struct rcmi_run_wait){.peer = 0};
}
void rcmi_call_log_tell(struct rcmi_call_log *records, const struct rcmi_call_entry *entry,
                        int peer) {
    (void)records;
    (void)entry;
    (void)peer;
}
bool rcmi_proposals_are_open(const struct rcmi_proposals *proposals) {
    (void)proposals;
    return false;
}
void rcmi_proposals_await(struct rcmi_proposals *proposals) {
    (void)proposals;
}
void rcmi_comm_propose(rcm_comm *comm, const struct rcm_work *work, int weight) {
    (void)comm;
    (void)work;
    (void)weight;
}
rcm_status rcmi_diagnosis_find(struct rcmi_diagnosis *diagnosis, const struct rcmi_late *late,
                               int64_t now, rcmi_deadline *ret_until,
                               struct rcmi_verdict *ret_verdict) {
    (void)diagnosis;
    (void)late;
    (void)now;
    (void)ret_until;
    (void)ret_verdict;
    return RCM_AGAIN;
}
const char *rcmi_work_name(const struct rcm_work *work) {
    (void)work;
    return "recv";
}

/* ---- Cases ------------------------------------------------------------------------------------
 */

static rcm_comm *ask(rcm_comm *comm) {
    const struct rcmi_inquiry question = {
        .magic = RCMI_INQUIRY_MAGIC, .number = 7, .state = RCMI_INQUIRY_QUESTION};
    memset(&seen, 0, sizeof(seen));
    rcmi_comm_answer(comm, ASKER, &question);
    assert_int_equal(seen.answers + seen.records, 1);
    if (seen.answers)
        assert_int_equal(seen.answer.number, 7);
    return comm;
}

static rcm_comm *comm_new(void) {
    static int world_rank[RANKS] = {10, 11, 12}, host_of[RANKS];
    static struct rcmi_engine engine;
    rcm_comm *comm = calloc(1, sizeof(*comm));
    assert_non_null(comm);
    comm->engine = &engine;
    comm->size = RANKS;
    comm->world_rank = world_rank;
    comm->host_of = host_of;
    atomic_flag_clear(&comm->driving);
    shown = (struct rcmi_activity){.waits_for = -1};
    posted = false;
    return comm;
}

static void test_idle(void **state) {
    (void)state;
    rcm_comm *comm = ask(comm_new());
    assert_int_equal(seen.answer.state, RCMI_INQUIRY_IDLE);
    assert_int_equal(seen.rings, 1); /* who could not drive because of us */
    assert_true(rcmi_comm_try_drive(comm));
    free(comm);
}

/* A caller runs a collective, or a message, the short way: there is no work, but he drives. */
static void test_short_way(void **state) {
    (void)state;
    rcm_comm *comm = comm_new();
    assert_true(rcmi_comm_take(comm));
    shown.sequence = shown.called = 5;
    ask(comm);
    assert_int_equal(seen.answer.state, RCMI_INQUIRY_BUSY);
    assert_int_equal(seen.answer.npeers, 0);
    assert_int_equal(seen.answer.activity.sequence, 5);
    rcmi_comm_give(comm);
    ask(comm);
    assert_int_equal(seen.answer.state, RCMI_INQUIRY_IDLE);
    free(comm);
}

static void test_waits(void **state) {
    (void)state;
    rcm_comm *comm = comm_new();
    posted = true;
    receive.kind = RCMI_WORK_RECV;
    receive.transfer.peer = 1;
    atomic_store(&comm->unfinished, 1);
    ask(comm);
    assert_int_equal(seen.answer.state, RCMI_INQUIRY_WAITS);
    assert_int_equal(seen.answer.npeers, 1);
    assert_int_equal(seen.answer.peers[0], 1);
    /* Its driver does not let us look, but has shown that it waits for long. */
    assert_true(rcmi_comm_try_drive(comm));
    shown.waits_for = 0;
    shown.waited_ms = 1000;
    ask(comm);
    assert_int_equal(seen.answer.state, RCMI_INQUIRY_BUSY);
    assert_int_equal(seen.answer.npeers, 1);
    assert_int_equal(seen.answer.peers[0], 0);
    free(comm);
}

/* The operations of one that has failed have ended: that is no answer. */
static void test_failed(void **state) {
    (void)state;
    rcm_comm *comm = comm_new();
    atomic_store(&comm->failed, RCM_ERR_TIMEOUT);
    ask(comm);
    assert_int_equal(seen.records, 1);
    free(comm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_short_way),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_failed),
    };
    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
