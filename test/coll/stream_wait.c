/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that waits for a stream does not delay other messages. Rank `holder` sends or receives
 * such a message, and its stream is released only after the two ranks have exchanged all others.
 * Linked with a memory kind that has streams.
 *
 *     stream_wait TRANSPORT threads|processes
 */
#include "stream_gate.h"
#include "buffer_memory.h"
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 20 };
enum { TAG_HELD = 1, TAG_FREE, TAG_BEFORE, TAG_THERE, TAG_BACK };

struct stall {
    const char *name;
    rcm_comm *comm;
    int peer;
    size_t bytes;     /* of the waiting message */
    bool peer_host;   /* the other end is in host memory */
    bool synchronous; /* messages are matched before their data is sent */
};

/* ---- Messages -------------------------------------------------------------------------------- */

struct message {
    int tag;
    bool host;
    size_t bytes;
    uint8_t *at;
    rcm_work *work;
};

static uint8_t byte_of(size_t i, int tag) {
    return (uint8_t)(i * 31 + (size_t)tag * 7 + 1);
}

static uint8_t *view_of(const struct message *m) {
    return m->host ? m->at : mem_view(m->at);
}

static struct message message_new(int tag, bool host, size_t bytes) {
    struct message m = {.tag = tag, .host = host, .bytes = bytes};
    m.at = host ? malloc(bytes) : mem_new(bytes);
    if (!m.at)
        abort();
    memset(view_of(&m), 0, bytes);
    return m;
}

static void message_fill(const struct message *m) {
    for (size_t i = 0; i < m->bytes; i++)
        view_of(m)[i] = byte_of(i, m->tag);
}

/* stream NULL: waits for nothing */
static int message_begin(const struct stall *s, struct message *m, bool sends, void *stream) {
    const struct rcm_call call = {
        .size = sizeof call, .stream = stream, .flags = stream ? 0 : RCM_NO_STREAM};
    int errors = 0;
    rcm_status status;
    if (sends)
        status = (s->synchronous ? rcm_ssend : rcm_send)(
            s->comm, m->at, m->bytes, RCM_UINT8, s->peer, (uint64_t)m->tag, &call, &m->work);
    else
        status = rcm_recv(s->comm, m->at, m->bytes, RCM_UINT8, s->peer, (uint64_t)m->tag, &call,
                          &m->work);
    CHECK(errors, status == RCM_OK, "%s: message %d: %s", s->name, m->tag, rcm_last_error());
    return errors;
}

static int message_send(const struct stall *s, struct message *m) {
    message_fill(m);
    return message_begin(s, m, true, NULL);
}

static int message_receive(const struct stall *s, struct message *m) {
    return message_begin(s, m, false, NULL);
}

static int message_await(const struct stall *s, struct message *m) {
    int errors = 0;
    CHECK(errors, rcm_work_wait(m->work, -1) == RCM_OK, "%s: message %d of %zu bytes: %s", s->name,
          m->tag, m->bytes, rcm_last_error());
    for (size_t i = 0; i < m->bytes && errors == 0; i++)
        CHECK(errors, view_of(m)[i] == byte_of(i, m->tag), "%s: message %d: byte %zu is %d",
              s->name, m->tag, i, view_of(m)[i]);
    return errors;
}

static int message_pending(const struct stall *s, const struct message *m) {
    int errors = 0;
    CHECK(errors, rcm_work_wait(m->work, 0) == RCM_PENDING,
          "%s: the message completed before its stream", s->name);
    return errors;
}

static void message_end(struct message *m) {
    rcm_work_free(m->work);
    if (m->host)
        free(m->at);
    else
        mem_free(m->at);
}

/* ---- Waiting messages ------------------------------------------------------------------------ */

/* A send waits. Arriving messages, their replies and earlier sends do not wait, nor do later sends
 * if the waiting one is announced already. */
static int send_holds(const struct stall *s) {
    struct gate *gate = gate_new();
    struct message before = message_new(TAG_BEFORE, true, LARGE);
    struct message held = message_new(TAG_HELD, false, s->bytes);
    struct message back = message_new(TAG_BACK, true, LARGE);
    struct message free_one = message_new(TAG_FREE, false, s->bytes);
    struct message behind = message_new(TAG_THERE, false, s->bytes);
    int errors = message_send(s, &before) + message_begin(s, &held, true, gate->stream);
    errors += message_receive(s, &back) + message_receive(s, &free_one) + message_send(s, &behind);
    errors += message_await(s, &back) + message_await(s, &free_one);
    errors += message_await(s, &before) + message_pending(s, &held);
    if (s->synchronous)
        errors += message_await(s, &behind);
    message_fill(&held); /* stands for an operation on the stream */
    gate_open(gate);
    errors += message_await(s, &held);
    errors += s->synchronous ? 0 : message_await(s, &behind);
    gate_free(gate);
    message_end(&before);
    message_end(&held);
    message_end(&back);
    message_end(&free_one);
    message_end(&behind);
    return errors;
}

