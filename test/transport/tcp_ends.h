/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp transport without the framework, for tests that include this once: two links of one
 * process over a socket pair. What the framework offers to transports is stubbed here.
 */
#ifndef TEST_TCP_ENDS_H
#define TEST_TCP_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../transport/tcp/tcp.h"
#include "short.h"
#include "error.h"
#include "fd.h"

/* ---- Stubs --------------------------------------------------------------------------------- */

struct rcmi_node {
    struct rcmi_loop *loop;
    _Atomic int rings, failures;
};

void rcmi_node_ring(struct rcmi_node *node) {
    atomic_fetch_add(&node->rings, 1);
}

struct rcmi_loop *rcmi_node_loop(struct rcmi_node *node) {
    return node->loop;
}

void rcmi_node_link_failed(struct rcmi_node *node, int peer) {
    assert_int_equal(peer, 1);
    atomic_fetch_add(&node->failures, 1);
}

void rcmi_channel_fail(struct rcmi_channel *channel) {
    atomic_store(&channel->state, (int)rcmi_last_error()->status);
}

bool rcmi_node_polled(const struct rcmi_node *node) {
    (void)node;
    return false;
}

rcm_status rcmi_channel_not_ready(const struct rcmi_channel *channel) {
    return atomic_load(&channel->state);
}

/* ---- Set-up -------------------------------------------------------------------------------- */

static size_t channel_bytes = 8192; /* of a slot of those made from now on */

extern const struct rcmi_transport rcmi_transport_tcp;
static const struct rcmi_transport *const tcp = &rcmi_transport_tcp;

struct end {
    struct rcmi_node node;
    struct tcp_domain domain;
    struct tcp_link link;
};

static inline void end_open(struct end *end) {
    memset(end, 0, sizeof *end);
    assert_int_equal(rcmi_loop_create("test", NULL, NULL, &end->node.loop), RCM_OK);
    assert_int_equal(tcp->domain_init(&end->domain, &end->node), RCM_OK);
    assert_int_equal(tcp->link_init(&end->link, &end->domain, 1), RCM_OK);
}

static inline void end_close(struct end *end) {
    tcp->link_down(&end->link);
    tcp->link_down(&end->link); /* idempotent */
    tcp->link_fini(&end->link);
    tcp->domain_fini(&end->domain); /* a loop that was destroyed is NULL: nothing to unwatch */
    rcmi_loop_destroy(end->node.loop);
}

static inline void socket_pair(int fds[2], int buffer) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    for (int i = 0; i < 2 && buffer; i++)
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer), 0);
}

static inline void channel_set(struct tcp_channel *channel, struct end *end, bool writer) {
    memset(channel, 0, sizeof *channel);
    channel->base.transport = tcp;
    channel->base.node = &end->node;
    channel->base.slot_bytes = channel_bytes;
    channel->base.slots = 4;
    channel->base.is_writer = writer;
    channel->base.nreaders = 1;
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

static inline void two_close(struct two *two) {
    end_close(&two->a);
    end_close(&two->b);
}

#endif
