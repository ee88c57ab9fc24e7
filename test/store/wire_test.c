/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP store's server tested with raw sockets: both dialects byte for byte, and clients that
 * send invalid, incomplete or oversized messages, or nothing.
 */
#include "check.h"
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "rendezvous.h"

static rcm_store *store;
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

/* The server answers other clients quickly, whatever one client does. */
static void others_are_served(void) {
    double start = seconds_now();
    check_ok(rcm_store_set(store, "alive", "yes", 3));
    char *text = get_text(store, "alive");
    assert_string_equal(text, "yes");
    free(text);
    assert_true(seconds_now() - start < 1);
}

/* ---- Messages ------------------------------------------------------------------------------ */

struct message {
    unsigned char data[4096];
    size_t len;
};

static void put(struct message *m, const void *data, size_t len) {
    memcpy(m->data + m->len, data, len);
    m->len += len;
}

static void put_op(struct message *m, unsigned char op) {
    put(m, &op, 1);
}

static void put_u64(struct message *m, uint64_t value) {
    put(m, &value, 8);
}

static void put_text(struct message *m, const char *text) {
    put_u64(m, strlen(text));
    put(m, text, strlen(text));
}

static void message_send(int fd, struct message *m) {
    raw_send(fd, m->data, m->len);
    m->len = 0;
}

static void expect_u64(int fd, uint64_t value) {
    raw_expect(fd, &value, 8);
}

static void expect_text(int fd, const char *text) {
    expect_u64(fd, strlen(text));
    raw_expect(fd, text, strlen(text));
}

static void expect_byte(int fd, unsigned char value) {
    raw_expect(fd, &value, 1);
}

static const unsigned char validate[] = {0, 0xce, 0xf7, 0x85, 0x3c};

static int connect_c10d(void) {
    static const unsigned char ping[] = {13, 1, 2, 3, 4};
    int fd = raw_connect(port);
    raw_send(fd, validate, sizeof validate);
    raw_send(fd, ping, sizeof ping);
    raw_expect(fd, ping + 1, 4);
    return fd;
}

/* ---- Dialects ------------------------------------------------------------------------------ */

static void c10d_bytes(void **state) {
    /* SET "/key" "value" and GET of it, spelled out. */
    static const unsigned char set[] = {1, 4, 0, 0, 0, 0, 0, 0, 0,   '/', 'k', 'e', 'y',
                                        5, 0, 0, 0, 0, 0, 0, 0, 'v', 'a', 'l', 'u', 'e'};
    static const unsigned char get[] = {3, 4, 0, 0, 0, 0, 0, 0, 0, '/', 'k', 'e', 'y'};
    static const unsigned char value[] = {5, 0, 0, 0, 0, 0, 0, 0, 'v', 'a', 'l', 'u', 'e'};
    int fd = connect_c10d();
    (void)state;
    raw_send(fd, set, sizeof set);
    raw_send(fd, get, sizeof get);
    raw_expect(fd, value, sizeof value);
    char *text = get_text(store, "key");
    assert_string_equal(text, "value");
    free(text);
    close(fd);
}

