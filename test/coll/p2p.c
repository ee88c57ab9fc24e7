/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point-to-point messages: order per tag, tags received out of order, sizes around every limit,
 * truncation, any tag, messages to the own rank, many at the same time, both directions at the same
 * time:
 *
 *     p2p shm|tcp threads|processes N
 */
#include "buffer_memory.h"
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t byte_of(size_t i, int from, uint64_t tag) {
    return (uint8_t)(i * 31 + (size_t)from * 7 + tag);
}

static uint8_t *message_new(size_t len, int from, uint64_t tag) {
    uint8_t *bytes = mem_new(len + 1), *view = mem_view(bytes);
    for (size_t i = 0; i < len; i++)
        view[i] = byte_of(i, from, tag);
    return bytes;
}

static uint8_t *buffer_new(size_t len, int value) {
    uint8_t *bytes = mem_new(len + 1);
    memset(mem_view(bytes), value, len + 1);
    return bytes;
}

static size_t message_wrong(const uint8_t *bytes, size_t len, int from, uint64_t tag) {
    const uint8_t *view = mem_view(bytes);
    size_t wrong = mem_in_use(bytes, len) > 0;
    for (size_t i = 0; i < len; i++)
        wrong += view[i] != byte_of(i, from, tag);
    return wrong;
}

/* A ring with all sizes: each rank sends to the next one and receives from the previous one. */
static int check_sizes(rcm_comm *comm) {
    static const size_t sizes[] = {0,     1,     8,      23,     24,     25,     40,
                                   4080,  4096,  4097,   8192,   8193,   9000,   16383,
                                   16384, 65536, 131071, 131072, 300001, 2000003};
    const int next = (rcm_rank(comm) + 1) % rcm_size(comm);
    const int prev = (rcm_rank(comm) + rcm_size(comm) - 1) % rcm_size(comm);
    int errors = 0;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint8_t *out = message_new(sizes[s], rcm_rank(comm), s), *in = buffer_new(sizes[s], 0);
        rcm_work *send = NULL, *recv = NULL;
        struct rcm_message message = RCM_MESSAGE_INIT;
        CHECK(errors,
              rcm_irecv(comm, in, sizes[s], RCM_UINT8, prev, s, &recv) == RCM_OK &&
                  rcm_isend(comm, out, sizes[s], RCM_UINT8, next, s, &send) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors, rcm_work_wait(recv, -1) == RCM_OK, "recv of %zu", sizes[s]);
        CHECK(errors, rcm_work_wait(send, -1) == RCM_OK, "send of %zu", sizes[s]);
        CHECK(errors, message_wrong(in, sizes[s], prev, s) == 0, "%zu bytes: wrong data", sizes[s]);
        CHECK(errors,
              rcm_work_message(recv, &message) == RCM_OK && message.bytes == sizes[s] &&
                  message.source == prev && message.tag == s,
              "message of %zu: source %d tag %llu bytes %zu", sizes[s], message.source,
              (unsigned long long)message.tag, message.bytes);
        rcm_work_free(send);
        rcm_work_free(recv);
        mem_free(out);
        mem_free(in);
    }
    return errors;
}

/* Many eager and rendezvous messages, two at a time, so that some are in flight meanwhile. Rank 0
 * sends, and rank 1 replies in the middle. */
