/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests of a TCP store's client over one connection; tcp.c chooses the connection. */
#include "tcp_calls.h"
#include <stdlib.h>
#include "error.h"

#define GRACE_MS    1000 /* after the deadline of a wait, for the reply of a busy server */
#define LOOK_MIN_MS 10   /* between checks of keys whose server may not wake us */
#define LOOK_MAX_MS 2000

rcmi_deadline rcmi_message_deadline(rcmi_deadline deadline) {
    rcmi_deadline grace = rcmi_deadline_in(GRACE_MS);
    return deadline > grace ? deadline : grace;
}

rcm_status rcmi_call_set(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, struct rcmi_bytes value,
                         rcmi_deadline deadline) {
    rcmi_tcp_conn_put_op(conn, RCMI_WIRE_SET, key);
    rcmi_tcp_conn_put_value(conn, value);
    rcmi_tcp_conn_put_ping(conn);
    rcmi_tcp_conn_flush(conn, deadline);
    return rcmi_tcp_conn_get_ping(conn);
}

rcm_status rcmi_call_delete(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                            rcmi_deadline deadline, int64_t *ret_deleted) {
    rcmi_tcp_conn_put_op(conn, RCMI_WIRE_DELETE_KEY, key);
    rcmi_tcp_conn_flush(conn, deadline);
    return rcmi_tcp_conn_get_i64(conn, ret_deleted);
}

