/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests of a TCP store's client over one connection; tcp.c chooses the connection. */
#include "tcp_calls.h"
#include <stdlib.h>
#include "error.h"

#define GRACE_MS    1000 /* beyond the deadline of a wait, to hear what a busy server knows */
#define LOOK_MIN_MS 10   /* between looks for keys that nobody may wake us for */
#define LOOK_MAX_MS 2000

rcmi_deadline rcmi_talk_deadline(rcmi_deadline deadline) {
    rcmi_deadline grace = rcmi_deadline_in(GRACE_MS);
    return deadline > grace ? deadline : grace;
}

/* One MULTI_SET, in the old dialect as many SETs; the values go out as they are put, so that the
 * buffer stays small. */
rcm_status rcmi_call_multi_set(struct rcmi_conn *conn, const struct rcmi_bytes *keys,
                               const struct rcmi_bytes *values, size_t n, rcmi_deadline deadline) {
    rcm_status status = conn->old ? RCM_OK : rcmi_conn_put_opcode(conn, RCMI_WIRE_MULTI_SET);
    if (status == RCM_OK && !conn->old)
        status = rcmi_conn_put_u64(conn, n);
    for (size_t i = 0; i < n && status == RCM_OK; i++) {
        status = conn->old ? rcmi_conn_put_op(conn, RCMI_WIRE_SET, keys[i])
                           : rcmi_conn_put_key(conn, keys[i]);
        if (status == RCM_OK)
            status = rcmi_conn_put_value(conn, values[i]);
        if (status == RCM_OK && rcmi_buffer_len(&conn->out) > 1024 * 1024)
            status = rcmi_conn_flush(conn, deadline);
    }
    if (status == RCM_OK)
        status = rcmi_conn_put_ping(conn);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    return status == RCM_OK ? rcmi_conn_get_ping(conn, deadline) : status;
}

rcm_status rcmi_call_append(struct rcmi_conn *conn, struct rcmi_bytes key, struct rcmi_bytes value,
                            rcmi_deadline deadline, uint8_t *ret_result) {
    enum rcmi_wire_op op = conn->features ? RCMI_WIRE_XAPPEND : RCMI_WIRE_APPEND;
    rcm_status status = rcmi_conn_put_op(conn, op, key);
    if (status == RCM_OK)
        status = rcmi_conn_put_value(conn, value);
    if (status == RCM_OK && !conn->features)
        status = rcmi_conn_put_ping(conn);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    if (status != RCM_OK)
        return status;
    *ret_result = 0;
    return conn->features ? rcmi_conn_get_byte(conn, ret_result, deadline)
                          : rcmi_conn_get_ping(conn, deadline);
}

rcm_status rcmi_call_add(struct rcmi_conn *conn, struct rcmi_bytes key, int64_t delta,
                         rcmi_deadline deadline, uint8_t *ret_result, int64_t *ret_sum) {
    enum rcmi_wire_op op = conn->features ? RCMI_WIRE_XADD : RCMI_WIRE_ADD;
    rcm_status status = rcmi_conn_put_op(conn, op, key);
    if (status == RCM_OK)
        status = rcmi_conn_put_u64(conn, (uint64_t)delta);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    *ret_result = 0;
    if (status == RCM_OK && conn->features)
        status = rcmi_conn_get_byte(conn, ret_result, deadline);
    return status == RCM_OK ? rcmi_conn_get_i64(conn, ret_sum, deadline) : status;
}

rcm_status rcmi_call_present(struct rcmi_conn *conn, const struct rcmi_bytes *keys, size_t n,
                             bool *ret_present) {
    rcmi_deadline deadline = rcmi_call_deadline();
    rcm_status status = RCM_OK;
    for (size_t i = 0; i < n && status == RCM_OK; i++)
        status = rcmi_conn_put_list(conn, RCMI_WIRE_CHECK, &keys[i], 1);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    for (size_t i = 0; i < n && status == RCM_OK; i++) {
        uint8_t answer = RCMI_WIRE_NOT_READY;
        status = rcmi_conn_get_byte(conn, &answer, deadline);
        ret_present[i] = answer == RCMI_WIRE_READY;
    }
    return status;
}

