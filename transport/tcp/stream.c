/* SPDX-License-Identifier: BSD-3-Clause */
/* One data socket: attaching, moving data, failure, closing. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fd.h"
#include "interfaces.h"
#include "settings.h"
#include "tcp.h"

#define LOCK_SPINS   64
#define DRAIN_ROUNDS 64

void tcp_lock_take(struct tcp_lock *lock) {
    for (int spins = 0; !tcp_lock_try(lock); spins++)
        if (spins >= LOCK_SPINS)
            sched_yield();
}

void tcp_stream_init(struct tcp_stream *stream, struct tcp_domain *domain, struct tcp_link *link) {
    stream->domain = domain;
    stream->link = link;
    stream->fd = -1;
}

/* ---- Socket options ------------------------------------------------------------------------ */

static void option_set(int fd, int level, int name, int value) {
    /* Failures are ignored: each option only improves performance. */
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* A dead host or network is detected on the control stream (heartbeat.c). No limit is set here, or
 * a reader that is merely stopped would count as dead once its window is full. */
static rcm_status options_for_cuts(int fd) {
    int64_t ms = 0;
    rcm_status status = rcmi_setting_peer_timeout(&ms);
    if (status == RCM_OK)
        rcmi_socket_resend_soon(fd, ms);
    return status;
}

/* Within a host there is no path to measure and no queue to keep short. Congestion control only
 * costs time there, above all an algorithm with pacing (bbr). Any user may select reno, which does
 * almost nothing without losses. */
static void options_for_home(int fd) {
    static const char plain[] = "reno";
    if (rcmi_socket_stays_home(fd))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof plain - 1);
}

static int stream_epoll(struct tcp_stream *stream, int operation, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};
    if (atomic_load(&stream->wants_out))
        event.events |= EPOLLOUT;
    return epoll_ctl(stream->domain->epoll, operation, fd, &event);
}

static rcm_status stream_take(struct tcp_stream *stream, int fd) {
    if (stream->fd >= 0)
        return rcmi_fail_peer(RCM_ERR_PROTOCOL, stream->link->peer,
                              "rank %d connected a data socket twice", stream->link->peer);
    stream->rx.ahead = malloc(TCP_READ_AHEAD + TCP_PEEK);
    if (!stream->rx.ahead)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a receive buffer");
    option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    options_for_home(fd);
    rcm_status status = options_for_cuts(fd);
    if (status != RCM_OK)
        return status;
    /* Set before epoll watches the socket: a thread that polls then moves the stream at once. */
    stream->fd = fd;
    atomic_store(&stream->watched, true);
    if (stream_epoll(stream, EPOLL_CTL_ADD, fd) == 0)
        return RCM_OK;
    status = rcmi_fail(rcmi_status_of_errno(errno), errno, "epoll refuses a data socket");
    atomic_store(&stream->watched, false);
    stream->fd = -1;
    return status;
}

/* The kernel acknowledges at once, inside the sender's call, any segment longer than the longest
 * one seen on the connection. Therefore the first one is long. Without this pad messages are only
 * slower. */
static void stream_pad(struct tcp_stream *stream) {
    static const uint8_t zeros[TCP_PAD];
    struct tcp_frame *pad = calloc(1, sizeof *pad);
    if (!pad)
        return;
    pad->header = (struct tcp_header){.kind = TCP_HEADER_PAD, .len = sizeof zeros};
    pad->payload = zeros;
    tcp_tx_queue(stream, pad);
    (void)tcp_tx_move(stream);
}

rcm_status tcp_stream_attach(struct tcp_stream *stream, int fd) {
    rcm_status status = stream_take(stream, fd);
    if (status != RCM_OK) {
        rcmi_fd_close(&fd);
        return status;
    }
    tcp_domain_list(stream->domain, stream);
    if (rcmi_socket_stays_home(fd))
        stream_pad(stream);
    return RCM_OK;
}

/* ---- Moving -------------------------------------------------------------------------------- */

/* Called with rx.lock held; releases it. */
static bool stream_receive(struct tcp_stream *stream) {
    bool moved = false;
    if (stream->fd >= 0 && !atomic_load(&stream->broken))
        moved = tcp_rx_poll(stream);
    const bool rang = stream->rx.rang;
    stream->rx.rang = false;
    stream->rx.awake += moved;
    const bool calm = moved && stream->rx.awake % TCP_AWAKE == 0;
    tcp_lock_drop(&stream->rx.lock);
    if (rang)
        rcmi_node_ring(stream->domain->node);
    if (calm)
        tcp_stream_watch(stream, false);
    return moved;
}

bool tcp_stream_move(struct tcp_stream *stream) {
    bool moved = false;
    if (!atomic_load(&stream->broken) && tcp_lock_try(&stream->rx.lock))
        moved = stream_receive(stream);
    return tcp_tx_move(stream) || moved;
}

