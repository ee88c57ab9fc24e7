/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection of a TCP store's client: made, proved, greeted, then used by one thread at a
 * time for requests that are written whole and replies that are read whole.
 *
 * What fails stays so: after the first error nothing more is put, sent or read, and each get
 * returns it. So a call puts, flushes and gets, and looks at the last status only.
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
    bool features;  /* the server knows the X operations */
    bool old;       /* it speaks the dialect of torch 1.13 and 2.0 */
    bool spent;     /* not to be used again: an answer to a WAIT may still come on it */
    uint32_t nonce; /* of the last PING */
    rcm_status status;
    rcmi_deadline deadline; /* of the request that was flushed last, and its reply */
    struct rcmi_sockaddr addr;
    int64_t used_ns; /* when it was last put aside */
    struct rcmi_buffer out, in;
};

/* Connects to host:port, again and again until the deadline: the server may not be up yet.
 * RCM_ERR_TIMEOUT says what went wrong last; RCM_ERR_AUTH and RCM_ERR_PROTOCOL are not retried. */
rcm_status rcmi_tcp_conn_open(const char *host, int port, const char *secret,
                              rcmi_deadline deadline, struct rcmi_tcp_conn **ret_conn);
/* The same in place of a connection that was lost: each address of the host is tried once. */
rcm_status rcmi_tcp_conn_open_again(const char *host, int port, const char *secret,
                                    rcmi_deadline deadline, struct rcmi_tcp_conn **ret_conn);
void rcmi_tcp_conn_close(struct rcmi_tcp_conn *conn);

/* Is a connection that was put aside still one? Firewalls forget idle connections. What a peer or
 * a firewall has sent since tells it at once; after some seconds the server is asked. */
bool rcmi_tcp_conn_is_alive(struct rcmi_tcp_conn *conn, rcmi_deadline deadline);

/* "node7:29500 (10.0.0.7)", for people; addr: what the name led to, NULL or without length if that
 * is not known. host "": loopback. */
#define RCMI_TCP_CONN_PLACE 360
const char *rcmi_tcp_conn_place(const char *host, int port, const struct rcmi_sockaddr *addr,
                                char text[RCMI_TCP_CONN_PLACE]);

/* Steps of rcmi_tcp_conn_open, on a connection that stands: the proof of the secret, if there is
 * one, and the opening of the dialect, with the question whether the server is one of ours. */
rcm_status rcmi_tcp_conn_prove(struct rcmi_tcp_conn *conn, const char *secret,
                               rcmi_deadline deadline);
rcm_status rcmi_tcp_conn_greet(struct rcmi_tcp_conn *conn, rcmi_deadline deadline);

/* A request grows in conn->out. The opcode is put as the server's dialect has it;
 * RCM_ERR_UNSUPPORTED where that has none. */
void rcmi_tcp_conn_put_opcode(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op);
void rcmi_tcp_conn_put_u64(struct rcmi_tcp_conn *conn, uint64_t value);
void rcmi_tcp_conn_put_value(struct rcmi_tcp_conn *conn, struct rcmi_bytes value);
/* A key of a user: with the "/" in front. */
void rcmi_tcp_conn_put_key(struct rcmi_tcp_conn *conn, struct rcmi_bytes key);
/* opcode and one key. */
void rcmi_tcp_conn_put_op(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op, struct rcmi_bytes key);
/* opcode and a list of keys. */
void rcmi_tcp_conn_put_list(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op,
                            const struct rcmi_bytes *keys, size_t n);
/* A question whose answer says that what was sent before it has arrived. */
void rcmi_tcp_conn_put_ping(struct rcmi_tcp_conn *conn);

/* Sends it; it, and the reply, have until the deadline. */
void rcmi_tcp_conn_flush(struct rcmi_tcp_conn *conn, rcmi_deadline deadline);

rcm_status rcmi_tcp_conn_get_byte(struct rcmi_tcp_conn *conn, uint8_t *ret);
rcm_status rcmi_tcp_conn_get_i64(struct rcmi_tcp_conn *conn, int64_t *ret);
rcm_status rcmi_tcp_conn_get_value(struct rcmi_tcp_conn *conn, struct rcm_blob *ret);
/* The echo of the last put_ping. */
rcm_status rcmi_tcp_conn_get_ping(struct rcmi_tcp_conn *conn);
/* Waits until a reply begins; RCM_ERR_TIMEOUT if none does, which does not stay. */
rcm_status rcmi_tcp_conn_await(struct rcmi_tcp_conn *conn, rcmi_deadline deadline);

#endif
