/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages, each under a tag that no other step and thread uses: one between two ranks, with every
 * kind of send and receive; around a ring; many in one call; one that never comes.
 */
#include "messages.h"
#include "../sanitized.h"
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = TEST_SANITIZED ? 100000 : 400000, TAGS_OF_A_STEP = 256 };

/* No tag of a mixture, which are small: a receive from any source of this rank's last step may
 * still wait when a faster rank sends its first message of a mixture. */
uint64_t tag_of(const struct job *job, unsigned i) {
    const uint64_t step = (uint64_t)job->driver->number << 32 | job->step;
    return (UINT64_C(1) << 62 | step * TAGS_OF_A_STEP) + i;
}

size_t length_draw(struct job *job) {
    return draw_count(&job->what, 1, job->driver->episode->slot_bytes, BYTES_MAX);
}

/* Both ends of a message, and buffers of one call, may be of different kinds. */
static void buffer_get(struct job *job, size_t bytes, struct memory *ret_memory) {
    memory_get(job, memory_kind_draw(job->driver, &job->how), bytes, ret_memory);
}

/* ---- One message ----------------------------------------------------------------------------- */

enum receive { EXACT, ANY_SOURCE, PROBED, MATCHED, LOOKED, TAKEN, SHORT, RECEIVES };

struct message {
    int from, to;
    size_t len, room;
    enum receive receive;
    bool synchronous;
    struct memory sent, came;
    struct rcm_message info;
    bool detached; /* a send to the own rank, */
    sem_t sent_it; /* and its completion */
};

static const char *const receive_names[RECEIVES] = {"exact",  "any source", "probe", "mprobe",
                                                    "iprobe", "improbe",    "short"};

static void message_draw(struct job *job) {
    struct message *m = calloc(1, sizeof *m);
    const unsigned n = (unsigned)job->group->n;
    const int me = job->group->me;
    if (!m)
        abort();
    job->own = m;
    m->from = (int)draw_below(&job->what, n);
    m->to = (int)draw_below(&job->what, n);
    m->len = length_draw(job);
    m->receive = (enum receive)draw_below(&job->what, RECEIVES);
    m->synchronous = draw_one_in(&job->what, 4);
    m->room = m->receive == SHORT ? m->len / 2 : m->len + draw_below(&job->what, 100);
    if (m->receive != EXACT || m->from == m->to)
        job->runs = 1;
    if (m->receive == SHORT && me == m->to && m->len > 0)
        job->expected = RCM_ERR_TRUNCATED;
    m->info = (struct rcm_message)RCM_MESSAGE_INIT;
    snprintf(job->name, sizeof job->name, "a message of %zu bytes from %d to %d%s, %s", m->len,
             m->from, m->to, m->synchronous ? ", synchronous" : "", receive_names[m->receive]);
    buffer_get(job, me == m->from ? m->len : 0, &m->sent);
    buffer_get(job, me == m->to ? m->room : 0, &m->came);
}

static void message_fill(struct job *job) {
    const struct message *m = job->own;
    bytes_fill(job->salt, m->sent.view, m->sent.bytes);
    memset(m->came.view, 0xa5, m->came.bytes);
}

static void message_send(struct job *job, rcm_work **work) {
    const struct message *m = job->own;
    job->status = (m->synchronous ? rcm_ssend : rcm_send)(
        job->group->comm, m->sent.data, m->len, RCM_UINT8, m->to, tag_of(job, 0), &job->call, work);
}

static void check_info(struct job *job, const struct rcm_message *info) {
    const struct message *m = job->own;
    NEED(job->driver,
         info->source == m->from && info->tag == tag_of(job, 0) && info->bytes == m->len,
         "%s: from %d, tag %llu, %zu bytes are reported", job->name, info->source,
         (unsigned long long)info->tag, info->bytes);
}

/* The four kinds of probe are equivalent; the last two are repeated until the message is there. */
static rcm_matched *message_probe(struct job *job, int source) {
    struct message *m = job->own;
    rcm_comm *comm = job->group->comm;
    const uint64_t tag = tag_of(job, 0);
    struct rcm_message info = RCM_MESSAGE_INIT;
    rcm_matched *matched = NULL;
    rcm_status status;
    do {
        if (m->receive == PROBED)
            status = rcm_probe(comm, source, tag, NULL, &info);
        else if (m->receive == MATCHED)
            status = rcm_mprobe(comm, source, tag, NULL, &info, &matched);
        else if (m->receive == LOOKED)
            status = rcm_iprobe(comm, source, tag, &info);
        else
            status = rcm_improbe(comm, source, tag, &info, &matched);
    } while (status == RCM_PENDING && (m->receive == LOOKED || m->receive == TAKEN));
    NEED(job->driver, status == RCM_OK, "%s: %s: %s", job->name, rcm_status_name(status),
         rcm_last_error());
    check_info(job, &info);
    return matched;
}