static int check_mixed(rcm_comm *comm) {
    enum { ROUNDS = 300 };
    static const size_t sizes[] = {16384, 16385, 32768, 32769, 131072};
    const bool sends = rcm_rank(comm) == 0;
    int errors = 0;
    for (int k = 0; k < ROUNDS && rcm_rank(comm) < 2; k++) {
        uint8_t *bytes[2];
        rcm_work *works[2];
        for (uint64_t i = 0; i < 2; i++) {
            const size_t len = sizes[(size_t)k / 3 % 5] - i;
            bytes[i] = sends ? message_new(len, k, i) : buffer_new(len, 0);
            CHECK(errors,
                  (sends ? rcm_isend(comm, bytes[i], len, RCM_UINT8, 1, i, &works[i])
                         : rcm_irecv(comm, bytes[i], len, RCM_UINT8, 0, i, &works[i])) == RCM_OK,
                  "%s", rcm_last_error());
        }
        for (uint64_t i = 0; i < 2; i++) {
            const size_t len = sizes[(size_t)k / 3 % 5] - i;
            CHECK(errors, rcm_work_wait(works[i], -1) == RCM_OK, "message %d of %zu", k, len);
            CHECK(errors, sends || message_wrong(bytes[i], len, k, i) == 0, "%d: wrong data", k);
            rcm_work_free(works[i]);
            mem_free(bytes[i]);
        }
        if (k % 7 == 0)
            CHECK(errors,
                  (sends ? rcm_recv(comm, NULL, 0, RCM_UINT8, 1, 9, NULL, NULL)
                         : rcm_send(comm, NULL, 0, RCM_UINT8, 0, 9, NULL, NULL)) == RCM_OK,
                  "%s", rcm_last_error());
    }
    return errors;
}

/* Rank 0 sends many messages, small and large, with several tags. Rank 1 receives the tags in
 * reverse order. */
static int check_tags(rcm_comm *comm) {
    enum { TAGS = 5, EACH = 12 };
    int errors = 0;
    if (rcm_rank(comm) == 0) {
        rcm_work *works[TAGS * EACH];
        uint8_t *data[TAGS * EACH];
        for (int k = 0; k < TAGS * EACH; k++) {
            const size_t len = k % 3 == 0 ? 100000 : (size_t)k * 50;
            data[k] = message_new(len, k, (uint64_t)k);
            CHECK(errors,
                  rcm_isend(comm, data[k], len, RCM_UINT8, 1, (uint64_t)(k % TAGS), &works[k]) ==
                      RCM_OK,
                  "%s", rcm_last_error());
        }
        for (int k = 0; k < TAGS * EACH; k++) {
            CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "send %d", k);
            rcm_work_free(works[k]);
            mem_free(data[k]);
        }
    } else if (rcm_rank(comm) == 1) {
        uint8_t *in = buffer_new(100000, 0);
        for (int tag = TAGS - 1; tag >= 0; tag--) {
            for (int i = 0; i < EACH; i++) {
                const int k = tag + i * TAGS;
                const size_t len = k % 3 == 0 ? 100000 : (size_t)k * 50;
                CHECK(errors,
                      rcm_recv(comm, in, 100000, RCM_UINT8, 0, (uint64_t)tag, NULL, NULL) == RCM_OK,
                      "%s", rcm_last_error());
                CHECK(errors, message_wrong(in, len, k, (uint64_t)k) == 0, "tag %d message %d", tag,
                      i);
            }
        }
        mem_free(in);
    }
    return errors;
}

static int check_truncated(rcm_comm *comm) {
    static const size_t sizes[] = {100, 50000};
    int errors = 0;
    for (size_t s = 0; s < 2; s++) {
        uint8_t *data = message_new(sizes[s], 0, s);
        if (rcm_rank(comm) == 0) {
            CHECK(errors, rcm_send(comm, data, sizes[s], RCM_UINT8, 1, s, NULL, NULL) == RCM_OK,
                  "%s", rcm_last_error());
        } else if (rcm_rank(comm) == 1) {
            memset(mem_view(data), 0, sizes[s]);
            rcm_status status =
                rcm_recv(comm, data, sizes[s] - 7, RCM_UINT8, 0, RCM_ANY_TAG, NULL, NULL);
            CHECK(errors, status == RCM_ERR_TRUNCATED, "truncated: %s", rcm_status_name(status));
            CHECK(errors, message_wrong(data, sizes[s] - 7, 0, s) == 0, "truncated data wrong");
            CHECK(errors, ((uint8_t *)mem_view(data))[sizes[s] - 7] == 0,
                  "wrote behind the buffer");
        }
        mem_free(data);
    }
    return errors;
}

/* A message shorter than the buffer leaves the rest of the buffer unchanged, whatever came
 * before. */
