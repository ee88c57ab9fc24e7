/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading small messages without forcing the kernel to acknowledge them.
 *
 * Assume that a read takes the second of two small unanswered segments and leaves the socket empty.
 * Then the kernel sends an acknowledgement at once, before the read returns. That costs 2 to 3 us
 * in a message that takes 4 us. It is common wherever one side sends twice in a row, for example at
 * the end of a barrier and the beginning of a broadcast. Usually the reader is about to send
 * something itself, which would acknowledge for free.
 *
 * Therefore such a message is *peeked*: read, but left in the socket. The bytes left are counted in
 * `seen`, and the next read that is not a peek removes them together with new ones. That happens
 * after this side has sent, after PEEK_LOOKS reads without data, or before a thread sleeps on the
 * socket, which must be empty then.
 *
 * Not here: the meaning of the bytes (rx.c).
 */
#include <errno.h>
#include <sys/socket.h>
#include "tcp.h"

#define PEEK_LOOKS 8 /* after this many reads without data the socket is emptied */
#define PEEK_LEAST 1 /* reads in a row that the kernel leaves unacknowledged */
#define PEEK_MOST  3 /* more than this must not wait for an acknowledgement */

bool tcp_peek_wanted(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    if (atomic_load_explicit(&stream->answered, memory_order_relaxed)) {
        atomic_store_explicit(&stream->answered, false, memory_order_relaxed);
        rx->unanswered = 0;
    }
    return rx->unanswered >= PEEK_LEAST && rx->unanswered <= PEEK_MOST && !rx->in_payload &&
           !rx->large && rx->tail == 0 && rx->seen < TCP_PEEK / 2 &&
           (rx->seen == 0 || rx->dry < PEEK_LOOKS);
}

/* Scratch space for bytes that were seen before. */
static uint8_t *peek_old(const struct tcp_rx *rx) {
    return rx->ahead + TCP_READ_AHEAD;
}

static ssize_t peek_receive(int fd, struct iovec *iov, int niov, int flags) {
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)niov};
    ssize_t got;
    do {
        got = niov == 1 ? recv(fd, iov[0].iov_base, iov[0].iov_len, MSG_DONTWAIT | flags)
                        : recvmsg(fd, &msg, MSG_DONTWAIT | flags);
    } while (got < 0 && errno == EINTR);
    return got;
}

/* The number of new bytes in `got`; without new bytes, the result of recv with EAGAIN. */
static ssize_t peek_count(struct tcp_rx *rx, ssize_t got, size_t old) {
    if (got <= 0)
        return got;
    if ((size_t)got <= old) {
        errno = EAGAIN;
        return -1;
    }
    rx->unanswered++;
    return got - (ssize_t)old;
}

ssize_t tcp_peek_take(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    struct iovec iov[2] = {{peek_old(rx), rx->seen}, {rx->ahead, TCP_PEEK - rx->seen}};
    const int skip = rx->seen == 0;
    const ssize_t got = peek_receive(stream->fd, iov + skip, 2 - skip, MSG_PEEK);
    const ssize_t fresh = peek_count(rx, got, rx->seen);
    if (fresh > 0)
        rx->seen = (size_t)got;
    return fresh;
}

ssize_t tcp_peek_skip(struct tcp_stream *stream, struct iovec *iov, int niov) {
    struct tcp_rx *rx = &stream->rx;
    struct iovec all[1 + TCP_RX_VECTOR];
    const size_t seen = rx->seen;
    if (seen == 0)
        return peek_count(rx, peek_receive(stream->fd, iov, niov, 0), 0);
    all[0] = (struct iovec){peek_old(rx), seen};
    for (int i = 0; i < niov; i++)
        all[1 + i] = iov[i];
    const ssize_t got = peek_receive(stream->fd, all, 1 + niov, 0);
    if (got > 0)
        rx->seen = (size_t)got < seen ? seen - (size_t)got : 0;
    return peek_count(rx, got, seen);
}

void tcp_peek_settle(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    if (rx->seen == 0 || stream->fd < 0)
        return;
    const ssize_t got = recv(stream->fd, peek_old(rx), rx->seen, MSG_DONTWAIT);
    if (got > 0)
        rx->seen -= (size_t)got;
}
