/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs backend over fake devices (provider.h): failures, and the number of calls per message.
 * Choice of ports: cases_ports.c; registered memory: cases_registered_memory.c; iWARP:
 * cases_iwarp.c. The conformance suite tests the backend as a transport.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>
#include "cases.h"
#include "../transport/harness.h"
#include "fd.h"
#include "../fakes/verbs/provider.h"
#include "transport.h"

/* ---- Failures -------------------------------------------------------------------------------- */

/* Each call fails once, at each place of a session. */
static void case_calls_fail(void **state) {
    (void)state;
    setenv("RINGCOMM_VERBS_PKEY", "5", 1); /* so that partitions are read */
    for (int call = 0; call < PROVIDER_CM_GETIFADDRS; call++)
        call_fails(&two_devices, (enum provider_call)call);
    unsetenv("RINGCOMM_VERBS_PKEY");
}

static const enum ibv_wc_status errors[] = {
    IBV_WC_LOC_LEN_ERR,  IBV_WC_LOC_QP_OP_ERR,  IBV_WC_LOC_PROT_ERR,      IBV_WC_WR_FLUSH_ERR,
    IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,   IBV_WC_REM_ACCESS_ERR,
    IBV_WC_REM_OP_ERR,   IBV_WC_RETRY_EXC_ERR,  IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_FATAL_ERR,
    IBV_WC_GENERAL_ERR,  (enum ibv_wc_status)99};

static void completion_fails(int error) {
    char by[16];
    for (int number = 1; number < 12; number += number < 5 ? 1 : 3) {
        limit_ms(10000);
        provider_install(&two_devices);
        provider_fail_send(errors[error], number);
        live("verbs,tcp", 12, by);
        provider_remove();
        CHECK_EQ(strcmp(by, number <= 2 ? "tcp" : ""), 0);
    }
}

/* Each error of a completion, of a hello and of messages: in the first case the next transport is
 * used, in the second both ranks get the error. */
static void case_completions_fail(void **state) {
    (void)state;
    limit_ms(30000);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1); /* the cause of a flush comes with a heartbeat */
    children_run(sizeof errors / sizeof errors[0], completion_fails);
    unsetenv("RINGCOMM_PEER_TIMEOUT");
}

/* The initiator's first message is retried until the other side is connected. */
static void case_connected_late(void **state) {
    (void)state;
    char by[16];
    limit_ms(10000);
    provider_install(&two_devices);
    provider_slow_connect(300);
    live("verbs,tcp", 4, by);
    provider_remove();
    CHECK_EQ(strcmp(by, "verbs"), 0);
}

/* The network is cut before there is a link: the next transport is used. Later: both ranks get an
 * error, although one only receives. */
static void case_cut(void **state) {
    (void)state;
    char by[16];
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(20000);
    provider_install(&two_devices);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1);
    provider_cut(true);
    live("verbs,tcp", 4, by);
    CHECK_EQ(strcmp(by, "tcp"), 0);
    provider_cut(false);
    CHECK(ranks_open(&pair, "verbs"));
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    pair_channel(&pair, 1, &writer, &reader);
    CHECK(exchange(&pair, writer, reader, 0));
    provider_cut(true);
    const int64_t cut_at = rcmi_now_ns();
    while (!atomic_load(&pair.a->lost) || !atomic_load(&pair.b->lost))
        nap();
    CHECK(rcmi_now_ns() - cut_at < 3000000000LL * slowness());
    CHECK_EQ(atomic_load(&pair.b->lost_status), RCM_ERR_PEER);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