static void c10d_operations(void **state) {
    struct message m = {.len = 0};
    int fd = connect_c10d();
    (void)state;
    put_op(&m, 4), put_text(&m, "/n"), put_u64(&m, 7); /* ADD */
    message_send(fd, &m);
    expect_u64(fd, 7);
    put_op(&m, 2), put_text(&m, "/c"), put_text(&m, "x"), put_text(&m, "y"); /* COMPARE_SET */
    put_op(&m, 2), put_text(&m, "/c"), put_text(&m, ""), put_text(&m, "y");
    put_op(&m, 2), put_text(&m, "/c"), put_text(&m, "z"), put_text(&m, "a");
    put_op(&m, 2), put_text(&m, "/c"), put_text(&m, "y"), put_text(&m, "b");
    message_send(fd, &m);
    expect_text(fd, "x"); /* missing: in this dialect the answer is the expected value */
    expect_text(fd, "y");
    expect_text(fd, "y");
    expect_text(fd, "b");
    put_op(&m, 5), put_u64(&m, 2), put_text(&m, "/n"), put_text(&m, "/c"); /* CHECK */
    put_op(&m, 5), put_u64(&m, 2), put_text(&m, "/n"), put_text(&m, "/none");
    put_op(&m, 5), put_u64(&m, 0);
    message_send(fd, &m);
    expect_byte(fd, 0);
    expect_byte(fd, 1);
    expect_byte(fd, 0);
    put_op(&m, 9), put_text(&m, "/c"), put_text(&m, "+"); /* APPEND */
    put_op(&m, 10), put_u64(&m, 3), put_text(&m, "/c"), put_text(&m, "/none"),
        put_text(&m, "/n"); /* MULTI_GET */
    message_send(fd, &m);
    expect_text(fd, "b+");
    expect_text(fd, "");
    expect_text(fd, "7");
    put_op(&m, 11), put_u64(&m, 2), put_text(&m, "/p"), put_text(&m, "1"), put_text(&m, "/q"),
        put_text(&m, "2");             /* MULTI_SET */
    put_op(&m, 7);                     /* GETNUMKEYS */
    put_op(&m, 8), put_text(&m, "/p"); /* DELETE_KEY */
    put_op(&m, 8), put_text(&m, "/p");
    put_op(&m, 7);
    message_send(fd, &m);
    expect_u64(fd, 4);
    expect_u64(fd, 1);
    expect_u64(fd, 0);
    expect_u64(fd, 3);
    put_op(&m, 17); /* LIST_KEYS */
    message_send(fd, &m);
    expect_u64(fd, 3);
    for (int i = 0; i < 3; i++) {
        char key[2];
        expect_u64(fd, 2);
        assert_int_equal(recv(fd, key, 2, MSG_WAITALL), 2);
        assert_true(key[0] == '/' && strchr("ncq", key[1]));
    }
    close(fd);
}

static void c10d_waiting(void **state) {
    struct message m = {.len = 0};
    int fd = connect_c10d(), other = connect_c10d();
    (void)state;
    put_op(&m, 6), put_u64(&m, 2), put_text(&m, "/a"), put_text(&m, "/b"); /* WAIT */
    message_send(fd, &m);
    assert_true(raw_silent_for(fd, 50));
    check_ok(rcm_store_set(store, "a", "", 0));
    assert_true(raw_silent_for(fd, 50));
    check_ok(rcm_store_set(store, "b", "", 0));
    expect_byte(fd, 0);
    put_op(&m, 6), put_u64(&m, 2), put_text(&m, "/a"), put_text(&m, "/b");
    message_send(fd, &m);
    expect_byte(fd, 0);
    put_op(&m, 6), put_u64(&m, 1), put_text(&m, "/never");
    put_op(&m, 12); /* CANCEL_WAIT */
    message_send(fd, &m);
    expect_byte(fd, 1);
    check_ok(rcm_store_set(store, "never", "", 0));
    assert_true(raw_silent_for(fd, 50)); /* the wait is cancelled */
    put_op(&m, 12);
    message_send(fd, &m);
    expect_byte(fd, 1);

    /* A new request of a waiting client replaces its wait. */
    put_op(&m, 6), put_u64(&m, 1), put_text(&m, "/former");
    put_op(&m, 6), put_u64(&m, 1), put_text(&m, "/a");
    message_send(fd, &m);
    expect_byte(fd, 0);
    check_ok(rcm_store_set(store, "former", "", 0));
    assert_true(raw_silent_for(fd, 50));

    /* A waiter that disconnects is removed. */
    put_op(&m, 6), put_u64(&m, 1), put_text(&m, "/later");
    message_send(other, &m);
    assert_true(raw_silent_for(other, 20));
    close(other);
    sleep_ms(20);
    check_ok(rcm_store_set(store, "later", "", 0));
    others_are_served();
    close(fd);
}

