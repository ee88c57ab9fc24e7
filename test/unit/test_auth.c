/* SPDX-License-Identifier: BSD-3-Clause */
/* The proof of the secret: a peer with the secret passes, and no other peer does by any known
 * attack. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "check.h"
#include "auth.h"
#include "fd.h"

static void pair_open(int ret_ends[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret_ends),
                     0);
}

static void pair_close(int ends[2]) {
    rcmi_fd_close(&ends[0]);
    rcmi_fd_close(&ends[1]);
}

static void test_no_secret(void **state) {
    (void)state;
    struct rcmi_auth auth;
    int ends[2];
    char byte;
    size_t len;
    pair_open(ends);
    check_ok(rcmi_fd_write_full(ends[1], "x", 1, rcmi_deadline_in(1000)));
    check_ok(rcmi_auth_start(&auth, NULL, true));
    assert_false(rcmi_auth_wants_write(&auth));
    check_ok(rcmi_auth_step(&auth, ends[0]));
    check_status(RCM_AGAIN, rcmi_fd_read(ends[1], &byte, 1, &len)); /* nothing was sent */
    check_ok(rcmi_fd_read(ends[0], &byte, 1, &len));                /* nor read */
    pair_close(ends);
}

static void test_random(void **state) {
    (void)state;
    unsigned char a[1000] = {0}, b[1000] = {0};
    check_ok(rcmi_random(a, sizeof a));
    check_ok(rcmi_random(b, sizeof b));
    assert_memory_not_equal(a, b, sizeof a);
    int zeros = 0;
    for (size_t i = 0; i < sizeof a; i++)
        zeros += a[i] == 0;
    assert_true(zeros < 100); /* filled to the end */
    check_ok(rcmi_random(a, 0));
}

#ifndef RCMI_HAVE_CRYPTO

static void test_unsupported(void **state) {
    (void)state;
    struct rcmi_auth auth;
    check_status(RCM_ERR_UNSUPPORTED, rcmi_auth_start(&auth, "secret", true));
    check_error_names("libcrypto");
}

#else

#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { TOTAL = RCMI_AUTH_HELLO + RCMI_AUTH_MAC, STEPS = 50 };

/* Steps both sides until both have ended. A side that ended or failed is not stepped again. */
static void both_run(struct rcmi_auth *a, int fd_a, struct rcmi_auth *b, int fd_b,
                     rcm_status *ret_a, rcm_status *ret_b) {
    *ret_a = *ret_b = RCM_AGAIN;
    for (int i = 0; i < STEPS; i++) {
        if (*ret_a == RCM_AGAIN)
            *ret_a = rcmi_auth_step(a, fd_a);
        if (*ret_b == RCM_AGAIN)
            *ret_b = rcmi_auth_step(b, fd_b);
    }
}

static void check_pair(const char *secret_a, const char *secret_b, rcm_status expected) {
    struct rcmi_auth a, b;
    int ends[2];
    rcm_status status_a, status_b;
    pair_open(ends);
    check_ok(rcmi_auth_start(&a, secret_a, true));
    check_ok(rcmi_auth_start(&b, secret_b, false));
    both_run(&a, ends[0], &b, ends[1], &status_a, &status_b);
    check_status(expected, status_a);
    check_status(expected, status_b);
    if (expected != RCM_OK) { /* the failure is final */
        check_status(expected, rcmi_auth_step(&a, ends[0]));
        check_status(expected, rcmi_auth_step(&b, ends[1]));
    }
    pair_close(ends);
}

