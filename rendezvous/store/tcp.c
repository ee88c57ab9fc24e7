/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client side of the TCP store: requests over a connection to the server, which may run in this
 * process. While one thread at a time uses the store there is one connection. A thread that finds
 * it busy (another thread waits for a key on it) opens another one, which is kept for later calls.
 *
 * The protocol has no acknowledgement of SET, so each SET is followed by a PING. When rcm_store_set
 * returns, the server has the value and all clients see it.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "auth.h"
#include "error.h"
#include "fd.h"
#include "log.h"
#include "rendezvous.h"
#include "settings.h"
#include "store.h"
#include "tcp_calls.h"
#include "tcp_conn.h"
#include "tcp_listen.h"
#include "tcp_server.h"
#include "url.h"
#include "wire.h"

#define BATCH_KEYS   16384 /* of one WAIT, MULTI_GET or MULTI_SET */
#define BATCH_CHECKS 512   /* CHECKs written before their replies are read */
#define LINGER_MS    2000  /* see rcmi_store_linger */

struct tcp_store {
    struct rcm_store base;
    char *host; /* to connect to */
    int port;
    char *secret; /* NULL: no authentication */
    struct rcmi_server *server;
    pthread_mutex_t lock; /* guards idle */
    struct rcmi_tcp_conn *idle;
};

static struct tcp_store *tcp_of(rcm_store *store) {
    return (struct tcp_store *)store;
}

/* ---- Connections --------------------------------------------------------------------------- */

static struct rcmi_tcp_conn *tcp_idle(struct tcp_store *t) {
    pthread_mutex_lock(&t->lock);
    struct rcmi_tcp_conn *conn = t->idle;
    if (conn)
        t->idle = conn->next;
    pthread_mutex_unlock(&t->lock);
    return conn;
}

/* Takes an idle connection, or opens one. Replaces idle connections that a firewall dropped. */
static rcm_status tcp_take(struct tcp_store *t, rcmi_deadline deadline,
                           struct rcmi_tcp_conn **ret_conn) {
    struct rcmi_tcp_conn *conn = tcp_idle(t);
    const bool first = !conn;
    while (conn && !rcmi_tcp_conn_is_alive(conn, deadline)) {
        rcmi_tcp_conn_close(conn);
        conn = tcp_idle(t);
    }
    *ret_conn = conn;
    if (conn)
        return RCM_OK;
    return first ? rcmi_tcp_conn_open(t->host, t->port, t->secret, deadline, ret_conn)
                 : rcmi_tcp_conn_open_again(t->host, t->port, t->secret, deadline, ret_conn);
}

/* Keeps the connection for the next call. Closes it if the call failed, because it may be in the
 * middle of a message. */
static void tcp_give(struct tcp_store *t, struct rcmi_tcp_conn *conn, bool good) {
    if (!good || conn->spent) {
        rcmi_tcp_conn_close(conn);
        return;
    }
    conn->used_ns = rcmi_now_ns();
    pthread_mutex_lock(&t->lock);
    conn->next = t->idle;
    t->idle = conn;
    pthread_mutex_unlock(&t->lock);
}

/* Replaces a connection that is spent. */
static rcm_status tcp_renew(struct tcp_store *t, rcmi_deadline deadline,
                            struct rcmi_tcp_conn **conn) {
    if (!(*conn)->spent)
        return RCM_OK;
    tcp_give(t, *conn, false);
    *conn = NULL;
    return tcp_take(t, deadline, conn);
}

/* Replaces a connection that was lost. */
static rcm_status tcp_again(struct tcp_store *t, rcmi_deadline deadline,
                            struct rcmi_tcp_conn **conn) {
    tcp_give(t, *conn, false);
    *conn = NULL;
    return rcmi_tcp_conn_open_again(t->host, t->port, t->secret, deadline, conn);
}

/* A call of one request and reply. */
struct call {
    const char *name;
    int64_t began;
    struct rcmi_bytes key; /* for the error's text; data NULL: none */
    struct rcmi_tcp_conn *conn;
    rcmi_deadline deadline;
};

