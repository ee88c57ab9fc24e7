/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp transport: messages over the data sockets that the framework dials and authenticates.
 * This file has its domains (one per node), its links, and its function table.
 *
 * Any thread in progress moves data. A thread that spins reads the sockets itself. A thread that
 * sleeps does so on the set of all data sockets. If it cannot, it arms the loop thread, which
 * watches the set, moves what arrived and rings. The doorbell must be armed before the domain is,
 * or a ring may be missed.
 */
#include "tcp.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "fd.h"
#include "fork.h"

#define EVENTS_MAX 16

bool tcp_forked(const struct tcp_domain *domain) {
    return !rcmi_fork_is_maker(domain->generation);
}

/* ---- The list of streams ------------------------------------------------------------------- */

static void streams_change(struct tcp_domain *domain) {
    atomic_store(&domain->changing, true);
    pthread_rwlock_wrlock(&domain->streams_lock);
}

static void streams_changed(struct tcp_domain *domain) {
    pthread_rwlock_unlock(&domain->streams_lock);
    atomic_store(&domain->changing, false);
}

void tcp_domain_list(struct tcp_domain *domain, struct tcp_stream *stream) {
    streams_change(domain);
    stream->next = domain->streams;
    domain->streams = stream;
    atomic_fetch_add_explicit(&domain->nstreams, 1, memory_order_relaxed);
    for (struct tcp_stream *each = domain->streams; each; each = each->next)
        tcp_stream_watch(each, true); /* with several streams, epoll reports which to read */
    streams_changed(domain);
    stream->listed = true;
}

void tcp_domain_unlist(struct tcp_domain *domain, struct tcp_stream *stream) {
    streams_change(domain);
    struct tcp_stream **at = &domain->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    atomic_fetch_sub_explicit(&domain->nstreams, 1, memory_order_relaxed);
    streams_changed(domain);
    stream->listed = false;
}

/* ---- Progress ------------------------------------------------------------------------------ */

static bool move_all(struct tcp_domain *domain) {
    bool moved = false;
    for (struct tcp_stream *stream = domain->streams; stream; stream = stream->next)
        moved = tcp_stream_move(stream) || moved;
    return moved;
}

/* With many streams: only those that epoll reports, and those with something to send. */
static bool move_ready(struct tcp_domain *domain) {
    struct epoll_event events[EVENTS_MAX];
    bool moved = false;
    int n = epoll_wait(domain->epoll, events, EVENTS_MAX, 0);
    for (int i = 0; i < n; i++)
        moved = tcp_stream_move(events[i].data.ptr) || moved;
    for (struct tcp_stream *stream = domain->streams; stream; stream = stream->next)
        moved = tcp_tx_move(stream) || moved;
    return moved;
}

static bool domain_progress(void *data) {
    struct tcp_domain *domain = data;
    const int nstreams = atomic_load_explicit(&domain->nstreams, memory_order_relaxed);
    if (nstreams == 0) /* all peers use shared memory */
        return false;
    if (atomic_load(&domain->changing) || pthread_rwlock_tryrdlock(&domain->streams_lock) != 0)
        return false;
    const bool moved = nstreams > TCP_DIRECT ? move_ready(domain) : move_all(domain);
    pthread_rwlock_unlock(&domain->streams_lock);
    return moved;
}

/* ---- The loop thread's part ------------------------------------------------------------------ */

/* Called before a thread, including the loop thread, sleeps on the set of sockets. Watches all
 * sockets, removes peeked bytes, acknowledges what arrived, and sends queued frames, or makes epoll
 * report room for them. */
static void streams_settle(struct tcp_domain *domain) {
    pthread_rwlock_rdlock(&domain->streams_lock);
    for (struct tcp_stream *stream = domain->streams; stream; stream = stream->next) {
        tcp_stream_watch(stream, true);
        if (tcp_lock_try(&stream->rx.lock)) {
            stream->rx.awake = 0;
            tcp_peek_settle(stream);
            if (stream->rx.in_payload || stream->rx.large)
                tcp_rx_acknowledge(stream);
            tcp_lock_drop(&stream->rx.lock);
        }
        if (!atomic_load(&stream->queued) && !atomic_load(&stream->defers))
            continue;
        if (atomic_load(&stream->blocked))
            tcp_stream_want_out(stream, true);
        else
            tcp_tx_move(stream);
    }
    pthread_rwlock_unlock(&domain->streams_lock);
}

