/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of connections that are not handed to a link: see connection.c. */
#include <stdlib.h>
#include <string.h>
#include "log.h"
#include "net.h"
#include "wire_version.h"

bool rcmi_conn_is_unidentified(const struct rcmi_conn *conn) {
    return !conn->initiator && !conn->parked && conn->phase != RCMI_CONN_HELD;
}

void rcmi_conn_free(struct rcmi_conn *conn, int *ret_fd) {
    struct rcmi_node *node = conn->node;
    if (rcmi_conn_is_unidentified(conn))
        node->nunidentified--;
    rcmi_loop_unwatch(node->loop, &conn->watch);
    rcmi_loop_timer_stop(node->loop, &conn->timer);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        node->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    if (ret_fd)
        *ret_fd = conn->watch.fd;
    else
        rcmi_fd_close(&conn->watch.fd);
    free(conn);
}

void rcmi_conn_drop(struct rcmi_node *node, const struct rcmi_link *link) {
    for (struct rcmi_conn *conn = node->conns, *next; conn; conn = next) {
        next = conn->next;
        if (!link || conn->link == link || conn->held == link)
            rcmi_conn_free(conn, NULL);
    }
}

bool rcmi_conn_proved(const struct rcmi_conn *conn) {
    return conn->node->config.secret && conn->phase > RCMI_CONN_AUTH;
}

bool rcmi_conn_spoke(const struct rcmi_conn *conn) {
    return conn->auth.in_done > 0 || conn->done > 0 || conn->phase > RCMI_CONN_HELLO;
}

bool rcmi_conn_wants_proof(const struct rcmi_conn *conn) {
    static const char proof[] = "RCMAUTH1";
    const void *first = conn->initiator ? (const void *)&conn->reply : &conn->hello;
    return conn->phase == (conn->initiator ? RCMI_CONN_REPLY : RCMI_CONN_HELLO) &&
           conn->done >= sizeof proof - 1 && memcmp(first, proof, sizeof proof - 1) == 0;
}

/* Most likely a rank with another secret, or with none. */
static bool conn_is_misled(const struct rcmi_conn *conn) {
    const uint32_t magic = RCMI_HELLO_MAGIC;
    if (conn->phase != RCMI_CONN_AUTH || rcmi_last_error()->status != RCM_ERR_AUTH)
        return rcmi_conn_wants_proof(conn);
    return conn->auth.in_done == sizeof conn->auth.in ||
           (conn->auth.in_done >= sizeof magic && memcmp(conn->auth.in, &magic, sizeof magic) == 0);
}

/* A peer that has a secret infers from any reply that this side has none. Without a reply, this
 * side would look merely busy. One write attempt; the rest is dropped. */
static void conn_reply_no_secret(const struct rcmi_conn *conn) {
    const struct rcmi_reply reply = {
        .magic = RCMI_HELLO_MAGIC, .version = RCMI_WIRE_VERSION, .status = RCMI_REPLY_REFUSED};
    size_t done = 0;
    (void)!rcmi_fd_write(conn->watch.fd, &reply, sizeof reply, &done);
}

void rcmi_conn_log_unidentified(const struct rcmi_conn *conn) {
    const bool misled = conn_is_misled(conn);
    const enum rcmi_log_level level = misled ? RCMI_LOG_WARN : RCMI_LOG_INFO;
    char name[RCMI_ADDR_TEXT], more[RCMI_LOG_MORE];
    if (!rcmi_log_enabled(level) || !rcmi_log_rate_allows(&conn->node->log_rate[misled], more))
        return;
    rcmi_unidentified_name(conn, name);
    rcmi_log(level, "dropped a connection from %s: %s%s", name, rcm_last_error(), more);
}

/* The reason is the thread's error. A connection that belongs to a link reports it to the link;
 * others are only logged. */
void rcmi_conn_fail(struct rcmi_conn *conn) {
    struct rcmi_link *link = conn->link;
    struct rcmi_hello hello = conn->hello;
    bool initiator = conn->initiator;
    /* Closed or reset by the peer, which may have been too busy; not an error of this side. */
    bool ended = conn->phase != RCMI_CONN_CONNECT && rcmi_last_error()->status == RCM_ERR_PEER;
    if (!link) {
        rcmi_conn_log_unidentified(conn);
        if (rcmi_conn_wants_proof(conn))
            conn_reply_no_secret(conn);
    } else if (ended && initiator && conn->done == 0) {
        (void)rcmi_fail(RCM_ERR_PEER, 0,
                        "it ended the connection without an answer; it is gone, or its "
                        "RINGCOMM_SECRET differs from ours");
    }
    rcmi_conn_free(conn, NULL);
    if (link)
        link->node->net_above->failed(link, &hello, initiator, ended);
}
