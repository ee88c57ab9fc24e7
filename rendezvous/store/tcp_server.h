/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP store's server. Everything runs on one epoll thread (base/os/loop.h), so nothing here is
 * locked. tcp_server.c: connections, their input and output, who is dropped and when.
 * tcp_message.c: what the messages mean. tcp_waiters.c: who waits for which key.
 */
#ifndef RCMI_TCP_SERVER_H
#define RCMI_TCP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "auth.h"
#include "buffer.h"
#include "clock.h"
#include "fd.h"
#include "log.h"
#include "loop.h"
#include "map.h"

struct rcmi_server;
struct rcmi_waiter;

enum rcmi_client_state {
    RCMI_CLIENT_SILENT, /* nothing came yet */
    RCMI_CLIENT_AUTH,   /* proving the secret */
    RCMI_CLIENT_NEW,    /* may speak; its dialect is not known yet */
    RCMI_CLIENT_C10D,   /* validated */
    RCMI_CLIENT_OLD,    /* the dialect without VALIDATE */
    RCMI_CLIENT_WATCH,  /* the second, silent connection that an OLD client has */
};

/* How far the front of the input has been looked at; survives between reads. */
struct rcmi_scan {
    const struct rcmi_message *message; /* NULL: at the start of one */
    size_t pos;                         /* bytes from the front that are complete fields */
    const char *field;                  /* the next one */
    uint64_t items;                     /* still to come, the current one included */
};

struct rcmi_client {
    struct rcmi_watch watch;
    struct rcmi_server *server;
    struct rcmi_client *next, *prev;             /* all clients */
    struct rcmi_client *fresh_next, *fresh_prev; /* those that must identify themselves in time */
    struct rcmi_client *dead_next;
    struct rcmi_sockaddr peer;
    rcmi_deadline drop_at;  /* while fresh */
    struct rcmi_auth *auth; /* while AUTH */
    enum rcmi_client_state state;
    bool fresh, dead;
    bool stalled; /* messages are left lying because the output is full */
    uint32_t events;
    struct rcmi_buffer in, out;
    struct rcmi_scan scan;
    struct rcmi_waiter *waits; /* keys it waits for */
    size_t awaited;
    size_t get_pos; /* a MULTI_GET whose values did not fit into the output at once: next key */
    uint64_t get_left;
};

struct rcmi_server {
    struct rcmi_loop *loop;
    struct rcmi_watch listener;
    struct rcmi_timer accept_again; /* after running out of descriptors */
    rcmi_deadline told;             /* the log has heard of that until then */
    struct rcmi_timer drop;         /* of the first fresh client */
    struct rcmi_client *clients;
    struct rcmi_client *fresh, *fresh_last; /* in the order of their deadlines */
    int nfresh, max_fresh;
    struct rcmi_log_rate log_rate; /* warnings that unidentified clients cause */
    struct rcmi_client *dead;      /* freed at the end of a callback */
    struct rcmi_map map;           /* keys as on the wire */
    struct rcmi_map queues;
    char *secret;
    bool allow_plain; /* with a secret: also clients that prove nothing */
};

/* Serves on listen_fd, which is the server's from then on, also if this fails. */
rcm_status rcmi_server_start(int listen_fd, const char *secret, bool allow_plain,
                             struct rcmi_server **ret_server);
void rcmi_server_stop(struct rcmi_server *server);
/* Accepts nothing any more, and returns when all clients that have said who they are have gone, or
 * at the deadline. */
void rcmi_server_linger(struct rcmi_server *server, rcmi_deadline deadline);

/* What rcmi_server_start is made of: a server that listens nowhere yet, and whose loop has no
 * thread; and a connection that was accepted, which is the server's from then on. It is driven by
 * its watch, and the server by its timers: on the loop's thread, or where there is none. */
rcm_status rcmi_server_create(const char *secret, bool allow_plain,
                              struct rcmi_server **ret_server);
void rcmi_server_accepted(struct rcmi_server *server, int fd);

/* ---- Between the files ---------------------------------------------------------------------- */

#define RCMI_CLIENT_OUT_HIGH (16u * 1024 * 1024) /* no more is read of a client that reads not */

/* Queues bytes for a client; they are sent at the end of the callback or when it can take them. */
void rcmi_client_send(struct rcmi_client *client, const void *data, size_t len);
void rcmi_client_send_byte(struct rcmi_client *client, uint8_t value);
void rcmi_client_send_number(struct rcmi_client *client, int64_t value);
void rcmi_client_send_value(struct rcmi_client *client, struct rcmi_bytes value);
/* Writes what is queued, as far as the socket takes it. */
void rcmi_client_flush(struct rcmi_client *client);
/* Ends a client, with a reason in the log; it is freed at the end of the callback. */
void rcmi_client_drop(struct rcmi_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Its connection ended or failed, as the thread's error says; that a client left is no news. */
void rcmi_client_lost(struct rcmi_client *client);
/* It has said who it is, and is not dropped for silence any more. */
void rcmi_client_identified(struct rcmi_client *client);

/* Handles all complete messages at the front of the client's input. */
void rcmi_messages_handle(struct rcmi_client *client);

/* Waits for the keys that are missing; true if none is. */
bool rcmi_wait_begin(struct rcmi_client *client, const struct rcmi_bytes *keys, size_t n);
void rcmi_wait_cancel(struct rcmi_client *client);
/* Waits until the key is set the next time, whether it exists or not. */
void rcmi_wait_next(struct rcmi_client *client, struct rcmi_bytes key);
/* The key of this entry was set: clients that waited for nothing else are told. */
void rcmi_wait_wake(struct rcmi_entry *entry);
/* The same for one client at most. */
void rcmi_wait_wake_one(struct rcmi_entry *entry);
/* Whether the key exists, as a value or as a queue that is not empty. */
bool rcmi_key_exists(const struct rcmi_server *server, struct rcmi_bytes key);

#endif
