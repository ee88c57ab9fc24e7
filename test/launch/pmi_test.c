/* SPDX-License-Identifier: BSD-3-Clause */
/* The client of PMI-1 with a process manager that answers, rejects, sends garbage, is silent or
 * dies; then ranks that meet through it. */
#include "../store/check.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pmi1.h"
#include "pmi_server.h"
#include "rendezvous.h"

static const struct pmi_fault no_fault = {NULL, NULL};

static rcmi_deadline soon(void) {
    return rcmi_deadline_in(10000);
}

/* ---- The protocol -------------------------------------------------------------------------- */

static void put_and_get(void **state) {
    struct pmi_server s;
    struct rcmi_pmi1 pmi;
    char value[1100], longest[1024], key[80];
    (void)state;
    memset(longest, 'x', sizeof longest);
    longest[1023] = '\0';
    pmi_server_open(&s, 1, no_fault);
    pmi_server_start(&s);
    check_ok(rcmi_pmi1_init(&pmi, s.client_fd[0], soon()));
    assert_string_equal(pmi.kvsname, "kvs_1_0");
    assert_int_equal(pmi.val_max, 1024);
    check_ok(rcmi_pmi1_put(&pmi, "k", "tcp://[::1]:5?a=b,c", soon()));
    check_ok(rcmi_pmi1_put(&pmi, "long", longest, soon()));
    check_ok(rcmi_pmi1_barrier(&pmi, soon()));
    check_ok(rcmi_pmi1_get(&pmi, "k", soon(), value, sizeof value));
    assert_string_equal(value, "tcp://[::1]:5?a=b,c");
    check_ok(rcmi_pmi1_get(&pmi, "long", soon(), value, sizeof value));
    assert_string_equal(value, longest);

    /* too long for the server, for the caller, for the protocol: no other damage */
    memset(value, 'y', 1024);
    value[1024] = '\0';
    check_status(RCM_ERR_INVALID, rcmi_pmi1_put(&pmi, "k", value, soon()));
    check_error_names("1024 bytes");
    check_status(RCM_ERR_PROTOCOL, rcmi_pmi1_get(&pmi, "long", soon(), value, 1023));
    memset(key, 'k', 64);
    key[64] = '\0';
    check_status(RCM_ERR_INVALID, rcmi_pmi1_get(&pmi, key, soon(), value, sizeof value));
    check_error_names("at most 63");
    check_status(RCM_ERR_INVALID, rcmi_pmi1_put(&pmi, "k", "a b", soon()));
    check_status(RCM_ERR_INVALID, rcmi_pmi1_put(&pmi, "", "a", soon()));
    check_status(RCM_ERR_INVALID, rcmi_pmi1_put(&pmi, "k", "a\ncmd=finalize", soon()));
    check_error_names("blank");
    check_status(RCM_ERR_NOT_FOUND, rcmi_pmi1_get(&pmi, "none", soon(), value, sizeof value));
    check_error_names("none");
    check_ok(rcmi_pmi1_get(&pmi, "k", soon(), value, sizeof value));
    check_ok(rcmi_pmi1_finalize(&pmi, soon()));
    pmi_server_stop(&s);
    assert_int_equal(s.finalized, 1);
}

static char endless[9001]; /* longer than any line */

/* Makes all calls in order; returns the first failure. */
static rcm_status whole_life(int fd, rcmi_deadline deadline, const char **ret_step) {
    struct rcmi_pmi1 pmi;
    char value[200];
    rcm_status status;
    *ret_step = "init";
    if ((status = rcmi_pmi1_init(&pmi, fd, deadline)) != RCM_OK)
        return status;
    *ret_step = "put";
    if ((status = rcmi_pmi1_put(&pmi, "k", "v", deadline)) != RCM_OK)
        return status;
    *ret_step = "barrier";
    if ((status = rcmi_pmi1_barrier(&pmi, deadline)) != RCM_OK)
        return status;
    *ret_step = "get";
    if ((status = rcmi_pmi1_get(&pmi, "k", deadline, value, sizeof value)) != RCM_OK)
        return status;
    *ret_step = "finalize";
    return rcmi_pmi1_finalize(&pmi, deadline);
}