static void receive_probed(struct job *job) {
    struct message *m = job->own;
    const int source = m->len % 2 ? RCM_ANY_SOURCE : m->from;
    rcm_matched *matched = message_probe(job, source);
    job->status = matched ? rcm_mrecv(job->group->comm, matched, m->came.data, m->room, RCM_UINT8,
                                      &job->call, job_work(job))
                          : rcm_recv(job->group->comm, m->came.data, m->room, RCM_UINT8, source,
                                     tag_of(job, 0), &job->call, job_work(job));
}

static void message_receive(struct job *job) {
    struct message *m = job->own;
    job->call.message = &m->info;
    if (m->receive >= PROBED && m->receive <= TAKEN) {
        receive_probed(job);
        return;
    }
    job->status = rcm_recv(job->group->comm, m->came.data, m->room, RCM_UINT8,
                           m->receive == ANY_SOURCE ? RCM_ANY_SOURCE : m->from, tag_of(job, 0),
                           &job->call, job_work(job));
}

static void sent_it(void *arg, rcm_status status) {
    (void)status; /* the receive returns the same */
    sem_post(arg);
}

/* The send comes before the receive, which may probe for it. */
static void message_to_oneself(struct job *job) {
    struct message *m = job->own;
    const struct rcm_call call = job->call;
    rcm_work *work = NULL;
    job->call.wait_ms = 0;
    message_send(job, &work);
    job->call = call;
    m->detached = true;
    NEED(job->driver,
         job->status == RCM_OK && sem_init(&m->sent_it, 0, 0) == 0 &&
             rcm_work_detach(work, sent_it, &m->sent_it) == RCM_OK,
         "%s: %s", job->name, rcm_last_error());
    message_receive(job);
}

static void message_call(struct job *job) {
    const struct message *m = job->own;
    const int me = job->group->me;
    if (me == m->from && me == m->to)
        message_to_oneself(job);
    else if (me == m->from)
        message_send(job, job_work(job));
    else if (me == m->to)
        message_receive(job);
    else
        job->status = job->expected;
}

static void message_check(struct job *job) {
    const struct message *m = job->own;
    const size_t came = m->len < m->room ? m->len : m->room;
    if (job->group->me != m->to)
        return;
    check_info(job, &m->info);
    NEED(job->driver, bytes_right(job->salt, m->came.view, came), "%s: wrong bytes", job->name);
}

static void message_free(struct job *job) {
    struct message *m = job->own;
    if (!m->detached)
        return;
    while (sem_wait(&m->sent_it) != 0 && errno == EINTR)
        ;
    sem_destroy(&m->sent_it);
}

const struct row row_message = {.name = "message",
                                .weight = 20,
                                .scope = SCOPE_ANY,
                                .draw = message_draw,
                                .fill = message_fill,
                                .call = message_call,
                                .check = message_check,
                                .free = message_free};

/* ---- Around a ring --------------------------------------------------------------------------- */

static void circle_draw(struct job *job) {
    struct message *m = calloc(1, sizeof *m);
    const int n = job->group->n, me = job->group->me, by = (int)draw_below(&job->what, (unsigned)n);
    if (!m)
        abort();
    job->own = m;
    job->runs = 1; /* rcm_sendrecv cannot be persistent */
    m->len = length_draw(job);
    m->to = (me + by) % n;
    m->from = (me + n - by) % n;
    m->info = (struct rcm_message)RCM_MESSAGE_INIT;
    snprintf(job->name, sizeof job->name, "sendrecv of %zu bytes to %d and from %d of %d", m->len,
             m->to, m->from, n);
    buffer_get(job, m->len, &m->sent);
    buffer_get(job, m->len, &m->came);
}

static void circle_fill(struct job *job) {
    const struct message *m = job->own;
    bytes_fill(job->salt + (uint64_t)job->group->me * 7919, m->sent.view, m->len);
    memset(m->came.view, 0xa5, m->len);
}

static void circle_call(struct job *job) {
    struct message *m = job->own;
    const uint64_t tag = tag_of(job, 0);
    job->call.message = &m->info;
    job->status = rcm_sendrecv(job->group->comm, m->sent.data, m->len, m->to, tag, m->came.data,
                               m->len, draw_one_in(&job->how, 2) ? RCM_ANY_SOURCE : m->from, tag,
                               RCM_UINT8, &job->call, job_work(job));
}

static void circle_check(struct job *job) {
    const struct message *m = job->own;
    check_info(job, &m->info);
    NEED(job->driver, bytes_right(job->salt + (uint64_t)m->from * 7919, m->came.view, m->len),
         "%s: wrong bytes", job->name);
}

const struct row row_sendrecv = {.name = "sendrecv",
                                 .weight = 6,
                                 .scope = SCOPE_ANY,
                                 .draw = circle_draw,
                                 .fill = circle_fill,
                                 .call = circle_call,
                                 .check = circle_check};

/* ---- Many in one call ------------------------------------------------------------------------ */

enum { BATCH_MAX = 24 };

struct batch {
    int n, nmine; /* messages; transfers of this rank */
    struct message all[BATCH_MAX];
    const struct group *group[BATCH_MAX]; /* of each message */
    struct rcm_transfer mine[2 * BATCH_MAX];
};