/* One MULTI_SET, or n SETs in the old dialect. Flushes every 1 MiB to keep the buffer small. */
rcm_status rcmi_call_multi_set(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys,
                               const struct rcmi_bytes *values, size_t n, rcmi_deadline deadline) {
    if (!conn->old) {
        rcmi_tcp_conn_put_opcode(conn, RCMI_WIRE_MULTI_SET);
        rcmi_tcp_conn_put_u64(conn, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (conn->old)
            rcmi_tcp_conn_put_op(conn, RCMI_WIRE_SET, keys[i]);
        else
            rcmi_tcp_conn_put_key(conn, keys[i]);
        rcmi_tcp_conn_put_value(conn, values[i]);
        if (rcmi_buffer_len(&conn->out) > 1024 * 1024)
            rcmi_tcp_conn_flush(conn, deadline);
    }
    rcmi_tcp_conn_put_ping(conn);
    rcmi_tcp_conn_flush(conn, deadline);
    return rcmi_tcp_conn_get_ping(conn);
}

rcm_status rcmi_call_append(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                            struct rcmi_bytes value, rcmi_deadline deadline, uint8_t *ret_result) {
    rcmi_tcp_conn_put_op(conn, conn->features ? RCMI_WIRE_XAPPEND : RCMI_WIRE_APPEND, key);
    rcmi_tcp_conn_put_value(conn, value);
    if (!conn->features)
        rcmi_tcp_conn_put_ping(conn);
    rcmi_tcp_conn_flush(conn, deadline);
    *ret_result = 0;
    return conn->features ? rcmi_tcp_conn_get_byte(conn, ret_result) : rcmi_tcp_conn_get_ping(conn);
}

rcm_status rcmi_call_add(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, int64_t delta,
                         rcmi_deadline deadline, uint8_t *ret_result, int64_t *ret_sum) {
    rcmi_tcp_conn_put_op(conn, conn->features ? RCMI_WIRE_XADD : RCMI_WIRE_ADD, key);
    rcmi_tcp_conn_put_u64(conn, (uint64_t)delta);
    rcmi_tcp_conn_flush(conn, deadline);
    *ret_result = 0;
    if (conn->features)
        (void)rcmi_tcp_conn_get_byte(conn, ret_result);
    return rcmi_tcp_conn_get_i64(conn, ret_sum);
}

/* Checks whether all keys exist. */
static rcm_status conn_check(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                             rcmi_deadline deadline, bool *ret_there) {
    uint8_t answer = RCMI_WIRE_NOT_READY;
    rcmi_tcp_conn_put_list(conn, RCMI_WIRE_CHECK, keys, n);
    rcmi_tcp_conn_flush(conn, deadline);
    (void)rcmi_tcp_conn_get_byte(conn, &answer);
    *ret_there = answer == RCMI_WIRE_READY;
    return conn->status;
}

rcm_status rcmi_call_present(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                             bool *ret_present) {
    for (size_t i = 0; i < n; i++)
        rcmi_tcp_conn_put_list(conn, RCMI_WIRE_CHECK, &keys[i], 1);
    rcmi_tcp_conn_flush(conn, rcmi_call_deadline());
    for (size_t i = 0; i < n; i++) {
        uint8_t answer = RCMI_WIRE_NOT_READY;
        (void)rcmi_tcp_conn_get_byte(conn, &answer);
        ret_present[i] = answer == RCMI_WIRE_READY;
    }
    return conn->status;
}

static rcm_status conn_get_of(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                              rcmi_deadline deadline, struct rcm_blob *ret_value) {
    rcmi_tcp_conn_put_op(conn, RCMI_WIRE_GET, key);
    rcmi_tcp_conn_flush(conn, deadline);
    return rcmi_tcp_conn_get_value(conn, ret_value);
}

/* For torch servers: those not on libuv close the connection at a GET of a missing key. */
static rcm_status look_foreign(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                               rcmi_deadline deadline, bool *ret_there,
                               struct rcm_blob *ret_value) {
    const rcm_status status = conn_check(conn, &key, 1, deadline, ret_there);
    if (status != RCM_OK || *ret_there)
        return status == RCM_OK ? conn_get_of(conn, key, deadline, ret_value) : status;
    return rcmi_blob_copy((struct rcmi_bytes){NULL, 0}, ret_value);
}

/* Sends CHECK and GET together: GET alone cannot distinguish an empty value from a missing key. */
rcm_status rcmi_call_look(struct rcmi_tcp_conn *conn, struct rcmi_bytes key, rcmi_deadline deadline,
                          bool *ret_there, struct rcm_blob *ret_value) {
    uint8_t answer = RCMI_WIRE_NOT_READY;
    if (!conn->features)
        return look_foreign(conn, key, deadline, ret_there, ret_value);
    rcmi_tcp_conn_put_list(conn, RCMI_WIRE_CHECK, &key, 1);
    rcmi_tcp_conn_put_op(conn, RCMI_WIRE_GET, key);
    rcmi_tcp_conn_flush(conn, deadline);
    (void)rcmi_tcp_conn_get_byte(conn, &answer);
    *ret_there = answer == RCMI_WIRE_READY;
    return rcmi_tcp_conn_get_value(conn, ret_value);
}

rcm_status rcmi_call_count(struct rcmi_tcp_conn *conn, rcmi_deadline deadline, int64_t *ret_count) {
    static const struct rcmi_bytes init = {RCMI_WIRE_INIT, sizeof RCMI_WIRE_INIT - 1};
    uint8_t answer = RCMI_WIRE_NOT_READY;
    int64_t count = 0;
    rcmi_tcp_conn_put_opcode(conn, RCMI_WIRE_CHECK);
    rcmi_tcp_conn_put_u64(conn, 1);
    rcmi_tcp_conn_put_value(conn, init); /* not a user's key: no "/" */
    rcmi_tcp_conn_put_opcode(conn, RCMI_WIRE_GETNUMKEYS);
    rcmi_tcp_conn_flush(conn, deadline);
    (void)rcmi_tcp_conn_get_byte(conn, &answer);
    const rcm_status status = rcmi_tcp_conn_get_i64(conn, &count);
    const int64_t hidden = answer == RCMI_WIRE_READY;
    if (status == RCM_OK && count < hidden)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store returned an invalid number of keys: %lld",
                         (long long)count);
    if (status == RCM_OK)
        *ret_count = count - hidden;
    return status;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* The time of the next check in a wait that began at since_ns. The interval grows with the wait, so
 * a wait becomes at most a quarter longer, and thousands of clients do not overload the server. */
static rcmi_deadline look_at(int64_t since_ns, rcmi_deadline deadline) {
    int64_t pause_ms = (rcmi_now_ns() - since_ns) / 4000000;
    pause_ms = pause_ms < LOOK_MIN_MS ? LOOK_MIN_MS : pause_ms;
    const rcmi_deadline at = rcmi_deadline_in(pause_ms < LOOK_MAX_MS ? pause_ms : LOOK_MAX_MS);
    return at < deadline ? at : deadline;
}

static rcm_status wait_send(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline) {
    rcmi_tcp_conn_put_list(conn, RCMI_WIRE_WAIT, keys, n);
    rcmi_tcp_conn_flush(conn, rcmi_message_deadline(deadline));
    return conn->status;
}

static rcm_status wait_answer(struct rcmi_tcp_conn *conn) {
    uint8_t answer = RCMI_WIRE_STOP_WAITING;
    const rcm_status status = rcmi_tcp_conn_get_byte(conn, &answer);
    if (status == RCM_OK && answer != RCMI_WIRE_STOP_WAITING)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store replied to a wait with %u", answer);
    return status;
}

/* Cancels a WAIT. If its reply was already on the way, all keys exist. */
static rcm_status wait_cancel(struct rcmi_tcp_conn *conn, rcmi_deadline deadline) {
    uint8_t answer = RCMI_WIRE_WAIT_CANCELED;
    rcmi_tcp_conn_put_opcode(conn, RCMI_WIRE_CANCEL_WAIT);
    rcmi_tcp_conn_flush(conn, rcmi_message_deadline(deadline));
    const rcm_status status = rcmi_tcp_conn_get_byte(conn, &answer);
    if (status == RCM_OK && answer == RCMI_WIRE_WAIT_CANCELED)
        return RCM_PENDING;
    return rcmi_tcp_conn_get_byte(conn, &answer);
}

/* One WAIT, which the server answers or we cancel. */
static rcm_status wait_once(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline) {
    (void)wait_send(conn, keys, n, deadline);
    const rcm_status status = rcmi_tcp_conn_await(conn, deadline);
    if (status == RCM_ERR_TIMEOUT && conn->status == RCM_OK)
        return wait_cancel(conn, deadline);
    return status == RCM_OK ? wait_answer(conn) : status;
}

/* Waits with a torch server: one WAIT plus periodic CHECKs. Torch servers that do not use libuv
 * (the default since 2.4) wake waiters for SET and ADD, but not for COMPARE_SET; so the CHECKs are
 * needed.
 *
 * The old dialect cannot cancel a WAIT, and replies wrongly to a second WAIT. So only one WAIT is
 * sent. A reply of 0 means that all keys exist, whether it is for the WAIT or for a CHECK. The
 * other reply may then arrive at any time, so the connection is spent. */
static rcm_status wait_foreign(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                               rcmi_deadline deadline) {
    const int64_t since_ns = rcmi_now_ns();
    for (bool sent = false;; sent = true) {
        const bool over = sent && rcmi_deadline_passed(deadline);
        bool there;
        rcm_status status = conn_check(conn, keys, n, rcmi_message_deadline(deadline), &there);
        if (status != RCM_OK || there || over) {
            conn->spent = sent && conn->old;
            return status != RCM_OK || there ? status : RCM_PENDING;
        }
        if (!sent || !conn->old)
            status = wait_send(conn, keys, n, deadline);
        if (status == RCM_OK)
            status = rcmi_tcp_conn_await(conn, look_at(since_ns, deadline));
        if (status == RCM_OK)
            return wait_answer(conn);
        if (status == RCM_ERR_TIMEOUT)
            status = conn->old ? RCM_PENDING : wait_cancel(conn, deadline);
        if (status != RCM_PENDING)
            return status;
    }
}

rcm_status rcmi_call_wait(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                          rcmi_deadline deadline) {
    return conn->features ? wait_once(conn, keys, n, deadline)
                          : wait_foreign(conn, keys, n, deadline);
}

/* ---- MULTI_GET and COMPARE_SET ------------------------------------------------------------- */

rcm_status rcmi_call_multi_get(struct rcmi_tcp_conn *conn, const struct rcmi_bytes *keys, size_t n,
                               struct rcm_blob *ret_values) {
    const rcmi_deadline deadline = rcmi_call_deadline();
    rcm_status status = RCM_OK;
    size_t got = 0;
    if (!conn->old) {
        rcmi_tcp_conn_put_list(conn, RCMI_WIRE_MULTI_GET, keys, n);
        rcmi_tcp_conn_flush(conn, deadline);
    }
    for (; got < n && status == RCM_OK; got += status == RCM_OK)
        status = conn->old ? conn_get_of(conn, keys[got], deadline, &ret_values[got])
                           : rcmi_tcp_conn_get_value(conn, &ret_values[got]);
    if (status != RCM_OK)
        rcmi_blobs_free(ret_values, got);
    return status;
}

static void conn_send_compare(struct rcmi_tcp_conn *conn, enum rcmi_wire_op op,
                              struct rcmi_bytes key, struct rcmi_bytes expected,
                              struct rcmi_bytes desired, rcmi_deadline deadline) {
    rcmi_tcp_conn_put_op(conn, op, key);
    rcmi_tcp_conn_put_value(conn, expected);
    rcmi_tcp_conn_put_value(conn, desired);
    rcmi_tcp_conn_flush(conn, deadline);
}

rcm_status rcmi_call_compare_ours(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                                  struct rcmi_bytes expected, struct rcmi_bytes desired,
                                  rcmi_deadline deadline, enum rcmi_compare *ret_what,
                                  struct rcm_blob *ret_value) {
    static const enum rcmi_compare meaning[] = {RCMI_COMPARE_KEEP, RCMI_COMPARE_SET,
                                                RCMI_COMPARE_MISSING};
    uint8_t answer = 0;
    conn_send_compare(conn, RCMI_WIRE_XCOMPARE_SET, key, expected, desired, deadline);
    if (rcmi_tcp_conn_get_byte(conn, &answer) == RCM_OK && answer > 2)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store replied to a compare_set with %u", answer);
    const rcm_status status = rcmi_tcp_conn_get_value(conn, ret_value);
    if (status == RCM_OK)
        *ret_what = meaning[answer];
    return status;
}

/* torch's protocol returns only the value afterwards. So this reads the value first, to detect
 * whether our request set it. That is wrong if another client sets the same value in between. */
rcm_status rcmi_call_compare_foreign(struct rcmi_tcp_conn *conn, struct rcmi_bytes key,
                                     struct rcmi_bytes expected, struct rcmi_bytes desired,
                                     rcmi_deadline deadline, enum rcmi_compare *ret_what,
                                     struct rcm_blob *ret_value) {
    struct rcm_blob before, after;
    bool there;
    rcm_status status = rcmi_call_look(conn, key, deadline, &there, &before);
    if (status != RCM_OK)
        return status;
    bool match = there ? rcmi_bytes_equal((struct rcmi_bytes){before.data, before.len}, expected)
                       : expected.len == 0;
    free(before.data);
    conn_send_compare(conn, RCMI_WIRE_COMPARE_SET, key, expected, desired, deadline);
    status = rcmi_tcp_conn_get_value(conn, &after);
    if (status != RCM_OK)
        return status;
    match = match && rcmi_bytes_equal((struct rcmi_bytes){after.data, after.len}, desired);
    *ret_what = match ? RCMI_COMPARE_SET : there ? RCMI_COMPARE_KEEP : RCMI_COMPARE_MISSING;
    if (!match && !there && expected.len == 0)
        *ret_what = RCMI_COMPARE_KEEP; /* another client has set it since our read */
    *ret_value = after;
    return RCM_OK;
}