static void test_right_secret(void **state) {
    (void)state;
    check_pair("open sesame", "open sesame", RCM_OK);
    check_pair("x", "x", RCM_OK);
    char longest[4000];
    memset(longest, 's', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    check_pair(longest, longest, RCM_OK);
}

static void test_wrong_secret(void **state) {
    (void)state;
    check_pair("open sesame", "open sesamf", RCM_ERR_AUTH);
    check_pair("open sesame", "open sesame ", RCM_ERR_AUTH);
    check_pair("open sesame", "o", RCM_ERR_AUTH);
    assert_null(strstr(rcm_last_error(), "sesame"));
    struct rcmi_auth auth;
    check_status(RCM_ERR_INVALID, rcmi_auth_start(&auth, "", true));
}

static void test_same_role(void **state) {
    (void)state;
    for (int initiator = 0; initiator < 2; initiator++) {
        struct rcmi_auth a, b;
        int ends[2];
        rcm_status status_a, status_b;
        pair_open(ends);
        check_ok(rcmi_auth_start(&a, "secret", initiator));
        check_ok(rcmi_auth_start(&b, "secret", initiator));
        both_run(&a, ends[0], &b, ends[1], &status_a, &status_b);
        check_status(RCM_ERR_AUTH, status_a);
        check_status(RCM_ERR_AUTH, status_b);
        pair_close(ends);
    }
}

/* Bytes directly behind the proof belong to the next reader. */
static void test_reads_no_further(void **state) {
    (void)state;
    struct rcmi_auth a, b;
    int ends[2];
    char text[5] = "";
    pair_open(ends);
    check_ok(rcmi_auth_start(&a, "secret", true));
    check_ok(rcmi_auth_start(&b, "secret", false));
    check_status(RCM_AGAIN, rcmi_auth_step(&a, ends[0]));
    check_status(RCM_AGAIN, rcmi_auth_step(&b, ends[1]));
    check_ok(rcmi_auth_step(&a, ends[0]));
    check_ok(rcmi_fd_write_full(ends[0], "data", 4, rcmi_deadline_in(1000)));
    check_ok(rcmi_auth_step(&b, ends[1]));
    check_ok(rcmi_fd_read_full(ends[1], text, 4, rcmi_deadline_in(1000)));
    assert_string_equal(text, "data");
    check_ok(rcmi_auth_step(&b, ends[1])); /* the success is final, and nothing more is read */
    pair_close(ends);
}

/* ---- Fake peers ------------------------------------------------------------------------------ */

static void take(int fd, uint8_t *buf, size_t len) {
    check_ok(rcmi_fd_read_full(fd, buf, len, rcmi_deadline_in(1000)));
}

static void give(int fd, const void *buf, size_t len) {
    check_ok(rcmi_fd_write_full(fd, buf, len, rcmi_deadline_in(1000)));
}

/* The wire format of auth.h, computed independently. */
static void proof_make(const char *secret, char role, const uint8_t *nonce, const uint8_t *other,
                       uint8_t ret_mac[RCMI_AUTH_MAC]) {
    uint8_t text[15 + 1 + 32 + 32];
    unsigned int len = 0;
    memcpy(text, "ringcomm-auth-1", 15);
    text[15] = (uint8_t)role;
    memcpy(text + 16, nonce, 32);
    memcpy(text + 48, other, 32);
    assert_non_null(
        HMAC(EVP_sha256(), secret, (int)strlen(secret), text, sizeof text, ret_mac, &len));
    assert_int_equal(len, 32);
}

static void test_wire_format(void **state) {
    (void)state;
    struct rcmi_auth auth;
    int ends[2];
    uint8_t hello[41], mac[32], expected[32], mine[41] = "RCMAUTH1A";
    pair_open(ends);
    for (int i = 9; i < 41; i++)
        mine[i] = (uint8_t)i;
    check_ok(rcmi_auth_start(&auth, "secret", true));
    check_status(RCM_AGAIN, rcmi_auth_step(&auth, ends[0]));
    take(ends[1], hello, sizeof hello);
    assert_memory_equal(hello, "RCMAUTH1I", 9);
    give(ends[1], mine, sizeof mine);
    check_status(RCM_AGAIN, rcmi_auth_step(&auth, ends[0]));
    take(ends[1], mac, sizeof mac);
    proof_make("secret", 'I', hello + 9, mine + 9, expected);
    assert_memory_equal(mac, expected, sizeof mac);
    proof_make("secret", 'A', mine + 9, hello + 9, mac);
    give(ends[1], mac, sizeof mac);
    check_ok(rcmi_auth_step(&auth, ends[0]));
    pair_close(ends);
}

/* Every bit of the peer's proof is checked. */
static void test_flipped_bits(void **state) {
    (void)state;
    for (int bit = 0; bit < 256; bit += 5) {
        struct rcmi_auth auth;
        int ends[2];
        uint8_t hello[41], mac[32], mine[41] = "RCMAUTH1I";
        pair_open(ends);
        check_ok(rcmi_auth_start(&auth, "secret", false));
        give(ends[1], mine, sizeof mine);
        check_status(RCM_AGAIN, rcmi_auth_step(&auth, ends[0]));
        take(ends[1], hello, sizeof hello);
        proof_make("secret", 'I', mine + 9, hello + 9, mac);
        mac[bit / 8] ^= (uint8_t)(1 << bit % 8);
        give(ends[1], mac, sizeof mac);
        check_status(RCM_ERR_AUTH, rcmi_auth_step(&auth, ends[0]));
        pair_close(ends);
    }
}

/* A peer that returns what it receives. With `disguise` it changes the role byte. */
static void check_reflected(bool initiator, bool disguise) {
    struct rcmi_auth auth;
    int ends[2];
    rcm_status status = RCM_AGAIN;
    pair_open(ends);
    check_ok(rcmi_auth_start(&auth, "secret", initiator));
    size_t echoed = 0;
    for (int i = 0; i < STEPS && status == RCM_AGAIN; i++) {
        uint8_t buf[TOTAL];
        size_t len = 0;
        status = rcmi_auth_step(&auth, ends[0]);
        if (rcmi_fd_read(ends[1], buf, sizeof buf, &len) == RCM_OK && status == RCM_AGAIN) {
            if (disguise && echoed <= 8 && echoed + len > 8)
                buf[8 - echoed] = initiator ? 'A' : 'I';
            echoed += len;
            give(ends[1], buf, len);
        }
    }
    check_status(RCM_ERR_AUTH, status);
    assert_int_equal(echoed, disguise ? TOTAL : RCMI_AUTH_HELLO);
    pair_close(ends);
}

static void test_reflected(void **state) {
    (void)state;
    check_reflected(true, false);
    check_reflected(false, false);
    check_reflected(true, true);
    check_reflected(false, true);
}

/* The bytes of a peer with the secret, replayed to a later handshake. */
static void test_replayed(void **state) {
    (void)state;
    struct rcmi_auth a, b;
    int ends[2];
    rcm_status status_a, status_b;
    uint8_t recorded[TOTAL];
    pair_open(ends);
    check_ok(rcmi_auth_start(&a, "secret", true));
    check_ok(rcmi_auth_start(&b, "secret", false));
    both_run(&a, ends[0], &b, ends[1], &status_a, &status_b);
    check_ok(status_a);
    check_ok(status_b);
    memcpy(recorded, a.out, TOTAL); /* everything the initiator sent */
    pair_close(ends);

    pair_open(ends);
    check_ok(rcmi_auth_start(&b, "secret", false));
    give(ends[0], recorded, TOTAL);
    check_status(RCM_ERR_AUTH, rcmi_auth_step(&b, ends[1]));
    pair_close(ends);
}

static void check_garbage(const void *bytes, size_t len) {
    struct rcmi_auth auth;
    int ends[2];
    pair_open(ends);
    check_ok(rcmi_auth_start(&auth, "secret", false));
    give(ends[1], bytes, len);
    check_status(RCM_ERR_AUTH, rcmi_auth_step(&auth, ends[0]));
    check_status(RCM_ERR_AUTH, rcmi_auth_step(&auth, ends[0]));
    pair_close(ends);
}

static void test_garbage(void **state) {
    (void)state;
    uint8_t noise[TOTAL];
    check_ok(rcmi_random(noise, sizeof noise));
    noise[0] = 'r';
    check_garbage(noise, sizeof noise);
    memcpy(noise, "RCMAUTH1I", 9); /* only the proof is wrong */
    check_garbage(noise, sizeof noise);
    check_garbage("GET / HTTP/1.0\r\n\r\n", 18);
    check_garbage("\0", 1); /* rejected at the first wrong byte */
    check_garbage("RCMAUTH2", 8);
    check_garbage("RCMAUTH1X", 9);
}

static void test_one_byte_at_a_time(void **state) {
    (void)state;
    struct rcmi_auth a, b;
    int left[2], right[2];
    rcm_status status_a = RCM_AGAIN, status_b = RCM_AGAIN;
    pair_open(left);
    pair_open(right);
    check_ok(rcmi_auth_start(&a, "secret", true));
    check_ok(rcmi_auth_start(&b, "secret", false));
    int bytes = 0, rounds = 0;
    while ((status_a == RCM_AGAIN || status_b == RCM_AGAIN) && rounds++ < 1000) {
        char byte;
        size_t len;
        if (status_a == RCM_AGAIN)
            status_a = rcmi_auth_step(&a, left[0]);
        if (status_b == RCM_AGAIN)
            status_b = rcmi_auth_step(&b, right[0]);
        if (rcmi_fd_read(left[1], &byte, 1, &len) == RCM_OK) {
            give(right[1], &byte, 1);
            bytes++;
        }
        if (rcmi_fd_read(right[1], &byte, 1, &len) == RCM_OK) {
            give(left[1], &byte, 1);
            bytes++;
        }
    }
    check_ok(status_a);
    check_ok(status_b);
    assert_int_equal(bytes, 2 * TOTAL);
    assert_true(rounds > TOTAL); /* the bytes came one by one */
    pair_close(left);
    pair_close(right);
}

static void test_silent_peer(void **state) {
    (void)state;
    struct rcmi_auth auth;
    int ends[2];
    pair_open(ends);
    check_ok(rcmi_auth_start(&auth, "secret", true));
    assert_true(rcmi_auth_wants_write(&auth));
    for (int i = 0; i < 10; i++) {
        check_status(RCM_AGAIN, rcmi_auth_step(&auth, ends[0]));
        assert_false(rcmi_auth_wants_write(&auth));
    }
    give(ends[1], "RCMAUTH1A", 9); /* begins, and stops again */
    check_status(RCM_AGAIN, rcmi_auth_step(&auth, ends[0]));
    rcmi_fd_close(&ends[1]);
    check_status(RCM_ERR_PEER, rcmi_auth_step(&auth, ends[0]));
    check_error_names("before it proved");
    pair_close(ends);
}

/* A socket that accepts nothing yet: the step waits for the socket, and goes on when it is
 * writable. */
static void test_full_socket(void **state) {
    (void)state;
    struct rcmi_auth a, b;
    int ends[2];
    static char fill[4096], drain[4096];
    size_t len, filled = 0, drained = 0;
    pair_open(ends);
    while (rcmi_fd_write(ends[0], fill, sizeof fill, &len) == RCM_OK)
        filled += len;
    check_ok(rcmi_auth_start(&a, "secret", true));
    check_ok(rcmi_auth_start(&b, "secret", false));
    check_status(RCM_AGAIN, rcmi_auth_step(&a, ends[0]));
    assert_true(rcmi_auth_wants_write(&a));
    while (drained < filled) {
        check_ok(rcmi_fd_read(ends[1], drain, sizeof drain, &len));
        drained += len;
    }
    rcm_status status_a, status_b;
    both_run(&a, ends[0], &b, ends[1], &status_a, &status_b);
    check_ok(status_a);
    check_ok(status_b);
    pair_close(ends);
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_secret),
        cmocka_unit_test(test_random),
#ifndef RCMI_HAVE_CRYPTO
        cmocka_unit_test(test_unsupported),
#else
        cmocka_unit_test(test_right_secret), cmocka_unit_test(test_wrong_secret),
        cmocka_unit_test(test_same_role),    cmocka_unit_test(test_reads_no_further),
        cmocka_unit_test(test_wire_format),  cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_reflected),    cmocka_unit_test(test_replayed),
        cmocka_unit_test(test_garbage),      cmocka_unit_test(test_one_byte_at_a_time),
        cmocka_unit_test(test_silent_peer),  cmocka_unit_test(test_full_socket),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
