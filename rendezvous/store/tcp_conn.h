/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection of a TCP store's client: connect, authenticate, greet; then one thread at a time
 * uses it for whole requests and whole replies.
 *
 * Errors are sticky: after the first one nothing more is put, sent or read, and each get returns
 * it. So a call puts, flushes and gets, and checks only the last status.
 */
#ifndef RCMI_TCP_CONN_H
#define RCMI_TCP_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include "buffer.h"
#include "clock.h"
#include "fd.h"
#include "store.h"
#include "wire.h"

struct rcmi_tcp_conn {
    struct rcmi_tcp_conn *next; /* in the store's list of idle ones */
    int fd;
    bool features;  /* the server has the X operations */
    bool old;       /* the server has the dialect of torch 1.13 and 2.0 */
    bool spent;     /* must not be reused: a reply to a WAIT may still arrive */
    uint32_t nonce; /* of the last PING */
    rcm_status status;
    rcmi_deadline deadline; /* of the last flushed request and its reply */
    struct rcmi_sockaddr addr;
    int64_t used_ns; /* end of the last call */
    struct rcmi_buffer out, in;
};

/* Connects to host:port. Retries until the deadline, because the server may not be up yet.
 * RCM_ERR_TIMEOUT contains the last failure; RCM_ERR_AUTH and RCM_ERR_PROTOCOL are not retried. */
rcm_status rcmi_tcp_conn_open(const char *host, int port, const char *secret,
                              rcmi_deadline deadline, struct rcmi_tcp_conn **ret_conn);
/* Replaces a lost connection: tries each address of the host once. */
rcm_status rcmi_tcp_conn_open_again(const char *host, int port, const char *secret,
                                    rcmi_deadline deadline, struct rcmi_tcp_conn **ret_conn);
void rcmi_tcp_conn_close(struct rcmi_tcp_conn *conn);

/* Whether an idle connection still works; firewalls drop idle connections. Checks the socket for
 * input and errors; after 5 s of idle time also sends a ping. */
bool rcmi_tcp_conn_is_alive(struct rcmi_tcp_conn *conn, rcmi_deadline deadline);

/* "node7:29500 (10.0.0.7)", for messages. addr: the address of the name; NULL or len 0 if unknown.
 * host "": loopback. */
#define RCMI_TCP_CONN_ADDRESS 360
const char *rcmi_tcp_conn_address(const char *host, int port, const struct rcmi_sockaddr *addr,
                                  char text[RCMI_TCP_CONN_ADDRESS]);

/* Steps of rcmi_tcp_conn_open on an open connection. prove: authenticates, if there is a secret.
 * greet: starts the protocol and checks whether the server has the X operations. */
rcm_status rcmi_tcp_conn_prove(struct rcmi_tcp_conn *conn, const char *secret,
                               rcmi_deadline deadline);
rcm_status rcmi_tcp_conn_greet(struct rcmi_tcp_conn *conn, rcmi_deadline deadline);

/* Append to the request in conn->out. The opcode is converted to the server's dialect;
 * RCM_ERR_UNSUPPORTED if the dialect does not have it. */
void rcmi_tcp_conn_put_opcode(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op);
void rcmi_tcp_conn_put_u64(struct rcmi_tcp_conn *conn, uint64_t value);
void rcmi_tcp_conn_put_value(struct rcmi_tcp_conn *conn, struct rcmi_bytes value);
/* A key of a user, with "/" before it. */
void rcmi_tcp_conn_put_key(struct rcmi_tcp_conn *conn, struct rcmi_bytes key);
/* opcode and one key. */
void rcmi_tcp_conn_put_op(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op, struct rcmi_bytes key);
/* opcode and a list of keys. */
void rcmi_tcp_conn_put_list(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op,
                            const struct rcmi_bytes *keys, size_t n);
/* A ping; its reply means that the server has all earlier requests. */
void rcmi_tcp_conn_put_ping(struct rcmi_tcp_conn *conn);

/* Sends the request; the deadline applies to the request and its reply. */
void rcmi_tcp_conn_flush(struct rcmi_tcp_conn *conn, rcmi_deadline deadline);

rcm_status rcmi_tcp_conn_get_byte(struct rcmi_tcp_conn *conn, uint8_t *ret);
rcm_status rcmi_tcp_conn_get_i64(struct rcmi_tcp_conn *conn, int64_t *ret);
rcm_status rcmi_tcp_conn_get_value(struct rcmi_tcp_conn *conn, struct rcm_blob *ret);
/* The echo of the last put_ping. */
rcm_status rcmi_tcp_conn_get_ping(struct rcmi_tcp_conn *conn);
/* Waits until a reply begins; else RCM_ERR_TIMEOUT, which is not sticky. */
rcm_status rcmi_tcp_conn_await(struct rcmi_tcp_conn *conn, rcmi_deadline deadline);

#endif
