/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange of one blob per rank: between processes, between threads, and with missing ranks. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "rendezvous.h"

enum { RANKS = 32 };

/* A blob whose length and content depend on rank and scope. */
static size_t blob_make(int rank, int scope, char *data) {
    size_t len = (size_t)(rank * 37 % 101);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)(rank + scope * 7 + (int)i);
    return len;
}

static bool exchange_and_look(rcm_store *store, int scope, int rank, int nranks) {
    struct rcm_blob all[RANKS];
    char name[32], data[128], expected[128];
    bool good = true;
    snprintf(name, sizeof name, "scope-%d", scope);
    size_t len = blob_make(rank, scope, data);
    rcm_status status =
        rcmi_exchange(store, name, rank, nranks, data, len, rcmi_deadline_in(20000), NULL, all);
    if (status != RCM_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, rcm_last_error());
        return false;
    }
    for (int i = 0; i < nranks; i++) {
        size_t want = blob_make(i, scope, expected);
        good = good && all[i].len == want && memcmp(all[i].data, expected, want) == 0;
        free(all[i].data);
    }
    return good;
}

static int rank_main(const char *url, int rank) {
    rcm_store *store;
    bool good = true;
    if (rcm_store_open(url, 20000, &store) != RCM_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, rcm_last_error());
        return 1;
    }
    for (int scope = 0; scope < 3; scope++)
        good = good && exchange_and_look(store, scope, rank, RANKS);
    rcm_store_close(store);
    return good ? 0 : 1;
}

static void run_processes(const char *url, int first) {
    pid_t pids[RANKS];
    for (int rank = first; rank < RANKS; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] == 0) {
            alarm(40);
            _exit(rank_main(url, rank));
        }
    }
    for (int rank = first; rank < RANKS; rank++) {
        int status;
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void processes_tcp(void **state) {
    /* The order of a launcher: listen, fork, then serve. */
    rcm_store *store;
    char url[64];
    int fd, port;
    (void)state;
    check_ok(rcmi_store_listen("127.0.0.1", 0, &fd, &port));
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd);
        run_processes(url, 0);
        _exit(0);
    }
    sleep_ms(100); /* ranks may connect before the server runs */
    check_ok(rcmi_store_serve(fd, &store));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    rcm_store_close(store);
}

static void processes_file(void **state) {
    char *path = fresh_path(), *url;
    (void)state;
    assert_true(asprintf(&url, "file://%s?world_size=%d", path, RANKS) > 0);
    run_processes(url, 0);
    assert_int_not_equal(access(path, F_OK), 0);
    free(url);
    remove_path(path);
}

struct rank_thread {
    pthread_t thread;
    int rank;
    bool good;
};

static void *thread_main(void *arg) {
    struct rank_thread *t = arg;
    rcm_store *store;
    if (rcm_store_open("hash:exchange", 0, &store) != RCM_OK)
        return NULL;
    t->good = exchange_and_look(store, 0, t->rank, RANKS);
    rcm_store_close(store);
    return NULL;
}

static void threads_hash(void **state) {
    struct rank_thread ranks[RANKS];
    rcm_store *keep; /* a rank that finishes early must not end the store */
    (void)state;
    check_ok(rcm_store_open("hash:exchange", 0, &keep));
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank_thread){.rank = i};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, thread_main, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(ranks[i].thread, NULL);
        assert_true(ranks[i].good);
    }
    rcm_store_close(keep);
}

static void missing_named(const char *url) {
    rcm_store *store, *view;
    struct rcm_blob all[300];
    char scope[16];
    check_ok(rcm_store_open(url, 0, &store));
    check_ok(rcm_store_prefix(store, "job", &view));
    for (int rank = 0; rank < 8; rank++) { /* 3, 5, 6 and 7 are missing */
        if (rank == 3 || rank >= 5)
            continue;
        double start = seconds_now();
        check_status(RCM_ERR_TIMEOUT,
                     rcmi_exchange(view, "s", rank, 8, "x", 1, rcmi_deadline_in(120), NULL, all));
        double took = seconds_now() - start;
        assert_true(took >= 0.12 && took < 1.5);
    }
    check_error_names("ranks 3, 5-7 of 8 have not arrived within");
    check_status(RCM_ERR_TIMEOUT,
                 rcmi_exchange(view, "t", 1, 2, "", 0, rcmi_deadline_in(0), NULL, all));
    check_error_names("rank 0 of 2 has not arrived");
    /* Many missing ranks: the text lists as many as fit, and the number of the others. */
    for (int rank = 0; rank < 298; rank += 3) {
        snprintf(scope, sizeof scope, "job/u/%d", rank);
        check_ok(rcm_store_set(store, scope, "", 0));
    }
    check_status(RCM_ERR_TIMEOUT,
                 rcmi_exchange(view, "u", 0, 300, "", 0, rcmi_deadline_in(10), NULL, all));
    check_error_names("ranks 1-2, 4-5, 7-8");
    check_error_names("more of 300 have not arrived");
    rcm_store_close(view);
    rcm_store_close(store);
}

static void missing_ranks(void **state) {
    char *path = fresh_path(), *url;
    (void)state;
    missing_named("hash:");
    missing_named("tcp://127.0.0.1:0?server=1");
    assert_true(asprintf(&url, "file://%s", path) > 0);
    missing_named(url);
    free(url);
    remove_path(path);
}

static void wrong_arguments(void **state) {
    rcm_store *store;
    struct rcm_blob all[2];
    (void)state;
    check_ok(rcm_store_open("hash:", 0, &store));
    check_status(RCM_ERR_INVALID, rcmi_exchange(store, "s", 2, 2, "", 0, RCMI_NEVER, NULL, all));
    check_status(RCM_ERR_INVALID, rcmi_exchange(store, "s", -1, 2, "", 0, RCMI_NEVER, NULL, all));
    check_status(RCM_ERR_INVALID,
                 rcmi_exchange(store, "s", 0, 2, "", (size_t)1 << 30, RCMI_NEVER, NULL, all));
    check_ok(rcmi_exchange(store, "alone", 0, 1, "me", 2, RCMI_NEVER, NULL, all));
    assert_int_equal(all[0].len, 2);
    assert_memory_equal(all[0].data, "me", 2);
    free(all[0].data);
    rcm_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_tcp),   cmocka_unit_test(processes_file),
        cmocka_unit_test(threads_hash),    cmocka_unit_test(missing_ranks),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