void tcp_arm(void *data) {
    struct tcp_domain *domain = data;
    bool was = atomic_exchange(&domain->armed, true);
    streams_settle(domain);
    if (!was)
        (void)rcmi_loop_rearm(rcmi_node_loop(domain->node), &domain->watch, EPOLLIN | EPOLLONESHOT);
}

/* If another thread leaves data for a full socket, that thread or the grace timer continues. */
static bool tcp_attend(void *data, int *ret_fd) {
    struct tcp_domain *domain = data;
    streams_settle(domain);
    *ret_fd = domain->epoll;
    return true;
}

void tcp_grace(struct tcp_domain *domain) {
    const struct itimerspec at = {.it_value = {.tv_nsec = TCP_GRACE_NS}};
    if (!atomic_exchange(&domain->timer_set, true))
        (void)timerfd_settime(domain->timer, 0, &at, NULL);
}

/* After the loop woke: moves data, and arms again for what could not be sent. */
static void domain_look(struct tcp_domain *domain) {
    bool waiting = false;
    domain_progress(domain);
    for (struct tcp_stream *stream = domain->streams; stream; stream = stream->next)
        waiting = waiting || (atomic_load(&stream->queued) && !atomic_load(&stream->broken));
    if (waiting)
        tcp_arm(domain);
}

static void domain_ready(void *data, uint32_t events) {
    struct tcp_domain *domain = data;
    (void)events;
    atomic_store(&domain->armed, false);
    domain_look(domain);
    rcmi_node_ring(domain->node);
}

static void timer_ready(void *data, uint32_t events) {
    struct tcp_domain *domain = data;
    uint64_t times;
    (void)events;
    if (read(domain->timer, &times, sizeof times) < 0)
        return; /* restarted meanwhile: it will fire again */
    atomic_store(&domain->timer_set, false);
    domain_look(domain);
}

/* ---- Domain -------------------------------------------------------------------------------- */

static rcm_status domain_watch(struct tcp_domain *domain) {
    struct rcmi_loop *loop = rcmi_node_loop(domain->node);
    domain->watch.fd = domain->epoll;
    domain->watch.ready = domain_ready;
    domain->watch.arg = domain;
    domain->timer_watch.fd = domain->timer;
    domain->timer_watch.ready = timer_ready;
    domain->timer_watch.arg = domain;
    atomic_store(&domain->armed, true);
    rcm_status status = rcmi_loop_watch(loop, &domain->watch, EPOLLIN | EPOLLONESHOT);
    if (status == RCM_OK)
        status = rcmi_loop_watch(loop, &domain->timer_watch, EPOLLIN);
    return status;
}

static rcm_status domain_init(void *data, struct rcmi_node *node) {
    struct tcp_domain *domain = data;
    domain->node = node;
    domain->generation = rcmi_fork_watch();
    domain->timer = -1;
    domain->epoll = rcmi_fd_high(epoll_create1(EPOLL_CLOEXEC));
    if (domain->epoll < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "no epoll set for data sockets");
    domain->timer = rcmi_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (domain->timer < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "no timer for data sockets");
    int error = pthread_rwlock_init(&domain->streams_lock, NULL);
    if (error)
        return rcmi_fail(rcmi_status_of_errno(error), error, "no lock for data sockets");
    domain->streams_lock_made = true;
    return domain_watch(domain);
}

static void domain_fini(void *data) {
    struct tcp_domain *domain = data;
    struct rcmi_loop *loop = rcmi_node_loop(domain->node);
    if (loop && domain->watch.active)
        rcmi_loop_unwatch(loop, &domain->watch);
    if (loop && domain->timer_watch.active)
        rcmi_loop_unwatch(loop, &domain->timer_watch);
    rcmi_fd_close(&domain->epoll);
    rcmi_fd_close(&domain->timer);
    if (domain->streams_lock_made)
        pthread_rwlock_destroy(&domain->streams_lock);
    domain->streams_lock_made = false;
}

/* ---- Link ---------------------------------------------------------------------------------- */

static rcm_status link_init(void *data, void *domain, int peer) {
    struct tcp_link *link = data;
    link->domain = domain;
    link->peer = peer;
    for (int i = 0; i < TCP_STREAMS; i++)
        tcp_stream_init(&link->streams[i], domain, link);
    return RCM_OK;
}

static rcm_status link_offer(void *data, struct rcmi_blob *ret_offer) {
    (void)data;
    uint32_t streams = TCP_STREAMS;
    memcpy(ret_offer->bytes, &streams, sizeof streams);
    ret_offer->len = sizeof streams;
    ret_offer->nfds = 0;
    return RCM_OK;
}

