/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's connection to a TCP store: output, input, connecting. */
#include "tcp_conn.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "auth.h"
#include "error.h"
#include "rendezvous.h"
#include "fd.h"
#include "log.h"

#define READ_BLOCK     (64 * 1024)
#define ATTEMPT_MS     4000 /* of one try at one address: to connect, and to be greeted */
#define BACKOFF_MIN_MS 10
#define BACKOFF_MAX_MS 1000
/* The first ping's nonce; later pings count up. A server of torch 1.13 reads VALIDATE as SET, with
 * a key length whose high bytes are the low bytes of the first nonce. With this bit set, the length
 * exceeds any memory, so that server closes the connection immediately. */
#define FIRST_NONCE 0x800000u

/* Limits for a server that keeps closing the connection at the greeting: it may have too many
 * unidentified connections. After both limits the client gives up. */
#define MAX_REJECTIONS 4
#define REJECTED_MS    2000

#define IDLE_NS INT64_C(5000000000) /* a connection idle for longer is pinged before its use */

/* ---- Requests ------------------------------------------------------------------------------ */

/* Converts to the dialect of torch 1.13 and 2.0: all opcodes except DELETE_KEY are one less. Newer
 * operations are not sent, because not all of these servers have them. */
static rcm_status opcode_old(enum rcmi_wire_op op, uint8_t *ret_code) {
    if (op > RCMI_WIRE_DELETE_KEY)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "the store's torch is older than 2.1 and does not have this operation");
    *ret_code = (uint8_t)(op == RCMI_WIRE_DELETE_KEY ? op : op - 1);
    return RCM_OK;
}

static void conn_put(struct rcmi_tcp_conn *conn, const void *data, size_t len) {
    if (conn->status == RCM_OK)
        conn->status = rcmi_buffer_put(&conn->out, data, len);
}

void rcmi_tcp_conn_put_opcode(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op) {
    uint8_t code = (uint8_t)op;
    if (conn->status == RCM_OK && conn->old)
        conn->status = opcode_old(op, &code);
    conn_put(conn, &code, sizeof code);
}

void rcmi_tcp_conn_put_u64(struct rcmi_tcp_conn *conn, uint64_t value) {
    conn_put(conn, &value, sizeof value);
}

void rcmi_tcp_conn_put_value(struct rcmi_tcp_conn *conn, struct rcmi_bytes value) {
    rcmi_tcp_conn_put_u64(conn, value.len);
    conn_put(conn, value.data, value.len);
}

void rcmi_tcp_conn_put_key(struct rcmi_tcp_conn *conn, struct rcmi_bytes key) {
    rcmi_tcp_conn_put_u64(conn, key.len + 1);
    conn_put(conn, "/", 1);
    conn_put(conn, key.data, key.len);
}

void rcmi_tcp_conn_put_op(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op, struct rcmi_bytes key) {
    rcmi_tcp_conn_put_opcode(conn, op);
    rcmi_tcp_conn_put_key(conn, key);
}

void rcmi_tcp_conn_put_list(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op,
                            const struct rcmi_bytes *keys, size_t n) {
    rcmi_tcp_conn_put_opcode(conn, op);
    rcmi_tcp_conn_put_u64(conn, n);
    for (size_t i = 0; i < n; i++)
        rcmi_tcp_conn_put_key(conn, keys[i]);
}

void rcmi_tcp_conn_put_ping(struct rcmi_tcp_conn *conn) {
    if (conn->old) { /* it has no PING: a CHECK of an empty list */
        rcmi_tcp_conn_put_list(conn, RCMI_WIRE_CHECK, NULL, 0);
        return;
    }
    conn->nonce++;
    rcmi_tcp_conn_put_opcode(conn, RCMI_WIRE_PING);
    conn_put(conn, &conn->nonce, sizeof conn->nonce);
}

void rcmi_tcp_conn_flush(struct rcmi_tcp_conn *conn, rcmi_deadline deadline) {
    const size_t len = rcmi_buffer_len(&conn->out);
    conn->deadline = deadline;
    if (conn->status == RCM_OK)
        conn->status = rcmi_fd_write_full(conn->fd, rcmi_buffer_front(&conn->out), len, deadline);
    rcmi_buffer_drop(&conn->out, len);
}