static void c10d_queues(void **state) {
    struct message m = {.len = 0};
    int fd = connect_c10d(), other = connect_c10d();
    (void)state;
    put_op(&m, 6), put_u64(&m, 1), put_text(&m, "/q");
    message_send(other, &m);
    put_op(&m, 16), put_text(&m, "/q");                        /* QUEUE_LEN */
    put_op(&m, 15), put_text(&m, "/q");                        /* QUEUE_POP */
    put_op(&m, 14), put_text(&m, "/q"), put_text(&m, "first"); /* QUEUE_PUSH */
    put_op(&m, 14), put_text(&m, "/q"), put_text(&m, "");
    put_op(&m, 14), put_text(&m, "/q"), put_text(&m, "third");
    put_op(&m, 16), put_text(&m, "/q");
    message_send(fd, &m);
    expect_u64(fd, 0);
    expect_u64(fd, 0);
    expect_u64(fd, 3);
    expect_byte(other, 0);
    for (int i = 0; i < 3; i++)
        put_op(&m, 15), put_text(&m, "/q");
    put_op(&m, 16), put_text(&m, "/q");
    message_send(other, &m);
    expect_u64(other, 3), expect_text(other, "first");
    expect_u64(other, 2), expect_text(other, "");
    expect_u64(other, 1), expect_text(other, "third");
    expect_u64(other, 0);

    put_op(&m, 18), put_text(&m, "/bar"), put_u64(&m, 2); /* BARRIER */
    message_send(fd, &m);
    assert_true(raw_silent_for(fd, 50));
    put_op(&m, 18), put_text(&m, "/bar"), put_u64(&m, 2);
    message_send(other, &m);
    expect_byte(other, 0);
    expect_byte(fd, 0);
    close(fd);
    close(other);
}

static void old_dialect(void **state) {
    /* As torch 1.13 sends: no VALIDATE, SET is 0. */
    static const unsigned char set[] = {0, 4, 0, 0, 0, 0, 0, 0, 0,   '/', 'k', 'e', 'y',
                                        5, 0, 0, 0, 0, 0, 0, 0, 'v', 'a', 'l', 'u', 'e'};
    struct message m = {.len = 0};
    int fd = raw_connect(port), first_add = raw_connect(port);
    (void)state;
    raw_send(fd, set, sizeof set);
    put_op(&m, 5), put_u64(&m, 1), put_text(&m, "/key"); /* WAIT */
    put_op(&m, 2), put_text(&m, "/key");                 /* GET */
    message_send(fd, &m);
    expect_byte(fd, 0);
    expect_text(fd, "value");
    put_op(&m, 1), put_text(&m, "/key"), put_text(&m, "value"), put_text(&m, "v2");
    put_op(&m, 4), put_u64(&m, 1), put_text(&m, "/none"); /* CHECK */
    put_op(&m, 6);                                        /* GETNUMKEYS */
    put_op(&m, 8), put_text(&m, "/key");                  /* DELETE_KEY */
    message_send(fd, &m);
    expect_text(fd, "v2");
    expect_byte(fd, 1);
    expect_u64(fd, 1);
    expect_u64(fd, 1);
    /* The first request of a rank of torch 1.13: it counts itself. */
    put_op(&m, 3), put_text(&m, "init/"), put_u64(&m, 1); /* ADD */
    message_send(first_add, &m);
    expect_u64(first_add, 1);
    close(first_add);
    /* WATCH_KEY is not supported. */
    put_op(&m, 7), put_text(&m, "/key");
    message_send(fd, &m);
    assert_true(raw_closed_within(fd, 1000));
    close(fd);
}

/* ---- Invalid messages ---------------------------------------------------------------------- */

