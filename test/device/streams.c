/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams and the device of a rank, with the fake device. An operation begins after everything
 * enqueued on its stream before the call. Unsupported uses are rejected before anything is sent.
 *
 *     streams TRANSPORT RANKS
 */
#include "../fakes/device/fake.h"
#include "ranks.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 5000, BYTES = COUNT * 8, PARTS = 2 };

/* Buffers, and the work that a case issues with them. `send` is the send of a message case. */
struct bench {
    rcm_comm *comm;
    int64_t *in, *out;
    rcm_work *work, *send;
};

static void fill(const struct bench *b, int64_t salt) {
    int64_t *view = fake_view(b->in);
    for (int i = 0; i < COUNT; i++)
        view[i] = salt + i + rcm_rank(b->comm);
    memset(fake_view(b->out), 0x77, BYTES);
}

static int64_t sum_of(const struct bench *b, int64_t salt, int i) {
    const int64_t p = rcm_size(b->comm);
    return p * (salt + i) + p * (p - 1) / 2;
}

/* ---- Forms of calls -------------------------------------------------------------------------- */

static rcm_status issue_collective(struct bench *b, const struct rcm_call *call) {
    return rcm_all_reduce(b->comm, b->in, b->out, COUNT, RCM_INT64, RCM_SUM, call, &b->work);
}

static rcm_status issue_parts(struct bench *b, const struct rcm_call *call) {
    const struct rcm_part parts[PARTS] = {
        {b->in, b->out, COUNT / 2, RCM_INT64},
        {b->in + COUNT / 2, b->out + COUNT / 2, COUNT / 2, RCM_INT64}};
    return rcm_coalesced(b->comm, RCM_ALL_REDUCE, parts, PARTS, RCM_SUM, 0, call, &b->work);
}

static rcm_status issue_persistent(struct bench *b, const struct rcm_call *call) {
    struct rcm_call persistent = *call;
    persistent.flags |= RCM_PERSISTENT;
    const rcm_status status =
        rcm_all_reduce(b->comm, b->in, b->out, COUNT, RCM_INT64, RCM_SUM, &persistent, &b->work);
    return status == RCM_OK ? rcm_work_start(b->work) : status;
}

/* In a ring: each rank receives from its left neighbour. */
static rcm_status issue_sendrecv(struct bench *b, const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    return rcm_sendrecv(b->comm, b->in, COUNT, (rank + 1) % p, 1, b->out, COUNT, (rank + p - 1) % p,
                        1, RCM_INT64, call, &b->work);
}

static rcm_status issue_batch(struct bench *b, const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    const struct rcm_transfer transfers[] = {{.kind = RCM_TRANSFER_RECV,
                                              .peer = (rank + p - 1) % p,
                                              .buffer = b->out,
                                              .count = COUNT,
                                              .dtype = RCM_INT64,
                                              .tag = 2},
                                             {.kind = RCM_TRANSFER_SEND,
                                              .peer = (rank + 1) % p,
                                              .buffer = b->in,
                                              .count = COUNT,
                                              .dtype = RCM_INT64,
                                              .tag = 2}};
    return rcm_batch(b->comm, transfers, 2, call, &b->work);
}

static rcm_status issue_message(struct bench *b, const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    const rcm_status status =
        rcm_recv(b->comm, b->out, COUNT, RCM_INT64, (rank + p - 1) % p, 3, call, &b->work);
    return status == RCM_OK
               ? rcm_send(b->comm, b->in, COUNT, RCM_INT64, (rank + 1) % p, 3, call, &b->send)
               : status;
}

