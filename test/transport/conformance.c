/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance suite of transports, which also tests the framework around them:
 *
 *     conformance NAME|chaos:NAME [threads] [FILTER]
 *
 * NAME is any backend of the registry, or the test backend `late` (late_transport.h). The cases
 * take their expectations from the backend's table. A backend for device memory runs together with
 * a host one, with the driver that the process finds. `threads` skips the cases that fork, for the
 * thread sanitizer. FILTER is cmocka's (case names with *). Each case must leave as many open file
 * descriptors as before.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "cases.h"
#include "harness.h"
#ifdef HAS_VERBS
#include "../fakes/verbs/provider.h"
#endif

static int fds_before, memory_before;

static int case_before(void **state) {
    (void)state;
    limit_ms(10000);
    fds_before = fd_count();
    memory_before = fd_count_memory();
    alarm(150); /* for a case that hangs without a deadline check */
    return 0;
}

static int case_after(void **state) {
    (void)state;
    alarm(0);
    int now = fd_count(), memory = fd_count_memory();
    if (strchr(test_transport, ':')) /* a delayed message may outlive its writer's node */
        memory = memory_before;
    if (now != fds_before)
        print_error("%d file descriptors were open, now %d are\n", fds_before, now);
    if (memory != memory_before)
        print_error("a device had %d pieces of memory, now it has %d\n", memory_before, memory);
    return now == fds_before && memory == memory_before ? 0 : -1;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, case_before, case_after)

static const struct CMUnitTest for_all[] = {
    CASE(case_no_peers),
    CASE(case_sizes_small_slots),
    CASE(case_sizes_large_slots),
    CASE(case_reserve_again),
    CASE(case_bulk),
    CASE(case_full),
    CASE(case_credit_in_time),
    CASE(case_unread),
    CASE(case_ahead),
    CASE(case_taken),
    CASE(case_zero_copy),
    CASE(case_zero_copy_mixed),
    CASE(case_other_kind),
    CASE(case_get_message),
    CASE(case_open_order),
    CASE(case_open_twice),
    CASE(case_many_channels),
    CASE(case_close_any_time),
    CASE(case_destroy_any_time),
    CASE(case_two_threads),
    CASE(case_close_keeps_messages),
    CASE(case_sleep),
    CASE(case_sleepers),
    CASE(case_sleep_ends),
    CASE(case_sleep_new_link),
    CASE(case_sleep_writer),
    CASE(case_control_order),
    CASE(case_control_flood),
    CASE(case_status_page),
};

/* For backends whose slots, posted and fetched memory the CPU can access. */
static const struct CMUnitTest for_host_memory[] = {
    CASE(case_zero_copy_long), CASE(case_get),       CASE(case_help), CASE(case_post),
    CASE(case_post_withdrawn), CASE(case_post_late),
};

static const struct CMUnitTest for_two_nodes[] = {
    CASE(case_link_lazy),           CASE(case_farewell),
    CASE(case_failure_reported),    CASE(case_wrong_job),
    CASE(case_right_secret),        CASE(case_wrong_secret),
    CASE(case_other_host),          CASE(case_garbage),
    CASE(case_control_unread),      CASE(case_slot_memory),
    CASE(case_dies_in_setup),       CASE(case_late_answer),
    CASE(case_detour_named),        CASE(case_greeted_by_version),
    CASE(case_answered_by_version), CASE(case_many_peers),
};

static const struct CMUnitTest for_multicast[] = {CASE(case_multicast)};
static const struct CMUnitTest for_unicast[] = {CASE(case_multicast_refused)};

static const struct CMUnitTest for_no_chaos[] = {CASE(case_chaos_refused)};

static const struct CMUnitTest for_late[] = {
    CASE(case_declined),
    CASE(case_declined_by_all),
    CASE(case_fails_while_declined),
    CASE(case_not_ready),
};

static const struct CMUnitTest for_late_processes[] = {CASE(case_dies_while_connecting)};

static const struct CMUnitTest for_processes[] = {
    CASE(case_stopped_help),         CASE(case_two_processes),      CASE(case_sleep_processes),
    CASE(case_farewell_processes),   CASE(case_other_user),         CASE(case_killed_while_waiting),
    CASE(case_killed_while_writing), CASE(case_killed_before_link), CASE(case_stopped_seen),
};

