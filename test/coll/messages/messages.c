/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages beyond plain send and receive: any source, probes, synchronous sends, sendrecv, cancels,
 * batches, more messages than are buffered, threads; and random mixtures against a model:
 *
 *     messages shm|tcp threads|processes N [SEED [-v]]
 */
#include "messages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../../sanitized.h"

enum { LARGE = 300000 };

static bool processes; /* with processes a second communicator can come from the environment */
static bool shm;

static char *filled(size_t len, char with) {
    char *bytes = malloc(len + 1);
    if (!bytes)
        abort();
    memset(bytes, with, len + 1);
    return bytes;
}

static int sync_ranks(rcm_comm *comm) {
    int errors = 0;
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- Any source ------------------------------------------------------------------------------ */

/* All ranks send to all, also to themselves. Receives are posted before or after. */
static int check_any_source(rcm_comm *comm) {
    enum { EACH = 20 };
    const int n = rcm_size(comm), me = rcm_rank(comm), total = n * EACH;
    int *in = calloc((size_t)total, sizeof *in), *next = calloc((size_t)n, sizeof *next);
    int *out = calloc(EACH, sizeof *out), errors = 0;
    rcm_work **works = calloc(2 * (size_t)total, sizeof *works);
    for (int k = 0; k < EACH; k++)
        out[k] = me * 1000 + k;
    for (int k = 0; k < total; k++)
        CHECK(errors,
              rcm_irecv(comm, &in[k], 1, RCM_INT32, RCM_ANY_SOURCE, k % 2 ? 5 : RCM_ANY_TAG,
                        &works[k]) == RCM_OK,
              "%s", rcm_last_error());
    for (int k = 0; k < total; k++)
        CHECK(errors,
              rcm_isend(comm, &out[k / n], 1, RCM_INT32, k % n, 5, &works[total + k]) == RCM_OK,
              "%s", rcm_last_error());
    for (int k = 0; k < 2 * total; k++) {
        struct rcm_message message = RCM_MESSAGE_INIT;
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%d: %s", k, rcm_last_error());
        if (k < total) {
            CHECK(errors, rcm_work_message(works[k], &message) == RCM_OK, "%s", rcm_last_error());
            CHECK(errors,
                  message.tag == 5 && message.bytes == sizeof(int) &&
                      in[k] == message.source * 1000 + next[message.source],
                  "receive %d: %d from %d", k, in[k], message.source);
            next[message.source]++;
        }
        rcm_work_free(works[k]);
    }
    free(works);
    free(out);
    free(next);
    free(in);
    return errors;
}

/* Blocking receives report what arrived. A sender of many messages does not starve the others. */
static int check_fair(rcm_comm *comm) {
    enum { EACH = 2000 };
    const int n = rcm_size(comm);
    int errors = 0, one = 1, behind = 0, from[16] = {0};
    errors += sync_ranks(comm);
    for (int k = 0; k < EACH && rcm_rank(comm) > 0; k++)
        CHECK(errors, rcm_send(comm, &one, 1, RCM_INT32, 0, 6, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    for (int k = 0; k < EACH * (n - 1) && rcm_rank(comm) == 0; k++) {
        struct rcm_message message = RCM_MESSAGE_INIT;
        struct rcm_call call = RCM_CALL_INIT;
        call.message = &message;
        CHECK(errors, rcm_recv(comm, &one, 1, RCM_INT32, RCM_ANY_SOURCE, 6, &call, NULL) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors, message.source > 0 && message.source < n && message.tag == 6, "from %d",
              message.source);
        from[message.source < 0 ? 0 : message.source]++;
    }
    for (int r = 1; r < n && rcm_rank(comm) == 0; r++)
        behind += from[r] != EACH;
    CHECK(errors, behind == 0, "unequal numbers of messages per source");
    return errors;
}

/* ---- Probes ---------------------------------------------------------------------------------- */

static int check_iprobe(rcm_comm *comm, const struct rcm_message *expected, int src, uint64_t tag) {
    struct rcm_message message = RCM_MESSAGE_INIT;
    rcm_status status;
    int errors = 0;
    while ((status = rcm_iprobe(comm, src, tag, &message)) == RCM_PENDING)
        continue;
    CHECK(errors,
          status == RCM_OK && message.source == expected->source && message.tag == expected->tag &&
              message.bytes == expected->bytes && message.dtype == expected->dtype,
          "probe: %s, %zu bytes from %d tag %llu", rcm_status_name(status), message.bytes,
          message.source, (unsigned long long)message.tag);
    return errors;
}

/* Messages of unknown length, small or large, from rank 1 to rank 0. */
static int check_probe(rcm_comm *comm) {
    static const size_t sizes[] = {0, 3, 40000, LARGE};
    int errors = 0;
    for (size_t s = 0; s < 4; s++) {
        char *out = filled(sizes[s], (char)('a' + s)), *in = filled(LARGE, 'z');
        struct rcm_message message = RCM_MESSAGE_INIT;
        const struct rcm_message expected = {sizeof expected, 1, s, sizes[s], RCM_UINT8};
        struct rcm_call call = RCM_CALL_INIT;
        call.message = &message;
        if (rcm_rank(comm) == 1)
            CHECK(errors, rcm_send(comm, out, sizes[s], RCM_UINT8, 0, s, NULL, NULL) == RCM_OK,
                  "%s", rcm_last_error());
        if (rcm_rank(comm) == 0) {
            CHECK(errors, rcm_iprobe(comm, 0, 77, NULL) == RCM_PENDING, "nothing was sent");
            CHECK(errors, rcm_probe(comm, RCM_ANY_SOURCE, RCM_ANY_TAG, NULL, &message) == RCM_OK,
                  "%s", rcm_last_error());
            CHECK(errors, message.bytes == sizes[s], "%zu bytes", message.bytes);
            errors += check_iprobe(comm, &expected, 1, s);
            errors += check_iprobe(comm, &expected, RCM_ANY_SOURCE, s);
            errors += check_iprobe(comm, &expected, 1, RCM_ANY_TAG);
            CHECK(errors,
                  rcm_recv(comm, in, message.bytes, RCM_UINT8, message.source, message.tag, &call,
                           NULL) == RCM_OK,
                  "%s", rcm_last_error());
            CHECK(errors, memcmp(in, out, sizes[s]) == 0 && message.bytes == sizes[s], "data");
            CHECK(errors, rcm_iprobe(comm, 1, s, NULL) == RCM_PENDING, "the message was received");
        }
        free(out);
        free(in);
    }
    return errors;
}

/* A matched message is invisible to other receives. The next message overtakes it. */
static int check_matched(rcm_comm *comm) {
    enum { TAG = 8 };
    static const size_t sizes[] = {10, LARGE, 20, LARGE + 1};
    rcm_matched *matched[4] = {0};
    struct rcm_message message = RCM_MESSAGE_INIT;
    int errors = 0;
    char *bytes = filled(LARGE + 1, 'm');
    rcm_work *works[4];
    for (int k = 0; k < 4 && rcm_rank(comm) == 1; k++)
        CHECK(errors, rcm_isend(comm, bytes, sizes[k], RCM_UINT8, 0, TAG, &works[k]) == RCM_OK,
              "%s", rcm_last_error());
    for (int k = 0; k < 4 && rcm_rank(comm) == 0; k++) {
        rcm_status status = RCM_PENDING;
        while (k % 2 && (status = rcm_improbe(comm, 1, TAG, &message, &matched[k])) == RCM_PENDING)
            continue;
        if (k % 2 == 0)
            status = rcm_mprobe(comm, RCM_ANY_SOURCE, TAG, NULL, &message, &matched[k]);
        CHECK(errors, status == RCM_OK && message.bytes == sizes[k], "take %d: %zu bytes", k,
              message.bytes);
    }
    for (int k = 3; k >= 0 && rcm_rank(comm) == 0; k--) {
        memset(bytes, 0, LARGE + 1);
        CHECK(errors, rcm_mrecv(comm, matched[k], bytes, sizes[k], RCM_UINT8, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors, bytes[0] == 'm' && bytes[sizes[k] - 1] == 'm', "data %d", k);
    }
    if (rcm_rank(comm) == 0)
        CHECK(errors,
              rcm_mrecv(comm, matched[0], bytes, 1, RCM_UINT8, NULL, NULL) == RCM_ERR_INVALID &&
                  strstr(rcm_last_error(), "matched"),
              "twice: %s", rcm_last_error());
    for (int k = 0; k < 4 && rcm_rank(comm) == 1; k++) {
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(works[k]);
    }
    free(bytes);
    return errors;
}

/* A matched message that is never received is freed with the communicator. */
static int check_matched_left(rcm_comm *comm) {
    rcm_matched *matched = NULL;
    int errors = 0;
    if (rcm_rank(comm) == 1)
        CHECK(errors, rcm_send(comm, "left", 4, RCM_UINT8, 0, 9, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    if (rcm_rank(comm) == 0)
        CHECK(errors, rcm_mprobe(comm, 1, 9, NULL, NULL, &matched) == RCM_OK && matched, "%s",
              rcm_last_error());
    return errors;
}

/* ---- Synchronous sends ----------------------------------------------------------------------- */

/* A small synchronous send is incomplete before its receive, even if later messages have
 * arrived. */
static int check_synchronous(rcm_comm *comm) {
    static const size_t sizes[] = {0, 1, 100, LARGE};
    int errors = 0;
    for (size_t s = 0; s < 4; s++) {
        char *bytes = filled(sizes[s], 's');
        rcm_work *work = NULL;
        if (rcm_rank(comm) == 0) {
            CHECK(errors, rcm_issend(comm, bytes, sizes[s], RCM_UINT8, 1, 1, &work) == RCM_OK, "%s",
                  rcm_last_error());
            CHECK(errors, rcm_send(comm, bytes, 0, RCM_UINT8, 1, 2, NULL, NULL) == RCM_OK, "%s",
                  rcm_last_error());
        }
        if (rcm_rank(comm) == 1)
            CHECK(errors, rcm_recv(comm, NULL, 0, RCM_UINT8, 0, 2, NULL, NULL) == RCM_OK, "%s",
                  rcm_last_error());
        errors += sync_ranks(comm);
        if (rcm_rank(comm) == 0)
            CHECK(errors, rcm_work_wait(work, 2) == RCM_PENDING, "done before its receive");
        errors += sync_ranks(comm);
        if (rcm_rank(comm) == 1) {
            memset(bytes, 0, sizes[s]);
            CHECK(errors, rcm_recv(comm, bytes, sizes[s], RCM_UINT8, 0, 1, NULL, NULL) == RCM_OK,
                  "%s", rcm_last_error());
            CHECK(errors, sizes[s] == 0 || bytes[sizes[s] - 1] == 's', "data of %zu", sizes[s]);
        }
        if (rcm_rank(comm) == 0)
            CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(work);
        free(bytes);
    }
    return errors;
}

/* A synchronous send to the own rank is complete: its receive is too, without another call. The
 * library's thread and this one both drive. */
static int check_own_rank(rcm_comm *comm) {
    static const size_t sizes[] = {1, 0, 3000, 1, 1, 1, 30, LARGE};
    enum { ROUNDS = 300, EACH = sizeof sizes / sizeof sizes[0] };
    const int me = rcm_rank(comm);
    char *out = filled(LARGE, 'o'), *in = filled(EACH * LARGE, 'i');
    int errors = 0;
    for (int round = 0; round < ROUNDS && errors == 0; round++) {
        rcm_work *works[EACH] = {NULL};
        for (uint64_t tag = 0; tag < EACH; tag++)
            CHECK(errors,
                  rcm_irecv(comm, in + tag * LARGE, sizes[tag], RCM_UINT8, me, tag, &works[tag]) ==
                      RCM_OK,
                  "%s", rcm_last_error());
        for (uint64_t tag = 0; tag < (round % 20 == 0 ? EACH : EACH - 1); tag++) {
            CHECK(errors,
                  rcm_ssend(comm, out, sizes[tag], RCM_UINT8, me, tag, NULL, NULL) == RCM_OK, "%s",
                  rcm_last_error());
            CHECK(errors, rcm_work_status(works[tag]) == RCM_OK, "round %d, %zu bytes: %s", round,
                  sizes[tag], rcm_status_name(rcm_work_status(works[tag])));
        }
        for (uint64_t tag = 0; tag < EACH; tag++) {
            (void)!rcm_work_cancel(works[tag]);
            (void)!rcm_work_wait(works[tag], -1);
            rcm_work_free(works[tag]);
        }
    }
    CHECK(errors, memcmp(in + (EACH - 1) * LARGE, out, LARGE) == 0, "wrong bytes");
    free(in);
    free(out);
    return errors;
}

/* ---- Send and receive in one call ------------------------------------------------------------ */

static int check_sendrecv(rcm_comm *comm) {
    const int n = rcm_size(comm), me = rcm_rank(comm), next = (me + 1) % n, prev = (me + n - 1) % n;
    static const size_t sizes[] = {4, 50000, LARGE};
    int errors = 0;
    for (int k = 0; k < 6; k++) { /* the second time to itself */
        const size_t len = sizes[k % 3];
        char *out = filled(len, (char)me), *in = filled(len, 'i');
        const int to = k < 3 ? next : me, from = k < 3 ? prev : me;
        struct rcm_message message = RCM_MESSAGE_INIT;
        struct rcm_call call = RCM_CALL_INIT;
        rcm_work *work = NULL;
        call.message = &message;
        CHECK(errors,
              rcm_sendrecv(comm, out, len, to, 3, in, len, k % 2 ? RCM_ANY_SOURCE : from, 3,
                           RCM_UINT8, &call, k % 3 == 1 ? &work : NULL) == RCM_OK,
              "%s", rcm_last_error());
        if (work) {
            struct rcm_message same = RCM_MESSAGE_INIT;
            CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
            CHECK(errors, rcm_work_message(work, &same) == RCM_OK && same.source == from, "from %d",
                  same.source);
            rcm_work_free(work);
        }
        CHECK(errors, message.source == from && message.bytes == len, "%zu bytes from %d",
              message.bytes, message.source);
        CHECK(errors, in[0] == (char)from && in[len - 1] == (char)from, "data");
        free(out);
        free(in);
    }
    char four[4] = {0};
    CHECK(errors,
          rcm_sendrecv(comm, four, 4, me, 4, four, 3, me, 4, RCM_UINT8, NULL, NULL) ==
                  RCM_ERR_TRUNCATED &&
              strstr(rcm_last_error(), "is 4 bytes, the buffer 3"),
          "truncated: %s", rcm_last_error());
    return errors;
}

/* ---- Cancels --------------------------------------------------------------------------------- */

/* Every second waiting receive is canceled. The others get the messages in order. */
static int check_cancel(rcm_comm *comm, size_t len, int src) {
    enum { MANY = 40 };
    rcm_work *works[MANY];
    char *in = filled(MANY * len, 'c'), *out = filled(len, 'o');
    int errors = 0;
    for (int k = 0; k < MANY && rcm_rank(comm) == 0; k++)
        CHECK(errors,
              rcm_irecv(comm, in + (size_t)k * len, len, RCM_UINT8, src, 4, &works[k]) == RCM_OK,
              "%s", rcm_last_error());
    for (int k = 0; k < MANY && rcm_rank(comm) == 0; k += 2) {
        CHECK(errors, rcm_work_cancel(works[k]) == RCM_OK, "%s", rcm_last_error());
        CHECK(errors, rcm_work_test(works[k]) == RCM_ERR_CANCELED, "%s", rcm_last_error());
        rcm_work_free(works[k]);
    }
    errors += sync_ranks(comm);
    for (int k = 1; k < MANY && rcm_rank(comm) == 1; k += 2) {
        memset(out, k, len);
        CHECK(errors, rcm_send(comm, out, len, RCM_UINT8, 0, 4, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    }
    for (int k = 1; k < MANY && rcm_rank(comm) == 0; k += 2) {
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%s", rcm_last_error());
        CHECK(errors, rcm_work_cancel(works[k]) == RCM_OK, "too late: %s", rcm_last_error());
        CHECK(errors, rcm_work_status(works[k]) == RCM_OK, "a complete receive was canceled");
        const char *at = in + (size_t)k * len;
        CHECK(errors, at[0] == k && at[len - 1] == k && at[-1] == 'c', "data of %d", k);
        rcm_work_free(works[k]);
    }
    free(in);
    free(out);
    return errors;
}

/* Cancels race with their messages. Each message is received once, by some receive. */
static int check_cancel_race(rcm_comm *comm) {
    enum { ROUNDS = 300 };
    int errors = 0;
    for (int k = 0; k < ROUNDS && rcm_rank(comm) < 2; k++) {
        int value = k;
        rcm_work *work = NULL;
        if (rcm_rank(comm) == 1) {
            CHECK(errors,
                  rcm_sendrecv(comm, &value, 1, 0, 5, &value, 1, 0, 6, RCM_INT32, NULL, NULL) ==
                      RCM_OK,
                  "%s", rcm_last_error());
            continue;
        }
        CHECK(errors, rcm_irecv(comm, &value, 1, RCM_INT32, 1, 5, &work) == RCM_OK, "%s",
              rcm_last_error());
        rcm_status status = rcm_work_cancel(work);
        CHECK(errors, status == RCM_OK || status == RCM_PENDING, "%s", rcm_last_error());
        status = rcm_work_wait(work, -1);
        if (status == RCM_ERR_CANCELED)
            status = rcm_recv(comm, &value, 1, RCM_INT32, 1, 5, NULL, NULL);
        CHECK(errors, status == RCM_OK && value == k, "round %d: %s", k, rcm_last_error());
        CHECK(errors, rcm_send(comm, &value, 1, RCM_INT32, 1, 6, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
        rcm_work_free(work);
    }
    return errors;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* Each rank sends a large message to all ranks, itself included, and receives from all, in its own
 * order. Half of them use another communicator. */
static int check_batch(rcm_comm *comm) {
    const int n = rcm_size(comm), me = rcm_rank(comm);
    struct rcm_transfer *all = calloc(2 * (size_t)n, sizeof *all);
    struct rcm_message *messages = calloc((size_t)n, sizeof *messages);
    rcm_work *work = NULL;
    rcm_comm *other = NULL;
    int errors = 0;
    CHECK(errors, !processes || rcm_init(NULL, &other) == RCM_OK, "%s", rcm_last_error());
    for (int round = 0; round < 4; round++) {
        for (int k = 0; k < n; k++) {
            struct rcm_transfer *send = &all[round % 2 ? k : n + k];
            struct rcm_transfer *recv = &all[round % 2 ? n + k : k];
            const size_t len = (k + me) % 2 ? LARGE : 100;
            messages[k] = (struct rcm_message)RCM_MESSAGE_INIT;
            *send =
                (struct rcm_transfer){.kind = round == 3 ? RCM_TRANSFER_SSEND : RCM_TRANSFER_SEND,
                                      .peer = k,
                                      .comm = (k + me) % 2 ? other : NULL,
                                      .buffer = filled(len, (char)(me + 1)),
                                      .count = len,
                                      .tag = 10,
                                      .dtype = RCM_UINT8};
            *recv = *send;
            recv->kind = RCM_TRANSFER_RECV;
            recv->buffer = filled(len, 0);
            recv->message = &messages[k];
        }
        CHECK(errors, rcm_batch(comm, all, 2 * (size_t)n, NULL, round < 2 ? NULL : &work) == RCM_OK,
              "%s", rcm_last_error());
        if (work)
            CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(work);
        for (int k = 0; k < 2 * n; k++) {
            const char *bytes = all[k].buffer;
            if (all[k].kind == RCM_TRANSFER_RECV)
                CHECK(errors,
                      all[k].message->source == all[k].peer &&
                          all[k].message->bytes == all[k].count &&
                          bytes[all[k].count - 1] == (char)(all[k].peer + 1),
                      "round %d, from %d", round, all[k].peer);
            free(all[k].buffer);
        }
        work = NULL;
    }
    CHECK(errors, rcm_destroy(other) == RCM_OK, "%s", rcm_last_error());
    free(all);
    free(messages);
    return errors;
}

static int check_batch_arguments(rcm_comm *comm) {
    char byte = 0;
    struct rcm_transfer two[] = {
        {.kind = RCM_TRANSFER_SEND, .buffer = &byte, .count = 1, .dtype = RCM_UINT8},
        {.kind = RCM_TRANSFER_RECV, .buffer = &byte, .count = 1, .dtype = RCM_UINT8, .peer = 99}};
    struct rcm_message message = {.size = 1};
    int errors = 0;
    CHECK(errors, rcm_batch(comm, NULL, 0, NULL, NULL) == RCM_OK, "none: %s", rcm_last_error());
    CHECK(errors,
          rcm_batch(comm, NULL, 1, NULL, NULL) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "transfers"),
          "%s", rcm_last_error());
    CHECK(errors,
          rcm_batch(comm, two, 2, NULL, NULL) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "transfers[1]: src 99"),
          "%s", rcm_last_error());
    two[1].kind = 0;
    CHECK(errors,
          rcm_batch(comm, two, 2, NULL, NULL) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "transfers[1]: kind 0"),
          "%s", rcm_last_error());
    two[1] =
        (struct rcm_transfer){.kind = RCM_TRANSFER_RECV, .dtype = RCM_UINT8, .message = &message};
    CHECK(errors,
          rcm_batch(comm, two, 2, NULL, NULL) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "transfers[1]: message->size is 1"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_iprobe(comm, RCM_ANY_SOURCE, 0, NULL) == RCM_PENDING, "something was sent");
    two[0].peer = two[1].peer = rcm_rank(comm);
    two[1].message = NULL;
    CHECK(errors,
          rcm_batch(comm, two, 2, NULL, NULL) == RCM_ERR_TRUNCATED &&
              strstr(rcm_last_error(), "is 1 bytes, the buffer 0"),
          "%s", rcm_last_error());
    return errors;
}

/* ---- More messages than are buffered --------------------------------------------------------- */

/* The sender is ahead by more messages than the receiver buffers: it waits, and collectives go on.
 * Over sockets, where each message is a system call, and under a sanitizer, it is ahead by only a
 * few rendezvous messages. */
static int check_ahead(rcm_comm *comm) {
    enum { MOST = 72000 };
    const bool too_many = shm && !TEST_SANITIZED;
    const int ahead = too_many ? MOST : 5000;
    rcm_work **works = calloc(MOST, sizeof *works);
    int errors = 0, pending = 0;
    for (int k = 0; k < ahead && rcm_rank(comm) == 1; k++)
        CHECK(errors, rcm_isend(comm, NULL, 0, RCM_UINT8, 0, 20, &works[k]) == RCM_OK, "%s",
              rcm_last_error());
    for (int i = 0; i < 20; i++)
        errors += sync_ranks(comm);
    for (int k = 0; k < ahead && rcm_rank(comm) == 1; k++)
        pending += rcm_work_status(works[k]) == RCM_PENDING;
    CHECK(errors, !too_many || rcm_rank(comm) != 1 || pending > 60000, "%d wait", pending);
    for (int k = 0; k < ahead && rcm_rank(comm) == 0; k++)
        CHECK(errors, rcm_irecv(comm, NULL, 0, RCM_UINT8, 1, 20, &works[k]) == RCM_OK, "%s",
              rcm_last_error());
    for (int k = 0; k < ahead && rcm_rank(comm) < 2; k++) {
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(works[k]);
    }
    free(works);
    return errors;
}

/* ---- Wrong arguments ------------------------------------------------------------------------- */

static int check_arguments(rcm_comm *comm) {
    struct rcm_message message = {.size = 2};
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    int errors = 0;
    char byte = 0;
#define WRONG(expression, text)                                                                    \
    CHECK(errors, (expression) == RCM_ERR_INVALID && strstr(rcm_last_error(), text),               \
          #expression ": %s", rcm_last_error())
    call.message = &message;
    WRONG(rcm_send(comm, &byte, 1, RCM_UINT8, RCM_ANY_SOURCE, 0, NULL, NULL), "dst -1");
    WRONG(rcm_ssend(comm, &byte, 1, RCM_UINT8, 0, RCM_ANY_TAG, NULL, NULL), "tag");
    WRONG(rcm_issend(comm, &byte, 1, RCM_UINT8, 0, 0, NULL), "ret_work");
    WRONG(rcm_recv(comm, &byte, 1, RCM_UINT8, -2, 0, NULL, NULL), "src -2");
    WRONG(rcm_recv(comm, &byte, 1, RCM_UINT8, 0, 0, &call, NULL), "call->message->size is 2");
    WRONG(rcm_sendrecv(comm, &byte, 1, 99, 0, &byte, 0, 0, 0, RCM_UINT8, NULL, NULL), "dst 99");
    WRONG(rcm_sendrecv(comm, &byte, 1, 0, 0, NULL, 1, 0, 0, RCM_UINT8, NULL, NULL), "recv");
    WRONG(rcm_sendrecv(comm, &byte, 1, 0, 0, &byte, 0, 0, 0, RCM_UINT8, &call, NULL),
          "call->message");
    WRONG(rcm_probe(comm, 99, 0, NULL, NULL), "src 99");
    WRONG(rcm_iprobe(comm, -3, 0, NULL), "src -3");
    WRONG(rcm_iprobe(comm, 0, 0, &message), "ret_message->size is 2");
    WRONG(rcm_mprobe(comm, 0, 0, NULL, NULL, NULL), "ret_matched");
    WRONG(rcm_mrecv(comm, NULL, &byte, 1, RCM_UINT8, NULL, NULL), "matched");
    WRONG(rcm_mrecv(comm, (void *)&byte, &byte, 1, RCM_UINT8, NULL, NULL), "matched");
    WRONG(rcm_work_cancel(NULL), "work");
    struct rcm_call persistent = {.size = sizeof persistent, .flags = RCM_PERSISTENT};
    CHECK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, 0, 0, &persistent, &work) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors,
          rcm_work_cancel(work) == RCM_ERR_UNSUPPORTED && strstr(rcm_last_error(), "persistent"),
          "%s", rcm_last_error());
    rcm_work_free(work);
    CHECK(errors,
          rcm_batch(comm, NULL, 0, &persistent, &work) == RCM_ERR_UNSUPPORTED &&
              strstr(rcm_last_error(), "RCM_PERSISTENT"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_irecv(comm, &byte, 1, RCM_UINT8, rcm_rank(comm), 0, &work) == RCM_OK, "%s",
          rcm_last_error());
    rcm_work *send = NULL;
    CHECK(errors, rcm_isend(comm, &byte, 1, RCM_UINT8, rcm_rank(comm), 0, &send) == RCM_OK, "%s",
          rcm_last_error());
    WRONG(rcm_work_cancel(send), "work is a send");
    CHECK(errors, rcm_work_wait(work, -1) == RCM_OK && rcm_work_wait(send, -1) == RCM_OK, "%s",
          rcm_last_error());
    rcm_work_free(work);
    rcm_work_free(send);
    return errors;
}

/* ---- All parts ------------------------------------------------------------------------------- */

static unsigned seed;

static long clock_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int check_cancels(rcm_comm *comm) {
    return check_cancel(comm, 8, 1) + check_cancel(comm, 70000, 1) +
           check_cancel(comm, 70000, RCM_ANY_SOURCE);
}

static int check_batches(rcm_comm *comm) {
    return check_batch_arguments(comm) + check_batch(comm);
}

static int check_random(rcm_comm *comm) {
    return check_mixtures(comm, seed);
}

struct part {
    const char *name;
    int (*check)(rcm_comm *comm);
    bool pair; /* needs exactly two ranks */
};

static const struct part parts[] = {
    {"arguments", check_arguments, false},
    {"any source", check_any_source, false},
    {"sendrecv", check_sendrecv, false},
    {"batches", check_batches, false},
    {"fair", check_fair, true},
    {"probe", check_probe, true},
    {"matched", check_matched, true},
    {"synchronous", check_synchronous, true},
    {"own rank", check_own_rank, false},
    {"cancel", check_cancels, true},
    {"race of cancels", check_cancel_race, true},
    {"never received", check_matched_left, true},
    {"ahead", check_ahead, true},
    {"mixtures", check_random, false},
    {"threads", check_threads, false},
};

/* With "-v" it prints how long each part took. */
static int check(rcm_comm *comm, void *arg) {
    const bool *verbose = arg;
    int errors = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && errors == 0; i++) {
        const long began = clock_ms();
        if (rcm_size(comm) > 1 || !parts[i].pair)
            errors += parts[i].check(comm);
        errors += sync_ranks(comm);
        if (*verbose && rcm_rank(comm) == 0)
            printf("%-16s %5ld ms\n", parts[i].name, clock_ms() - began);
    }
    return errors;
}

int main(int argc, char **argv) {
    bool verbose = argc > 5;
    if (argc < 4) {
        fprintf(stderr, "usage: messages shm|tcp threads|processes N [SEED [-v]]\n");
        return 2;
    }
    shm = strcmp(argv[1], "shm") == 0;
    processes = strcmp(argv[2], "processes") == 0;
    seed = argc > 4 ? (unsigned)atoi(argv[4]) : 1;
    struct ranks ranks = {.n = atoi(argv[3]), .threads = !processes, .transport = argv[1]};
    return ranks_run(&ranks, check, &verbose) ? 1 : 0;
}