static const struct way {
    const char *name;
    rcm_status (*issue)(struct bench *b, const struct rcm_call *call);
    bool sums;
} ways[] = {
    {"collective", issue_collective, true}, {"parts", issue_parts, true},
    {"persistent", issue_persistent, true}, {"sendrecv", issue_sendrecv, false},
    {"batch", issue_batch, false},          {"message", issue_message, false},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* ---- Order ----------------------------------------------------------------------------------- */

static int check_result(const struct bench *b, const struct way *way, int64_t salt) {
    const int64_t *view = fake_view(b->out);
    const int p = rcm_size(b->comm), left = (rcm_rank(b->comm) + p - 1) % p;
    int errors = 0;
    for (int i = 0; i < COUNT && errors == 0; i++) {
        const int64_t want = way->sums ? sum_of(b, salt, i) : salt + i + left;
        CHECK(errors, view[i] == want, "%s: element %d is %lld, not %lld", way->name, i,
              (long long)view[i], (long long)want);
    }
    return errors;
}

static int check_untouched(const struct bench *b, const struct way *way) {
    const unsigned char *view = fake_view(b->out);
    int errors = 0;
    for (int i = 0; i < BYTES && errors == 0; i++)
        CHECK(errors, view[i] == 0x77, "%s: byte %d was written before the stream was done",
              way->name, i);
    return errors;
}

/* An operation enqueued before the call writes the buffer. A later one never completes. */
static int check_order(struct bench *b, const struct way *way, void *stream) {
    const struct rcm_call call = {.size = sizeof call, .stream = stream};
    int errors = 0;
    fill(b, 1000);
    fake_stream_enqueue(stream);
    CHECK(errors, way->issue(b, &call) == RCM_OK, "%s: %s", way->name, rcm_last_error());
    fake_stream_enqueue(stream);
    CHECK(errors, rcm_work_wait(b->work, 30) == RCM_PENDING,
          "%s: the work completed before its stream", way->name);
    errors += check_untouched(b, way);
    fill(b, 7); /* stands for the enqueued operation */
    fake_stream_done(stream);
    CHECK(errors, rcm_work_wait(b->work, -1) == RCM_OK, "%s: %s", way->name, rcm_last_error());
    errors += check_result(b, way, 7);
    CHECK(errors, !b->send || rcm_work_wait(b->send, -1) == RCM_OK, "%s: %s", way->name,
          rcm_last_error());
    fake_stream_done(stream);
    rcm_work_free(b->work);
    rcm_work_free(b->send);
    b->send = NULL;
    return errors;
}

/* A blocking call, and one with RCM_NO_STREAM. */
static int check_none(struct bench *b, void *stream) {
    const struct rcm_call none = {.size = sizeof none, .flags = RCM_NO_STREAM};
    const struct rcm_call call = {.size = sizeof call, .stream = stream};
    int errors = 0;
    fill(b, 3);
    fake_stream_enqueue(NULL);
    CHECK(errors,
          rcm_all_reduce(b->comm, b->in, b->out, COUNT, RCM_INT64, RCM_SUM, &none, NULL) == RCM_OK,
          "no stream: %s", rcm_last_error());
    errors += check_result(b, &ways[0], 3);
    fill(b, 4);
    CHECK(errors,
          rcm_all_reduce(b->comm, b->in, b->out, COUNT, RCM_INT64, RCM_SUM, &call, NULL) == RCM_OK,
          "a stream that is done: %s", rcm_last_error());
    errors += check_result(b, &ways[0], 4);
    fake_stream_done(NULL);
    return errors;
}

/* ---- Rejected calls -------------------------------------------------------------------------- */

static int refused(const char *what, rcm_status status, rcm_status want, const char *words) {
    int errors = 0;
    CHECK(errors, status == want && strstr(rcm_last_error(), words), "%s: %s (%s), not %s", what,
          rcm_status_name(status), rcm_last_error(), words);
    return errors;
}

static int check_captures(struct bench *b, void *stream) {
    const struct rcm_call call = {.size = sizeof call, .stream = stream};
    int errors = 0;
    fake_stream_capture(true);
    for (int i = 0; i < WAYS; i++) {
        b->work = NULL;
        errors += refused(ways[i].name, ways[i].issue(b, &call), RCM_ERR_INVALID, "being captured");
        rcm_work_free(b->work); /* a persistent call returns one */
    }
    fake_stream_capture(false);
    return errors;
}

/* The second part is host memory. Resources of the first part are released. */
static int check_part_refused(const struct bench *b, void *stream, uint32_t flags) {
    const struct rcm_call call = {.size = sizeof call, .stream = stream, .flags = flags};
    int64_t host[2] = {0};
    const struct rcm_part parts[PARTS] = {{b->in, b->out, 2, RCM_INT64},
                                          {host, host, 2, RCM_INT64}};
    rcm_work *work = NULL;
    rcm_status status =
        rcm_coalesced(b->comm, RCM_ALL_REDUCE, parts, PARTS, RCM_SUM, 0, &call, &work);
    if (work)
        status = rcm_work_start(work);
    const int errors = refused("host part", status, RCM_ERR_INVALID, "is host memory");
    rcm_work_free(work);
    return errors;
}

static int check_refused(struct bench *b, void *stream) {
    const struct rcm_call call = {.size = sizeof call, .stream = stream};
    const struct rcm_call both = {.size = sizeof both, .stream = stream, .flags = RCM_NO_STREAM};
    int64_t host[2] = {0};
    void *memory = NULL;
    int errors = 0;
    errors +=
        refused("host", rcm_all_reduce(b->comm, host, host, 2, RCM_INT64, RCM_SUM, &call, NULL),
                RCM_ERR_INVALID, "is host memory");
    errors += check_part_refused(b, stream, 0);
    errors += check_part_refused(b, stream, RCM_PERSISTENT);
    errors += refused("host message", rcm_send(b->comm, host, 2, RCM_INT64, 0, 9, &call, NULL),
                      RCM_ERR_INVALID, "is host memory");
    errors +=
        refused("both", rcm_all_reduce(b->comm, b->in, b->out, 2, RCM_INT64, RCM_SUM, &both, NULL),
                RCM_ERR_INVALID, "has RCM_NO_STREAM");
    errors += refused("kind", rcm_mem_alloc_kind(b->comm, (enum rcm_mem_kind)7, 8, &memory),
                      RCM_ERR_INVALID, "kind is 7");
    errors += refused("bytes", rcm_mem_alloc_kind(b->comm, RCM_MEM_DEVICE, 0, &memory),
                      RCM_ERR_INVALID, "bytes is 0");
    return errors;
}

static int check_memory(const struct bench *b) {
    void *memory = NULL;
    rcm_work *work = NULL;
    int errors = 0;
    CHECK(errors, rcm_mem_alloc_kind(b->comm, RCM_MEM_DEVICE, BYTES, &memory) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, fake_has(memory), "%p is not of the device", memory);
    const int peer = (rcm_rank(b->comm) + 1) % rcm_size(b->comm);
    CHECK(errors, rcm_irecv(b->comm, memory, 8, RCM_UINT8, peer, 5, &work) == RCM_OK, "%s",
          rcm_last_error());
    errors += refused("in use", rcm_mem_free(b->comm, memory), RCM_ERR_INVALID, "in use");
    CHECK(errors, rcm_work_cancel(work) == RCM_OK, "%s", rcm_last_error());
    rcm_work_free(work);
    CHECK(errors, rcm_mem_free(b->comm, memory) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_mem_alloc_kind(b->comm, RCM_MEM_DEVICE, 1, &memory) == RCM_OK, "%s",
          rcm_last_error()); /* destroying the last communicator frees it */
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    struct bench b = {.comm = comm, .in = fake_alloc(BYTES), .out = fake_alloc(BYTES)};
    void *stream = fake_stream_new();
    int errors = 0;
    (void)arg;
    for (int i = 0; i < WAYS; i++) {
        errors += check_order(&b, &ways[i], stream);
        errors += check_order(&b, &ways[i], NULL);
    }
    errors += check_none(&b, stream);
    errors += check_captures(&b, stream);
    errors += check_refused(&b, stream);
    errors += check_memory(&b);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    fake_free(b.in);
    fake_free(b.out);
    return errors;
}

/* Rank 1's stream is unfinished at the deadline. The operation never touches memory, even when the
 * stream is done. */
static int check_late(rcm_comm *comm, void *arg) {
    struct bench b = {.comm = comm, .in = fake_alloc(BYTES), .out = fake_alloc(BYTES)};
    const struct rcm_call call = {.size = sizeof call, .stream = fake_stream_new()};
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    (void)arg;
    fill(&b, 0);
    if (rcm_rank(comm) == 1)
        fake_stream_enqueue(call.stream);
    rcm_status status = rcm_broadcast(comm, b.out, COUNT, RCM_INT64, 0, &call, NULL);
    if (status == RCM_OK) /* its send is complete */
        status = rcm_barrier(comm, NULL, NULL);
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors,
          status == RCM_ERR_TIMEOUT && error.origin == 1 &&
              strstr(error.text, "waits for its device"),
          "%s, origin %d: %s", rcm_status_name(status), error.origin, error.text);
    if (rcm_rank(comm) == 1) {
        fake_stream_done(call.stream);
        usleep(50000);
        errors += check_untouched(&b, &ways[0]);
    }
    (void)!rcm_destroy(comm);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1]};
    fake_add(11);
    int errors = ranks_run(&ranks, check, NULL);
    setenv("RINGCOMM_LOG", "error", 0);
    ranks.timeout_ms = 400;
    ranks.keep = true;
    errors += ranks_run(&ranks, check_late, NULL);
    ranks.keep = false;
    setenv("RINGCOMM_DEVICE", "7", 1); /* a named device is opened by rcm_init */
    ranks.refused = "there is no device 7";
    errors += ranks_run(&ranks, check, NULL);
    return errors ? 1 : 0;
}