static int check_shorter(rcm_comm *comm) {
    static const size_t sizes[] = {100000, 100000, 50000, 9000, 70000, 3,      20000, 0,
                                   16384,  65536,  10,    8192, 99999, 200000, 12345, 1};
    enum { CAPACITY = 200000, ROUNDS = 3, SIZES = sizeof sizes / sizeof sizes[0] };
    uint8_t *in = buffer_new(CAPACITY, 0), *view = mem_view(in);
    int errors = 0;
    for (size_t k = 0; k < ROUNDS * SIZES; k++) {
        const size_t len = sizes[k % SIZES];
        const uint64_t tag = k % 7 == 6 ? UINT64_C(1) << 40 : k;
        uint8_t *data = message_new(len, 1, k);
        rcm_work *work = NULL;
        memset(view, 0x5a, CAPACITY);
        if (rcm_rank(comm) == 1)
            CHECK(errors,
                  rcm_irecv(comm, in, CAPACITY, RCM_UINT8, 0, k % 4 ? tag : RCM_ANY_TAG, &work) ==
                      RCM_OK,
                  "%s", rcm_last_error());
        if (k % 5 != 0) /* else the message may arrive before its receive */
            CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
        if (rcm_rank(comm) == 0) {
            CHECK(errors, rcm_send(comm, data, len, RCM_UINT8, 1, tag, NULL, NULL) == RCM_OK, "%s",
                  rcm_last_error());
        } else if (rcm_rank(comm) == 1) {
            CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
            rcm_work_free(work);
            CHECK(errors, message_wrong(in, len, 1, k) == 0, "message %zu of %zu bytes", k, len);
            size_t touched = 0;
            for (size_t i = len; i < CAPACITY; i++)
                touched += view[i] != 0x5a;
            CHECK(errors, touched == 0, "message %zu: %zu bytes beyond its %zu", k, touched, len);
        }
        mem_free(data);
    }
    mem_free(in);
    return errors;
}

static int check_self(rcm_comm *comm) {
    const size_t len = 70000;
    uint8_t *out = message_new(len, 3, 4), *in = buffer_new(len, 0);
    rcm_work *recv;
    int errors = 0;
    const int me = rcm_rank(comm);
    CHECK(errors, rcm_irecv(comm, in, len, RCM_UINT8, me, 9, &recv) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_send(comm, out, len, RCM_UINT8, me, 9, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_work_wait(recv, -1) == RCM_OK, "self: %s", rcm_last_error());
    CHECK(errors, message_wrong(in, len, 3, 4) == 0, "self: wrong data");
    rcm_work_free(recv);
    mem_free(out);
    mem_free(in);
    return errors;
}

/* All ranks send to all at the same time, 64 small messages each: more than the eager budget of a
 * slot. */
static int check_flood(rcm_comm *comm) {
    enum { EACH = 64, LEN = 5000 };
    const int n = rcm_size(comm);
    const size_t total = (size_t)n * EACH;
    rcm_work **works = calloc(2 * total, sizeof(*works));
    uint8_t *in = buffer_new(total * LEN, 0), *out = message_new(LEN, rcm_rank(comm), 1);
    int errors = 0;
    for (size_t k = 0; k < total; k++) /* all sends come first: none may need a posted receive */
        CHECK(errors,
              rcm_isend(comm, out, LEN, RCM_UINT8, (int)(k % (size_t)n), 77, &works[k]) == RCM_OK,
              "%s", rcm_last_error());
    for (size_t k = 0; k < total; k++)
        CHECK(errors,
              rcm_irecv(comm, in + k * LEN, LEN, RCM_UINT8, (int)(k % (size_t)n), 77,
                        &works[total + k]) == RCM_OK,
              "%s", rcm_last_error());
    for (size_t k = 0; k < 2 * total; k++) {
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "flood %zu: %s", k, rcm_last_error());
        rcm_work_free(works[k]);
    }
    for (size_t k = 0; k < total; k++)
        CHECK(errors, message_wrong(in + k * LEN, LEN, (int)(k % (size_t)n), 1) == 0, "flood %zu",
              k);
    free(works);
    mem_free(in);
    mem_free(out);
    return errors;
}