static rcm_status conn_get_of(struct rcmi_conn *conn, struct rcmi_bytes key, rcmi_deadline deadline,
                              struct rcm_blob *ret_value) {
    rcm_status status = rcmi_conn_put_op(conn, RCMI_WIRE_GET, key);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    return status == RCM_OK ? rcmi_conn_get_value(conn, ret_value, deadline) : status;
}

/* Servers of torch hang up at a GET of a key that is missing, but for those on libuv. */
static rcm_status look_foreign(struct rcmi_conn *conn, struct rcmi_bytes key,
                               rcmi_deadline deadline, bool *ret_there,
                               struct rcm_blob *ret_value) {
    rcm_status status = rcmi_call_present(conn, &key, 1, ret_there);
    if (status != RCM_OK || *ret_there)
        return status == RCM_OK ? conn_get_of(conn, key, deadline, ret_value) : status;
    char *nothing = calloc(1, 1);
    if (!nothing)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a value");
    *ret_value = (struct rcm_blob){nothing, 0};
    return RCM_OK;
}

/* CHECK and GET in one go: an empty value and a missing key look the same to GET. */
rcm_status rcmi_call_look(struct rcmi_conn *conn, struct rcmi_bytes key, rcmi_deadline deadline,
                          bool *ret_there, struct rcm_blob *ret_value) {
    uint8_t answer = RCMI_WIRE_NOT_READY;
    if (!conn->features)
        return look_foreign(conn, key, deadline, ret_there, ret_value);
    rcm_status status = rcmi_conn_put_list(conn, RCMI_WIRE_CHECK, &key, 1);
    if (status == RCM_OK)
        status = rcmi_conn_put_op(conn, RCMI_WIRE_GET, key);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    if (status == RCM_OK)
        status = rcmi_conn_get_byte(conn, &answer, deadline);
    if (status == RCM_OK)
        status = rcmi_conn_get_value(conn, ret_value, deadline);
    *ret_there = answer == RCMI_WIRE_READY;
    return status;
}

rcm_status rcmi_call_count(struct rcmi_conn *conn, rcmi_deadline deadline, int64_t *ret_count) {
    static const struct rcmi_bytes init = {RCMI_WIRE_INIT, sizeof RCMI_WIRE_INIT - 1};
    uint8_t answer = RCMI_WIRE_NOT_READY;
    int64_t count = 0;
    rcm_status status = rcmi_conn_put_opcode(conn, RCMI_WIRE_CHECK);
    if (status == RCM_OK)
        status = rcmi_conn_put_u64(conn, 1);
    if (status == RCM_OK)
        status = rcmi_conn_put_value(conn, init); /* not a user's key: no "/" */
    if (status == RCM_OK)
        status = rcmi_conn_put_opcode(conn, RCMI_WIRE_GETNUMKEYS);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    if (status == RCM_OK)
        status = rcmi_conn_get_byte(conn, &answer, deadline);
    if (status == RCM_OK)
        status = rcmi_conn_get_i64(conn, &count, deadline);
    const int64_t hidden = answer == RCMI_WIRE_READY;
    if (status == RCM_OK && count < hidden)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store says that it has %lld keys",
                         (long long)count);
    if (status == RCM_OK)
        *ret_count = count - hidden;
    return status;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* When to look again in a wait that began at since_ns: ever more seldom, so that a wait becomes at
 * most a quarter longer, and thousands who wait for minutes are no burden. */
static rcmi_deadline look_at(int64_t since_ns, rcmi_deadline deadline) {
    int64_t pause_ms = (rcmi_now_ns() - since_ns) / 4000000;
    pause_ms = pause_ms < LOOK_MIN_MS ? LOOK_MIN_MS : pause_ms;
    const rcmi_deadline at = rcmi_deadline_in(pause_ms < LOOK_MAX_MS ? pause_ms : LOOK_MAX_MS);
    return at < deadline ? at : deadline;
}