/* ---- Replies ------------------------------------------------------------------------------- */

rcm_status rcmi_tcp_conn_await(struct rcmi_tcp_conn *conn, rcmi_deadline deadline) {
    if (conn->status != RCM_OK || rcmi_buffer_len(&conn->in) > 0)
        return conn->status;
    return rcmi_fd_poll(conn->fd, POLLIN, deadline);
}

/* Reads at least one byte. */
static rcm_status conn_fill(struct rcmi_tcp_conn *conn) {
    for (;;) {
        void *space;
        size_t n = 0;
        rcm_status status = rcmi_buffer_reserve(&conn->in, READ_BLOCK, &space);
        if (status == RCM_OK)
            status = rcmi_fd_read(conn->fd, space, READ_BLOCK, &n);
        rcmi_buffer_filled(&conn->in, n);
        if (status == RCM_AGAIN)
            status = rcmi_fd_poll(conn->fd, POLLIN, conn->deadline);
        if (status != RCM_OK || n > 0)
            return status;
    }
}

static rcm_status conn_get(struct rcmi_tcp_conn *conn, void *data, size_t len) {
    char *to = data;
    while (len > 0 && conn->status == RCM_OK) {
        const size_t have = rcmi_buffer_len(&conn->in);
        const size_t n = have < len ? have : len;
        if (have == 0 && len >= READ_BLOCK) { /* read long values directly into their memory */
            conn->status = rcmi_fd_read_full(conn->fd, to, len, conn->deadline);
            break;
        }
        if (have == 0) {
            conn->status = conn_fill(conn);
            continue;
        }
        memcpy(to, rcmi_buffer_front(&conn->in), n);
        rcmi_buffer_drop(&conn->in, n);
        to += n;
        len -= n;
    }
    return conn->status;
}

rcm_status rcmi_tcp_conn_get_byte(struct rcmi_tcp_conn *conn, uint8_t *ret) {
    return conn_get(conn, ret, sizeof *ret);
}

rcm_status rcmi_tcp_conn_get_i64(struct rcmi_tcp_conn *conn, int64_t *ret) {
    return conn_get(conn, ret, sizeof *ret);
}

/* Allocates a value of the announced length. */
static char *value_alloc(struct rcmi_tcp_conn *conn, uint64_t len) {
    char *data = len <= RCMI_WIRE_REPLY_MAX ? malloc((size_t)len + 1) : NULL;
    if (len > RCMI_WIRE_REPLY_MAX)
        conn->status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store announced a value of %llu bytes",
                                 (unsigned long long)len);
    else if (!data)
        conn->status = rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a value of %llu bytes",
                                 (unsigned long long)len);
    else
        data[len] = '\0';
    return data;
}

rcm_status rcmi_tcp_conn_get_value(struct rcmi_tcp_conn *conn, struct rcm_blob *ret) {
    uint64_t len;
    char *data = conn_get(conn, &len, sizeof len) == RCM_OK ? value_alloc(conn, len) : NULL;
    if (!data)
        return conn->status;
    if (conn_get(conn, data, (size_t)len) == RCM_OK)
        *ret = (struct rcm_blob){data, (size_t)len};
    else
        free(data);
    return conn->status;
}

static rcm_status conn_get_ping_old(struct rcmi_tcp_conn *conn) {
    uint8_t answer;
    if (rcmi_tcp_conn_get_byte(conn, &answer) == RCM_OK && answer != RCMI_WIRE_READY)
        conn->status = rcmi_fail(RCM_ERR_PROTOCOL, 0,
                                 "it is not a store: it replied to an empty CHECK with %u", answer);
    return conn->status;
}

rcm_status rcmi_tcp_conn_get_ping(struct rcmi_tcp_conn *conn) {
    uint32_t nonce;
    if (conn->old)
        return conn_get_ping_old(conn);
    if (conn_get(conn, &nonce, sizeof nonce) == RCM_OK && nonce != conn->nonce)
        conn->status =
            rcmi_fail(RCM_ERR_PROTOCOL, 0,
                      "it is not a store, or has an unknown dialect: it replied to a ping with "
                      "0x%08x instead of 0x%08x",
                      nonce, conn->nonce);
    return conn->status;
}

/* ---- Connecting ---------------------------------------------------------------------------- */