static void cause_comes_late(int i) {
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    struct provider_setup seeded = two_devices;
    seeded.seed = (uint32_t)i + 1;
    provider_install(&seeded);
    CHECK(ranks_open(&pair, "verbs"));
    pair_channel(&pair, 1, &writer, &reader);
    CHECK(exchange(&pair, writer, reader, 0));
    provider_cut(true);
    while (!atomic_load(&pair.a->lost) || !atomic_load(&pair.b->lost))
        nap();
    CHECK(strstr(pair.a->lost_text, "transport retry counter exceeded"));
    CHECK(strstr(pair.b->lost_text, "transport retry counter exceeded"));
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

/* A device may complete flushed entries before the entry that failed: both ranks report the
 * cause. */
static void case_cause_comes_late(void **state) {
    (void)state;
    limit_ms(30000);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1);
    children_run(4, cause_comes_late);
    unsetenv("RINGCOMM_PEER_TIMEOUT");
}

/* ---- Cost ------------------------------------------------------------------------------------ */

/* One call per message, also for a write with a send; one for the credits of half the slots; one
 * completion per 32 sends, and one per probe; no event while both sides poll. */
static void case_cost(void **state) {
    (void)state;
    enum { MESSAGES = 3000, PROBES = 200 };
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(20000);
    provider_install(&two_devices);
    CHECK(ranks_open(&pair, "verbs"));
    pair_channel(&pair, 1, &writer, &reader);
    const struct provider_counts before = provider_counts();
    const int requested = provider_calls(PROVIDER_REQ_NOTIFY),
              taken = provider_calls(PROVIDER_GET_EVENT);
    for (uint64_t number = 0; number < MESSAGES; number++)
        CHECK(exchange(&pair, writer, reader, number));
    const struct provider_counts after = provider_counts();
    const int requested_after = provider_calls(PROVIDER_REQ_NOTIFY),
              taken_after = provider_calls(PROVIDER_GET_EVENT);
    const uint64_t posts = after.posts - before.posts, sends = after.sends - before.sends;
    const uint64_t completions = after.send_completions - before.send_completions;
    CHECK(sends >= MESSAGES + MESSAGES / 3 && sends <= 2 * MESSAGES + MESSAGES / 64);
    CHECK(after.writes - before.writes <= MESSAGES / 2 + PROBES);
    CHECK(posts <= sends + PROBES);
    CHECK(completions <= (sends + MESSAGES / 2) / 32 + PROBES);
    CHECK(after.events - before.events <= PROBES);
    CHECK(requested_after - requested <= PROBES && taken_after - taken <= PROBES);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

/* ---- The loop thread's part ------------------------------------------------------------------ */

enum { MANY = 240 }; /* two entries each: more than the send queue has, fewer than receives */

static void many_open(struct pair *pair, struct rcmi_channel **ret_writer,
                      struct rcmi_channel **ret_reader) {
    const struct setup setup = {.transports = "verbs", .slots = MANY, .slot_bytes = 256};
    limit_ms(10000);
    provider_install(&two_devices);
    pair_open(pair, &setup);
    pair_channel(pair, 1, ret_writer, ret_reader);
}

static void many_commit(struct rcmi_channel *writer) {
    void *bytes = NULL;
    for (uint64_t number = 0; number < MANY; number++) {
        CHECK_EQ(reserve_slot(writer, &bytes), RCM_OK);
        rcmi_channel_commit(writer, 200, number);
    }
}

/* They leave without a call from the application, and not only when links are probed. */
static void many_leave(void) {
    const int64_t began = rcmi_now_ns();
    while (provider_counts().sends < MANY)
        nap();
    CHECK(rcmi_now_ns() - began < 600000000LL * slowness());
}

static void many_close(struct pair *pair, struct rcmi_channel *writer,
                       struct rcmi_channel *reader) {
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(pair);
    provider_remove();
}

/* Messages committed while the queue was full leave later, although no thread makes progress. */
static void case_left_alone(void **state) {
    (void)state;
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    many_open(&pair, &writer, &reader);
    provider_hold(true); /* or the loop might make space while they are committed */
    many_commit(writer);
    CHECK(provider_counts().sends < MANY);
    provider_hold(false);
    many_leave();
    for (uint64_t number = 0; number < MANY; number++) {
        CHECK_EQ(side_peek(pair.b, reader).meta, number);
        rcmi_channel_release(reader);
    }
    many_close(&pair, writer, reader);
}

struct taking {
    struct pair pair;
    struct rcmi_sleep sleep;
};

/* Runs on the loop's thread, which is blocked meanwhile: the hardware continues, and a thread
 * consumes the event of it. */
static void take_event(void *arg) {
    struct taking *taking = arg;
    struct pollfd event = {.fd = taking->sleep.fds[1], .events = POLLIN};
    provider_hold(false);
    CHECK_EQ(poll(&event, 1, 5000), 1);
    CHECK(rcmi_node_progress(taking->pair.a->node));
}

/* The same, although another thread consumes the event that the loop waits for. */
static void case_event_taken(void **state) {
    (void)state;
    struct taking taking;
    struct rcmi_channel *writer, *reader;
    many_open(&taking.pair, &writer, &reader);
    provider_hold(true);
    many_commit(writer);
    rcmi_node_sleep_begin(taking.pair.a->node, &taking.sleep);
    CHECK_EQ(taking.sleep.nfds, 2);
    rcmi_loop_call(rcmi_node_loop(taking.pair.a->node), take_event, &taking);
    many_leave();
    rcmi_node_sleep_end(taking.pair.a->node, &taking.sleep);
    many_close(&taking.pair, writer, reader);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* A slot is released after its link has ended, also after the node has ended. */
static void case_released_late(void **state) {
    (void)state;
    const struct setup setup = {.transports = "verbs", .nranks = 3, .slots = 4};
    struct world *world = world_new();
    struct side sides[3] = {{0}};
    struct rcmi_channel *writers[3] = {NULL}, *readers[3] = {NULL};
    const int to[1] = {1};
    limit_ms(10000);
    provider_install(&two_devices);
    for (int i = 0; i < 3; i++)
        side_create(&sides[i], world, i, &setup);
    for (int i = 0; i < 3; i++)
        side_start(&sides[i]);
    for (int i = 0; i < 3; i += 2) {
        CHECK_EQ(rcmi_channel_open_writer(sides[i].node, 7, 1, to, 1, &writers[i]), RCM_OK);
        CHECK_EQ(rcmi_channel_open_reader(sides[1].node, 7, 1, i, &readers[i]), RCM_OK);
        side_ready(&sides[i], writers[i]);
        (void)side_reserve(&sides[i], writers[i]);
        rcmi_channel_commit(writers[i], 100, 5);
        CHECK_EQ(side_peek(&sides[1], readers[i]).meta, 5);
    }
    rcmi_channel_close(writers[0]);
    side_destroy(&sides[0]);
    while (!atomic_load(&sides[1].lost))
        nap();
    rcmi_channel_release(readers[0]);
    side_destroy(&sides[1]); /* with its channels */
    rcmi_channel_close(writers[2]);
    side_destroy(&sides[2]);
    world_free(world);
    provider_remove();
}

/* Closes all descriptors up to that one, and opens others: a deliberate race, which sanitizers do
 * not see in raw system calls. */
static void descriptors_replace(int last) {
    for (int fd = STDERR_FILENO + 1; fd <= last; fd++)
        syscall(SYS_close, fd);
    while (syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY) < last)
        ;
}

/* A program has closed all descriptors that are not its own, and has opened others since. They stay
 * open, and nothing is written to them, when nodes end whose link is connected or connecting. Runs
 * in a child, since some of the devices' resources cannot be closed. */
static void child_closed(int connected) {
    struct pair pair;
    provider_install(&two_devices);
    CHECK(ranks_open(&pair, "verbs"));
    if (connected) {
        struct rcmi_channel *writer, *reader;
        pair_channel(&pair, 1, &writer, &reader);
        CHECK(exchange(&pair, writer, reader, 0));
    } else {
        provider_silent(true); /* links of iWARP are still connecting then */
        side_send(pair.a, 1);
        while (provider_queue_pairs(0) == 0)
            nap();
    }
    provider_hold(true); /* the hardware has descriptors, too, which belong to the program here */
    const int last = dup(STDERR_FILENO);
    descriptors_replace(last);
    while (!rcmi_node_is_broken(pair.a->node) || !rcmi_node_is_broken(pair.b->node))
        nap();
    (void)rcmi_fd_distrust(true); /* like a thread that destroys a broken node */
    side_destroy(pair.a);
    side_destroy(pair.b);
    for (int fd = STDERR_FILENO + 1; fd <= last; fd++)
        CHECK(fcntl(fd, F_GETFD) >= 0);
}

static void case_descriptors_closed(void **state) {
    (void)state;
    limit_ms(10000);
    children_run(2, child_closed);
}

/* For any devices. */
static const struct CMUnitTest cases_any[] = {
    cmocka_unit_test(case_events_end_links),
    cmocka_unit_test(case_events_keep_links),
    cmocka_unit_test(case_near_port),
    cmocka_unit_test(case_many_ports),
    cmocka_unit_test(case_cost),
    cmocka_unit_test(case_in_place),
    cmocka_unit_test(case_withdrawn),
    cmocka_unit_test(case_withdrawn_by_loop),
    cmocka_unit_test(case_unregistered),
    cmocka_unit_test(case_no_room),
    cmocka_unit_test(case_cut),
    cmocka_unit_test(case_left_alone),
    cmocka_unit_test(case_event_taken),
    cmocka_unit_test(case_released_late),
    cmocka_unit_test(case_killed_in_flight),
    cmocka_unit_test(case_leave_unacknowledged),
    cmocka_unit_test(case_leave_during_poll),
    cmocka_unit_test(case_descriptors_closed),
};

/* Cases that install their own devices, or none. */
static const struct CMUnitTest cases_own[] = {
    cmocka_unit_test(case_withdrawn_in_vain),
    cmocka_unit_test(case_choice),
    cmocka_unit_test(case_choice_link_local),
    cmocka_unit_test(case_choice_near),
    cmocka_unit_test(case_choice_spread),
    cmocka_unit_test(case_subnets),
    cmocka_unit_test(case_places),
    cmocka_unit_test(case_place_of_cpus),
    cmocka_unit_test(case_eight_gpus),
    cmocka_unit_test(case_ports),
    cmocka_unit_test(case_path_infiniband),
    cmocka_unit_test(case_path_roce),
    cmocka_unit_test(case_partitions),
    cmocka_unit_test(case_no_device),
    cmocka_unit_test(case_devices_unfit),
    cmocka_unit_test(case_ports_unfit),
    cmocka_unit_test(case_cm_unreachable),
    cmocka_unit_test(case_device_closed),
    cmocka_unit_test(case_names),
    cmocka_unit_test(case_locked_memory),
    cmocka_unit_test(case_cause_comes_late),
    cmocka_unit_test(case_connected_late),
    cmocka_unit_test(case_calls_fail),
    cmocka_unit_test(case_completions_fail),
    cmocka_unit_test(case_iwarp_garbled),
    cmocka_unit_test(case_iwarp_unknown_peer),
    cmocka_unit_test(case_iwarp_broken_listener),
    cmocka_unit_test(case_iwarp_silent),
    cmocka_unit_test(case_iwarp_many_silent),
    cmocka_unit_test(case_iwarp_arrives),
    cmocka_unit_test(case_iwarp_late_probe),
    cmocka_unit_test(case_iwarp_calls_fail),
};

/* With FAKE_IWARP hardware is that (provider.h). */
int main(int argc, char **argv) {
    test_transport = "verbs";
    alarm(100);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const int failed = cmocka_run_group_tests(cases_any, NULL, NULL);
    return getenv("FAKE_IWARP") ? failed : failed + cmocka_run_group_tests(cases_own, NULL, NULL);
}