bool tcp_stream_flushed(struct tcp_stream *stream) {
    int unacknowledged = 0;
    bool moved = true;
    for (int i = 0; moved && i < TCP_FLUSH_ROUNDS; i++) {
        tcp_lock_take(&stream->rx.lock);
        moved = stream_receive(stream);
    }
    (void)tcp_tx_move(stream);
    return stream->fd < 0 || atomic_load(&stream->broken) ||
           (atomic_load(&stream->queued) == 0 &&
            (ioctl(stream->fd, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0));
}

/* Under queue_lock: may a thread sleep on, or poll, the set of sockets? */
static bool stream_needs_watch(const struct tcp_stream *stream) {
    const struct tcp_domain *domain = stream->domain;
    return atomic_load(&stream->wants_out) || atomic_load(&domain->armed) ||
           rcmi_node_polled(domain->node) || atomic_load(&domain->nstreams) > TCP_DIRECT;
}

/* A thread that is about to sleep, or lists a second stream, first sets its flag and then watches.
 * So either the thread that ends the watch sees the flag here, or it came first and its change is
 * undone. */
void tcp_stream_watch(struct tcp_stream *stream, bool watch) {
    tcp_lock_take(&stream->queue_lock);
    if (watch != atomic_load(&stream->watched) && !atomic_load(&stream->broken) &&
        stream->fd >= 0 && (watch || !stream_needs_watch(stream)) &&
        stream_epoll(stream, watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, stream->fd) == 0)
        atomic_store(&stream->watched, watch);
    tcp_lock_drop(&stream->queue_lock);
}

void tcp_stream_want_out(struct tcp_stream *stream, bool want) {
    tcp_lock_take(&stream->queue_lock);
    bool useful = want == (atomic_load(&stream->queued) != 0);
    if (useful && want != atomic_load(&stream->wants_out) && !atomic_load(&stream->broken)) {
        atomic_store(&stream->wants_out, want);
        if (atomic_load(&stream->watched))
            (void)stream_epoll(stream, EPOLL_CTL_MOD, stream->fd);
    }
    tcp_lock_drop(&stream->queue_lock);
}

/* ---- The end ------------------------------------------------------------------------------- */

/* Ends all use of the socket, except by the holders of rx and tx lock. False: already ended. */
static bool stream_break(struct tcp_stream *stream) {
    tcp_lock_take(&stream->queue_lock);
    bool first = !atomic_exchange(&stream->broken, true);
    if (first && stream->fd >= 0 && !rcmi_fd_distrusted())
        (void)epoll_ctl(stream->domain->epoll, EPOLL_CTL_DEL, stream->fd, NULL);
    tcp_lock_drop(&stream->queue_lock);
    return first;
}

rcm_status tcp_stream_error(const struct tcp_stream *stream, const char *verb) {
    const int error = errno, peer = stream->link->peer;
    char stall[RCMI_STALL_TEXT] = "";
    if (error == ETIMEDOUT)
        rcmi_socket_describe_stall(stream->fd, stall);
    const rcm_status status =
        rcmi_fail_peer(rcmi_status_of_errno(error), peer, "%s rank %d failed: %s%s", verb, peer,
                       strerror(error), stall);
    if (stall[0])
        rcmi_last_error()->sys_errno = error; /* read by plane_failure.c */
    return status;
}

void tcp_stream_fail(struct tcp_stream *stream) {
    if (stream_break(stream))
        rcmi_node_link_failed(stream->domain->node, stream->link->peer);
}

/* Closing a socket with unread bytes resets the connection, and data that the kernel still holds
 * for the peer would be lost. So this sends what can be sent, then reads what has arrived. */
static void stream_settle(struct tcp_stream *stream) {
    if (stream->fd < 0 || atomic_load(&stream->broken) || rcmi_fd_distrusted())
        return;
    tcp_tx_kick(stream);
    for (int i = 0; i < DRAIN_ROUNDS; i++)
        if (recv(stream->fd, stream->rx.ahead, TCP_READ_AHEAD, MSG_DONTWAIT) <= 0)
            break;
}

void tcp_stream_down(struct tcp_stream *stream) {
    if (tcp_forked(stream->domain)) {
        rcmi_fd_close(&stream->fd);
        return;
    }
    if (stream->listed)
        tcp_domain_unlist(stream->domain, stream);
    tcp_lock_take(&stream->rx.lock);
    stream_settle(stream);
    stream_break(stream);
    tcp_lock_take(&stream->tx_lock);
    rcmi_fd_close(&stream->fd);
    stream->rx.to = NULL;
    tcp_lock_drop(&stream->tx_lock);
    tcp_lock_drop(&stream->rx.lock);
    tcp_tx_drop(stream);
}

void tcp_stream_fini(struct tcp_stream *stream) {
    struct tcp_frame *frame = stream->first;
    while (frame) { /* frames are left only in a forked child */
        struct tcp_frame *next = frame->next;
        if (!frame->owner)
            free(frame);
        frame = next;
    }
    stream->first = NULL;
    rcmi_fd_close(&stream->fd);
    free(stream->rx.ahead);
    free(stream->rx.ends);
    stream->rx.ahead = NULL;
    stream->rx.ends = NULL;
}
