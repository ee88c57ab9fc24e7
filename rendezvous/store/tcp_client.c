/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One client of the TCP store's server: its output, its identification, its end.
 */
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include "error.h"
#include "log.h"
#include "tcp_server.h"

void rcmi_client_identified(struct rcmi_client *c) {
    struct rcmi_server *s = c->server;
    if (!c->fresh)
        return;
    c->fresh = false;
    s->nfresh--;
    if (c->fresh_prev)
        c->fresh_prev->fresh_next = c->fresh_next;
    else
        s->fresh = c->fresh_next;
    if (c->fresh_next)
        c->fresh_next->fresh_prev = c->fresh_prev;
    else
        s->fresh_last = c->fresh_prev;
}

static void client_end(struct rcmi_client *c, enum rcmi_log_level level, const char *reason) {
    char peer[RCMI_ADDR_TEXT];
    if (c->dead)
        return;
    rcmi_log(level, "store: dropped client %s: %s", rcmi_sockaddr_text(&c->peer, peer), reason);
    c->dead = true;
    c->dead_next = c->server->dead;
    c->server->dead = c;
}

void rcmi_client_drop(struct rcmi_client *c, const char *format, ...) {
    char reason[256];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    client_end(c, RCMI_LOG_INFO, reason);
}

void rcmi_client_lost(struct rcmi_client *c) {
    client_end(c, RCMI_LOG_DEBUG, rcmi_last_error()->text);
}

void rcmi_client_send(struct rcmi_client *c, const void *data, size_t len) {
    if (!c->dead && rcmi_buffer_put(&c->out, data, len) != RCM_OK)
        rcmi_client_drop(c, "%s", rcmi_last_error()->text);
}

void rcmi_client_send_byte(struct rcmi_client *c, uint8_t value) {
    rcmi_client_send(c, &value, sizeof value);
}

void rcmi_client_send_number(struct rcmi_client *c, int64_t value) {
    rcmi_client_send(c, &value, sizeof value);
}

void rcmi_client_send_value(struct rcmi_client *c, struct rcmi_bytes value) {
    uint64_t len = value.len;
    rcmi_client_send(c, &len, sizeof len);
    rcmi_client_send(c, value.data, value.len);
}

/* Sets the epoll events that the client's state needs. */
static void client_watch(struct rcmi_client *c) {
    uint32_t events = 0;
    if (rcmi_buffer_len(&c->out) <= RCMI_CLIENT_OUT_HIGH)
        events |= EPOLLIN;
    if (rcmi_buffer_len(&c->out) > 0 || c->stalled || (c->auth && rcmi_auth_wants_write(c->auth)))
        events |= EPOLLOUT;
    if (c->dead || events == c->events)
        return;
    if (rcmi_loop_change(c->server->loop, &c->watch, events) != RCM_OK)
        rcmi_client_drop(c, "%s", rcmi_last_error()->text);
    c->events = events;
}

void rcmi_client_flush(struct rcmi_client *c) {
    while (!c->dead && rcmi_buffer_len(&c->out) > 0) {
        size_t n = 0;
        rcm_status status =
            rcmi_fd_write(c->watch.fd, rcmi_buffer_front(&c->out), rcmi_buffer_len(&c->out), &n);
        if (status == RCM_AGAIN)
            break;
        if (status != RCM_OK) {
            rcmi_client_lost(c);
            return;
        }
        rcmi_buffer_drop(&c->out, n);
    }
    client_watch(c);
}