void rcmi_tcp_conn_close(struct rcmi_tcp_conn *conn) {
    if (!conn)
        return;
    rcmi_fd_close(&conn->fd);
    rcmi_buffer_fini(&conn->out);
    rcmi_buffer_fini(&conn->in);
    free(conn);
}

static rcmi_deadline earlier(rcmi_deadline a, rcmi_deadline b) {
    return a < b ? a : b;
}

rcm_status rcmi_tcp_conn_prove(struct rcmi_tcp_conn *conn, const char *secret,
                               rcmi_deadline deadline) {
    struct rcmi_auth auth;
    rcm_status status = rcmi_auth_start(&auth, secret, true);
    if (status != RCM_OK || !secret)
        return status;
    while ((status = rcmi_auth_step(&auth, conn->fd)) == RCM_AGAIN) {
        short events = rcmi_auth_wants_write(&auth) ? POLLIN | POLLOUT : POLLIN;
        status = rcmi_fd_poll(conn->fd, events, deadline);
        if (status == RCM_ERR_TIMEOUT)
            return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                             "it does not reply to the proof of the secret; for a store without a "
                             "secret, such as torch's, set RINGCOMM_PLAIN_STORE=1");
        if (status != RCM_OK)
            return status;
    }
    return status;
}

rcm_status rcmi_tcp_conn_greet(struct rcmi_tcp_conn *conn, rcmi_deadline deadline) {
    static const struct rcmi_bytes features = {RCMI_WIRE_FEATURES, sizeof RCMI_WIRE_FEATURES - 1};
    const uint32_t magic = RCMI_WIRE_MAGIC;
    uint8_t answer = RCMI_WIRE_NOT_READY;

    conn->nonce = FIRST_NONCE;
    rcmi_tcp_conn_put_opcode(conn, RCMI_WIRE_VALIDATE);
    conn_put(conn, &magic, sizeof magic);
    rcmi_tcp_conn_put_ping(conn);
    rcmi_tcp_conn_put_opcode(conn, RCMI_WIRE_CHECK);
    rcmi_tcp_conn_put_u64(conn, 1);
    rcmi_tcp_conn_put_value(conn, features);
    rcmi_tcp_conn_flush(conn, deadline);
    (void)rcmi_tcp_conn_get_ping(conn);
    const rcm_status status = rcmi_tcp_conn_get_byte(conn, &answer);
    if (status == RCM_ERR_TIMEOUT)
        return rcmi_fail(status, 0, "it accepts connections but does not reply like a store");
    if (status != RCM_OK)
        return status;
    conn->features = answer == RCMI_WIRE_READY;
    return RCM_OK;
}

static rcm_status conn_dial(struct rcmi_tcp_conn *conn, const struct rcmi_sockaddr *addr,
                            rcmi_deadline deadline) {
    rcm_status status = rcmi_connect_start(addr, &conn->fd);
    if (status == RCM_OK)
        status = rcmi_fd_poll(conn->fd, POLLOUT, earlier(deadline, rcmi_deadline_in(ATTEMPT_MS)));
    if (status == RCM_OK)
        status = rcmi_connect_result(conn->fd);
    if (status == RCM_AGAIN) /* it was writable, so the connect had ended, with an error */
        status = rcmi_fail(RCM_ERR_PEER, 0, "the connection was lost while it was made");
    return status;
}

/* Retries with the old dialect, which has no greeting, after a server has closed the connection at
 * the greeting without a reply. If that fails too, the first error stays. */
static rcm_status conn_greet_old(struct rcmi_tcp_conn *conn, const struct rcmi_sockaddr *addr,
                                 rcmi_deadline deadline) {
    const struct rcmi_error kept = *rcmi_last_error();
    rcmi_fd_close(&conn->fd);
    rcmi_buffer_drop(&conn->out, rcmi_buffer_len(&conn->out));
    conn->old = true;
    conn->status = conn_dial(conn, addr, deadline);
    rcmi_tcp_conn_put_ping(conn);
    rcmi_tcp_conn_flush(conn, deadline);
    if (rcmi_tcp_conn_get_ping(conn) == RCM_OK)
        return RCM_OK;
    *rcmi_last_error() = kept;
    return kept.status;
}

