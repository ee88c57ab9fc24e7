/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections until both sides are identified: authentication, then HELLO from the side that
 * dialled and REPLY from the other. Both have a fixed size, so no byte beyond them is read. An
 * accepted connection is handed to its link (link/). Each connection is a state machine on the
 * loop; any number may be half-open.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "net.h"
#include "log.h"
#include "wire_version.h"

/* ---- Making and ending ----------------------------------------------------------------------- */

static rcm_status no_secret(void) {
    return rcmi_fail(RCM_ERR_AUTH, 0,
                     "it requires proof of a secret; RINGCOMM_SECRET is not set here");
}

static void conn_timeout(void *arg) {
    struct rcmi_conn *conn = arg;
    static const char *const late[] = {"was not established", "was not authenticated",
                                       "received no greeting", "received no answer",
                                       "was not replaced by one from this side"};
    (void)rcmi_fail(RCM_ERR_TIMEOUT, 0, "a connection %s in time", late[conn->phase]);
    rcmi_conn_fail(conn);
}

/* ---- Moving bytes ---------------------------------------------------------------------------- */

static rcm_status conn_move(struct rcmi_conn *conn, bool out, void *bytes, size_t len) {
    while (conn->done < len) {
        size_t moved = 0;
        uint8_t *at = (uint8_t *)bytes + conn->done;
        rcm_status status = out ? rcmi_fd_write(conn->watch.fd, at, len - conn->done, &moved)
                                : rcmi_fd_read(conn->watch.fd, at, len - conn->done, &moved);
        if (status != RCM_OK)
            return status;
        conn->done += moved;
    }
    conn->done = 0;
    return RCM_OK;
}

static void conn_wait(struct rcmi_conn *conn, uint32_t events) {
    rcm_status status = RCM_OK;
    if (events != conn->events)
        status = rcmi_loop_change(conn->node->loop, &conn->watch, events);
    conn->events = events;
    if (status != RCM_OK)
        rcmi_conn_fail(conn);
}

static uint32_t conn_events(const struct rcmi_conn *conn) {
    switch (conn->phase) {
    case RCMI_CONN_AUTH:
        return EPOLLIN | (rcmi_auth_wants_write(&conn->auth) ? EPOLLOUT : 0u);
    case RCMI_CONN_HELLO:
        return conn->initiator ? EPOLLOUT : EPOLLIN;
    case RCMI_CONN_REPLY:
        return conn->initiator ? EPOLLIN : EPOLLOUT;
    default:
        return EPOLLOUT;
    }
}

/* ---- The two sides --------------------------------------------------------------------------- */

static rcm_status check_hello(const struct rcmi_hello *hello) {
    if (hello->magic != RCMI_HELLO_MAGIC)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "the other side is not libringcomm, or has another byte order");
    if (memchr(hello->transport, 0, sizeof hello->transport) == NULL)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "a greeting contains no transport");
    return RCM_OK;
}

/* The head of a hello or reply has arrived and has another version. moved: result of conn_move; it
 * resets conn->done to 0 once everything has arrived. */
static bool head_is_foreign(const struct rcmi_conn *conn, rcm_status moved, uint32_t magic,
                            uint16_t version) {
    return (moved == RCM_OK || conn->done >= RCMI_HELLO_HEAD) && magic == RCMI_HELLO_MAGIC &&
           version != RCMI_WIRE_VERSION;
}

/* Reads what else has arrived. The kernel resets a connection that is closed with unread data, and
 * the reset can destroy the last reply. */
static void conn_drain(const struct rcmi_conn *conn) {
    uint8_t bytes[512];
    size_t moved = sizeof bytes;
    for (int i = 0; i < 16 && moved == sizeof bytes; i++)
        if (rcmi_fd_read(conn->watch.fd, bytes, sizeof bytes, &moved) != RCM_OK)
            moved = 0;
}

/* The reply contains our version, so that the dialling side can report both versions. */
static rcm_status conn_answer_foreign(struct rcmi_conn *conn) {
    (void)rcmi_wire_differs(-1, "the other side", conn->hello.version, conn->node->config.rank);
    rcmi_conn_log_unidentified(conn);
    conn_drain(conn);
    conn->reply = (struct rcmi_reply){
        .magic = RCMI_HELLO_MAGIC, .version = RCMI_WIRE_VERSION, .status = RCMI_REPLY_REFUSED};
    snprintf(conn->reply.text, sizeof conn->reply.text, "%.150s", rcm_last_error());
    conn->done = 0;
    return RCM_OK;
}