static rcm_status call_begin(struct tcp_store *t, const char *name, struct rcmi_bytes key,
                             struct call *ret_call) {
    *ret_call = (struct call){
        .name = name, .began = rcmi_now_ns(), .key = key, .deadline = rcmi_call_deadline()};
    return tcp_take(t, ret_call->deadline, &ret_call->conn);
}

static rcm_status call_fail(const struct call *call, const char *address) {
    if (call->key.data)
        return rcmi_fail_context("%s of key \"%.*s\", store at %s", call->name,
                                 (int)(call->key.len < 100 ? call->key.len : 100),
                                 (const char *)call->key.data, address);
    return rcmi_fail_context("%s, store at %s", call->name, address);
}

/* Ends the call after any status and returns that status, with the call's context added. */
static rcm_status call_end(struct tcp_store *t, struct call *call, rcm_status status) {
    char address[RCMI_TCP_CONN_ADDRESS] = "";
    if (call->began) /* 0 for waits, which are not counted */
        rcmi_store_counted(call->name, call->began);
    if (status != RCM_OK)
        rcmi_tcp_conn_address(t->host, t->port, call->conn ? &call->conn->addr : NULL, address);
    if (call->conn)
        tcp_give(t, call->conn, status == RCM_OK);
    return status == RCM_OK ? RCM_OK : call_fail(call, address);
}

static const struct rcmi_bytes no_key = {NULL, 0};

/* ---- Setting ------------------------------------------------------------------------------- */

static rcm_status tcp_set(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    struct tcp_store *t = tcp_of(store);
    struct call c;
    rcm_status status = call_begin(t, "set", key, &c);
    if (status == RCM_OK)
        status = rcmi_call_set(c.conn, key, value, c.deadline);
    return call_end(t, &c, status);
}

static rcm_status tcp_multi_set(rcm_store *store, const struct rcmi_bytes *keys,
                                const struct rcmi_bytes *values, size_t n) {
    struct tcp_store *t = tcp_of(store);
    struct call c;
    rcm_status status = call_begin(t, "multi_set", keys[0], &c);
    for (size_t done = 0; done < n && status == RCM_OK; done += BATCH_KEYS) {
        size_t batch = n - done < BATCH_KEYS ? n - done : BATCH_KEYS;
        status =
            rcmi_call_multi_set(c.conn, keys + done, values + done, batch, rcmi_call_deadline());
    }
    return call_end(t, &c, status);
}

static rcm_status tcp_append(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    struct tcp_store *t = tcp_of(store);
    struct call c;
    uint8_t result = 0;
    rcm_status status = call_begin(t, "append", key, &c);
    if (status == RCM_OK)
        status = rcmi_call_append(c.conn, key, value, c.deadline, &result);
    status = call_end(t, &c, status);
    if (status == RCM_OK && result != 0)
        return rcmi_fail(
            RCM_ERR_INVALID, 0, "the value of key \"%.*s\" would have more than %d bytes",
            (int)(key.len < 200 ? key.len : 200), (const char *)key.data, RCMI_STORE_VALUE_MAX);
    return status;
}

static rcm_status tcp_add(rcm_store *store, struct rcmi_bytes key, int64_t delta,
                          int64_t *ret_value) {
    struct tcp_store *t = tcp_of(store);
    struct call c;
    uint8_t result = 0;
    int64_t sum = 0;
    rcm_status status = call_begin(t, "add", key, &c);
    if (status == RCM_OK)
        status = rcmi_call_add(c.conn, key, delta, c.deadline, &result, &sum);
    status = call_end(t, &c, status);
    if (status == RCM_OK && result != 0)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "the value of key \"%.*s\" is not an integer, or the sum exceeds 64 bits",
                         (int)(key.len < 200 ? key.len : 200), (const char *)key.data);
    if (status == RCM_OK)
        *ret_value = sum;
    return status;
}

/* ---- Looking ------------------------------------------------------------------------------- */

