/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP store with a secret: clients with the secret, with none, with another one. */
#include "check.h"
#include <stdio.h>
#include <unistd.h>
#include "rendezvous.h"

static const unsigned char greeting[] = {0, 0xce, 0xf7, 0x85, 0x3c, 13, 'p', 'i', 'n', 'g'};

static rcm_store *serve(const char *secret) {
    rcm_store *store;
    check_ok(rcmi_store_open("tcp://127.0.0.1:0?server=1", secret, 0, &store));
    return store;
}

/* A server bound to one address listens on no other. */
static void bound(void **state) {
    rcm_store *server, *client;
    char url[64];
    (void)state;
    check_ok(rcmi_store_open("tcp://127.0.0.2:0?server=1", NULL, 0, &server));
    int port = url_port(rcm_store_url(server));
    snprintf(url, sizeof url, "tcp://127.0.0.2:%d", port);
    check_ok(rcmi_store_open(url, NULL, 10000, &client));
    rcm_store_close(client);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    check_status(RCM_ERR_TIMEOUT, rcmi_store_open(url, NULL, 300, &client));
    check_error_names("refused");
    rcm_store_close(server);
}

static void right(void **state) {
    rcm_store *server = serve("open sesame"), *client;
    (void)state;
    check_ok(rcmi_store_open(rcm_store_url(server), "open sesame", 0, &client));
    check_ok(rcm_store_set(client, "k", "v", 1));
    char *text = get_text(server, "k");
    assert_string_equal(text, "v");
    free(text);
    rcm_store_close(client);
    /* The same from the environment. */
    setenv("RINGCOMM_SECRET", "open sesame", 1);
    check_ok(rcm_store_open(rcm_store_url(server), 0, &client));
    unsetenv("RINGCOMM_SECRET");
    rcm_store_close(client);
    rcm_store_close(server);
}

static void wrong(void **state) {
    rcm_store *server = serve("open sesame"), *client;
    (void)state;
    double start = seconds_now();
    check_status(RCM_ERR_AUTH,
                 rcmi_store_open(rcm_store_url(server), "open barley", 20000, &client));
    check_error_names("127.0.0.1");
    assert_true(seconds_now() - start < 5); /* no retries until the deadline */
    check_status(RCM_ERR_AUTH, rcmi_store_open(rcm_store_url(server), NULL, 20000, &client));
    check_error_names("RINGCOMM_SECRET");
    assert_true(seconds_now() - start < 5);
    check_ok(rcmi_store_open(rcm_store_url(server), "open sesame", 0, &client));
    rcm_store_close(client);
    rcm_store_close(server);
}

static void plain_refused(void **state) {
    rcm_store *server = serve("open sesame");
    int port = url_port(rcm_store_url(server));
    (void)state;
    int fd = raw_connect(port);
    raw_send(fd, greeting, sizeof greeting);
    assert_true(raw_closed_within(fd, 1000));
    close(fd);
    /* The server parses nothing before the proof: a SET of the old dialect leaves no key. */
    fd = raw_connect(port);
    raw_send(fd, "\0\x02\0\0\0\0\0\0\0/k\0\0\0\0\0\0\0\0", 19);
    assert_true(raw_closed_within(fd, 1000));
    close(fd);
    size_t count;
    check_ok(rcm_store_count(server, &count));
    assert_int_equal(count, 0);
    /* Silent in the middle of the proof: closed like every silent client. */
    fd = raw_connect(port);
    raw_send(fd, "RCMAUTH1I", 9);
    assert_false(raw_closed_within(fd, 4500));
    assert_true(raw_closed_within(fd, 1500));
    close(fd);
    rcm_store_close(server);
}

static void plain_allowed(void **state) {
    rcm_store *server, *client;
    (void)state;
    setenv("RINGCOMM_PLAIN_STORE", "1", 1);
    server = serve("open sesame");
    unsetenv("RINGCOMM_PLAIN_STORE");
    int fd = raw_connect(url_port(rcm_store_url(server)));
    raw_send(fd, greeting, sizeof greeting);
    raw_expect(fd, "ping", 4);
    close(fd);
    /* The same secret is accepted, a wrong one is rejected. */
    check_ok(rcmi_store_open(rcm_store_url(server), "open sesame", 0, &client));
    rcm_store_close(client);
    check_status(RCM_ERR_AUTH, rcmi_store_open(rcm_store_url(server), "wrong", 5000, &client));
    rcm_store_close(server);
}

static void secret_against_plain(void **state) {
    /* A store without a secret, like torch's. */
    rcm_store *server = serve(NULL), *client;
    (void)state;
    check_status(RCM_ERR_AUTH,
                 rcmi_store_open(rcm_store_url(server), "open sesame", 5000, &client));
    check_error_names("RINGCOMM_SECRET");
    setenv("RINGCOMM_PLAIN_STORE", "1", 1);
    check_ok(rcmi_store_open(rcm_store_url(server), "open sesame", 5000, &client));
    unsetenv("RINGCOMM_PLAIN_STORE");
    check_ok(rcm_store_set(client, "k", "v", 1));
    rcm_store_close(client);
    rcm_store_close(server);
}

static void replayed(void **state) {
    /* A replayed hello is accepted, since its nonce is not secret, but it proves nothing. */
    rcm_store *server = serve("open sesame");
    unsigned char fake[41 + 32] = "RCMAUTH1I";
    (void)state;
    int fd = raw_connect(url_port(rcm_store_url(server)));
    raw_send(fd, fake, sizeof fake);
    assert_true(raw_closed_within(fd, 1000));
    close(fd);
    rcm_store_close(server);
}

int main(void) {
#ifndef RCMI_HAVE_CRYPTO
    printf("built without libcrypto\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound),         cmocka_unit_test(right),
        cmocka_unit_test(wrong),         cmocka_unit_test(plain_refused),
        cmocka_unit_test(plain_allowed), cmocka_unit_test(secret_against_plain),
        cmocka_unit_test(replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