static const struct CMUnitTest for_multicast_processes[] = {
    CASE(case_multicast_processes),
    CASE(case_multicast_killed),
};

#ifdef HAS_VERBS
/* librdmacm keeps descriptors of its own from its first use on, which no case leaked. */
static void libraries_load(void) {
    const struct rcmi_need need = {.nranks = 2, .slots = 4, .slot_bytes = 4096};
    char reason[256];
    (void)transport_row()->probe(&need, reason, sizeof reason);
}
#endif

/* Installs fake hardware for a backend without any, visible to this process only. Devices that
 * RINGCOMM_VERBS_DEVICES names are real. */
static bool fake_hardware(bool begin) {
#ifdef HAS_VERBS
    const struct provider_setup setup = {.seed = 5, .devices = 2, .inline_max = 220};
    static bool plays;
    if (begin)
        plays = transport_is("verbs") && !getenv("RINGCOMM_VERBS_DEVICES");
    if (plays && begin)
        provider_install(&setup);
    else if (plays)
        provider_remove();
    else if (transport_is("verbs") && begin)
        libraries_load();
    return plays;
#else
    (void)begin;
    return false;
#endif
}

/* Runs each case in a process of its own, which forks before it starts a thread or uses a
 * device. */
static int run_forking(const struct CMUnitTest *cases, size_t n) {
    int failed = 0;
    fflush(NULL);
    for (size_t i = 0; i < n; i++) {
        int status = 0;
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(_cmocka_run_group_tests(cases[i].name, &cases[i], 1, NULL, NULL) != 0);
        }
        const bool ended = pid > 0 && waitpid(pid, &status, 0) == pid;
        if (!ended || WIFSIGNALED(status))
            print_error("%s ended by signal %d\n", cases[i].name, ended ? WTERMSIG(status) : 0);
        failed += !ended || status != 0;
    }
    return failed;
}
#define RUN_FORKING(cases) run_forking(cases, sizeof cases / sizeof cases[0])

static int run_processes(void) {
    int failed = 0;
    if (transport_is("late"))
        failed += RUN_FORKING(for_late_processes);
    if (!test_self)
        failed += RUN_FORKING(for_processes);
    if (!test_self && transport_row()->multicast)
        failed += RUN_FORKING(for_multicast_processes);
    return failed;
}

static int run_threads(void) {
    int failed = cmocka_run_group_tests(for_all, NULL, NULL);
    if (transport_row()->kind == RCMI_MEM_HOST)
        failed += cmocka_run_group_tests(for_host_memory, NULL, NULL);
    if (transport_is("late"))
        failed += cmocka_run_group_tests(for_late, NULL, NULL);
    if (test_self)
        return failed;
    failed += cmocka_run_group_tests(for_two_nodes, NULL, NULL);
    if (transport_row()->multicast)
        failed += cmocka_run_group_tests(for_multicast, NULL, NULL);
    else
        failed += cmocka_run_group_tests(for_unicast, NULL, NULL);
    return failed;
}

/* Opens a device for a backend of device memory and keeps it: the driver's own descriptors are not
 * a case's. */
static void device_keep(bool begin) {
    static struct rcmi_device *device;
    if (transport_row()->kind == RCMI_MEM_HOST)
        return;
    if (!begin) {
        rcmi_mem_kind_row(RCMI_MEM_DEVICE)->close(device);
    } else if (rcmi_device_look(true) != RCM_OK ||
               rcmi_mem_kind_row(RCMI_MEM_DEVICE)->open("auto", 0, &device) != RCM_OK) {
        print_error("%s\n", rcm_last_error());
        exit(1);
    }
}

int main(int argc, char **argv) {
    bool threads_only = false;
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "threads") == 0)
            threads_only = true;
        else
            cmocka_set_test_filter(argv[i]);
    if (argc > 1)
        test_transport = argv[1];
    test_self = transport_row()->loops_back;
    if (test_self && strchr(test_transport, ':'))
        return cmocka_run_group_tests(for_no_chaos, NULL, NULL);
    threads_only = fake_hardware(true) || threads_only;
    int failed = threads_only ? 0 : run_processes();
    device_keep(true);
    failed += run_threads();
    device_keep(false);
    (void)fake_hardware(false);
    return failed != 0;
}
