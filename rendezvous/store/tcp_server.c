/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP store's server: connections, their input, and when clients are dropped. The server never
 * blocks on a client: output that a socket does not accept stays in the client's buffer. While a
 * client does not read its output, the server does not read its input.
 */
#include "tcp_server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <netinet/in.h>
#include "error.h"
#include "log.h"
#include "wire.h"

#define FRESH_MS        5000 /* for a client to identify itself */
#define ACCEPT_AGAIN_MS 100
#define WARN_EVERY_MS   10000
#define READ_BLOCK      (64 * 1024)
#define ACCEPTS_AT_ONCE 64
#define SILENCE_MS      100 /* a client had time to send something if it is older than this */
#define LINGER_LOOK_MS  5
#define READS_AT_ONCE   4 /* per client, then the next one */

/* ---- Unidentified clients ------------------------------------------------------------------ */

static void fresh_add(struct rcmi_client *c) {
    struct rcmi_server *s = c->server;
    c->fresh = true;
    s->nfresh++;
    c->drop_at = rcmi_deadline_in(FRESH_MS);
    c->fresh_next = NULL;
    c->fresh_prev = s->fresh_last;
    if (s->fresh_last)
        s->fresh_last->fresh_next = c;
    else
        s->fresh = c;
    s->fresh_last = c;
    if (!s->drop.active)
        rcmi_loop_timer(s->loop, &s->drop, c->drop_at);
}

/* ---- Ending clients ------------------------------------------------------------------------ */

static void client_free(struct rcmi_client *c) {
    struct rcmi_server *s = c->server;
    rcmi_client_identified(c);
    rcmi_wait_cancel(c);
    rcmi_loop_unwatch(s->loop, &c->watch);
    rcmi_fd_close(&c->watch.fd);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->clients = c->next;
    if (c->next)
        c->next->prev = c->prev;
    rcmi_buffer_fini(&c->in);
    rcmi_buffer_fini(&c->out);
    free(c->auth);
    free(c);
}

/* Called at the end of each callback, when no handler has a pointer to a dropped client. */
static void server_reap(struct rcmi_server *s) {
    while (s->dead) {
        struct rcmi_client *c = s->dead;
        s->dead = c->dead_next;
        client_free(c);
    }
}

/* ---- Input --------------------------------------------------------------------------------- */

/* Peeks at the first byte. If the server has a secret, it must begin a proof of the secret. */
static void client_greet(struct rcmi_client *c) {
    struct rcmi_server *s = c->server;
    char first;
    ssize_t n = recv(c->watch.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0)
        rcmi_client_drop(c, "it disconnected without sending anything");
    if (n <= 0) /* the next read returns an error again */
        return;
    c->state = RCMI_CLIENT_NEW;
    if (!s->secret || (first != 'R' && s->allow_plain))
        return;
    if (first != 'R') {
        char peer[RCMI_ADDR_TEXT], more[RCMI_LOG_MORE];
        if (rcmi_log_rate_allows(&s->log_rate, more))
            rcmi_log(RCMI_LOG_WARN,
                     "store: rejected %s, which does not prove the secret; "
                     "plain torch.distributed clients need RINGCOMM_PLAIN_STORE=1 here%s",
                     rcmi_sockaddr_text(&c->peer, peer), more);
        rcmi_client_drop(c, "it does not prove the secret");
        return;
    }
    c->auth = calloc(1, sizeof *c->auth);
    if (!c->auth || rcmi_auth_start(c->auth, s->secret, false) != RCM_OK)
        rcmi_client_drop(c, "cannot begin the proof of the secret");
    c->state = RCMI_CLIENT_AUTH;
}

/* Drops a client whose proof failed. A complete but wrong proof is probably from a rank with
 * another secret, so it is logged as a warning. */
