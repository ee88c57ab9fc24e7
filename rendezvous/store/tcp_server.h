/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP store's server. All of it runs on one epoll thread (base/os/loop.h), so there are no
 * locks. tcp_server.c: connections, their input, and when clients are dropped. tcp_client.c: output
 * of one client. tcp_message.c: parsing and handling messages. tcp_waiters.c: clients that wait for
 * keys.
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
    RCMI_CLIENT_SILENT, /* has not sent anything */
    RCMI_CLIENT_AUTH,   /* authenticating */
    RCMI_CLIENT_NEW,    /* may send messages; its dialect is not known yet */
    RCMI_CLIENT_C10D,   /* has sent VALIDATE */
    RCMI_CLIENT_OLD,    /* uses the dialect without VALIDATE */
    RCMI_CLIENT_WATCH,  /* the second, idle connection of an OLD client */
};

/* The state of scanning the message at the front of the input; kept between reads. */
struct rcmi_scan {
    const struct rcmi_message *message; /* NULL: at the start of a message */
    size_t pos;                         /* bytes of complete fields from the front */
    const char *field;                  /* the next field */
    uint64_t items;                     /* remaining items, with the current one */
};

struct rcmi_client {
    struct rcmi_watch watch;
    struct rcmi_server *server;
    struct rcmi_client *next, *prev;             /* all clients */
    struct rcmi_client *fresh_next, *fresh_prev; /* clients that have not identified themselves */
    struct rcmi_client *dead_next;
    struct rcmi_sockaddr peer;
    rcmi_deadline drop_at;  /* while fresh */
    struct rcmi_auth *auth; /* while AUTH */
    enum rcmi_client_state state;
    bool fresh, dead;
    bool stalled; /* input is not handled, because the output is full */
    uint32_t events;
    struct rcmi_buffer in, out;
    struct rcmi_scan scan;
    struct rcmi_waiter *waits; /* keys it waits for */
    size_t awaited;
    size_t get_pos; /* next key of a MULTI_GET whose values did not fit into the output */
    uint64_t get_left;
};

struct rcmi_server {
    struct rcmi_loop *loop;
    struct rcmi_watch listener;
    struct rcmi_timer accept_again; /* after running out of descriptors */
    rcmi_deadline quiet_until;      /* log rate limit of that warning: suppressed until then */
    struct rcmi_timer drop;         /* of the first fresh client */
    struct rcmi_client *clients;
    struct rcmi_client *fresh, *fresh_last; /* in the order of their deadlines */
    int nfresh, max_fresh;
    struct rcmi_log_rate log_rate; /* of warnings about unidentified clients */
    struct rcmi_client *dead;      /* freed at the end of a callback */
    struct rcmi_map map;           /* keys as on the wire */
    struct rcmi_map queues;
    char *secret;
    bool allow_plain; /* with a secret: also accept unauthenticated clients */
};

/* Serves on listen_fd. Takes ownership of it, also after an error. */
rcm_status rcmi_server_start(int listen_fd, const char *secret, bool allow_plain,
                             struct rcmi_server **ret_server);
void rcmi_server_stop(struct rcmi_server *server);
/* Stops accepting. Returns when all identified clients have disconnected, or at the deadline. */
void rcmi_server_linger(struct rcmi_server *server, rcmi_deadline deadline);

/* The parts of rcmi_server_start. create: a server without a listener, whose loop has no thread.
 * accepted: adds an accepted connection, which the server owns from then on. The loop's thread runs
 * the connection's watch and the server's timers; without a thread the caller runs them. */
rcm_status rcmi_server_create(const char *secret, bool allow_plain,
                              struct rcmi_server **ret_server);
void rcmi_server_accepted(struct rcmi_server *server, int fd);

/* ---- Between the files ---------------------------------------------------------------------- */

/* Bytes queued for a client above which the server stops reading from it. */
#define RCMI_CLIENT_OUT_HIGH (16u * 1024 * 1024)

/* Queues bytes for a client; they are sent at the end of the callback, or when it reads again. */
void rcmi_client_send(struct rcmi_client *client, const void *data, size_t len);
void rcmi_client_send_byte(struct rcmi_client *client, uint8_t value);
void rcmi_client_send_number(struct rcmi_client *client, int64_t value);
void rcmi_client_send_value(struct rcmi_client *client, struct rcmi_bytes value);
/* Writes queued bytes, as many as the socket accepts. */
void rcmi_client_flush(struct rcmi_client *client);
/* Ends a client, with a reason in the log; it is freed at the end of the callback. */
void rcmi_client_drop(struct rcmi_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends a client whose connection ended or failed, with the thread's error, logged as debug. */
void rcmi_client_lost(struct rcmi_client *client);
/* Marks the client as identified; it is no longer dropped for silence. */
void rcmi_client_identified(struct rcmi_client *client);

/* Handles all complete messages at the front of the client's input. */
void rcmi_messages_handle(struct rcmi_client *client);

/* Starts a wait for the missing keys; true if no key is missing. */
bool rcmi_wait_begin(struct rcmi_client *client, const struct rcmi_bytes *keys, size_t n);
void rcmi_wait_cancel(struct rcmi_client *client);
/* Starts a wait until the key is set the next time, whether it exists or not. */
void rcmi_wait_next(struct rcmi_client *client, struct rcmi_bytes key);
/* The entry's key was set: wakes the clients that wait for no other key. */
void rcmi_wait_wake(struct rcmi_entry *entry);
/* The same for at most one client. */
void rcmi_wait_wake_one(struct rcmi_entry *entry);
/* Whether the key exists, as a value or as a queue that is not empty. */
bool rcmi_key_exists(const struct rcmi_server *server, struct rcmi_bytes key);

#endif
