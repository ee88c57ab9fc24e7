/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random sends and receives of all kinds against a model. All ranks derive from the seed the
 * messages of a round and the wildcards of their receives. Each received message must be the next
 * one that its sender sent with its tag. See messages.c.
 */
#include "messages.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 24, MESSAGES_MAX = 120, TAGS = 3, RANKS_MAX = 16 };

/* The wildcards of a round's receives, and whether they probe first. */
enum open { EXACT, ANY_SOURCE, ANY_TAG, ANY, PROBED, OPENS };

struct planned {
    int from, to;
    uint64_t tag;
    size_t len;
    int how; /* kind of send */
    bool came;
};

struct round {
    rcm_comm *comm;
    unsigned seed;
    enum open open;
    int n;
    struct planned all[MESSAGES_MAX];
};

static unsigned any(unsigned *seed, unsigned n) {
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 8) % n;
}

static size_t any_len(unsigned *seed) {
    static const size_t most[] = {1, 9, 200, 9000, 40000, 200000};
    return any(seed, (unsigned)most[any(seed, 6)]);
}

static void round_plan(struct round *round, unsigned seed) {
    const unsigned ranks = (unsigned)rcm_size(round->comm);
    round->seed = seed;
    round->open = (enum open)any(&seed, OPENS);
    round->n = (int)any(&seed, MESSAGES_MAX) + 1;
    for (int i = 0; i < round->n; i++)
        round->all[i] = (struct planned){.from = (int)any(&seed, ranks),
                                         .to = (int)any(&seed, ranks),
                                         .tag = any(&seed, TAGS) * UINT64_C(0x500000001),
                                         .len = any_len(&seed),
                                         .how = (int)any(&seed, 4)};
}

static unsigned char byte_of(const struct round *round, int i, size_t at) {
    return (unsigned char)(round->seed + (unsigned)i * 7 + at * 13);
}

static unsigned char *data_of(const struct round *round, int i) {
    unsigned char *data = malloc(round->all[i].len + 1);
    if (!data)
        abort();
    for (size_t at = 0; at < round->all[i].len; at++)
        data[at] = byte_of(round, i, at);
    return data;
}

