/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: the TCP store's client with a server that sends anything
 * (rendezvous/store/tcp_conn.c, tcp_calls.c). Byte 0: the call; byte 1, bit 0: the server has our
 * own operations, bit 1: it uses the old dialect; then everything that it sends before it closes.
 */
#include "fuzz.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tcp_calls.h"
#include "tcp_conn.h"

enum { KEYS = 3, LIMIT_MS = 2000 };

static const struct rcmi_bytes keys[KEYS] = {{"a", 1}, {"bc", 2}, {"", 0}};
static const struct rcmi_bytes value = {"value", 5};

static void take_blobs(struct rcm_blob *blobs, size_t n, rcm_status status) {
    for (size_t i = 0; i < n && status == RCM_OK; i++)
        fuzz_require(blobs[i].data && ((const char *)blobs[i].data)[blobs[i].len] == '\0',
                     "a value has its zero");
    if (status == RCM_OK)
        rcmi_blobs_free(blobs, n);
}

static rcm_status call_value(struct rcmi_tcp_conn *conn, uint8_t which, rcmi_deadline deadline) {
    struct rcm_blob blobs[KEYS] = {{NULL, 0}};
    enum rcmi_compare what = RCMI_COMPARE_KEEP;
    bool there = false;
    size_t n = 1;
    rcm_status status;
    switch (which) {
    case 0:
        conn->deadline = deadline;
        status = rcmi_tcp_conn_get_value(conn, blobs);
        break;
    case 1:
        status = rcmi_call_compare_ours(conn, keys[0], value, value, deadline, &what, blobs);
        break;
    case 2:
        status = rcmi_call_compare_foreign(conn, keys[0], value, value, deadline, &what, blobs);
        break;
    case 3:
        status = rcmi_call_look(conn, keys[1], deadline, &there, blobs);
        break;
    default:
        n = KEYS;
        status = rcmi_call_multi_get(conn, keys, KEYS, blobs);
    }
    take_blobs(blobs, n, status);
    return status;
}

static rcm_status call(struct rcmi_tcp_conn *conn, uint8_t which, rcmi_deadline deadline) {
    static const struct rcmi_bytes values[KEYS] = {{"v", 1}, {"", 0}, {"w", 1}};
    uint8_t result = 0;
    int64_t number = 0;
    bool present[KEYS];
    rcm_status status;
    switch (which) {
    case 0:
        return rcmi_tcp_conn_greet(conn, deadline);
    case 1:
        return rcmi_tcp_conn_prove(conn, "fuzz secret", deadline);
    case 2:
        return rcmi_call_add(conn, keys[0], -5, deadline, &result, &number);
    case 3:
        return rcmi_call_append(conn, keys[0], value, deadline, &result);
    case 4:
        status = rcmi_call_count(conn, deadline, &number);
        fuzz_require(status != RCM_OK || number >= 0, "a count is not negative");
        return status;
    case 5:
        return rcmi_call_wait(conn, keys, KEYS, deadline);
    case 6:
        return rcmi_call_present(conn, keys, KEYS, present);
    case 7:
        return rcmi_call_multi_set(conn, keys, values, KEYS, deadline);
    default:
        return call_value(conn, (uint8_t)(which - 8), deadline);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct rcmi_tcp_conn *conn = calloc(1, sizeof *conn);
    int fds[2];
    if (!conn)
        return 0;
    uint8_t which = fuzz_u8(&in) % 13;
    fuzz_socketpair(fds);
    conn->fd = fds[0];
    uint8_t server = fuzz_u8(&in);
    conn->features = server & 1;
    conn->old = server & 2 && which != 0;
    fuzz_write(fds[1], in.data, in.left);
    shutdown(fds[1], SHUT_WR);
    fuzz_judge(call(conn, which, rcmi_deadline_in(LIMIT_MS)));
    rcmi_tcp_conn_close(conn);
    close(fds[1]);
    return 0;
}