static void byte_by_byte(void **state) {
    struct message m = {.len = 0};
    int fd = raw_connect(port);
    (void)state;
    put(&m, validate, sizeof validate);
    put_op(&m, 11), put_u64(&m, 2), put_text(&m, "/x"), put_text(&m, "1"), put_text(&m, "/y"),
        put_text(&m, "");
    put_op(&m, 10), put_u64(&m, 2), put_text(&m, "/x"), put_text(&m, "/y");
    for (size_t i = 0; i < m.len; i++) {
        raw_send(fd, m.data + i, 1);
        sleep_ms(1);
    }
    expect_text(fd, "1");
    expect_text(fd, "");
    close(fd);
}

static void garbage(void **state) {
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n",
                                        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                        "\xff\xff\xff\xff\xff\xff\xff\xff\xff", "RCMAUTH1I"};
    uint32_t seed = 12345;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int fd = raw_connect(port);
        raw_send(fd, texts[i], strlen(texts[i]));
        assert_true(raw_closed_within(fd, 1000));
        close(fd);
    }
    for (int round = 0; round < 300; round++) { /* after a valid greeting; must not crash */
        unsigned char noise[64];
        int fd = raw_connect(port);
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
        noise[0] %= 20;
        raw_send(fd, validate, sizeof validate);
        raw_send(fd, noise, sizeof noise);
        close(fd);
    }
    others_are_served();
}

static void expect_dropped(struct message *m) {
    int fd = connect_c10d();
    message_send(fd, m);
    assert_true(raw_closed_within(fd, 1000));
    close(fd);
}

static void too_long(void **state) {
    struct message m = {.len = 0};
    static const uint64_t lengths[] = {8194, 1u << 31, UINT64_C(1) << 63, UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        put_op(&m, 3), put_u64(&m, lengths[i]); /* a key */
        expect_dropped(&m);
        uint64_t value_len = i == 0 ? 8 * 1024 * 1024 + 1 : lengths[i];
        put_op(&m, 1), put_text(&m, "/k"), put_u64(&m, value_len);
        expect_dropped(&m);
        for (unsigned char op = 5; op <= 11; op += op == 6 ? 4 : 1) { /* CHECK WAIT MULTI_ */
            put_op(&m, op), put_u64(&m, i == 0 ? 131073 : lengths[i]);
            expect_dropped(&m);
        }
    }
    put_op(&m, 99);
    expect_dropped(&m);
    put_op(&m, 1), put_text(&m, "/t"), put_text(&m, "no number");
    put_op(&m, 4), put_text(&m, "/t"), put_u64(&m, 1); /* the dialect has no error reply */
    expect_dropped(&m);
    others_are_served();
}

static void halves_hold_nobody_up(void **state) {
    struct message m = {.len = 0};
    int fds[50];
    (void)state;
    for (int i = 0; i < 50; i++) {
        fds[i] = connect_c10d();
        put_op(&m, 1), put_text(&m, "/half"), put_u64(&m, 8 * 1024 * 1024), put(&m, "part", 4);
        message_send(fds[i], &m);
    }
    others_are_served();
    for (int i = 0; i < 50; i++)
        close(fds[i]);
    others_are_served();
}

static void one_who_does_not_read(void **state) {
    /* The client requests 800 MiB and reads none: the server's buffer is bounded, others are
     * served. */
    struct message m = {.len = 0};
    struct rusage before, after;
    char *big = calloc(1, 8 * 1024 * 1024);
    int fd = connect_c10d();
    (void)state;
    check_ok(rcm_store_set(store, "big", big, 8 * 1024 * 1024));
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 100; i++) {
        put_op(&m, 3), put_text(&m, "/big");
        message_send(fd, &m);
    }
    put_op(&m, 10), put_u64(&m, 3), put_text(&m, "/big"), put_text(&m, "/big"),
        put_text(&m, "/big");
    put_op(&m, 13), put(&m, "ping", 4);
    message_send(fd, &m);
    sleep_ms(200);
    others_are_served();
    getrusage(RUSAGE_SELF, &after);
    if (after.ru_maxrss - before.ru_maxrss > 200 * 1024)
        fail_msg("grew by %ld KiB", after.ru_maxrss - before.ru_maxrss);
    for (int i = 0; i < 103; i++) { /* now it reads, and gets everything */
        size_t left = 8 * 1024 * 1024;
        expect_u64(fd, left);
        while (left > 0) {
            ssize_t n = recv(fd, big, left, 0);
            assert_true(n > 0);
            left -= (size_t)n;
        }
    }
    raw_expect(fd, "ping", 4);
    free(big);
    close(fd);
}

