/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepted connections whose other end is not identified yet. Their number is limited: each holds a
 * descriptor, and port scanners open thousands. One more replaces another: the oldest on which
 * nothing came, if there was time to, else the oldest on which nothing was proved. So a peer is
 * heard in the middle of a scan, and one whose connection was dropped all the same dials again
 * (dial.c).
 *
 * Unix sockets tell which process is at the other end. Without a secret only processes of our own
 * user (and root's) are linked that way; for memory would be handed over.
 *
 * Before rcmi_node_start no peer can be answered, for the look-up of addresses does not work yet.
 * From rcmi_node_attend to then the unidentified are dropped already, and peers wait here
 * ("parked").
 */
#include "net.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENCE_NS INT64_C(100000000) /* that one must have had time to say something */

/* 0: goes first. -1: stays. */
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
                    "%d connections are waiting that have not said who they are",
                    node->nunidentified);
    rcmi_conn_fail(victim);
    return true;
}

/* ---- Waiting for the start ------------------------------------------------------------------- */

/* One connection of a kind waits for each rank: a rank that comes again has given up the first. */
static void forget_earlier(const struct rcmi_conn *conn) {
    for (struct rcmi_conn *at = conn->node->conns; at; at = at->next) {
        if (at == conn || !at->parked || at->hello.from != conn->hello.from ||
            at->hello.kind != conn->hello.kind || at->hello.index != conn->hello.index)
            continue;
        (void)rcmi_fail(RCM_ERR_PROTOCOL, 0, "rank %u came a second time", conn->hello.from);
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
                     n > 0 ? "spoke on" : "left");
}