/* The hello is complete: fills the reply. RCM_AGAIN: the connection is parked. */
static rcm_status conn_judge(struct rcmi_conn *conn) {
    rcm_status status = check_hello(&conn->hello);
    if (status != RCM_OK)
        return status;
    const bool foreign = rcmi_unidentified_is_foreign(conn);
    if (!foreign && conn->node->waiting &&
        conn->node->net_above->is_peer(conn->node, &conn->hello)) {
        rcmi_unidentified_park(conn);
        return RCM_AGAIN;
    }
    conn->reply = (struct rcmi_reply){.magic = RCMI_HELLO_MAGIC, .version = RCMI_WIRE_VERSION};
    if (foreign) {
        conn->reply.status = RCMI_REPLY_REFUSED;
        snprintf(conn->reply.text, sizeof conn->reply.text,
                 "this process belongs to another user, and no secret is set");
        return RCM_OK;
    }
    conn->node->net_above->judge(conn->node, &conn->hello, conn->same_host, &conn->reply,
                                 &conn->link);
    if (conn->reply.status == RCMI_REPLY_BUSY)
        conn->held = rcmi_node_link(conn->node, (int)conn->hello.from);
    return RCM_OK;
}

bool rcmi_conn_has_greeted(const struct rcmi_link *link) {
    for (const struct rcmi_conn *conn = link->node->conns; conn; conn = conn->next)
        if (conn->link == link && conn->initiator && conn->phase > RCMI_CONN_HELLO)
            return true;
    return false;
}

/* Handles a complete or partial hello. An unidentified peer may never send a whole one, so a wrong
 * magic number is rejected as soon as it has arrived. */
static rcm_status conn_greeted(struct rcmi_conn *conn, rcm_status moved) {
    const struct rcmi_hello *hello = &conn->hello;
    if (head_is_foreign(conn, moved, hello->magic, hello->version))
        return conn_answer_foreign(conn);
    if (moved == RCM_AGAIN && conn->done >= sizeof hello->magic && hello->magic != RCMI_HELLO_MAGIC)
        return rcmi_conn_wants_proof(conn) ? no_secret() : check_hello(hello);
    return moved == RCM_OK ? conn_judge(conn) : moved;
}

/* The peer received BUSY and waits for our own connection. If ours fails, this one is accepted, or
 * refused with the reason. Until then nothing is sent on it; if it ends, the peer no longer needs
 * it. A link holds at most one, so it no longer counts as unidentified. */
static void conn_hold(struct rcmi_conn *conn) {
    for (struct rcmi_conn *other = conn->node->conns, *next; other; other = next) {
        next = other->next;
        if (other != conn && other->phase == RCMI_CONN_HELD && other->held == conn->held)
            rcmi_conn_free(other, NULL);
    }
    conn->phase = RCMI_CONN_HELD;
    conn->node->nunidentified--;
    rcmi_loop_timer(conn->node->loop, &conn->timer,
                    rcmi_deadline_in(4 * conn->node->peer_timeout_ms));
    conn_wait(conn, EPOLLIN | EPOLLRDHUP);
}

void rcmi_conn_refuse(const struct rcmi_link *link, const char *why) {
    struct rcmi_reply reply = {
        .magic = RCMI_HELLO_MAGIC, .version = RCMI_WIRE_VERSION, .status = RCMI_REPLY_REFUSED};
    const struct rcmi_error error = *rcmi_last_error();
    snprintf(reply.text, sizeof reply.text, "%s", why);
    for (struct rcmi_conn *conn = link->node->conns, *next; conn; conn = next) {
        size_t moved = 0;
        next = conn->next;
        if (conn->phase != RCMI_CONN_HELD || conn->held != link)
            continue;
        /* Its send buffer is empty, so the reply is written whole, or the peer is gone. */
        (void)!rcmi_fd_write(conn->watch.fd, &reply, sizeof reply, &moved);
        rcmi_conn_free(conn, NULL);
    }
    *rcmi_last_error() = error;
}

bool rcmi_conn_take_held(struct rcmi_link *link) {
    for (struct rcmi_conn *conn = link->node->conns; conn; conn = conn->next) {
        if (conn->phase != RCMI_CONN_HELD || conn->held != link)
            continue;
        conn->held = NULL;
        conn->phase = RCMI_CONN_HELLO;
        link->node->nunidentified++;
        rcmi_loop_timer(link->node->loop, &conn->timer, rcmi_deadline_in(RCMI_ACCEPT_LIMIT_MS));
        rcmi_conn_answer(conn);
        return true;
    }
    return false;
}

