/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepted connections whose peer is not identified yet. Their number is limited, because each
 * holds a descriptor and port scanners open thousands. At the limit a new connection replaces an
 * old one: the oldest that has sent nothing for SILENCE_NS, else the oldest that has not proved the
 * secret. So peers get through during a port scan; a peer that is dropped nevertheless redials
 * (dial.c).
 *
 * A Unix socket identifies the process at its other end. Without a secret, only processes of our
 * own user and root are linked that way, because the link passes memory.
 *
 * Before rcmi_node_start no peer can be answered, because addresses cannot be looked up yet.
 * Between rcmi_node_attend and rcmi_node_start unidentified connections are already dropped, and
 * peers wait here ("parked").
 */
#include "net.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENCE_NS INT64_C(100000000) /* time in which a peer must have sent something */

/* 0 is dropped first; -1 is never dropped. */
static int unidentified_standing(const struct rcmi_conn *conn, int64_t now) {
    if (!rcmi_conn_is_unidentified(conn) || conn->link)
        return -1;
    if (!rcmi_conn_spoke(conn) && now - conn->since > SILENCE_NS)
        return 0;
    return rcmi_conn_proved(conn) ? 2 : 1;
}

bool rcmi_unidentified_drop(struct rcmi_node *node) {
    const int64_t now = rcmi_now_ns();
    struct rcmi_conn *victim = NULL;
    int least = 3;
    for (struct rcmi_conn *conn = node->conns; conn; conn = conn->next) {
        const int standing = unidentified_standing(conn, now);
        if (standing >= 0 && standing <= least) { /* the list begins with the youngest */
            victim = conn;
            least = standing;
        }
    }
    if (!victim)
        return false;
    (void)rcmi_fail(RCM_ERR_RESOURCE, 0,
                    "%d connections are waiting that have not identified themselves",
                    node->nunidentified);
    rcmi_conn_fail(victim);
    return true;
}

/* ---- Waiting for the start ------------------------------------------------------------------- */

/* One connection of a kind waits for each rank. A rank that connects
 * again has abandoned the first. */
static void forget_earlier(const struct rcmi_conn *conn) {
    for (struct rcmi_conn *at = conn->node->conns; at; at = at->next) {
        if (at == conn || !at->parked || at->hello.from != conn->hello.from ||
            at->hello.kind != conn->hello.kind || at->hello.index != conn->hello.index)
            continue;
        (void)rcmi_fail(RCM_ERR_PROTOCOL, 0, "rank %u connected a second time", conn->hello.from);
        rcmi_conn_fail(at);
        return;
    }
}

void rcmi_unidentified_park(struct rcmi_conn *conn) {
    forget_earlier(conn);
    conn->parked = true;
    conn->node->nunidentified--;
    rcmi_loop_timer_stop(conn->node->loop, &conn->timer);
}

rcm_status rcmi_unidentified_wait(const struct rcmi_conn *conn) {
    char byte;
    const ssize_t n = recv(conn->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return RCM_AGAIN;
    return rcmi_fail(RCM_ERR_PEER, 0, "rank %u %s before it was answered", conn->hello.from,
                     n > 0 ? "sent more data" : "disconnected");
}
