/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The answer of a rank to the query which rank it waits for (rcmi_comm_make_answer in
 * api/work/deadline.h). The tested states of a communicator are too short to be reached on purpose.
 * Status page, point to point and diagnosis are the library's; there is no node, so nothing is
 * sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "comm.h"
#include "deadline.h"
#include "diagnosis.h"
#include "p2p.h"
#include "status_page.h"

enum { RANKS = 3, INQUIRER = 2 };

static struct rcmi_status_page status_page;
static struct rcmi_page_comm *page;
static struct rcmi_answer answer;

static rcm_status open_nothing(void *arg, int peer, enum rcmi_mem_kind kind, bool writer,
                               struct rcmi_channel **ret_channel) {
    (void)arg;
    (void)peer;
    (void)kind;
    (void)writer;
    *ret_channel = NULL;
    return RCM_OK;
}

static void close_nothing(struct rcmi_channel *channel) {
    assert_null(channel);
}

static int setup(void **state) {
    static int world_rank[RANKS] = {10, 11, 12}, host_of[RANKS];
    struct rcmi_messaging messaging;
    rcm_comm *comm = rcmi_comm_new();
    assert_non_null(comm);
    comm->size = RANKS;
    comm->world_rank = world_rank;
    comm->host_of = host_of;
    comm->members = (struct rcmi_members){
        .size = RANKS, .epoch = 1, .world_rank = world_rank, .host_of = host_of};
    page = comm->page = rcmi_page_take(&status_page, &comm->members, "world");
    const struct rcmi_call_log_config log = {.members = &comm->members};
    assert_int_equal(rcmi_call_log_create(&log, &comm->call_log), RCM_OK);
    assert_int_equal(rcmi_diagnosis_create(&comm->members, comm->call_log, &comm->diagnosis),
                     RCM_OK);
    rcmi_messaging_init(&messaging, false, RANKS);
    messaging.open = open_nothing;
    messaging.close = close_nothing;
    assert_int_equal(rcmi_p2p_create(&messaging, RANKS, &comm->p2p), RCM_OK);
    *state = comm;
    return 0;
}

static int teardown(void **state) {
    rcm_comm *comm = *state;
    rcmi_p2p_free(comm->p2p);
    rcmi_diagnosis_free(comm->diagnosis);
    rcmi_call_log_free(comm->call_log);
    rcmi_comm_unref(comm);
    return 0;
}

static bool query(rcm_comm *comm) {
    const struct rcmi_inquiry question = {
        .magic = RCMI_INQUIRY_MAGIC, .number = 7, .state = RCMI_INQUIRY_QUESTION};
    memset(&answer, 0, sizeof(answer));
    const bool answered = rcmi_comm_make_answer(comm, INQUIRER, &question, &answer);
    assert_int_equal(answer.inquiry.number, answered ? 7 : 0);
    return answered;
}

/* ---- Cases --------------------------------------------------------------------------------- */

static void test_idle(void **state) {
    rcm_comm *comm = *state;
    assert_true(query(comm));
    assert_int_equal(answer.inquiry.state, RCMI_INQUIRY_IDLE);
    assert_true(answer.drove); /* wakes a thread that could not drive meanwhile */
    assert_true(rcmi_comm_try_drive(comm));
}

/* A call runs a collective, or a message, on the short path: there is no work, but it drives. */
static void test_short_path(void **state) {
    rcm_comm *comm = *state;
    const struct rcmi_plan plan = {.collective = RCM_ALL_REDUCE};
    const struct rcmi_bind bind = {
        .plan = &plan, .collective = RCM_ALL_REDUCE, .dtype = RCM_FLOAT32, .op = RCM_SUM};
    assert_true(rcmi_comm_take(comm));
    rcmi_page_called(page, 5, RCM_ALL_REDUCE);
    rcmi_page_oldest(page, 5, &bind);
    assert_true(query(comm));
    assert_int_equal(answer.inquiry.state, RCMI_INQUIRY_BUSY);
    assert_false(answer.drove);
    assert_int_equal(answer.inquiry.npeers, 0);
    assert_int_equal(answer.inquiry.activity.sequence, 5);
    rcmi_comm_give(comm);
    assert_true(query(comm));
    assert_int_equal(answer.inquiry.state, RCMI_INQUIRY_IDLE);
}

static void test_waits(void **state) {
    rcm_comm *comm = *state;
    struct rcm_work receive = {.kind = RCMI_WORK_RECV, .transfer.peer = 1};
    assert_int_equal(rcmi_p2p_receive(comm->p2p, &receive.transfer), RCM_OK);
    atomic_store(&comm->unfinished, 1);
    assert_true(query(comm));
    assert_int_equal(answer.inquiry.state, RCMI_INQUIRY_WAITS);
    assert_int_equal(answer.inquiry.npeers, 1);
    assert_int_equal(answer.inquiry.peers[0], 1);
    /* The driving thread excludes all others, but its status page shows a long wait. */
    const struct rcmi_page_transfer shown = {.peer = 0};
    assert_true(rcmi_comm_try_drive(comm));
    rcmi_page_show_transfer(page, RCMI_TRANSFER_RECV, &shown, rcmi_now_ns() - 1000000000);
    assert_true(query(comm));
    assert_int_equal(answer.inquiry.state, RCMI_INQUIRY_BUSY);
    assert_int_equal(answer.inquiry.npeers, 1);
    assert_int_equal(answer.inquiry.peers[0], 0);
}

/* The operations of a failed communicator have ended: no answer. */
static void test_failed(void **state) {
    rcm_comm *comm = *state;
    atomic_store(&comm->failed, RCM_ERR_TIMEOUT);
    assert_false(query(comm));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_path, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed, setup, teardown),
    };
    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