/* One try at one address. */
static rcm_status conn_try(const struct rcmi_sockaddr *addr, const char *secret,
                           rcmi_deadline deadline, bool *ret_connected,
                           struct rcmi_tcp_conn **ret_conn) {
    struct rcmi_tcp_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a connection");
    conn->fd = -1;
    conn->addr = *addr;
    rcm_status status = conn_dial(conn, addr, deadline);
    *ret_connected = status == RCM_OK;
    deadline = earlier(deadline, rcmi_deadline_in(ATTEMPT_MS));
    if (status == RCM_OK)
        status = rcmi_tcp_conn_prove(conn, secret, deadline);
    if (status == RCM_OK)
        status = rcmi_tcp_conn_greet(conn, deadline);
    if (status == RCM_ERR_PEER && *ret_connected && !secret)
        status = conn_greet_old(conn, addr, deadline);
    if (status == RCM_OK)
        *ret_conn = conn;
    else
        rcmi_tcp_conn_close(conn);
    return status;
}

struct round {
    bool hung_up;              /* a server accepted the connection and closed it */
    struct rcmi_sockaddr addr; /* the last one tried; len 0: none */
};

/* Tries each address of the host once. */
static rcm_status conn_round(const char *host, int port, const char *secret, rcmi_deadline deadline,
                             struct round *round, struct rcmi_tcp_conn **ret_conn) {
    struct rcmi_sockaddr addr;
    rcm_status last = RCM_ERR_NOT_FOUND;
    round->hung_up = false;
    for (size_t i = 0;; i++) {
        bool connected = false;
        rcm_status status = RCM_ERR_NOT_FOUND;
        /* The error of the last address is more useful than "there are no more". */
        struct rcmi_error kept = *rcmi_last_error();
        status = rcmi_resolve(host, (uint16_t)port, i, &addr);
        if (status != RCM_OK) {
            if (i > 0)
                *rcmi_last_error() = kept;
            return i > 0 ? last : status;
        }
        round->addr = addr;
        last = conn_try(&addr, secret, deadline, &connected, ret_conn);
        if (last == RCM_OK || last == RCM_ERR_AUTH || last == RCM_ERR_PROTOCOL ||
            last == RCM_ERR_NOMEM || last == RCM_ERR_UNSUPPORTED || last == RCM_ERR_RESOURCE)
            return last;
        if (connected && last == RCM_ERR_PEER)
            round->hung_up = true;
    }
}

static bool worth_retrying(rcm_status status) {
    return status == RCM_ERR_PEER || status == RCM_ERR_TIMEOUT || status == RCM_ERR_NOT_FOUND ||
           status == RCM_ERR_SYSTEM;
}

/* Exponential back-off with random jitter, so that thousands of ranks do not retry in step. */
static void backoff(int *ms, rcmi_deadline deadline) {
    uint32_t chance = 0;
    int left = rcmi_deadline_left_ms(deadline);
    (void)!rcmi_random(&chance, sizeof chance);
    int sleep_ms = *ms / 2 + (int)(chance % (uint32_t)(*ms / 2 + 1));
    if (left >= 0 && sleep_ms > left)
        sleep_ms = left;
    struct timespec t = {.tv_sec = sleep_ms / 1000, .tv_nsec = sleep_ms % 1000 * 1000000L};
    (void)nanosleep(&t, NULL);
    *ms = *ms * 2 < BACKOFF_MAX_MS ? *ms * 2 : BACKOFF_MAX_MS;
}

/* Warns once about a listener that does not reply, or packets that are dropped. The cause may be
 * another program, a firewall, or a busy store, so the client keeps trying. */
static void warn_silence(const char *address, bool *warned) {
    if (!*warned)
        rcmi_log(RCMI_LOG_WARN, "store at %s: %s; is that its port? Still trying", address,
                 rcmi_last_error()->text);
    *warned = true;
}

/* Warns once that nothing listens yet: the server is late, or the address is wrong. */
static void warn_absence(const char *address, rcmi_deadline *warn) {
    if (rcmi_deadline_passed(*warn)) {
        rcmi_log(RCMI_LOG_WARN, "store at %s: %s; still trying", address, rcmi_last_error()->text);
        *warn = RCMI_NEVER;
    }
}