static void faults(void **state) {
    static const struct {
        struct pmi_fault fault;
        const char *step;
        rcm_status status;
        const char *text;
    } table[] = {
        {{"init", "cmd=response_to_init rc=-1\n"}, "init", RCM_ERR_UNSUPPORTED, "support PMI 1.1"},
        {{"init", "cmd=init_ack\n"}, "init", RCM_ERR_PROTOCOL, "cmd=init_ack"},
        {{"init", "HTTP/1.0 400 Bad Request\r\n"}, "init", RCM_ERR_PROTOCOL, "HTTP/1.0"},
        {{"init", "\n"}, "init", RCM_ERR_PROTOCOL, "response_to_init"},
        {{"init", "cmd=response_to_init rc=0\1\n"}, "init", RCM_ERR_PROTOCOL, "NUL"},
        {{"init", ""}, "init", RCM_ERR_PEER, "closed"},
        {{"init", endless}, "init", RCM_ERR_PROTOCOL, "longer than"},
        {{"get_maxes", "cmd=maxes keylen_max=64\n"}, "init", RCM_ERR_PROTOCOL, "no vallen_max"},
        {{"get_maxes", "cmd=maxes keylen_max=0 vallen_max=9\n"},
         "init",
         RCM_ERR_PROTOCOL,
         "wrong keylen_max"},
        {{"get_maxes", "cmd=maxes keylen_max=64 vallen_max=99999999999999999999999\n"},
         "init",
         RCM_ERR_PROTOCOL,
         "vallen_max"},
        {{"get_my_kvsname", "cmd=my_kvsname\n"}, "init", RCM_ERR_PROTOCOL, "no kvsname"},
        {{"put", "cmd=put_result rc=-1 msg=full\n"}, "put", RCM_ERR_SYSTEM, "msg=full"},
        {{"put", ""}, "put", RCM_ERR_PEER, "put_result"},
        {{"barrier_in", NULL}, "barrier", RCM_ERR_TIMEOUT, "barrier_out"},
        {{"barrier_in", ""}, "barrier", RCM_ERR_PEER, "barrier_out"},
        {{"barrier_in", "cmd=barr"}, "barrier", RCM_ERR_TIMEOUT, "barrier_out"},
        {{"get", "cmd=get_result rc=0 msg=success\n"}, "get", RCM_ERR_PROTOCOL, "no value"},
        {{"get", "cmd=get_result rc=-1 msg=key_k_not_found value=unknown\n"},
         "get",
         RCM_ERR_NOT_FOUND,
         "no key k"},
        {{"finalize", ""}, "finalize", RCM_ERR_PEER, "finalize_ack"},
    };
    (void)state;
    memset(endless, 'z', sizeof endless - 1);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct pmi_server s;
        const char *step;
        pmi_server_open(&s, 1, table[i].fault);
        pmi_server_start(&s);
        double start = seconds_now();
        rcm_status status = whole_life(s.client_fd[0], rcmi_deadline_in(300), &step);
        if (status != table[i].status || strcmp(step, table[i].step) != 0)
            fail_msg("row %zu: %s at %s: %s", i, rcm_status_name(status), step, rcm_last_error());
        check_error_names(table[i].text);
        assert_true(seconds_now() - start < 5);
        pmi_server_stop(&s);
    }
}

/* After a request without an answer the client sends no request that the late answer could
 * match. */
static void broken_stays_broken(void **state) {
    struct pmi_server s;
    struct rcmi_pmi1 pmi;
    char value[20];
    (void)state;
    pmi_server_open(&s, 1, (struct pmi_fault){"barrier_in", NULL});
    pmi_server_start(&s);
    check_ok(rcmi_pmi1_init(&pmi, s.client_fd[0], soon()));
    check_status(RCM_ERR_TIMEOUT, rcmi_pmi1_barrier(&pmi, rcmi_deadline_in(50)));
    check_status(RCM_ERR_PROTOCOL, rcmi_pmi1_get(&pmi, "k", soon(), value, sizeof value));
    check_error_names("earlier failure");
    check_ok(rcmi_pmi1_finalize(&pmi, soon())); /* sends the end without waiting for an answer */
    pmi_server_stop(&s);
    assert_int_equal(s.finalized, 1);
}

/* ---- Ranks that meet ----------------------------------------------------------------------- */

#define ROUNDS 2