/* ---- Silent clients, many clients ---------------------------------------------------------- */

static void silent_dropped(void **state) {
    static const unsigned char get[] = {1, 9, 0, 0};
    int silent = raw_connect(port), half = raw_connect(port), old = raw_connect(port);
    int good = connect_c10d();
    double start = seconds_now();
    (void)state;
    raw_send(half, validate, 3);
    raw_send(old, get, sizeof get); /* half a message of the old dialect */
    while (seconds_now() - start < 4.5) {
        others_are_served();
        sleep_ms(100);
    }
    assert_true(raw_silent_for(silent, 0) && raw_silent_for(half, 0) && raw_silent_for(old, 0));
    assert_true(raw_closed_within(silent, 1000));
    assert_true(raw_closed_within(half, 500));
    assert_true(raw_closed_within(old, 500));
    assert_true(raw_silent_for(good, 0)); /* a client that has sent its greeting may stay silent */
    assert_true(seconds_now() - start > 4.9);
    close(silent);
    close(half);
    close(old);
    close(good);
}

static void second_connection_of_old_client(void **state) {
    /* torch 1.13 opens two connections and sends nothing on one; the server keeps that one. */
    struct message m = {.len = 0};
    int old = raw_connect(port), kept = raw_connect(port), unknown = raw_connect(port);
    (void)state;
    put_op(&m, 3), put_text(&m, "init/"), put_u64(&m, 1);
    message_send(old, &m);
    expect_u64(old, 1);
    sleep_ms(5300);
    assert_true(raw_silent_for(kept, 0));
    assert_true(raw_closed_within(unknown, 500));
    close(old);
    close(kept);
    close(unknown);
}

static void thousand_connections(void **state) {
    enum { N = 1000 };
    static int fds[N];
    struct message m = {.len = 0};
    struct rlimit limit;
    (void)state;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 2 * N + 100) { /* both ends are in this process */
        limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    double start = seconds_now();
    for (int i = 0; i < N; i++)
        fds[i] = raw_connect(port);
    for (int i = 0; i < N; i++) {
        put(&m, validate, sizeof validate);
        put_op(&m, 6), put_u64(&m, 1), put_text(&m, "/go");
        message_send(fds[i], &m);
    }
    others_are_served();
    check_ok(rcm_store_set(store, "go", "", 0));
    for (int i = 0; i < N; i++)
        expect_byte(fds[i], 0);
    double took = seconds_now() - start;
    for (int i = 0; i < N; i++)
        close(fds[i]);
    others_are_served();
    if (took > 5)
        fail_msg("1,000 clients took %.1f s", took);
}

static void out_of_descriptors(void **state) {
    /* While accept() fails the server serves the connected clients, and accepts the others
     * later. */
    struct rlimit limit, low;
    int fds[64], n = 0;
    (void)state;
    others_are_served(); /* its connection exists already */
    getrlimit(RLIMIT_NOFILE, &limit);
    for (; n < 8; n++)
        fds[n] = dup(0);
    low = limit;
    low.rlim_cur = (rlim_t)fds[7] + 2; /* one free descriptor: the raw client's end */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int fd = raw_connect(port);
    sleep_ms(150);
    others_are_served();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    raw_send(fd, validate, sizeof validate);
    raw_send(fd, "\x0dping", 5);
    raw_expect(fd, "ping", 4);
    close(fd);
    while (n > 0)
        close(fds[--n]);
}