static void client_refuse(struct rcmi_client *c) {
    char reason[sizeof rcmi_last_error()->text], peer[RCMI_ADDR_TEXT], more[RCMI_LOG_MORE];
    memcpy(reason, rcmi_last_error()->text, sizeof reason);
    if (rcmi_last_error()->status == RCM_ERR_AUTH && c->auth->in_done == sizeof c->auth->in &&
        rcmi_log_rate_allows(&c->server->log_rate, more))
        rcmi_log(RCMI_LOG_WARN, "store: rejected %s: %s%s", rcmi_sockaddr_text(&c->peer, peer),
                 reason, more);
    rcmi_client_drop(c, "%s", reason);
}

static void client_prove(struct rcmi_client *c) {
    rcm_status status = rcmi_auth_step(c->auth, c->watch.fd);
    if (status == RCM_AGAIN)
        return;
    if (status != RCM_OK) {
        client_refuse(c);
        return;
    }
    free(c->auth);
    c->auth = NULL;
    c->state = RCMI_CLIENT_NEW;
}

/* Handles all available input. Stops early only if the output is full; resumes when it drains. */
static void client_work(struct rcmi_client *c) {
    bool full;
    do {
        rcmi_messages_handle(c);
        full = c->stalled;
        rcmi_client_flush(c);
    } while (full && !c->dead && rcmi_buffer_len(&c->out) <= RCMI_CLIENT_OUT_HIGH);
}

static void client_read(struct rcmi_client *c) {
    for (int i = 0; i < READS_AT_ONCE && !c->dead && !c->stalled; i++) {
        void *space;
        size_t n = 0;
        rcm_status status = rcmi_buffer_reserve(&c->in, READ_BLOCK, &space);
        if (status == RCM_OK)
            status = rcmi_fd_read(c->watch.fd, space, READ_BLOCK, &n);
        if (status == RCM_AGAIN)
            break;
        if (status != RCM_OK) {
            rcmi_client_lost(c);
            break;
        }
        rcmi_buffer_filled(&c->in, n);
        client_work(c);
        if (n < READ_BLOCK)
            break;
    }
    if (rcmi_buffer_len(&c->in) == 0)
        rcmi_buffer_fini(&c->in); /* saves memory with thousands of idle clients */
}

static void client_ready(void *arg, uint32_t events) {
    struct rcmi_client *c = arg;
    struct rcmi_server *s = c->server;

    rcmi_client_flush(c);
    if (!c->dead && c->state == RCMI_CLIENT_WATCH)
        rcmi_client_drop(c, "the watch connection of an old client sent something or ended");
    if (!c->dead && c->state == RCMI_CLIENT_SILENT)
        client_greet(c);
    if (!c->dead && c->state == RCMI_CLIENT_AUTH)
        client_prove(c);
    if (!c->dead && c->stalled)
        client_work(c);
    if (!c->dead && c->state >= RCMI_CLIENT_NEW && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        client_read(c);
    rcmi_client_flush(c);
    server_reap(s);
}

/* ---- Dropping silent clients --------------------------------------------------------------- */

static bool same_host(const struct rcmi_sockaddr *a, const struct rcmi_sockaddr *b) {
    if (a->addr.ss_family != b->addr.ss_family)
        return false;
    if (a->addr.ss_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)&a->addr)->sin_addr,
                      &((const struct sockaddr_in *)&b->addr)->sin_addr,
                      sizeof(struct in_addr)) == 0;
    return a->addr.ss_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)&a->addr)->sin6_addr,
                  &((const struct sockaddr_in6 *)&b->addr)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

/* Clients of torch 1.13 open a second connection and never send anything on it, but need it. So
 * each may keep one silent connection. */
static bool second_of_old_client(const struct rcmi_client *c) {
    int old = 0, watching = 0;
    if (c->state != RCMI_CLIENT_SILENT)
        return false;
    for (const struct rcmi_client *o = c->server->clients; o; o = o->next) {
        if (o == c || o->fresh || !same_host(&o->peer, &c->peer))
            continue;
        old += o->state == RCMI_CLIENT_OLD;
        watching += o->state == RCMI_CLIENT_WATCH;
    }
    return watching < old;
}

