/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests of a TCP store's client, each one exchange over a connection that is the caller's
 * meanwhile. After any status but RCM_OK and RCM_PENDING the connection may be in the middle of a
 * message and is of no use any more.
 */
#ifndef RCMI_TCP_CALLS_H
#define RCMI_TCP_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include "store.h"
#include "tcp_conn.h"

/* Of talking to the server during a wait until `deadline`: a little later than that. */
rcmi_deadline rcmi_talk_deadline(rcmi_deadline deadline);

rcm_status rcmi_call_set(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, struct rcmi_bytes value,
                         rcmi_deadline deadline);
/* *ret_deleted: 1 if it existed. */
rcm_status rcmi_call_delete(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                            rcmi_deadline deadline, int64_t *ret_deleted);

/* Keys of one call: at most RCMI_WIRE_LIST_MAX for multi_set, wait and multi_get; for present so
 * few that questions and answers fit into the sockets' buffers. */
rcm_status rcmi_call_multi_set(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys,
                               const struct rcmi_bytes *values, size_t n, rcmi_deadline deadline);
rcm_status rcmi_call_present(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                             bool *ret_present);
/* RCM_PENDING if not all keys exist at the deadline; the WAIT is taken back then. Where that is
 * impossible conn->spent is set, after RCM_OK too: an answer may come that nobody waits for. */
rcm_status rcmi_call_wait(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                          rcmi_deadline deadline);
rcm_status rcmi_call_multi_get(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                               struct rcm_blob *ret_values);

/* *ret_result: 0 done, else refused. Over the dialect of torch a refusal ends the connection. */
rcm_status rcmi_call_append(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                            struct rcmi_bytes value, rcmi_deadline deadline, uint8_t *ret_result);
rcm_status rcmi_call_add(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, int64_t delta,
                         rcmi_deadline deadline, uint8_t *ret_result, int64_t *ret_sum);

/* The value and whether there is one; *ret_value is a blob in both cases. */
rcm_status rcmi_call_look(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, rcmi_deadline deadline,
                          bool *ret_there, struct rcm_blob *ret_value);
/* Keys of users. */
rcm_status rcmi_call_count(struct rcmi_tcp_conn *conn, rcmi_deadline deadline, int64_t *ret_count);

/* *ret_value is a blob in every case. With a server of ours, and with one of torch's. */
rcm_status rcmi_call_compare_ours(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                                  struct rcmi_bytes expected, struct rcmi_bytes desired,
                                  rcmi_deadline deadline, enum rcmi_compare *ret_what,
                                  struct rcm_blob *ret_value);
rcm_status rcmi_call_compare_foreign(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                                     struct rcmi_bytes expected, struct rcmi_bytes desired,
                                     rcmi_deadline deadline, enum rcmi_compare *ret_what,
                                     struct rcm_blob *ret_value);

#endif
