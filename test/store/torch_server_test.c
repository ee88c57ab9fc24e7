/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP store's client with torch's servers, which a proxy in front of our server imitates. The
 * proxy spoils the request for our own operations. In the old dialect it closes the connection at
 * the greeting. A "deaf" one never wakes a waiter, like torch's servers without libuv for keys that
 * COMPARE_SET made. A "slow" one delays the end of a cancelled wait. torch's real servers:
 * test/interop/torch_test.py.
 */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include "rendezvous.h"

#define CANCEL_WAIT 12
#define SLOW_MS     1100 /* longer than the client waits for a server beyond a wait's deadline */

static rcm_store *store; /* the server */
static int port;

static int setup(void **state) {
    (void)state;
    check_ok(rcm_store_open("tcp://127.0.0.1:0?server=1", 0, &store));
    port = url_port(rcm_store_url(store));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rcm_store_close(store);
    return 0;
}

/* ---- The proxy ----------------------------------------------------------------------------- */

struct proxy {
    bool old, deaf, slow;
    int last; /* the listener is closed at this connection; 0: never */
    int listener, port;
    pthread_t thread;
};

/* False: the peer has closed. */
static bool pass(int to, const void *data, size_t len) {
    return send(to, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* A CHECK has the form of a WAIT and arrives alone. If the keys exist, its answer is that of a
 * WAIT; else the waiter never gets one. */
static bool pass_deaf(char *data, size_t len, int client, int server) {
    char answer = 1;
    data[0]--;
    return pass(server, data, len) && recv(server, &answer, 1, 0) == 1 &&
           (answer != 0 || pass(client, &answer, 1));
}

static bool pass_request(const struct proxy *p, int client, int server) {
    static const char word[] = "ringcomm/features";
    char data[65536];
    ssize_t n = recv(client, data, sizeof data, 0);
    if (n <= 0 ||
        (p->old && data[0] == 0 && n >= 5 && memcmp(data + 1, "\xce\xf7\x85\x3c", 4) == 0))
        return false;
    if (p->deaf && data[0] == (p->old ? 5 : 6))
        return pass_deaf(data, (size_t)n, client, server);
    if (p->slow && data[0] == CANCEL_WAIT)
        sleep_ms(SLOW_MS);
    char *found = memmem(data, (size_t)n, word, sizeof word - 1);
    if (found)
        *found = 'x';
    return pass(server, data, (size_t)n);
}

static bool pass_answer(int client, int server) {
    char data[65536];
    ssize_t n = recv(server, data, sizeof data, 0);
    return n > 0 && pass(client, data, (size_t)n);
}

/* One connection at a time. */
static void *proxy_main(void *arg) {
    struct proxy *p = arg;
    for (int number = 1;; number++) {
        struct pollfd l = {.fd = p->listener, .events = POLLIN};
        if (poll(&l, 1, 10000) <= 0)
            return NULL;
        int client = accept(p->listener, NULL, NULL);
        if (client < 0)
            return NULL; /* the test is over */
        if (number == p->last)
            shutdown(p->listener, SHUT_RDWR);
        int server = raw_connect(port);
        bool more = true;
        while (more) {
            struct pollfd ends[] = {{.fd = client, .events = POLLIN},
                                    {.fd = server, .events = POLLIN}};
            more = poll(ends, 2, 40000) > 0 &&
                   (!ends[0].revents || pass_request(p, client, server)) &&
                   (!ends[1].revents || pass_answer(client, server));
        }
        close(client);
        close(server);
    }
}

static void proxy_start(struct proxy *p, const char *query, rcm_store **ret_client) {
    char url[100];
    check_ok(rcmi_store_listen("127.0.0.1", 0, &p->listener, &p->port));
    assert_int_equal(pthread_create(&p->thread, NULL, proxy_main, p), 0);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?%s", p->port, query);
    check_ok(rcm_store_open(url, 5000, ret_client));
}

static void proxy_stop(struct proxy *p, rcm_store *client) {
    rcm_store_close(client);
    shutdown(p->listener, SHUT_RDWR); /* wakes accept */
    pthread_join(p->thread, NULL);
    close(p->listener);
}

/* ---- Only torch's operations --------------------------------------------------------------- */

static void foreign_compare(rcm_store *client, const char *expected, const char *desired,
                            int expect_swapped, const char *expect_value) {
    int swapped = -1;
    void *value;
    size_t len;
    check_ok(rcm_store_compare_set(client, "c", expected, strlen(expected), desired,
                                   strlen(desired), &swapped, &value, &len));
    assert_int_equal(swapped, expect_swapped);
    assert_string_equal(value, expect_value);
    free(value);
}

static void foreign_server(void **state) {
    struct proxy proxy = {.old = false};
    rcm_store *client;
    int swapped;
    int64_t n;
    size_t count, len;
    void *value;
    (void)state;
    proxy_start(&proxy, "rank=1&world_size=2", &client);
    check_ok(rcm_store_add(client, "n", 3, &n));
    check_ok(rcm_store_add(client, "n", 4, &n));
    assert_int_equal(n, 7);
    check_ok(rcm_store_append(client, "a", "x", 1));
    check_ok(rcm_store_append(client, "a", "yz", 2));
    char *text = get_text(client, "a");
    assert_string_equal(text, "xyz");
    free(text);
    check_status(RCM_ERR_NOT_FOUND,
                 rcm_store_compare_set(client, "c", "e", 1, "d", 1, &swapped, &value, &len));
    check_status(RCM_ERR_NOT_FOUND,
                 rcm_store_compare_set(client, "c", "d", 1, "d", 1, &swapped, &value, &len));
    foreign_compare(client, "", "first", 1, "first");
    foreign_compare(client, "", "second", 0, "first");
    foreign_compare(client, "wrong", "first", 0, "first");
    foreign_compare(client, "first", "", 1, "");
    foreign_compare(client, "first", "third", 0, "");
    foreign_compare(client, "", "third", 1, "third");
    check_ok(rcm_store_count(client, &count)); /* n, a, c; not torch's count of ranks, "init/" */
    assert_int_equal(count, 3);
    check_status(RCM_ERR_TIMEOUT, rcm_store_get(client, "zz", 50, &value, &len));
    check_ok(rcm_store_set(client, "c", "no number", 9));
    check_status(RCM_ERR_PEER, rcm_store_add(client, "c", 1, &n)); /* closed by the server */
    check_error_names("\"c\"");
    check_ok(rcm_store_add(client, "n", 0, &n)); /* and the next call reconnects */
    assert_int_equal(n, 7);
    proxy_stop(&proxy, client);
}

/* ---- Servers that do not wake waiters ------------------------------------------------------ */

/* Sets the keys with a pause before each. */
static void *make_late(void *arg) {
    const char *const *keys = arg;
    for (; *keys; keys++) {
        int swapped = 0;
        void *value;
        size_t len;
        sleep_ms(150);
        check_ok(rcm_store_compare_set(store, *keys, "", 0, "late", 4, &swapped, &value, &len));
        assert_true(swapped);
        free(value);
    }
    return NULL;
}

/* Keys that exist, a key that is set later, a key that is never set; the store still works. */
static void deaf(bool old) {
    const char *keys[] = {"one", "two", "three", NULL}, *one_more[] = {"four", NULL};
    struct proxy proxy = {.old = old, .deaf = true};
    rcm_store *client;
    pthread_t thread;
    int64_t n;
    void *value;
    size_t len;
    proxy_start(&proxy, "server=0", &client);
    check_ok(rcm_store_set(store, "there", "x", 1));
    check_ok(rcm_store_get(client, "there", 0, &value, &len));
    free(value);
    assert_int_equal(pthread_create(&thread, NULL, make_late, keys), 0);
    check_ok(rcm_store_wait(client, keys, 3, 20000));
    pthread_join(thread, NULL);
    assert_int_equal(pthread_create(&thread, NULL, make_late, one_more), 0);
    check_ok(rcm_store_get(client, "four", 20000, &value, &len));
    pthread_join(thread, NULL);
    assert_string_equal(value, "late");
    free(value);
    for (int ms = 0; ms <= 100; ms += 50) {
        check_status(RCM_ERR_TIMEOUT, rcm_store_get(client, "never", ms, &value, &len));
        check_ok(rcm_store_add(client, "n", 1, &n));
        assert_int_equal(n, ms / 50 + 1);
    }
    proxy_stop(&proxy, client);
}

static void deaf_server(void **state) {
    (void)state;
    deaf(false);
}

static void deaf_server_of_old_dialect(void **state) {
    (void)state;
    deaf(true);
}

/* A key is never set, and the listener is gone when the client checks it: in the old dialect a
 * check needs another connection. */
static void gone_when_late(void **state) {
    void *value;
    size_t len;
    rcm_store *client;
    struct proxy proxy = {.old = true, .last = 2};
    (void)state;
    proxy_start(&proxy, "server=0", &client);
    const int64_t began = rcmi_now_ns();
    check_status(RCM_ERR_TIMEOUT, rcm_store_get(client, "never", 300, &value, &len));
    check_error_names("\"never\" was not set within");
    assert_true(rcmi_now_ns() - began < INT64_C(10000000000));
    proxy_stop(&proxy, client);
}

/* Between two checks, a wait is bounded by its own deadline only. */
static void slow_server(void **state) {
    const char *keys[] = {"late", NULL};
    struct proxy proxy = {.deaf = true, .slow = true};
    rcm_store *client;
    pthread_t thread;
    (void)state;
    proxy_start(&proxy, "server=0", &client);
    assert_int_equal(pthread_create(&thread, NULL, make_late, keys), 0);
    check_ok(rcm_store_wait(client, keys, 1, 20000));
    pthread_join(thread, NULL);
    proxy_stop(&proxy, client);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(foreign_server), TEST(deaf_server), TEST(deaf_server_of_old_dialect),
        TEST(gone_when_late), TEST(slow_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