static const enum rcm_transfer_kind send_kinds[] = {RCM_TRANSFER_SEND, RCM_TRANSFER_SSEND};

static void batch_add(struct job *job, struct batch *batch, int i) {
    struct message *m = &batch->all[i];
    const struct group *group = batch->group[i];
    struct rcm_transfer both = {.comm = group->comm,
                                .count = m->len,
                                .dtype = RCM_UINT8,
                                .tag = tag_of(job, (unsigned)i % 3)};
    if (group->me == m->from) {
        buffer_get(job, m->len, &m->sent);
        both.kind = send_kinds[m->synchronous];
        both.peer = m->to;
        both.buffer = m->sent.data;
        batch->mine[batch->nmine++] = both;
    }
    if (group->me == m->to) {
        buffer_get(job, m->len, &m->came);
        both.kind = RCM_TRANSFER_RECV;
        both.peer = m->from;
        both.buffer = m->came.data;
        both.message = &m->info;
        batch->mine[batch->nmine++] = both;
    }
}

/* Each message is of one of the thread's groups; all ranks call, with the world's handle. */
static void batch_draw(struct job *job) {
    struct batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        abort();
    job->own = batch;
    job->runs = 1; /* rcm_batch cannot be persistent */
    job->group = &job->driver->groups[0];
    batch->n = (int)draw_below(&job->what, BATCH_MAX);
    for (int i = 0; i < batch->n; i++) {
        struct message *m = &batch->all[i];
        const struct group *group = groups_draw(job->driver, &job->what, SCOPE_ANY);
        batch->group[i] = group;
        job->uses |= 1u << (group - job->driver->groups);
        m->from = (int)draw_below(&job->what, (unsigned)group->n);
        m->to = (int)draw_below(&job->what, (unsigned)group->n);
        m->len = length_draw(job) / 8;
        m->synchronous = draw_one_in(&job->what, 4);
        m->info = (struct rcm_message)RCM_MESSAGE_INIT;
        batch_add(job, batch, i);
    }
    snprintf(job->name, sizeof job->name, "a batch of %d messages, %d of them here, of groups 0x%x",
             batch->n, batch->nmine, job->uses);
}

static void batch_fill(struct job *job) {
    const struct batch *batch = job->own;
    for (int i = 0; i < batch->n; i++) {
        bytes_fill(job->salt + (uint64_t)i * 7919, batch->all[i].sent.view,
                   batch->all[i].sent.bytes);
        if (batch->all[i].came.bytes)
            memset(batch->all[i].came.view, 0xa5, batch->all[i].came.bytes);
    }
}

static void batch_call(struct job *job) {
    const struct batch *batch = job->own;
    job->status =
        rcm_batch(job->group->comm, batch->mine, (size_t)batch->nmine, &job->call, job_work(job));
}

static void batch_check(struct job *job) {
    const struct batch *batch = job->own;
    for (int i = 0; i < batch->n; i++)
        if (batch->all[i].came.base) /* the message is for this rank */
            NEED(job->driver,
                 batch->all[i].info.bytes == batch->all[i].len &&
                     batch->all[i].info.source == batch->all[i].from &&
                     bytes_right(job->salt + (uint64_t)i * 7919, batch->all[i].came.view,
                                 batch->all[i].len),
                 "%s: number %d, %zu bytes from %d, is wrong", job->name, i, batch->all[i].len,
                 batch->all[i].from);
}

const struct row row_batch = {.name = "batch",
                              .weight = 8,
                              .scope = SCOPE_ANY,
                              .everybody = true,
                              .draw = batch_draw,
                              .fill = batch_fill,
                              .call = batch_call,
                              .check = batch_check};

/* ---- A message that never comes -------------------------------------------------------------- */

static void cancel_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "a receive that is canceled");
    job->expected = RCM_ERR_CANCELED;
}

static void cancel_call(struct job *job) {
    char byte = 7;
    const int source = draw_one_in(&job->how, 2) ? RCM_ANY_SOURCE : 0;
    job->status =
        rcm_irecv(job->group->comm, &byte, 1, RCM_UINT8, source, tag_of(job, 0), &job->work);
    NEED(job->driver, job->status == RCM_OK, "%s: %s", job->name, rcm_last_error());
    NEED(job->driver, rcm_work_test(job->work) == RCM_PENDING, "%s: it is complete", job->name);
    NEED(job->driver, rcm_work_cancel(job->work) == RCM_OK, "%s: %s", job->name, rcm_last_error());
    job->status = rcm_work_status(job->work);
    rcm_work_free(job->work);
    job->work = NULL;
    NEED(job->driver, byte == 7, "%s: its buffer was overwritten", job->name);
}

static void nothing(struct job *job) {
    (void)job;
}

const struct row row_cancel = {.name = "cancel",
                               .weight = 3,
                               .scope = SCOPE_ANY,
                               .whole = true,
                               .draw = cancel_draw,
                               .call = cancel_call,
                               .check = nothing};
