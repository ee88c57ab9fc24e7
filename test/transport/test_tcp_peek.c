/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that are peeked at and stay in the socket (transport/tcp/peek.c): each arrives once and in
 * order, whatever reads alternate, and the socket is empty before a thread sleeps on it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../transport/tcp/tcp.h"

struct line {
    struct tcp_stream stream;
    int far;
    uint64_t sent, got; /* bytes; each has the value of its position */
};

static void line_open(struct line *line) {
    int fds[2];
    memset(line, 0, sizeof *line);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    line->stream.fd = fds[0];
    line->far = fds[1];
    line->stream.rx.ahead = malloc(TCP_READ_AHEAD + TCP_PEEK);
    assert_non_null(line->stream.rx.ahead);
}

static void line_close(struct line *line) {
    close(line->stream.fd);
    if (line->far >= 0)
        close(line->far);
    free(line->stream.rx.ahead);
}

static void line_send(struct line *line, size_t len) {
    uint8_t bytes[TCP_PEEK];
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)((line->sent + i) % 251);
    assert_int_equal(send(line->far, bytes, len, MSG_NOSIGNAL), len);
    line->sent += len;
}

static void line_check(struct line *line, size_t len) {
    for (size_t i = 0; i < len; i++)
        assert_int_equal(line->stream.rx.ahead[i], (line->got + i) % 251);
    line->got += len;
}

/* Reads like rx.c; returns as recv does. */
static ssize_t line_read(struct line *line) {
    struct tcp_rx *rx = &line->stream.rx;
    struct iovec iov[2] = {{rx->ahead, 100}, {rx->ahead + 100, TCP_READ_AHEAD - 100}};
    const ssize_t got = tcp_peek_wanted(&line->stream) ? tcp_peek_take(&line->stream)
                                                       : tcp_peek_skip(&line->stream, iov, 2);
    rx->dry = got > 0 ? 0 : rx->dry + 1;
    if (got > 0)
        line_check(line, (size_t)got);
    return got;
}

static void line_expect_none(struct line *line) {
    errno = 0;
    assert_int_equal(line_read(line), -1);
    assert_int_equal(errno, EAGAIN);
}

static int line_left(const struct line *line) {
    int left = -1;
    assert_int_equal(ioctl(line->stream.fd, FIONREAD, &left), 0);
    return left;
}

/* The second message in a row stays in the socket until this side has sent. */
static void until_answered(void **state) {
    (void)state;
    struct line line;
    line_open(&line);
    line_send(&line, 40);
    assert_int_equal(line_read(&line), 40);
    assert_int_equal(line_left(&line), 0);
    line_send(&line, 50);
    assert_int_equal(line_read(&line), 50);
    assert_int_equal(line_left(&line), 50);
    line_expect_none(&line);
    assert_int_equal(line_left(&line), 50);
    atomic_store(&line.stream.answered, true);
    line_send(&line, 60);
    assert_int_equal(line_read(&line), 60);
    assert_int_equal(line_left(&line), 0);
    line_close(&line);
}

/* It does not stay when nothing follows, and the end of the stream is read after it. */
static void until_idle(void **state) {
    (void)state;
    struct line line;
    line_open(&line);
    for (int i = 0; i < 2; i++) {
        line_send(&line, 40);
        assert_int_equal(line_read(&line), 40);
    }
    assert_int_equal(line_left(&line), 40);
    close(line.far);
    line.far = -1;
    int looks = 0;
    while (line_read(&line) < 0)
        assert_true(++looks < 100);
    assert_int_equal(line_left(&line), 0);
    assert_int_equal(line.got, line.sent);
    line_close(&line);
}

static void until_sleep(void **state) {
    (void)state;
    struct line line;
    line_open(&line);
    for (int i = 0; i < 2; i++) {
        line_send(&line, 40);
        assert_int_equal(line_read(&line), 40);
    }
    line_send(&line, 7); /* it stays without being peeked, and is read */
    tcp_peek_settle(&line.stream);
    assert_int_equal(line_left(&line), 7);
    assert_int_equal(line_read(&line), 7);
    line_close(&line);
}

/* Reads, peeks and sends in random order. */
static void all_arrives(void **state) {
    (void)state;
    struct line line;
    uint32_t dice = 1;
    line_open(&line);
    for (int step = 0; step < 20000; step++) {
        dice = dice * 1664525 + 1013904223;
        const uint32_t face = dice >> 16;
        if (face % 4 == 0 && line.sent - line.got < 65536)
            line_send(&line, 1 + face / 4 % (face % 32 ? 300 : TCP_PEEK - 1));
        else if (face % 16 == 1)
            atomic_store(&line.stream.answered, true);
        else if (face % 64 == 2)
            tcp_peek_settle(&line.stream);
        else
            line_read(&line);
    }
    for (int i = 0; i < 100; i++)
        line_read(&line);
    assert_int_equal(line.got, line.sent);
    assert_int_equal(line_left(&line), 0);
    line_close(&line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_answered),
        cmocka_unit_test(until_idle),
        cmocka_unit_test(until_sleep),
        cmocka_unit_test(all_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