/* The whole process of a rank: meets the others twice. Exit status 0 on success. */
static int rank_run(int rank, int size, int local_size, int fd, int64_t timeout_ms) {
    char text[24];
    const char *const names[] = {"PMI_RANK", "PMI_SIZE", "PMI_FD", "MPI_LOCALNRANKS"};
    const int values[] = {rank, size, fd, local_size};
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%d", values[i]);
        setenv(names[i], text, 1);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct rcmi_launch launch;
        rcm_store *store = NULL;
        int64_t arrived = 0;
        rcm_status status = rcmi_launch_resolve(NULL, &launch);
        if (status != RCM_OK)
            return 2;
        status = rcmi_launch_open(&launch, NULL, timeout_ms, &store);
        rcmi_launch_fini(&launch);
        if (status == RCM_OK) /* the counter would continue in a store of the earlier round */
            status = rcm_store_add(store, "arrived", 1, &arrived);
        const char *const all = "all";
        if (status == RCM_OK && arrived == size)
            status = rcm_store_set(store, all, "", 0);
        if (status == RCM_OK)
            status = rcm_store_wait(store, &all, 1, 10000);
        if (rank == 0 && status == RCM_OK) /* the server leaves last */
            while (rcm_store_add(store, "left", 0, &arrived) == RCM_OK && arrived < size - 1)
                sleep_ms(5);
        else if (status == RCM_OK)
            status = rcm_store_add(store, "left", 1, &arrived);
        rcm_store_close(store);
        if (status != RCM_OK) {
            fprintf(stderr, "rank %d, round %d: %s: %s\n", rank, i, rcm_status_name(status),
                    rcm_last_error());
            return status == RCM_ERR_TIMEOUT ? 3 : status == RCM_ERR_PEER ? 4 : 1;
        }
    }
    return 0;
}

/* Runs n ranks as processes under a server; returns how many left with `code`. */
static int job_run(int n, int local_size, struct pmi_fault fault, int64_t timeout_ms, int code,
                   int *ret_finalized) {
    struct pmi_server s;
    pid_t pid[PMI_CLIENTS];
    int count = 0;
    pmi_server_open(&s, n, fault);
    fflush(stdout);
    for (int r = 0; r < n; r++) {
        pid[r] = fork();
        if (pid[r] == 0) {
            for (int k = 0; k < n; k++) { /* so that the server sees the end of a process */
                close(s.server_fd[k]);
                if (k != r)
                    close(s.client_fd[k]);
            }
            exit(rank_run(r, n, local_size, s.client_fd[r], timeout_ms));
        }
        assert_true(pid[r] > 0);
    }
    pmi_server_start(&s);
    for (int r = 0; r < n; r++) {
        int status;
        assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
        count += WIFEXITED(status) && WEXITSTATUS(status) == code;
    }
    pmi_server_stop(&s);
    *ret_finalized = s.finalized;
    return count;
}

static void ranks_meet(void **state) {
    static const struct {
        int n, local_size;
    } table[] = {{2, 2}, {5, 5}, {4, 2}}; /* the last one: as if on two machines */
    int finalized;
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int good = job_run(table[i].n, table[i].local_size, no_fault, 20000, 0, &finalized);
        assert_int_equal(good, table[i].n);
        assert_int_equal(finalized, table[i].n);
    }
}

static void ranks_and_a_bad_manager(void **state) {
    int finalized;
    (void)state;
    /* the server dies: all ranks fail at once */
    double start = seconds_now();
    assert_int_equal(job_run(3, 3, (struct pmi_fault){"barrier_in", ""}, 20000, 4, &finalized), 3);
    assert_true(seconds_now() - start < 10);
    /* it is silent: all ranks fail at their deadline, and still send the end */
    start = seconds_now();
    assert_int_equal(job_run(3, 3, (struct pmi_fault){"barrier_in", NULL}, 500, 3, &finalized), 3);
    assert_true(seconds_now() - start < 10);
    assert_int_equal(finalized, 3);
}

/* A PMI_FD that is no socket. */
static void no_socket(void **state) {
    struct rcmi_launch launch;
    rcm_store *store;
    int pipes[2];
    char text[24];
    (void)state;
    assert_int_equal(pipe(pipes), 0);
    clearenv();
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "2", 1);
    snprintf(text, sizeof text, "%d", pipes[0]);
    setenv("PMI_FD", text, 1);
    check_ok(rcmi_launch_resolve(NULL, &launch));
    check_status(RCM_ERR_CONFIG, rcmi_launch_open(&launch, NULL, 1000, &store));
    check_error_names("not an open socket");
    check_error_names("MASTER_ADDR");
    rcmi_launch_fini(&launch);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_and_get),
        cmocka_unit_test(faults),
        cmocka_unit_test(broken_stays_broken),
        cmocka_unit_test(ranks_meet),
        cmocka_unit_test(ranks_and_a_bad_manager),
        cmocka_unit_test(no_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