static int send_meets(const struct stall *s) {
    struct message before = message_new(TAG_BEFORE, true, LARGE);
    struct message held = message_new(TAG_HELD, s->peer_host, s->bytes);
    struct message back = message_new(TAG_BACK, true, LARGE);
    struct message free_one = message_new(TAG_FREE, s->peer_host, s->bytes);
    struct message behind = message_new(TAG_THERE, s->peer_host, s->bytes);
    int errors = message_receive(s, &held) + message_receive(s, &before);
    errors += message_receive(s, &behind) + message_send(s, &back) + message_send(s, &free_one);
    errors += message_await(s, &back) + message_await(s, &free_one);
    errors += message_await(s, &before) + message_await(s, &behind) + message_await(s, &held);
    message_end(&before);
    message_end(&held);
    message_end(&back);
    message_end(&free_one);
    message_end(&behind);
    return errors;
}

/* A receive waits, and a second one waits for another stream, which is released earlier. Later
 * arrivals and sends do not wait. */
static int receive_holds(const struct stall *s) {
    struct gate *gate = gate_new(), *early = gate_new();
    struct message held = message_new(TAG_HELD, false, s->bytes);
    struct message free_one = message_new(TAG_FREE, false, s->bytes);
    struct message there = message_new(TAG_THERE, true, LARGE);
    struct message back = message_new(TAG_BACK, true, LARGE);
    int errors = message_begin(s, &held, false, gate->stream) +
                 message_begin(s, &free_one, false, early->stream);
    errors += message_receive(s, &there) + message_send(s, &back);
    errors += message_await(s, &there) + message_await(s, &back);
    errors += message_pending(s, &held) + message_pending(s, &free_one);
    gate_open(early);
    errors += message_await(s, &free_one) + message_pending(s, &held);
    for (size_t i = 0; i < s->bytes && errors == 0; i++)
        CHECK(errors, view_of(&held)[i] == 0, "%s: byte %zu was written before the stream was done",
              s->name, i);
    gate_open(gate);
    errors += message_await(s, &held);
    gate_free(gate);
    gate_free(early);
    message_end(&held);
    message_end(&free_one);
    message_end(&there);
    message_end(&back);
    return errors;
}

static int receive_meets(const struct stall *s) {
    struct message held = message_new(TAG_HELD, s->peer_host, s->bytes);
    struct message free_one = message_new(TAG_FREE, s->peer_host, s->bytes);
    struct message there = message_new(TAG_THERE, true, LARGE);
    struct message back = message_new(TAG_BACK, true, LARGE);
    int errors = message_send(s, &held) + message_send(s, &free_one) + message_send(s, &there);
    errors += message_receive(s, &back);
    errors += message_await(s, &back) + message_await(s, &there);
    errors += message_await(s, &free_one) + message_await(s, &held);
    message_end(&held);
    message_end(&free_one);
    message_end(&there);
    message_end(&back);
    return errors;
}

/* ---- All cases ------------------------------------------------------------------------------- */

static int check_one(const struct stall *stall, bool holds) {
    struct stall s = *stall;
    char name[64];
    s.name = name;
    snprintf(name, sizeof name, "%zu bytes to %s memory, sent%s", s.bytes,
             s.peer_host ? "host" : "device", s.synchronous ? " synchronously" : "");
    int errors = holds ? send_holds(&s) : send_meets(&s);
    snprintf(name, sizeof name, "%zu bytes from %s memory, received", s.bytes,
             s.peer_host ? "host" : "device");
    errors += holds ? receive_holds(&s) : receive_meets(&s);
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    static const size_t sizes[] = {100, 8192, 40000, 300001};
    const int rank = rcm_rank(comm);
    int errors = 0;
    (void)arg;
    for (int i = 0; i < 32 && errors == 0; i++) {
        const struct stall s = {.comm = comm,
                                .peer = 1 - rank,
                                .bytes = sizes[i / 4 % 4],
                                .peer_host = i & 1,
                                .synchronous = i >= 16};
        errors += check_one(&s, rank == (i >> 1 & 1));
        CHECK(errors, errors > 0 || rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    }
    return errors;
}

int main(int argc, char **argv) {
    struct ranks ranks = {.n = 2, .timeout_ms = 60000};
    if (argc < 3)
        return 2;
    ranks.transport = argv[1];
    ranks.threads = strcmp(argv[2], "threads") == 0;
    mem_init();
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