static rcm_status tcp_present(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                              bool *ret_present) {
    struct tcp_store *t = tcp_of(store);
    struct call c;
    rcm_status status = call_begin(t, "check", keys[0], &c);
    for (size_t done = 0; done < n && status == RCM_OK; done += BATCH_CHECKS) {
        size_t batch = n - done < BATCH_CHECKS ? n - done : BATCH_CHECKS;
        status = rcmi_call_present(c.conn, keys + done, batch, ret_present + done);
    }
    return call_end(t, &c, status);
}

static rcm_status tcp_try_get(rcm_store *store, struct rcmi_bytes key, struct rcm_blob *ret_value) {
    struct tcp_store *t = tcp_of(store);
    struct rcm_blob value;
    struct call c;
    bool there;
    rcm_status status = call_begin(t, "try_get", key, &c);
    if (status == RCM_OK)
        status = rcmi_call_look(c.conn, key, c.deadline, &there, &value);
    status = call_end(t, &c, status);
    if (status != RCM_OK)
        return status;
    if (!there) {
        free(value.data);
        return RCM_ERR_NOT_FOUND;
    }
    *ret_value = value;
    return RCM_OK;
}

static rcm_status tcp_count(rcm_store *store, size_t *ret_count) {
    struct tcp_store *t = tcp_of(store);
    struct call c;
    int64_t count = 0;
    rcm_status status = call_begin(t, "count", no_key, &c);
    if (status == RCM_OK)
        status = rcmi_call_count(c.conn, c.deadline, &count);
    status = call_end(t, &c, status);
    if (status == RCM_OK)
        *ret_count = (size_t)count;
    return status;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* ret_values NULL: only waits. */
static rcm_status tcp_fetch(struct tcp_store *t, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline, struct rcm_blob *ret_values) {
    struct call c = {.name = ret_values ? "get" : "wait", .key = keys[0]};
    rcm_status status = tcp_take(t, rcmi_message_deadline(deadline), &c.conn);
    size_t got = 0;
    for (size_t done = 0; done < n && status == RCM_OK; done += BATCH_KEYS) {
        size_t batch = n - done < BATCH_KEYS ? n - done : BATCH_KEYS;
        status = rcmi_call_wait(c.conn, keys + done, batch, deadline);
        if (status == RCM_ERR_PEER) { /* the connection was lost during a long wait: retry once */
            status = tcp_again(t, rcmi_message_deadline(deadline), &c.conn);
            if (status == RCM_OK)
                status = rcmi_call_wait(c.conn, keys + done, batch, deadline);
        }
        if (status == RCM_OK)
            status = tcp_renew(t, rcmi_message_deadline(deadline), &c.conn);
        if (status == RCM_OK && ret_values) {
            status = rcmi_call_multi_get(c.conn, keys + done, batch, ret_values + done);
            got += status == RCM_OK ? batch : 0;
        }
    }
    if (status != RCM_OK && ret_values)
        rcmi_blobs_free(ret_values, got);
    if (status != RCM_PENDING)
        return call_end(t, &c, status);
    tcp_give(t, c.conn, true); /* the WAIT was canceled: the connection stays usable */
    return RCM_PENDING;
}

static rcm_status tcp_multi_get(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                rcmi_deadline deadline, struct rcm_blob *ret_values) {
    return tcp_fetch(tcp_of(store), keys, n, deadline, ret_values);
}

static rcm_status tcp_wait(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                           rcmi_deadline deadline) {
    return tcp_fetch(tcp_of(store), keys, n, deadline, NULL);
}

/* ---- Compare and set, delete --------------------------------------------------------------- */

static rcm_status tcp_compare_set(rcm_store *store, struct rcmi_bytes key,
                                  struct rcmi_bytes expected, struct rcmi_bytes desired,
                                  bool *ret_swapped, struct rcm_blob *ret_value) {
    struct tcp_store *t = tcp_of(store);
    enum rcmi_compare what = RCMI_COMPARE_KEEP;
    struct rcm_blob value;
    struct call c;
    rcm_status status = call_begin(t, "compare_set", key, &c);
    if (status == RCM_OK)
        status = c.conn->features ? rcmi_call_compare_ours(c.conn, key, expected, desired,
                                                           c.deadline, &what, &value)
                                  : rcmi_call_compare_foreign(c.conn, key, expected, desired,
                                                              c.deadline, &what, &value);
    status = call_end(t, &c, status);
    if (status != RCM_OK)
        return status;
    if (what == RCMI_COMPARE_MISSING) {
        free(value.data);
        return RCM_ERR_NOT_FOUND;
    }
    *ret_swapped = what == RCMI_COMPARE_SET;
    *ret_value = value;
    return RCM_OK;
}

static rcm_status tcp_remove(rcm_store *store, struct rcmi_bytes key, bool *ret_deleted) {
    struct tcp_store *t = tcp_of(store);
    struct call c;
    int64_t deleted = 0;
    rcm_status status = call_begin(t, "delete", key, &c);
    if (status == RCM_OK)
        status = rcmi_call_delete(c.conn, key, c.deadline, &deleted);
    status = call_end(t, &c, status);
    if (status == RCM_OK)
        *ret_deleted = deleted > 0;
    return status;
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

static void tcp_close(rcm_store *store, bool forked) {
    struct tcp_store *t = tcp_of(store);
    while (t->idle) {
        struct rcmi_tcp_conn *conn = t->idle;
        t->idle = conn->next;
        if (forked)
            conn->fd = -1; /* closed at the fork; another file may have its number now */
        rcmi_tcp_conn_close(conn);
    }
    if (!forked && t->server && store->linger)
        rcmi_server_linger(t->server, rcmi_deadline_in(LINGER_MS));
    if (!forked) /* a forked child has the server's memory, but not its thread and descriptors */
        rcmi_server_stop(t->server);
    pthread_mutex_destroy(&t->lock);
    free(t->host);
    free(t->secret);
}

static const struct rcmi_store_ops tcp_ops = {
    .name = "tcp store",
    .set = tcp_set,
    .multi_set = tcp_multi_set,
    .try_get = tcp_try_get,
    .wait = tcp_wait,
    .multi_get = tcp_multi_get,
    .present = tcp_present,
    .add = tcp_add,
    .compare_set = tcp_compare_set,
    .remove = tcp_remove,
    .count = tcp_count,
    .append = tcp_append,
    .close = tcp_close,
};

void rcmi_store_server(rcm_store *store, struct rcmi_sockaddr *ret_addr) {
    memset(ret_addr, 0, sizeof *ret_addr);
    if (store->ops != &tcp_ops)
        return;
    struct tcp_store *t = tcp_of(store);
    pthread_mutex_lock(&t->lock);
    if (t->idle && t->host[0])
        *ret_addr = t->idle->addr;
    pthread_mutex_unlock(&t->lock);
}

static struct tcp_store *tcp_create(const char *host, int port, const char *url,
                                    const char *secret) {
    struct tcp_store *t = rcmi_store_alloc(sizeof *t, &tcp_ops, url);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    t->port = port;
    t->host = strdup(host);
    t->secret = secret ? strdup(secret) : NULL;
    if (!t->host || (secret && !t->secret)) {
        rcm_store_close(&t->base);
        (void)!rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a store");
        return NULL;
    }
    return t;
}

/* Counts this rank under torch's key: a torch rank that serves with wait_for_workers waits until
 * world_size ranks are counted there. */
static rcm_status tcp_count_in(struct rcmi_tcp_conn *conn, rcmi_deadline deadline) {
    static const struct rcmi_bytes init = {RCMI_WIRE_INIT, sizeof RCMI_WIRE_INIT - 1};
    int64_t ranks;
    rcmi_tcp_conn_put_opcode(conn, RCMI_WIRE_ADD);
    rcmi_tcp_conn_put_value(conn, init);
    rcmi_tcp_conn_put_u64(conn, 1);
    rcmi_tcp_conn_flush(conn, deadline);
    return rcmi_tcp_conn_get_i64(conn, &ranks);
}

/* Makes the first connection, so that opening fails if there is no store. */
static rcm_status tcp_connect(struct tcp_store *t, bool count_in, rcmi_deadline deadline) {
    struct rcmi_tcp_conn *conn;
    rcm_status status = rcmi_tcp_conn_open(t->host, t->port, t->secret, deadline, &conn);
    if (status != RCM_OK)
        return status;
    if (count_in)
        status = tcp_count_in(conn, deadline);
    tcp_give(t, conn, status == RCM_OK);
    return status;
}

/* With RINGCOMM_PLAIN_STORE=1 a server accepts unauthenticated clients, and a client does not
 * authenticate. */
static rcm_status plain_store(bool *ret_plain) {
    int64_t plain = 0;
    const rcm_status status = rcmi_setting_int("RINGCOMM_PLAIN_STORE", 0, 1, &plain);
    *ret_plain = plain != 0;
    return status;
}

/* host: for the URL and messages; NULL: the address to which the descriptor is bound. */
static rcm_status tcp_serve(int listen_fd, const char *host, const char *secret, bool count_in,
                            rcmi_deadline deadline, rcm_store **ret_store) {
    struct rcmi_listen_name name;
    struct rcmi_server *server;
    bool plain;
    rcm_status status = plain_store(&plain);
    if (status == RCM_OK)
        status = rcmi_listen_name(listen_fd, host, &name);
    if (status != RCM_OK) {
        rcmi_fd_close(&listen_fd);
        return status;
    }
    status = rcmi_server_start(listen_fd, secret, plain, &server);
    if (status != RCM_OK)
        return status;
    struct tcp_store *t = tcp_create(name.own_host, name.port, name.url, secret);
    if (!t) {
        rcmi_server_stop(server);
        return RCM_ERR_NOMEM;
    }
    t->server = server;
    /* Fail now if descriptors are short: the server would delay this process's own connection until
     * one is free. */
    status = rcmi_fd_try("the two ends of the connection to its own store", 2);
    if (status == RCM_OK)
        status = tcp_connect(t, count_in, deadline);
    if (status == RCM_OK)
        *ret_store = &t->base;
    else
        rcm_store_close(&t->base);
    return status;
}

rcm_status rcmi_store_serve(int listen_fd, rcm_store **ret_store) {
    char *secret = NULL;
    rcm_status status = rcmi_secret(&secret);
    if (status == RCM_OK)
        status = tcp_serve(listen_fd, NULL, secret, false, rcmi_call_deadline(), ret_store);
    else
        rcmi_fd_close(&listen_fd);
    free(secret);
    return status;
}

rcm_status rcmi_tcp_open(const struct rcmi_url *url, const char *secret, rcmi_deadline deadline,
                         rcm_store **ret_store) {
    bool serve = url->server == 1 || (url->server < 0 && url->rank == 0);
    int fd = -1, port;
    rcm_status status;

    if (serve) {
        status = rcmi_store_listen(url->host, url->port, &fd, &port);
        return status != RCM_OK
                   ? status
                   : tcp_serve(fd, url->host, secret, url->world_size > 0, deadline, ret_store);
    }
    if (url->port == 0)
        return rcmi_fail(
            RCM_ERR_INVALID, 0,
            "store URL tcp://%s:0: only the serving rank can use port 0; the others need the port "
            "that it got (rcm_store_url returns it)",
            url->host);
    const char *host = url->host[0] ? url->host : "localhost";
    bool plain;
    status = plain_store(&plain);
    if (status != RCM_OK)
        return status;
    char *text = rcmi_url_tcp(host, url->port);
    if (!text)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a store");
    struct tcp_store *t = tcp_create(host, url->port, text, plain ? NULL : secret);
    free(text);
    if (!t)
        return RCM_ERR_NOMEM;
    status = tcp_connect(t, url->world_size > 0, deadline);
    if (status == RCM_OK)
        *ret_store = &t->base;
    else
        rcm_store_close(&t->base);
    return status;
}
