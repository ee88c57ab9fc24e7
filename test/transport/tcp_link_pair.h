/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp transport without listening sockets and control streams, for tests that include this file
 * once: two links of one process over a socket pair. The functions that transports call are the
 * framework's own, on nodes reduced to what those need.
 */
#ifndef TEST_TCP_LINK_PAIR_H
#define TEST_TCP_LINK_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../transport/channel/channel.h"
#include "../../transport/tcp/tcp.h"
#include "channel_calls.h"

static size_t channel_bytes = 8192; /* slot size of channels made from now on */

extern const struct rcmi_transport rcmi_transport_tcp;
static const struct rcmi_transport *const tcp = &rcmi_transport_tcp;

/* ---- One end of a link --------------------------------------------------------------------- */

enum { SELF, PEER, RANKS };

struct end {
    struct rcmi_node node;
    struct rcmi_doorbell doorbell; /* as if a thread slept on it: each ring changes it */
    struct rcmi_link to_peer; /* the framework's part, which only records that the link failed */
    struct tcp_domain domain;
    struct tcp_link link;
    _Atomic(struct rcmi_link *) links[RANKS];
};

static inline void end_open(struct end *end) {
    memset(end, 0, sizeof *end);
    end->node.config.nranks = RANKS;
    end->node.doorbell = &end->doorbell;
    end->node.poller_fd = -1;
    end->node.links = end->links;
    end->to_peer.node = &end->node;
    end->to_peer.peer = PEER;
    atomic_store(&end->links[PEER], &end->to_peer);
    pthread_mutex_init(&end->node.lock, NULL);
    (void)rcmi_doorbell_arm(&end->doorbell, RCMI_DOORBELL_FUTEX_ONE);
    assert_int_equal(rcmi_loop_create("test", NULL, NULL, &end->node.loop), RCM_OK);
    assert_int_equal(tcp->domain_init(&end->domain, &end->node), RCM_OK);
    assert_int_equal(tcp->link_init(&end->link, &end->domain, PEER), RCM_OK);
}

/* Whether the transport reported its link as failed. */
static inline int end_failed(const struct end *end) {
    return end->to_peer.failed;
}

/* Changes with each ring. */
static inline uint32_t end_rings(const struct end *end) {
    return atomic_load(&end->doorbell.word);
}

static inline void end_down(void *arg) {
    struct end *end = arg;
    tcp->link_down(&end->link);
    tcp->link_down(&end->link); /* idempotent */
    tcp->link_fini(&end->link);
    tcp->domain_fini(&end->domain);
}

static inline void end_close(struct end *end) {
    rcmi_loop_call(end->node.loop, end_down, end);
    rcmi_loop_destroy(end->node.loop);
    while (end->node.ends) {
        struct rcmi_channel_end *next = end->node.ends->next;
        free(end->node.ends);
        end->node.ends = next;
    }
    pthread_mutex_destroy(&end->node.lock);
}

/* ---- Channels ------------------------------------------------------------------------------ */

static inline void socket_pair(int fds[2], int buffer) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    for (int i = 0; i < 2 && buffer; i++)
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer), 0);
}

/* The framework's part of a channel, freed with its end. */
static inline struct rcmi_channel_end *end_part(struct end *end, struct rcmi_channel *channel) {
    struct rcmi_channel_end *part = calloc(1, sizeof *part);
    assert_non_null(part);
    part->channel = channel;
    part->next = end->node.ends;
    end->node.ends = part;
    return part;
}

static inline void channel_set(struct tcp_channel *channel, struct end *end, bool writer) {
    memset(channel, 0, sizeof *channel);
    channel->base.transport = tcp;
    channel->base.node = &end->node;
    channel->base.slot_bytes = channel_bytes;
    channel->base.slots = 4;
    channel->base.is_writer = writer;
    channel->base.nreaders = 1;
    channel->base.framework = end_part(end, &channel->base);
    atomic_store(&channel->base.state, RCM_OK);
}

static inline void channel_make(struct end *from, struct end *to, struct tcp_channel *writer,
                                struct tcp_channel *reader) {
    struct rcmi_blob offer = {.len = 0}, answer = {.len = 0};
    void *const links[1] = {&from->link};
    channel_set(writer, from, true);
    channel_set(reader, to, false);
    assert_int_equal(tcp->writer_init(&writer->base, links, 1), RCM_OK);
    assert_int_equal(tcp->reader_init(&reader->base, &to->link), RCM_OK);
    assert_int_equal(tcp->writer_offer(&writer->base, 0, &offer), RCM_OK);
    assert_int_equal(tcp->reader_accept(&reader->base, &offer, &answer), RCM_OK);
    assert_int_equal(tcp->writer_attach(&writer->base, 0, &answer), RCM_OK);
}

static inline void channel_fini(void *channel) {
    tcp->channel_fini(channel);
}

/* Where the framework does it, if the loop runs. */
static inline void channel_end(struct tcp_channel *channel) {
    rcmi_loop_call(channel->base.node->loop, channel_fini, channel);
}

/* ---- Two ends ------------------------------------------------------------------------------ */

struct two {
    struct end a, b;
};

static inline void two_open(struct two *two, int buffer) {
    int fds[2];
    socket_pair(fds, buffer);
    end_open(&two->a);
    end_open(&two->b);
    assert_int_equal(tcp->link_attach(&two->a.link, 0, fds[0]), RCM_OK);
    assert_int_equal(tcp->link_attach(&two->b.link, 0, fds[1]), RCM_OK);
}

static inline int two_failed(const struct two *two) {
    return end_failed(&two->a) + end_failed(&two->b);
}

static inline void two_close(struct two *two) {
    end_close(&two->a);
    end_close(&two->b);
}

#endif