static void client_drop_fresh(struct rcmi_client *c, const char *reason) {
    if (second_of_old_client(c)) {
        c->state = RCMI_CLIENT_WATCH;
        rcmi_client_identified(c);
    } else {
        rcmi_client_drop(c, "%s", reason);
    }
}

/* Drops one unidentified client to free its descriptor: the oldest that had time to send something
 * and did not, else the oldest unauthenticated one, else the oldest. False if there are none. */
static bool server_drop_one(struct rcmi_server *s) {
    const rcmi_deadline silent_since = rcmi_deadline_in(FRESH_MS - SILENCE_MS);
    struct rcmi_client *victim = NULL;
    int least = 3;
    for (struct rcmi_client *c = s->fresh; c && least > 0; c = c->fresh_next) {
        int standing = c->state == RCMI_CLIENT_SILENT && c->drop_at < silent_since ? 0
                       : c->state <= RCMI_CLIENT_AUTH                              ? 1
                                                                                   : 2;
        if (!c->dead && standing < least) {
            victim = c;
            least = standing;
        }
    }
    if (victim)
        client_drop_fresh(victim, "too many unidentified clients");
    server_reap(s);
    return victim != NULL;
}

static void server_drop_silent(void *arg) {
    struct rcmi_server *s = arg;
    struct rcmi_client *c = s->fresh, *next;
    for (; c && rcmi_deadline_passed(c->drop_at); c = next) {
        next = c->fresh_next;
        client_drop_fresh(c, "it did not identify itself in time");
    }
    server_reap(s);
    if (s->fresh)
        rcmi_loop_timer(s->loop, &s->drop, s->fresh->drop_at);
}

/* ---- Accepting ----------------------------------------------------------------------------- */

void rcmi_server_accepted(struct rcmi_server *s, int fd) {
    if (s->nfresh >= s->max_fresh)
        (void)server_drop_one(s);
    struct rcmi_client *c = calloc(1, sizeof *c);
    if (!c) {
        rcmi_fd_close(&fd);
        return;
    }
    c->server = s;
    c->watch = (struct rcmi_watch){.fd = fd, .ready = client_ready, .arg = c};
    c->peer.len = sizeof c->peer.addr;
    if (getpeername(fd, (struct sockaddr *)&c->peer.addr, &c->peer.len) < 0)
        c->peer.len = 0;
    c->events = EPOLLIN;
    c->next = s->clients;
    if (s->clients)
        s->clients->prev = c;
    s->clients = c;
    fresh_add(c);
    if (rcmi_loop_watch(s->loop, &c->watch, c->events) != RCM_OK)
        rcmi_client_drop(c, "%s", rcmi_last_error()->text);
    else /* a client that waited in the accept queue has probably sent something */
        client_ready(c, EPOLLIN);
}

static void server_accept(void *arg, uint32_t events) {
    struct rcmi_server *s = arg;
    rcm_status status = RCM_OK;
    int fd = -1;
    (void)events;
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        status = rcmi_accept(s->listener.fd, &fd);
        if (status == RCM_ERR_RESOURCE && server_drop_one(s))
            continue;
        if (status != RCM_OK)
            break;
        rcmi_server_accepted(s, fd);
    }
    if (status != RCM_OK && status != RCM_AGAIN) {
        /* Out of descriptors: the pending connection would wake the loop continuously, so the
         * listener is not watched for a while. */
        if (rcmi_deadline_passed(s->quiet_until)) {
            s->quiet_until = rcmi_deadline_in(WARN_EVERY_MS);
            rcmi_log(RCMI_LOG_WARN, "store: %s; clients have to wait (is ulimit -n too low?)",
                     rcmi_last_error()->text);
        }
        rcmi_loop_unwatch(s->loop, &s->listener);
        rcmi_loop_timer(s->loop, &s->accept_again, rcmi_deadline_in(ACCEPT_AGAIN_MS));
    }
    server_reap(s);
}