const char *rcmi_tcp_conn_address(const char *host, int port, const struct rcmi_sockaddr *addr,
                                  char text[RCMI_TCP_CONN_ADDRESS]) {
    char led[RCMI_ADDR_TEXT] = "";
    const char *shown = host[0] ? host : "localhost";
    if (addr && addr->len > 0) {
        rcmi_sockaddr_text(addr, led);
        *strrchr(led, ':') = '\0';
    }
    if (led[0] && strcmp(led, shown) != 0 &&
        !(led[0] == '[' && strncmp(led + 1, shown, strlen(led) - 2) == 0))
        snprintf(text, RCMI_TCP_CONN_ADDRESS, "%s:%d (%s)", shown, port, led);
    else
        snprintf(text, RCMI_TCP_CONN_ADDRESS, "%s:%d", shown, port);
    return text;
}

bool rcmi_tcp_conn_is_alive(struct rcmi_tcp_conn *conn, rcmi_deadline deadline) {
    char byte;
    const ssize_t n = recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        return false; /* end of stream, an error, or an unexpected reply */
    if (rcmi_now_ns() - conn->used_ns < IDLE_NS)
        return true;
    deadline = earlier(deadline, rcmi_deadline_in(ATTEMPT_MS));
    rcmi_tcp_conn_put_ping(conn);
    rcmi_tcp_conn_flush(conn, deadline);
    return rcmi_tcp_conn_get_ping(conn) == RCM_OK;
}

rcm_status rcmi_tcp_conn_open_again(const char *host, int port, const char *secret,
                                    rcmi_deadline deadline, struct rcmi_tcp_conn **ret_conn) {
    struct round round = {.hung_up = false};
    char address[RCMI_TCP_CONN_ADDRESS];
    const rcm_status status = conn_round(host, port, secret, deadline, &round, ret_conn);
    if (status == RCM_OK)
        return RCM_OK;
    return rcmi_fail_context("cannot reconnect to the store at %s after the connection was lost",
                             rcmi_tcp_conn_address(host, port, &round.addr, address));
}

rcm_status rcmi_tcp_conn_open(const char *host, int port, const char *secret,
                              rcmi_deadline deadline, struct rcmi_tcp_conn **ret_conn) {
    struct round round = {.hung_up = false};
    char address[RCMI_TCP_CONN_ADDRESS];
    int64_t start = rcmi_now_ns();
    int backoff_ms = BACKOFF_MIN_MS, rejections = 0;
    const int64_t warn_ms = rcmi_store_warn_ms();
    rcmi_deadline rejected_until = RCMI_NEVER;
    rcmi_deadline warn = warn_ms > 0 ? rcmi_deadline_in(warn_ms) : RCMI_NEVER;
    bool rejected = false, warned = false;
    rcm_status status;

    for (;;) {
        status = conn_round(host, port, secret, deadline, &round, ret_conn);
        if (status == RCM_OK)
            return RCM_OK;
        rcmi_tcp_conn_address(host, port, &round.addr, address);
        rejections = round.hung_up ? rejections + 1 : 0;
        if (rejections == 1)
            rejected_until = rcmi_deadline_in(REJECTED_MS);
        rejected = rejections >= MAX_REJECTIONS && rcmi_deadline_passed(rejected_until);
        if (!worth_retrying(status) || rejected || rcmi_deadline_passed(deadline))
            break;
        if (status == RCM_ERR_TIMEOUT)
            warn_silence(address, &warned);
        else
            warn_absence(address, &warn);
        backoff(&backoff_ms, deadline);
        status = rcmi_store_canceled();
        if (status != RCM_OK)
            return status;
    }
    if (rejected)
        return rcmi_fail(RCM_ERR_AUTH, 0, "store at %s closes connections immediately: %s", address,
                         secret ? "its RINGCOMM_SECRET differs from ours, or it has none"
                                : "it needs a RINGCOMM_SECRET, or it is not a store");
    if (worth_retrying(status)) {
        const struct rcmi_error last = *rcmi_last_error();
        (void)rcmi_fail(RCM_ERR_TIMEOUT, 0, "cannot reach the store at %s within %.1f s: %.300s",
                        address, (double)(rcmi_now_ns() - start) / 1e9, last.text);
        rcmi_last_error()->sys_errno = last.sys_errno; /* the text contains its description */
        return RCM_ERR_TIMEOUT;
    }
    return rcmi_fail_context("store at %s", address);
}