/* ---- Listening ----------------------------------------------------------------------------- */

static void port_in_use(void **state) {
    rcm_store *second;
    char url[64], word[32];
    (void)state;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?server=1", port);
    snprintf(word, sizeof word, "port %d of 127.0.0.1", port);
    double start = seconds_now();
    check_status(RCM_ERR_SYSTEM, rcm_store_open(url, 0, &second));
    assert_true(seconds_now() - start < 1);
    check_error_names(word);
    check_error_names("in use");
}

static void nobody_listens(void **state) {
    rcm_store *client;
    char url[64], where[32];
    int fd, free_port;
    (void)state;
    check_ok(rcmi_store_listen("127.0.0.1", 0, &fd, &free_port));
    close(fd);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", free_port);
    snprintf(where, sizeof where, "127.0.0.1:%d", free_port);
    double start = seconds_now();
    check_status(RCM_ERR_TIMEOUT, rcm_store_open(url, 300, &client));
    double took = seconds_now() - start;
    check_error_names(where);
    check_error_names("refused");
    assert_true(took >= 0.29 && took < 1.5);
}

static void no_store_listens(void **state) {
    /* A server that accepts and sends another protocol, and one that closes the connection. */
    rcm_store *client;
    char url[64];
    int fd, p;
    (void)state;
    check_ok(rcmi_store_listen("127.0.0.1", 0, &fd, &p));
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", p);
    check_status(RCM_ERR_TIMEOUT, rcm_store_open(url, 300, &client)); /* the backlog accepts it */
    check_error_names("does not reply like a store");
    close(fd);
}

static void served_listener(void **state) {
    rcm_store *server, *client;
    int fd, p;
    (void)state;
    check_ok(rcmi_store_listen("127.0.0.1", 0, &fd, &p));
    check_ok(rcmi_store_serve(fd, &server));
    assert_int_equal(url_port(rcm_store_url(server)), p);
    check_ok(rcm_store_open(rcm_store_url(server), 0, &client));
    check_ok(rcm_store_set(client, "k", "v", 1));
    char *text = get_text(server, "k");
    assert_string_equal(text, "v");
    free(text);
    rcm_store_close(client);
    rcm_store_close(server);
    /* All addresses. */
    check_ok(rcmi_store_listen(NULL, 0, &fd, &p));
    check_ok(rcmi_store_serve(fd, &server));
    port = p;
    int raw = connect_c10d();
    close(raw);
    rcm_store_close(server);
    port = url_port(rcm_store_url(store));
    check_status(RCM_ERR_INVALID, rcmi_store_serve(-1, &server));
}

static void server_gone(void **state) {
    rcm_store *server, *client;
    void *value;
    size_t len;
    (void)state;
    check_ok(rcm_store_open("tcp://127.0.0.1:0?server=1", 0, &server));
    check_ok(rcm_store_open(rcm_store_url(server), 0, &client));
    char where[64];
    snprintf(where, sizeof where, "127.0.0.1:%d", url_port(rcm_store_url(server)));
    rcm_store_close(server);
    double start = seconds_now();
    check_status(RCM_ERR_PEER, rcm_store_get(client, "a key", 10000, &value, &len));
    assert_true(seconds_now() - start < 1);
    check_error_names("a key");
    check_error_names(where);
    rcm_store_close(client);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(c10d_bytes),
        TEST(c10d_operations),
        TEST(c10d_waiting),
        TEST(c10d_queues),
        TEST(old_dialect),
        TEST(byte_by_byte),
        TEST(garbage),
        TEST(too_long),
        TEST(halves_hold_nobody_up),
        TEST(one_who_does_not_read),
        TEST(silent_dropped),
        TEST(second_connection_of_old_client),
        TEST(thousand_connections),
        TEST(out_of_descriptors),
        TEST(port_in_use),
        TEST(nobody_listens),
        TEST(no_store_listens),
        TEST(served_listener),
        TEST(server_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
