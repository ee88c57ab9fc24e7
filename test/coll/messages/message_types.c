/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types of messages: those that match, those that do not, and what a receive then returns, for
 * short and long messages, blocking, asynchronous, in batches, persistent and probed:
 *
 *     message_types shm|tcp threads|processes N
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ranks.h"

enum { LONGEST = 300000, TAG = 5 };
enum way { BLOCKING, ASYNCHRONOUS, BATCH, PERSISTENT, PROBED, WAYS };

static rcm_dtype opaque(size_t bytes) {
    rcm_dtype dtype = (rcm_dtype)0;
    return rcm_dtype_opaque(bytes, &dtype) == RCM_OK ? dtype : (rcm_dtype)0;
}

/* Rank 1 receives in some way. Returns the status of the receive; its text is in text. */
static rcm_status receive(rcm_comm *comm, enum way way, void *buffer, size_t count, rcm_dtype dtype,
                          struct rcm_message *message, char *text) {
    struct rcm_call call = RCM_CALL_INIT;
    struct rcm_transfer transfer = {.kind = RCM_TRANSFER_RECV, .peer = 0, .buffer = buffer};
    rcm_work *work = NULL;
    rcm_matched *matched;
    rcm_status status;
    call.message = message;
    call.flags = way == PERSISTENT ? RCM_PERSISTENT : 0;
    transfer.count = count;
    transfer.dtype = dtype;
    transfer.tag = TAG;
    transfer.message = message;
    if (way == BLOCKING)
        status = rcm_recv(comm, buffer, count, dtype, 0, TAG, &call, NULL);
    else if (way == BATCH)
        status = rcm_batch(comm, &transfer, 1, NULL, NULL);
    else if (way == PROBED && (status = rcm_mprobe(comm, 0, TAG, NULL, NULL, &matched)) == RCM_OK)
        status = rcm_mrecv(comm, matched, buffer, count, dtype, &call, NULL);
    else
        status = rcm_recv(comm, buffer, count, dtype, RCM_ANY_SOURCE, TAG, &call, &work);
    if (work && way == PERSISTENT)
        status = rcm_work_start(work);
    if (work && status == RCM_OK)
        status = rcm_work_wait(work, -1);
    snprintf(text, 512, "%s", rcm_last_error());
    rcm_work_free(work);
    return status;
}

struct pair {
    rcm_dtype sent, received;
    bool match;
};

static int check_pair(rcm_comm *comm, const struct pair *pair, size_t count, enum way way) {
    static _Thread_local double out[LONGEST], in[LONGEST];
    struct rcm_message message = RCM_MESSAGE_INIT;
    char text[512], names[2][64];
    int errors = 0;
    snprintf(names[0], sizeof names[0], "%s", rcm_dtype_name(pair->sent));
    snprintf(names[1], sizeof names[1], "%s", rcm_dtype_name(pair->received));
    if (rcm_rank(comm) == 0) {
        CHECK(errors, rcm_send(comm, out, count, pair->sent, 1, TAG, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
        return errors;
    }
    const size_t room = sizeof in / rcm_dtype_size(pair->received);
    const rcm_status status = receive(comm, way, in, room, pair->received, &message, text);
    const bool whole = count * rcm_dtype_size(pair->sent) % rcm_dtype_size(pair->received) == 0;
    const bool match = (pair->match && (whole || rcm_dtype_size(pair->sent) > 1)) || count == 0;
    CHECK(errors, status == (match ? RCM_OK : RCM_ERR_MISMATCH), "%zu of %s as %s, way %d: %s (%s)",
          count, names[0], names[1], (int)way, rcm_status_name(status), text);
    CHECK(errors, match || (strstr(text, names[0]) && strstr(text, names[1])), "no types in: %s",
          text);
    CHECK(errors,
          message.dtype == (pair->sent < RCM_OPAQUE ? (int)pair->sent : 0) &&
              message.bytes == count * rcm_dtype_size(pair->sent),
          "%s: the message has type %d and %zu bytes, way %d", names[0], message.dtype,
          message.bytes, (int)way);
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    static const size_t counts[] = {0, 1, 3000, 100000};
    const struct pair pairs[] = {
        {RCM_INT32, RCM_INT32, true},        {RCM_INT32, RCM_UINT32, true},
        {RCM_UINT64, RCM_INT64, true},       {RCM_INT32_INT32, RCM_INT32, true},
        {RCM_FLOAT64, RCM_UINT8, true},      {RCM_BOOL, RCM_FLOAT32, true},
        {opaque(12), RCM_INT32, true},       {RCM_FLOAT64, opaque(8), true},
        {RCM_INT32, RCM_FLOAT32, false},     {RCM_FLOAT16, RCM_BFLOAT16, false},
        {RCM_FLOAT64, RCM_INT32, false},     {RCM_INT64, RCM_FLOAT64, false},
        {RCM_COMPLEX64, RCM_FLOAT32, false}, {RCM_FLOAT32_INT32, RCM_INT64, false},
    };
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    (void)arg;
    if (rcm_rank(comm) > 1)
        return 0;
    for (enum way way = BLOCKING; way < WAYS; way++)
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
                errors += check_pair(comm, &pairs[i], counts[k], way);
    CHECK(errors, rcm_comm_error(comm, &error) == RCM_OK, "the communicator is not usable");
    return errors > 100 ? 100 : errors;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: message_types shm|tcp threads|processes N\n");
        return 2;
    }
    const struct ranks ranks = {
        .n = atoi(argv[3]), .threads = strcmp(argv[2], "threads") == 0, .transport = argv[1]};
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