static rcm_status wait_ask(struct rcmi_conn *conn, const struct rcmi_bytes *keys, size_t n,
                           rcmi_deadline deadline) {
    rcm_status status = rcmi_conn_put_list(conn, RCMI_WIRE_WAIT, keys, n);
    return status == RCM_OK ? rcmi_conn_flush(conn, rcmi_talk_deadline(deadline)) : status;
}

static rcm_status wait_answer(struct rcmi_conn *conn, rcmi_deadline deadline) {
    uint8_t answer = RCMI_WIRE_STOP_WAITING;
    rcm_status status = rcmi_conn_get_byte(conn, &answer, rcmi_talk_deadline(deadline));
    if (status == RCM_OK && answer != RCMI_WIRE_STOP_WAITING)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store answered a wait with %u", answer);
    return status;
}

/* Takes a WAIT back. The answer to the WAIT may have been on its way: all keys exist then. */
static rcm_status wait_cancel(struct rcmi_conn *conn, rcmi_deadline wait_deadline) {
    const rcmi_deadline deadline = rcmi_talk_deadline(wait_deadline);
    uint8_t answer = RCMI_WIRE_WAIT_CANCELED;
    rcm_status status = rcmi_conn_put_opcode(conn, RCMI_WIRE_CANCEL_WAIT);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    if (status == RCM_OK)
        status = rcmi_conn_get_byte(conn, &answer, deadline);
    if (status != RCM_OK || answer == RCMI_WIRE_WAIT_CANCELED)
        return status == RCM_OK ? RCM_PENDING : status;
    return rcmi_conn_get_byte(conn, &answer, deadline);
}

/* One WAIT, which the server answers or we take back. */
static rcm_status wait_once(struct rcmi_conn *conn, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline) {
    rcm_status status = wait_ask(conn, keys, n, deadline);
    if (status != RCM_OK)
        return status;
    status = rcmi_conn_await(conn, deadline);
    if (status == RCM_ERR_TIMEOUT)
        return wait_cancel(conn, deadline);
    return status == RCM_OK ? wait_answer(conn, deadline) : status;
}

static rcm_status all_there(struct rcmi_conn *conn, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline, bool *ret_there) {
    uint8_t answer = RCMI_WIRE_NOT_READY;
    rcm_status status = rcmi_conn_put_list(conn, RCMI_WIRE_CHECK, keys, n);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, rcmi_talk_deadline(deadline));
    if (status == RCM_OK)
        status = rcmi_conn_get_byte(conn, &answer, rcmi_talk_deadline(deadline));
    *ret_there = answer == RCMI_WIRE_READY;
    return status;
}

/* The servers of torch, but for those on libuv (2.4 and later, by default), do not wake a client
 * that waits for a key when COMPARE_SET makes it, only when SET or ADD does: we look ourselves as
 * well.
 *
 * The old dialect has no word to take a WAIT back, and answers one wrongly that comes on top of
 * another. So there is one, and CHECKs beside it: the first 0 says that all is there, whichever
 * question it answers, and the other's answer may then come at any time. */
static rcm_status wait_foreign(struct rcmi_conn *conn, const struct rcmi_bytes *keys, size_t n,
                               rcmi_deadline deadline) {
    const int64_t since_ns = rcmi_now_ns();
    for (bool asked = false;; asked = true) {
        const bool over = asked && rcmi_deadline_passed(deadline);
        bool there;
        rcm_status status = all_there(conn, keys, n, deadline, &there);
        if (status != RCM_OK || there || over) {
            conn->spent = asked && conn->old;
            return status != RCM_OK || there ? status : RCM_PENDING;
        }
        if (!asked || !conn->old)
            status = wait_ask(conn, keys, n, deadline);
        if (status == RCM_OK)
            status = rcmi_conn_await(conn, look_at(since_ns, deadline));
        if (status == RCM_OK)
            return wait_answer(conn, deadline);
        if (status == RCM_ERR_TIMEOUT)
            status = conn->old ? RCM_PENDING : wait_cancel(conn, deadline);
        if (status != RCM_PENDING)
            return status;
    }
}

