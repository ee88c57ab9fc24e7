/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests of a TCP store's client. Each is one request and reply over a connection that the
 * caller owns. After a status other than RCM_OK and RCM_PENDING the connection may be in the middle
 * of a message; the caller must close it.
 */
#ifndef RCMI_TCP_CALLS_H
#define RCMI_TCP_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include "store.h"
#include "tcp_conn.h"

/* The deadline of messages to the server during a wait until `deadline`; 1 s from now if that is
 * later. */
rcmi_deadline rcmi_message_deadline(rcmi_deadline deadline);

rcm_status rcmi_call_set(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, struct rcmi_bytes value,
                         rcmi_deadline deadline);
/* *ret_deleted: 1 if it existed. */
rcm_status rcmi_call_delete(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                            rcmi_deadline deadline, int64_t *ret_deleted);

/* Keys of one call: at most RCMI_WIRE_LIST_MAX for multi_set, wait and multi_get. For present, few
 * enough that requests and replies fit into the socket buffers. */
rcm_status rcmi_call_multi_set(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys,
                               const struct rcmi_bytes *values, size_t n, rcmi_deadline deadline);
rcm_status rcmi_call_present(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                             bool *ret_present);
/* RCM_PENDING if not all keys exist at the deadline; the WAIT is canceled then. If the server
 * cannot cancel, sets conn->spent (also with RCM_OK), because a late reply may still arrive. */
rcm_status rcmi_call_wait(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                          rcmi_deadline deadline);
rcm_status rcmi_call_multi_get(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                               struct rcm_blob *ret_values);

/* *ret_result: 0 done, else rejected. A torch server rejects by closing the connection. */
rcm_status rcmi_call_append(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                            struct rcmi_bytes value, rcmi_deadline deadline, uint8_t *ret_result);
rcm_status rcmi_call_add(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, int64_t delta,
                         rcmi_deadline deadline, uint8_t *ret_result, int64_t *ret_sum);

/* Returns the value and whether the key exists; *ret_value is a blob in both cases. */
rcm_status rcmi_call_look(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, rcmi_deadline deadline,
                          bool *ret_there, struct rcm_blob *ret_value);
/* The number of keys set by users. */
rcm_status rcmi_call_count(struct rcmi_tcp_conn *conn, rcmi_deadline deadline, int64_t *ret_count);

/* compare_set with a server of this library, and with a torch server. *ret_value is a blob in
 * every case. */
rcm_status rcmi_call_compare_ours(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                                  struct rcmi_bytes expected, struct rcmi_bytes desired,
                                  rcmi_deadline deadline, enum rcmi_compare *ret_what,
                                  struct rcm_blob *ret_value);
rcm_status rcmi_call_compare_foreign(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                                     struct rcmi_bytes expected, struct rcmi_bytes desired,
                                     rcmi_deadline deadline, enum rcmi_compare *ret_what,
                                     struct rcm_blob *ret_value);

#endif
