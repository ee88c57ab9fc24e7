/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare TCP over loopback between two cores: round trips of 8 bytes with both ends spinning on
 * non-blocking sockets, and streams in one and in both directions.
 */
#include "floor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "clock.h"
#include "common.h"

#define TCP_TRIPS  2000
#define TCP_STREAM ((size_t)64 << 20) /* bytes in each direction */
#define TCP_PIECE  ((size_t)1 << 20)  /* bytes per call */

struct tcp_figures {
    struct floor_series trip, one_way, both_ways;
    int fds[2];
};

/* ---- a connection ---------------------------------------------------------------------------- */

static bool tcp_failed(const char *what) {
    tool_error("TCP over loopback, %s: %s", what, strerror(errno));
    return false;
}

static bool tcp_connect(int listener, int *ret_fds) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    const int on = 1;
    if (bind(listener, (struct sockaddr *)&addr, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&addr, &len) != 0)
        return tcp_failed("listening");
    if (connect(ret_fds[0], (struct sockaddr *)&addr, len) != 0)
        return tcp_failed("connecting");
    ret_fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (ret_fds[1] < 0)
        return tcp_failed("accepting");
    for (int i = 0; i < 2; i++)
        if (setsockopt(ret_fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
            return tcp_failed("TCP_NODELAY");
    return true;
}

static void tcp_close(const int *fds) {
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* The two ends of a connection within this process. */
static bool tcp_pair(int *ret_fds) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ret_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ret_fds[1] = -1;
    bool ok =
        listener >= 0 && ret_fds[0] >= 0 ? tcp_connect(listener, ret_fds) : tcp_failed("no socket");
    if (listener >= 0)
        close(listener);
    if (!ok)
        tcp_close(ret_fds);
    return ok;
}

/* ---- transfers ------------------------------------------------------------------------------- */

/* Bytes transferred; 0 if the call would block; -1 if the connection failed. */
static ssize_t tcp_some(ssize_t n) {
    if (n > 0)
        return n;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    tcp_failed(n == 0 ? "the other end closed" : "transfer");
    return -1;
}

/* Sends and receives the given numbers of bytes, alternating as far as the socket allows. */
static bool tcp_move(struct floor_side *side, int fd, char *buffer, size_t to_send,
                     size_t to_receive) {
    uint32_t spins = 0;
    while (to_send > 0 || to_receive > 0) {
        ssize_t n = 0;
        if (to_send > 0) {
            const size_t piece = to_send < TCP_PIECE ? to_send : TCP_PIECE;
            n = tcp_some(send(fd, buffer, piece, MSG_DONTWAIT | MSG_NOSIGNAL));
            to_send -= n > 0 ? (size_t)n : 0;
        }
        if (n >= 0 && to_receive > 0) {
            const size_t piece = to_receive < TCP_PIECE ? to_receive : TCP_PIECE;
            n = tcp_some(recv(fd, buffer + TCP_PIECE, piece, MSG_DONTWAIT));
            to_receive -= n > 0 ? (size_t)n : 0;
        }
        if (n < 0 || floor_hopeless(side, &spins))
            return false;
    }
    return true;
}

static bool tcp_trips(struct floor_side *side, int fd, char *buffer, double *ret_us) {
    if (!floor_meet(side))
        return false;
    const int64_t start = rcmi_now_ns();
    for (int i = 0; i < TCP_TRIPS; i++) {
        const bool first = side->rank == 0;
        if (!tcp_move(side, fd, buffer, first ? 8 : 0, first ? 0 : 8) ||
            !tcp_move(side, fd, buffer, first ? 0 : 8, first ? 8 : 0))
            return false;
    }
    *ret_us = (double)(rcmi_now_ns() - start) / TCP_TRIPS / 2e3;
    return floor_meet(side);
}

/* GB/s of all moved bytes, until both ends have received theirs. */
static bool tcp_stream(struct floor_side *side, int fd, char *buffer, bool both, double *ret_rate) {
    const bool first = side->rank == 0;
    if (!floor_meet(side))
        return false;
    const int64_t start = rcmi_now_ns();
    if (!tcp_move(side, fd, buffer, first || both ? TCP_STREAM : 0,
                  !first || both ? TCP_STREAM : 0) ||
        !floor_meet(side))
        return false;
    *ret_rate = (double)TCP_STREAM * (both ? 2 : 1) / (double)(rcmi_now_ns() - start);
    return true;
}

static bool tcp_rounds(struct floor_side *side, int fd, char *buffer, struct tcp_figures *figures) {
    for (int round = -1; round < side->floor->rounds; round++) { /* the first warms up */
        double trip, one_way, both_ways;
        if (!tcp_trips(side, fd, buffer, &trip) || !tcp_stream(side, fd, buffer, false, &one_way) ||
            !tcp_stream(side, fd, buffer, true, &both_ways))
            return false;
        if (round < 0)
            continue;
        floor_add(&figures->trip, trip);
        floor_add(&figures->one_way, one_way);
        floor_add(&figures->both_ways, both_ways);
    }
    return true;
}

static bool tcp_side(struct floor_side *side, void *arg) {
    struct tcp_figures *figures = arg;
    char *buffer = aligned_alloc(4096, 2 * TCP_PIECE);
    if (!buffer)
        return floor_failed("tcp: no memory");
    memset(buffer, 1, 2 * TCP_PIECE);
    bool ok = tcp_rounds(side, figures->fds[side->rank], buffer, figures);
    free(buffer);
    return ok;
}

bool floor_tcp(struct floor *f) {
    static struct tcp_figures figures;
    if (!tcp_pair(figures.fds))
        return false;
    bool ok = floor_pair(f, tcp_side, &figures);
    tcp_close(figures.fds);
    if (!ok)
        return floor_failed("cannot measure TCP over loopback");
    floor_row(f, "tcp loopback", "one way, spinning", 2, 8, "us", &figures.trip);
    floor_row(f, "tcp loopback", "stream, one direction", 2, TCP_STREAM, "GB/s", &figures.one_way);
    floor_row(f, "tcp loopback", "streams, both directions, sum", 2, TCP_STREAM, "GB/s",
              &figures.both_ways);
    return true;
}