rcm_status rcmi_call_wait(struct rcmi_conn *conn, const struct rcmi_bytes *keys, size_t n,
                          rcmi_deadline deadline) {
    return conn->features ? wait_once(conn, keys, n, deadline)
                          : wait_foreign(conn, keys, n, deadline);
}

/* ---- Many, and comparing ------------------------------------------------------------------- */

rcm_status rcmi_call_multi_get(struct rcmi_conn *conn, const struct rcmi_bytes *keys, size_t n,
                               struct rcm_blob *ret_values) {
    rcmi_deadline deadline = rcmi_call_deadline();
    size_t got = 0;
    rcm_status status = RCM_OK;
    if (!conn->old) {
        status = rcmi_conn_put_list(conn, RCMI_WIRE_MULTI_GET, keys, n);
        if (status == RCM_OK)
            status = rcmi_conn_flush(conn, deadline);
    }
    for (; got < n && status == RCM_OK; got += status == RCM_OK)
        status = conn->old ? conn_get_of(conn, keys[got], deadline, &ret_values[got])
                           : rcmi_conn_get_value(conn, &ret_values[got], deadline);
    if (status != RCM_OK)
        rcmi_blobs_free(ret_values, got);
    return status;
}

static rcm_status conn_put_compare(struct rcmi_conn *conn, enum rcmi_wire_op op,
                                   struct rcmi_bytes key, struct rcmi_bytes expected,
                                   struct rcmi_bytes desired) {
    rcm_status status = rcmi_conn_put_op(conn, op, key);
    if (status == RCM_OK)
        status = rcmi_conn_put_value(conn, expected);
    return status == RCM_OK ? rcmi_conn_put_value(conn, desired) : status;
}

rcm_status rcmi_call_compare_ours(struct rcmi_conn *conn, struct rcmi_bytes key,
                                  struct rcmi_bytes expected, struct rcmi_bytes desired,
                                  rcmi_deadline deadline, enum rcmi_compare *ret_what,
                                  struct rcm_blob *ret_value) {
    static const enum rcmi_compare meaning[] = {RCMI_COMPARE_KEEP, RCMI_COMPARE_SET,
                                                RCMI_COMPARE_MISSING};
    uint8_t answer = 0;
    rcm_status status = conn_put_compare(conn, RCMI_WIRE_XCOMPARE_SET, key, expected, desired);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    if (status == RCM_OK)
        status = rcmi_conn_get_byte(conn, &answer, deadline);
    if (status == RCM_OK && answer > 2)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store answered %u", answer);
    if (status == RCM_OK)
        status = rcmi_conn_get_value(conn, ret_value, deadline);
    if (status == RCM_OK)
        *ret_what = meaning[answer];
    return status;
}

/* The dialect of torch tells only the value afterwards. Whether we set it shows from a look at
 * the value just before, except when somebody else sets the same value in between. */
rcm_status rcmi_call_compare_foreign(struct rcmi_conn *conn, struct rcmi_bytes key,
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
    status = conn_put_compare(conn, RCMI_WIRE_COMPARE_SET, key, expected, desired);
    if (status == RCM_OK)
        status = rcmi_conn_flush(conn, deadline);
    if (status == RCM_OK)
        status = rcmi_conn_get_value(conn, &after, deadline);
    if (status != RCM_OK)
        return status;
    match = match && rcmi_bytes_equal((struct rcmi_bytes){after.data, after.len}, desired);
    *ret_what = match ? RCMI_COMPARE_SET : there ? RCMI_COMPARE_KEEP : RCMI_COMPARE_MISSING;
    if (!match && !there && expected.len == 0)
        *ret_what = RCMI_COMPARE_KEEP; /* set by somebody else since we looked */
    *ret_value = after;
    return RCM_OK;
}
