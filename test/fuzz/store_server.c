/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: the TCP store's server, both dialects, with two clients that may wait for each other
 * (rendezvous/store/tcp_server.c, tcp_message.c, tcp_waiters.c).
 *
 *   byte 0    bit 0: the server has a secret; bit 1: and accepts clients without proof
 *   then      op, and for pieces a uint16 length and bytes; bit 7 of op is the client, and the rest
 *             0..125 a piece it sends, 126 silent clients are closed, 127 it closes
 *
 * No thread: the target makes the calls of the loop.
 */
#include "fuzz.h"
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tcp_server.h"

enum { STEPS = 300, ROUNDS = 50 };

static char secret[] = "fuzz secret";
static struct rcmi_server *server;
static int peers[2]; /* our ends; -1: not connected */
static int ends[2];  /* the server's ends; -1: it has closed the client */
static bool dropped;

static void server_make(void) {
    fuzz_require(rcmi_server_create(NULL, false, &server) == RCM_OK, "a server can be made");
    server->max_fresh = 2;
}

static struct rcmi_client *client_at(int end) {
    if (end < 0)
        return NULL;
    for (struct rcmi_client *c = server->clients; c; c = c->next)
        if (c->watch.fd == end)
            return c;
    return NULL;
}

/* Descriptors are reused: removes those that the server has closed. */
static void forget_dropped(void) {
    for (int i = 0; i < 2; i++) {
        if (ends[i] < 0 || client_at(ends[i]))
            continue;
        ends[i] = -1;
        dropped = true;
    }
}

static void check_output(const struct rcmi_client *c) {
    fuzz_require(!c || rcmi_buffer_len(&c->out) <= RCMI_CLIENT_OUT_HIGH + (1u << 26),
                 "the output of a client is bounded");
}

/* Lets the server read what client i has sent, and reads its answers. */
static void serve(int i, uint32_t events) {
    struct rcmi_client *c = client_at(ends[i]);
    for (int round = 0; c && round < ROUNDS; round++) {
        c->watch.ready(c, events);
        forget_dropped();
        fuzz_drain(peers[i]);
        c = client_at(ends[i]);
        check_output(c);
        if (!c || (rcmi_buffer_len(&c->out) == 0 && !c->stalled))
            break;
        events = EPOLLOUT;
    }
}

static void hang_up(int i) {
    if (peers[i] < 0)
        return;
    close(peers[i]);
    peers[i] = -1;
    bool before = dropped;
    struct rcmi_client *c = client_at(ends[i]);
    if (c)
        c->watch.ready(c, EPOLLIN | EPOLLHUP);
    fuzz_require(ends[i] < 0 || !client_at(ends[i]), "a client that left is gone");
    forget_dropped();
    dropped = before;
}

static void come(int i) {
    int fds[2];
    fuzz_socketpair(fds);
    ends[i] = fds[0];
    peers[i] = fds[1];
    rcmi_server_accepted(server, fds[0]);
}

static void step(struct fuzz_input *in) {
    uint8_t op = fuzz_u8(in);
    int i = op >> 7;
    size_t n;
    if ((op & 127) == 126) {
        for (struct rcmi_client *c = server->fresh; c; c = c->fresh_next)
            c->drop_at = 0;
        server->drop.fire(server);
        forget_dropped();
    } else if ((op & 127) == 127) {
        hang_up(i);
    } else {
        size_t want = fuzz_u16(in);
        const uint8_t *bytes = fuzz_bytes(in, want, &n);
        if (peers[i] >= 0 && ends[i] < 0)
            return; /* the server has closed it, which it has not seen yet */
        if (peers[i] < 0)
            come(i);
        fuzz_write(peers[i], bytes, n);
        serve(i, EPOLLIN);
        fuzz_drain(peers[!i]);
    }
}

/* Of closed clients, only the keys that they set may remain. */
static void finish(void) {
    bool whole = true;
    for (const struct rcmi_client *c = server->clients; c; c = c->next)
        whole = whole && rcmi_buffer_len(&c->in) == 0 && c->state >= RCMI_CLIENT_NEW;
    fuzz_verdict = dropped ? FUZZ_REFUSED : whole ? FUZZ_ACCEPTED : FUZZ_UNKNOWN;
    hang_up(0);
    hang_up(1);
    fuzz_require(!server->clients && !server->fresh && !server->dead, "no client stays");
    fuzz_require(server->map.nentries == server->map.npresent, "no waiter is left");
    fuzz_require(server->queues.nentries == server->queues.npresent, "queues are not empty");
    rcmi_loop_timer_stop(server->loop, &server->drop);
    rcmi_map_fini(&server->map);
    rcmi_map_fini(&server->queues);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    if (!server)
        server_make();
    uint8_t flags = fuzz_u8(&in);
    server->secret = flags & 1 ? secret : NULL;
    server->allow_plain = flags & 2;
    rcmi_map_init(&server->map);
    rcmi_map_init(&server->queues);
    server->map.seed = server->queues.seed = 1;
    peers[0] = peers[1] = -1;
    ends[0] = ends[1] = -1;
    dropped = false;
    for (int steps = 0; in.left > 0 && steps < STEPS; steps++)
        step(&in);
    finish();
    return 0;
}