/* So many messages of 0 bytes that the later ones go by rendezvous. */
static int check_nothing(rcm_comm *comm) {
    enum { EACH = 5000 };
    rcm_work **works = calloc(EACH, sizeof(*works));
    struct rcm_message message = RCM_MESSAGE_INIT;
    rcm_work *last = NULL;
    uint8_t token = 7;
    int errors = 0;
    for (int k = 0; k < EACH && rcm_rank(comm) == 0; k++)
        CHECK(errors, rcm_isend(comm, NULL, 0, RCM_UINT8, 1, (uint64_t)k % 3, &works[k]) == RCM_OK,
              "%s", rcm_last_error());
    if (rcm_rank(comm) == 0)
        CHECK(errors, rcm_isend(comm, &token, 1, RCM_UINT8, 1, 99, &last) == RCM_OK, "%s",
              rcm_last_error());
    if (rcm_rank(comm) == 1) /* nothing is received before all were sent */
        CHECK(errors, rcm_recv(comm, &token, 1, RCM_UINT8, 0, 99, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    for (int k = 0; k < EACH && rcm_rank(comm) == 1 && errors == 0; k++) {
        rcm_work *recv = NULL;
        CHECK(errors, rcm_irecv(comm, NULL, 0, RCM_UINT8, 0, (uint64_t)k % 3, &recv) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors, rcm_work_wait(recv, 20000) == RCM_OK, "nothing %d: %s", k, rcm_last_error());
        CHECK(errors, rcm_work_message(recv, &message) == RCM_OK && message.bytes == 0,
              "nothing %d: %zu bytes", k, message.bytes);
        rcm_work_free(recv);
    }
    for (int k = 0; k < EACH && rcm_rank(comm) == 0; k++) {
        CHECK(errors, rcm_work_wait(works[k], 20000) == RCM_OK, "nothing %d: %s", k,
              rcm_last_error());
        rcm_work_free(works[k]);
    }
    if (last)
        CHECK(errors, rcm_work_wait(last, 20000) == RCM_OK, "token: %s", rcm_last_error());
    rcm_work_free(last);
    free(works);
    return errors;
}

static int check_arguments(rcm_comm *comm) {
    int errors = 0;
    float x = 0;
    rcm_work *work;
    CHECK(errors,
          rcm_send(comm, &x, 1, RCM_FLOAT32, rcm_size(comm), 0, NULL, NULL) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "dst"),
          "dst: %s", rcm_last_error());
    CHECK(errors,
          rcm_recv(comm, NULL, 1, RCM_FLOAT32, 0, 0, NULL, NULL) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "buffer"),
          "buffer: %s", rcm_last_error());
    CHECK(errors, rcm_send(comm, &x, 1, RCM_FLOAT32, 0, RCM_ANY_TAG, NULL, NULL) == RCM_ERR_INVALID,
          "any tag in a send");
    CHECK(errors, rcm_isend(comm, &x, 1, RCM_FLOAT32, 0, 0, NULL) == RCM_ERR_INVALID,
          "no ret_work");
    CHECK(errors,
          rcm_all_reduce(comm, &x, &x, 1, (rcm_dtype)99, RCM_SUM, NULL, &work) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "99"),
          "dtype: %s", rcm_last_error());
    CHECK(errors,
          rcm_all_reduce(comm, &x, &x, SIZE_MAX, RCM_FLOAT32, RCM_SUM, NULL, NULL) ==
              RCM_ERR_INVALID,
          "count");
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    (void)arg;
    int errors = check_arguments(comm);
    errors += check_sizes(comm);
    if (rcm_size(comm) > 1)
        errors += check_tags(comm) + check_truncated(comm) + check_nothing(comm) +
                  check_shorter(comm) + check_mixed(comm);
    errors += check_self(comm);
    errors += check_flood(comm);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: p2p shm|tcp threads|processes N\n");
        return 2;
    }
    mem_init();
    struct ranks ranks = {
        .n = atoi(argv[3]), .threads = strcmp(argv[2], "threads") == 0, .transport = argv[1]};
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