/* Accepted connection: our reply has been sent. */
static void conn_replied(struct rcmi_conn *conn) {
    struct rcmi_link *link = conn->link;
    struct rcmi_hello hello = conn->hello;
    int fd = -1;
    if (!link && conn->held && rcmi_link_state(conn->held) == RCMI_LINK_DIALING) {
        conn_hold(conn);
        return;
    }
    if (!link) {
        rcmi_conn_free(conn, NULL);
        return;
    }
    rcmi_conn_free(conn, &fd);
    link->node->net_above->connected(link, &hello, fd, false);
}

/* Dialled connection: the reply has arrived. */
static void conn_answered(struct rcmi_conn *conn) {
    struct rcmi_link *link = conn->link;
    struct rcmi_hello hello = conn->hello;
    struct rcmi_reply reply = conn->reply;
    int fd = -1;
    if (reply.magic != RCMI_HELLO_MAGIC) {
        (void)rcmi_fail(RCM_ERR_PROTOCOL, 0,
                        "the other side is not libringcomm, or has another byte order");
        rcmi_conn_fail(conn);
    } else if (reply.version != RCMI_WIRE_VERSION) {
        (void)rcmi_wire_differs(link->peer, "it", reply.version, conn->node->config.rank);
        rcmi_conn_fail(conn);
    } else if (reply.status == RCMI_REPLY_OK) {
        rcmi_conn_free(conn, &fd);
        link->node->net_above->connected(link, &hello, fd, true);
    } else if (reply.status == RCMI_REPLY_BUSY && hello.kind == RCMI_HELLO_CONTROL) {
        /* The link's own timer limits the wait. */
        rcmi_loop_timer_stop(conn->node->loop, &conn->timer);
        link->node->net_above->busy(link);
        conn_wait(conn, EPOLLIN);
    } else {
        reply.text[sizeof reply.text - 1] = '\0';
        (void)rcmi_fail(RCM_ERR_PROTOCOL, 0, "the other side refused the connection: %s",
                        reply.text);
        rcmi_conn_fail(conn);
    }
}

/* Runs one phase. RCM_OK: the phase is complete. */
static rcm_status conn_phase(struct rcmi_conn *conn) {
    rcm_status status;
    switch (conn->phase) {
    case RCMI_CONN_CONNECT:
        status = rcmi_connect_result(conn->watch.fd);
        if (status == RCM_OK && rcmi_unidentified_is_foreign(conn))
            status = rcmi_fail(RCM_ERR_AUTH, 0,
                               "a process of another user listens there, and no secret is set");
        if (status == RCM_OK)
            rcmi_loop_timer(
                conn->node->loop, &conn->timer,
                rcmi_deadline_in((conn->patient ? 4 : 1) * conn->node->peer_timeout_ms));
        return status;
    case RCMI_CONN_AUTH:
        return rcmi_auth_step(&conn->auth, conn->watch.fd);
    case RCMI_CONN_HELLO:
        if (conn->parked)
            return rcmi_unidentified_wait(conn);
        status = conn_move(conn, conn->initiator, &conn->hello, sizeof conn->hello);
        return conn->initiator ? status : conn_greeted(conn, status);
    default:
        status = conn_move(conn, !conn->initiator, &conn->reply, sizeof conn->reply);
        if (conn->initiator &&
            head_is_foreign(conn, status, conn->reply.magic, conn->reply.version))
            return RCM_OK;
        return status != RCM_OK && rcmi_conn_wants_proof(conn) ? no_secret() : status;
    }
}

/* Continues after a phase returned `status`. */
static void conn_go_on(struct rcmi_conn *conn, rcm_status status) {
    while (status == RCM_OK && conn->phase != RCMI_CONN_REPLY) {
        conn->phase++;
        status = conn_phase(conn);
    }
    if (status == RCM_AGAIN)
        conn_wait(conn, conn_events(conn));
    else if (status != RCM_OK)
        rcmi_conn_fail(conn);
    else if (conn->initiator)
        conn_answered(conn);
    else
        conn_replied(conn);
}

static void conn_ready(void *arg, uint32_t events) {
    struct rcmi_conn *conn = arg;
    (void)events;
    if (conn->phase == RCMI_CONN_HELD)
        rcmi_conn_free(conn, NULL);
    else
        conn_go_on(conn, conn_phase(conn));
}