static void server_accept_again(void *arg) {
    struct rcmi_server *s = arg;
    if (rcmi_loop_watch(s->loop, &s->listener, EPOLLIN) != RCM_OK)
        rcmi_loop_timer(s->loop, &s->accept_again, rcmi_deadline_in(ACCEPT_AGAIN_MS));
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

/* Runs on the loop's thread, or on the caller's if there is none. */
static void server_close_all(void *arg) {
    struct rcmi_server *s = arg;
    while (s->clients) {
        s->clients->dead = true;
        client_free(s->clients);
    }
    rcmi_loop_unwatch(s->loop, &s->listener);
    rcmi_loop_timer_stop(s->loop, &s->drop);
    rcmi_loop_timer_stop(s->loop, &s->accept_again);
}

static void server_close_listener(void *arg) {
    struct rcmi_server *s = arg;
    rcmi_loop_unwatch(s->loop, &s->listener);
    rcmi_loop_timer_stop(s->loop, &s->accept_again);
    rcmi_fd_close(&s->listener.fd);
}

struct census {
    const struct rcmi_server *server;
    int identified;
};

static void census_take(void *arg) {
    struct census *census = arg;
    census->identified = 0;
    for (const struct rcmi_client *c = census->server->clients; c; c = c->next)
        census->identified += !c->fresh && !c->dead;
}

void rcmi_server_linger(struct rcmi_server *s, rcmi_deadline deadline) {
    struct census census = {.server = s};
    rcmi_loop_call(s->loop, server_close_listener, s);
    for (;;) {
        rcmi_loop_call(s->loop, census_take, &census);
        if (census.identified == 0 || rcmi_deadline_passed(deadline))
            return;
        rcmi_deadline_sleep(LINGER_LOOK_MS, deadline);
    }
}

void rcmi_server_stop(struct rcmi_server *s) {
    if (!s)
        return;
    if (s->loop)
        rcmi_loop_call(s->loop, server_close_all, s);
    rcmi_loop_destroy(s->loop);
    rcmi_fd_close(&s->listener.fd);
    rcmi_map_fini(&s->map);
    rcmi_map_fini(&s->queues);
    free(s->secret);
    free(s);
}

rcm_status rcmi_server_create(const char *secret, bool allow_plain,
                              struct rcmi_server **ret_server) {
    struct rcmi_auth probe;
    rcm_status status = rcmi_auth_start(&probe, secret, false); /* fails without libcrypto */
    if (status != RCM_OK)
        return status;
    struct rcmi_server *s = calloc(1, sizeof *s);
    if (!s)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a server");
    s->listener = (struct rcmi_watch){.fd = -1, .ready = server_accept, .arg = s};
    s->accept_again = (struct rcmi_timer){.fire = server_accept_again, .arg = s};
    s->drop = (struct rcmi_timer){.fire = server_drop_silent, .arg = s};
    s->allow_plain = allow_plain;
    s->max_fresh = rcmi_fd_unidentified();
    rcmi_map_init(&s->map);
    rcmi_map_init(&s->queues);
    s->secret = secret ? strdup(secret) : NULL;
    if (secret && !s->secret)
        status = rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a server");
    if (status == RCM_OK)
        status = rcmi_loop_create("rcm-store", NULL, NULL, &s->loop);
    if (status == RCM_OK)
        *ret_server = s;
    else
        rcmi_server_stop(s);
    return status;
}

rcm_status rcmi_server_start(int listen_fd, const char *secret, bool allow_plain,
                             struct rcmi_server **ret_server) {
    struct rcmi_server *s = NULL;
    rcm_status status = rcmi_server_create(secret, allow_plain, &s);
    if (status != RCM_OK) {
        rcmi_fd_close(&listen_fd);
        return status;
    }
    s->listener.fd = listen_fd;
    status = rcmi_loop_watch(s->loop, &s->listener, EPOLLIN);
    if (status == RCM_OK)
        status = rcmi_loop_start(s->loop);
    if (status == RCM_OK)
        *ret_server = s;
    else
        rcmi_server_stop(s);
    return status;
}