/* In the order of the round. Some are sent in pairs. */
static int send_one(const struct round *round, int i, void *data, rcm_work **ret_work) {
    const struct planned *p = &round->all[i];
    const struct rcm_transfer one = {.kind = RCM_TRANSFER_SEND,
                                     .peer = p->to,
                                     .buffer = data,
                                     .count = p->len,
                                     .tag = p->tag,
                                     .dtype = RCM_UINT8};
    rcm_status status;
    int errors = 0;
    if (p->how == 0)
        status = rcm_issend(round->comm, data, p->len, RCM_UINT8, p->to, p->tag, ret_work);
    else if (p->how == 1)
        status = rcm_batch(round->comm, &one, 1, NULL, ret_work);
    else
        status = rcm_isend(round->comm, data, p->len, RCM_UINT8, p->to, p->tag, ret_work);
    CHECK(errors, status == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* Checks that the message is the next of its sender and tag. */
static int check_came(struct round *round, const struct rcm_message *message,
                      const unsigned char *data) {
    const int me = rcm_rank(round->comm);
    int errors = 0, i = 0;
    while (i < round->n &&
           (round->all[i].came || round->all[i].to != me || round->all[i].from != message->source ||
            round->all[i].tag != message->tag))
        i++;
    CHECK(errors, i < round->n, "seed %u: unexpected message from %d, tag %llu", round->seed,
          message->source, (unsigned long long)message->tag);
    if (i == round->n)
        return errors;
    round->all[i].came = true;
    CHECK(errors, message->bytes == round->all[i].len, "seed %u: message %d has %zu bytes, not %zu",
          round->seed, i, message->bytes, round->all[i].len);
    size_t wrong = 0;
    for (size_t at = 0; at < round->all[i].len; at++)
        wrong += data[at] != byte_of(round, i, at);
    CHECK(errors, wrong == 0, "seed %u: message %d of %zu bytes from %d has %zu wrong", round->seed,
          i, message->bytes, message->source, wrong);
    return errors;
}

static int receive_probed(struct round *round) {
    struct rcm_message message = RCM_MESSAGE_INIT, same = RCM_MESSAGE_INIT;
    struct rcm_call call = RCM_CALL_INIT;
    rcm_matched *matched = NULL;
    int errors = 0;
    call.message = &same;
    CHECK(errors,
          rcm_mprobe(round->comm, RCM_ANY_SOURCE, RCM_ANY_TAG, NULL, &message, &matched) == RCM_OK,
          "%s", rcm_last_error());
    unsigned char *data = malloc(message.bytes + 1);
    CHECK(errors,
          rcm_mrecv(round->comm, matched, data, message.bytes, RCM_UINT8, &call, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors,
          same.source == message.source && same.tag == message.tag && same.bytes == message.bytes,
          "received another message than was probed");
    errors += check_came(round, &message, data);
    free(data);
    return errors;
}

struct receive {
    rcm_work *work;
    unsigned char *data;
};

static int post_one(const struct round *round, int i, struct receive *receive) {
    const struct planned *p = &round->all[i];
    const bool any_source = round->open == ANY_SOURCE || round->open == ANY;
    const bool any_tag = round->open == ANY_TAG || round->open == ANY;
    const size_t cap = round->open == EXACT ? p->len : 200000;
    int errors = 0;
    receive->data = malloc(cap + 1);
    CHECK(errors,
          rcm_irecv(round->comm, receive->data, cap, RCM_UINT8,
                    any_source ? RCM_ANY_SOURCE : p->from, any_tag ? RCM_ANY_TAG : p->tag,
                    &receive->work) == RCM_OK,
          "%s", rcm_last_error());
    return errors;
}

static int finish_one(struct round *round, const struct receive *receive) {
    struct rcm_message message = RCM_MESSAGE_INIT;
    int errors = 0;
    CHECK(errors, rcm_work_wait(receive->work, -1) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_work_message(receive->work, &message) == RCM_OK, "%s", rcm_last_error());
    errors += check_came(round, &message, receive->data);
    rcm_work_free(receive->work);
    free(receive->data);
    return errors;
}

/* A rank starts with its receives, with its sends, or mixes them. */
static int round_play(struct round *round) {
    struct receive receives[MESSAGES_MAX];
    rcm_work *works[MESSAGES_MAX] = {0};
    unsigned char *data[MESSAGES_MAX] = {0};
    const int me = rcm_rank(round->comm);
    const unsigned begin = (round->seed >> 3) + (unsigned)me;
    int errors = 0, nreceives = 0, coming = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < round->n; i++) {
            const bool sends = (begin + (unsigned)pass) % 2;
            if (round->all[i].from == me && (begin % 3 == 2 ? pass == 0 : sends)) {
                data[i] = data_of(round, i);
                errors += send_one(round, i, data[i], &works[i]);
            }
            if (round->all[i].to != me || (begin % 3 == 2 ? pass == 1 : sends))
                continue;
            coming++;
            if (round->open != PROBED)
                errors += post_one(round, i, &receives[nreceives++]);
        }
    for (int i = 0; i < nreceives; i++)
        errors += finish_one(round, &receives[i]);
    for (int i = nreceives; i < coming; i++)
        errors += receive_probed(round);
    for (int i = 0; i < round->n; i++) {
        CHECK(errors, !works[i] || rcm_work_wait(works[i], -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(works[i]);
        free(data[i]);
    }
    return errors;
}

int check_mixture(rcm_comm *comm, unsigned seed) {
    struct round *round = calloc(1, sizeof *round);
    int errors = 0;
    if (!round)
        abort();
    round->comm = comm;
    round_plan(round, seed);
    errors += round_play(round);
    /* A message of the next round must not match a receive of this one. */
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    free(round);
    return errors;
}

int check_mixtures(rcm_comm *comm, unsigned seed) {
    int errors = 0;
    for (unsigned i = 0; i < ROUNDS && errors == 0; i++)
        errors += check_mixture(comm, seed * 1000 + i);
    return errors;
}