static rcm_status link_accept(void *data, struct rcmi_blob *offer) {
    const struct tcp_link *link = data;
    uint32_t streams = 0;
    if (offer->len == sizeof streams)
        memcpy(&streams, offer->bytes, sizeof streams);
    if (streams == TCP_STREAMS)
        return RCM_OK;
    return rcmi_fail_peer(RCM_ERR_PROTOCOL, link->peer,
                          "rank %d offers a tcp link of %u data sockets in %zu bytes, this rank "
                          "has %d",
                          link->peer, streams, offer->len, TCP_STREAMS);
}

static rcm_status link_attach(void *data, int i, int fd) {
    struct tcp_link *link = data;
    if (i >= 0 && i < TCP_STREAMS)
        return tcp_stream_attach(&link->streams[i], fd);
    rcmi_fd_close(&fd);
    return rcmi_fail_peer(RCM_ERR_PROTOCOL, link->peer,
                          "rank %d connected data socket %d, which is not expected", link->peer, i);
}

static bool link_flushed(void *data) {
    struct tcp_link *link = data;
    bool flushed = true;
    for (int i = 0; i < TCP_STREAMS; i++)
        flushed = tcp_stream_flushed(&link->streams[i]) && flushed;
    return flushed;
}

static void link_down(void *data) {
    struct tcp_link *link = data;
    for (int i = 0; i < TCP_STREAMS; i++)
        tcp_stream_down(&link->streams[i]);
}

static void link_fini(void *data) {
    struct tcp_link *link = data;
    for (int i = 0; i < TCP_STREAMS; i++)
        tcp_stream_fini(&link->streams[i]);
}

/* Descriptors. FDS_OTHER: listeners, the store, temporary ones. FDS_OF_PEER: control stream and
 * data sockets. Some links are dialled from both ends at the same time. */
#define FDS_OTHER     5
#define FDS_OF_PEER   (1 + TCP_STREAMS)
#define PEERS_AT_ONCE 4

/* Plans of many ranks have few neighbours: at distances of powers of two in both directions, and
 * the root. */
static int neighbours(int nranks) {
    int n = 2;
    for (int away = 1; away < nranks; away *= 2)
        n += 2;
    return n < nranks - 1 ? n : nranks - 1;
}

static bool tcp_probe(const struct rcmi_need *need, char *reason, size_t cap) {
    const int peers = neighbours(need->nranks);
    const int wanted = peers * FDS_OF_PEER + peers / PEERS_AT_ONCE + FDS_OTHER;
    const bool works = need->nranks == 1 || rcmi_fd_try("links by tcp", wanted) == RCM_OK;
    snprintf(reason, cap, "%s", works ? "sockets always work" : rcm_last_error());
    return works;
}

const struct rcmi_transport rcmi_transport_tcp = {
    .name = "tcp",
    .description = "TCP sockets between any two hosts",
    .same_host = false,
    .multicast = false,
    .data_sockets = TCP_STREAMS,
    .bulk_scale = TCP_BULK_SCALE,
    .domain_size = sizeof(struct tcp_domain),
    .link_size = sizeof(struct tcp_link),
    .channel_size = sizeof(struct tcp_channel),
    .probe = tcp_probe,
    .domain_init = domain_init,
    .domain_fini = domain_fini,
    .progress = domain_progress,
    .arm = tcp_arm,
    .attend = tcp_attend,
    .memory_take = rcmi_no_memory_take,
    .memory_give = rcmi_no_memory_give,
    .memory_register = rcmi_no_memory_register,
    .memory_unregister = rcmi_no_memory_unregister,
    .link_init = link_init,
    .link_offer = link_offer,
    .link_accept = link_accept,
    .link_attach = link_attach,
    .link_ready = rcmi_ready_at_once,
    .link_flushed = link_flushed,
    .link_down = link_down,
    .link_fini = link_fini,
    .writer_init = tcp_writer_init,
    .writer_offer = tcp_writer_offer,
    .writer_attach = tcp_writer_attach,
    .reader_init = tcp_reader_init,
    .reader_accept = tcp_reader_accept,
    .writer_close = tcp_writer_close,
    .channel_fini = tcp_channel_fini,
    .reserve = tcp_reserve,
    .commit = tcp_commit,
    .send_zero_copy = tcp_send_zero_copy,
    .completed = tcp_completed,
    .taken = rcmi_always_taken,
    .peek = tcp_peek,
    .release = tcp_release,
    .post_receive = tcp_post_receive,
    .get = rcmi_no_get,
    .help = rcmi_no_help,
};