void rcmi_conn_answer(struct rcmi_conn *conn) {
    conn_go_on(conn, conn_judge(conn));
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Takes ownership of fd, also on failure. */
static rcm_status conn_begin(struct rcmi_node *node, int fd, bool initiator, int64_t limit_ms,
                             struct rcmi_conn **ret_conn) {
    struct rcmi_conn *conn = rcmi_zalloc(sizeof *conn);
    rcm_status status = conn ? RCM_OK : RCM_ERR_NOMEM;
    if (status == RCM_OK)
        status = rcmi_auth_start(&conn->auth, node->config.secret, initiator);
    if (status != RCM_OK) {
        free(conn);
        rcmi_fd_close(&fd);
        return status;
    }
    conn->node = node;
    conn->initiator = initiator;
    conn->phase = initiator ? RCMI_CONN_CONNECT : RCMI_CONN_AUTH;
    conn->since = rcmi_now_ns();
    conn->watch = (struct rcmi_watch){.fd = fd, .ready = conn_ready, .arg = conn};
    conn->timer = (struct rcmi_timer){.fire = conn_timeout, .arg = conn};
    conn->events = conn_events(conn);
    node->nunidentified += !initiator;
    conn->next = node->conns;
    if (conn->next)
        conn->next->prev = conn;
    node->conns = conn;
    status = rcmi_loop_watch(node->loop, &conn->watch, conn->events);
    if (status != RCM_OK) {
        rcmi_conn_free(conn, NULL);
        return status;
    }
    rcmi_loop_timer(node->loop, &conn->timer, rcmi_deadline_in(limit_ms));
    *ret_conn = conn;
    return RCM_OK;
}

void rcmi_conn_accepted(struct rcmi_node *node, int fd, bool same_host) {
    struct rcmi_conn *conn = NULL;
    if (node->nunidentified >= node->max_unidentified)
        (void)rcmi_unidentified_drop(node);
    if (conn_begin(node, fd, false, RCMI_ACCEPT_LIMIT_MS, &conn) != RCM_OK) {
        rcmi_log(RCMI_LOG_WARN, "dropped an incoming connection: %s", rcm_last_error());
        return;
    }
    conn->same_host = same_host;
    /* A peer that waited in the accept queue has most likely sent its first bytes already. Reading
     * them now marks it as active, unlike port scanners, which send nothing. */
    conn_ready(conn, EPOLLIN);
}

static rcm_status dial_socket(struct rcmi_link *link, const struct rcmi_target *target,
                              int *ret_fd) {
    return target->same_host ? rcmi_connect_start_unix(link->unix_name, ret_fd)
                             : rcmi_connect_start(&target->addr, ret_fd);
}

rcm_status rcmi_conn_dial(struct rcmi_link *link, enum rcmi_hello_kind kind, int index,
                          int64_t limit_ms, bool patient) {
    struct rcmi_node *node = link->node;
    const struct rcmi_target *target = &link->targets[link->target];
    const char *transport = target->domain->transport->name;
    struct rcmi_conn *conn = NULL;
    int fd = -1;
    rcm_status status = dial_socket(link, target, &fd);
    if (status == RCM_ERR_RESOURCE && rcmi_unidentified_drop(node)) /* out of descriptors */
        status = dial_socket(link, target, &fd);
    if (status == RCM_OK)
        status = conn_begin(node, fd, true, limit_ms, &conn);
    if (status != RCM_OK)
        return status;
    conn->link = link;
    conn->same_host = target->same_host;
    conn->patient = patient;
    conn->hello = (struct rcmi_hello){
        .magic = RCMI_HELLO_MAGIC,
        .version = RCMI_WIRE_VERSION,
        .kind = (uint8_t)kind,
        .index = (uint8_t)index,
        .from = (uint32_t)node->config.rank,
        .to = (uint32_t)link->peer,
        .nranks = (uint32_t)node->config.nranks,
        .job = node->config.job,
    };
    snprintf(conn->hello.transport, sizeof conn->hello.transport, "%s", transport);
    return RCM_OK;
}

void rcmi_unidentified_start(struct rcmi_node *node) {
    struct rcmi_conn *conn;
    node->waiting = false;
    do { /* an answer may free other connections: restart from the head of the list */
        for (conn = node->conns; conn && !conn->parked; conn = conn->next)
            ;
        if (conn) {
            conn->parked = false;
            node->nunidentified++;
            rcmi_conn_answer(conn);
        }
    } while (conn);
}
