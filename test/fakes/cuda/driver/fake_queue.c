/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queues of streams. Each stream has a thread that runs its operations in order. An operation
 * can wait for a (stream, sequence) pair, which is sufficient for events and the legacy default
 * stream.
 */
#include "fake_stream.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

pthread_mutex_t fake_streams_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER; /* a stream has ended an operation */
struct CUstream_st *fake_streams;
static struct CUstream_st *legacy[MAX_DEVICES];

static void release_op(struct CUstream_st *s, struct op *op) {
    s->released = op->seq;
    if (s->hw)
        op->ticket = ++s->hw->queued;
}

/* FAKECUDA_LAZY: releases the stream's operations up to seq, and all operations that they wait
 * for. */
void fake_flush_locked(struct CUstream_st *s, uint64_t seq) {
    if (s->released >= seq)
        return;
    for (struct op *op = s->head; op && op->seq <= seq; op = op->next) {
        if (op->seq <= s->released)
            continue;
        for (int i = 0; i < op->nwaits; i++)
            fake_flush_locked(op->waits[i].stream, op->waits[i].seq);
        release_op(s, op);
    }
    pthread_cond_signal(&s->changed);
}

void fake_wait_locked(struct CUstream_st *s, uint64_t seq) {
    fake_flush_locked(s, seq);
    while (s->done < seq)
        pthread_cond_wait(&progress, &fake_streams_lock);
}

/* True if the stream's first operation may begin. Hardware queues are strictly first in, first out:
 * earlier operations of the queue must have ended, whatever their stream. */
static bool ready(const struct CUstream_st *s, const struct op *op) {
    if (s->released < op->seq || (s->hw && s->hw->done + 1 != op->ticket))
        return false;
    for (int i = 0; i < op->nwaits; i++)
        if (op->waits[i].stream->done < op->waits[i].seq)
            return false;
    return true;
}

/* Wakes the streams whose first operation may begin. */
static void wake_locked(void) {
    for (struct CUstream_st *s = fake_streams; s; s = s->next)
        if (s->head && ready(s, s->head))
            pthread_cond_signal(&s->changed);
    pthread_cond_broadcast(&progress);
}

static void jitter(void) {
    unsigned us = fake_settings()->jitter_us;
    static _Atomic uint32_t state = 1;
    if (us)
        usleep((atomic_fetch_add(&state, 0x9e3779b9u) * 2654435761u >> 8) % us);
}

static void *stream_main(void *arg) {
    struct CUstream_st *s = arg;
    pthread_mutex_lock(&fake_streams_lock);
    for (;;) {
        while (!s->head && !s->destroyed)
            pthread_cond_wait(&s->changed, &fake_streams_lock);
        struct op *op = s->head;
        if (!op)
            break;
        while (!ready(s, op))
            pthread_cond_wait(&s->changed, &fake_streams_lock);
        s->head = op->next;
        if (!s->head)
            s->tail = &s->head;
        pthread_mutex_unlock(&fake_streams_lock);
        jitter();
        fake_run_op(s->ctx, op);
        pthread_mutex_lock(&fake_streams_lock);
        s->done = op->seq;
        if (s->hw)
            s->hw->done = op->ticket;
        fake_op_free(op);
        wake_locked();
    }
    pthread_mutex_unlock(&fake_streams_lock);
    return NULL;
}

struct CUstream_st *fake_new_stream(CUcontext ctx, bool non_blocking, int priority) {
    struct CUstream_st *s = calloc(1, sizeof *s);
    s->ctx = ctx;
    s->non_blocking = non_blocking;
    s->priority = priority;
    s->tail = &s->head;
    pthread_cond_init(&s->changed, NULL);
    if (fake_settings()->queues)
        s->hw = &ctx->hw[ctx->streams_made++ % fake_settings()->queues];
    if (pthread_create(&s->thread, NULL, stream_main, s)) {
        free(s);
        return NULL;
    }
    s->next = fake_streams;
    fake_streams = s;
    return s;
}

/* ---- default streams ------------------------------------------------------------------------- */

void fake_end_stream_locked(struct CUstream_st *s) {
    s->destroyed = true;
    fake_flush_locked(s, s->queued);
    pthread_cond_signal(&s->changed);
    pthread_detach(s->thread);
}

/* Its address identifies the thread. */
static _Thread_local char this_thread;
static pthread_key_t thread_end;

static void thread_ends(void *thread) {
    pthread_mutex_lock(&fake_streams_lock);
    for (struct CUstream_st *s = fake_streams; s; s = s->next)
        if (s->of_thread == thread && !s->destroyed)
            fake_end_stream_locked(s);
    pthread_mutex_unlock(&fake_streams_lock);
}

static void watch_thread_ends(void) {
    pthread_key_create(&thread_end, thread_ends);
}

/* One stream per thread and context. It is a normal blocking stream and ends with its thread. */
static struct CUstream_st *per_thread_locked(CUcontext ctx) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct CUstream_st *s = fake_streams;
    while (s && (s->of_thread != &this_thread || s->ctx != ctx || s->destroyed))
        s = s->next;
    if (s)
        return s;
    s = fake_new_stream(ctx, false, 0);
    s->of_thread = &this_thread;
    pthread_once(&once, watch_thread_ends);
    pthread_setspecific(thread_end, &this_thread);
    return s;
}

struct CUstream_st *fake_resolve_locked(CUstream stream) {
    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
        return stream;
    CUcontext ctx = fake_current();
    if (stream == CU_STREAM_PER_THREAD)
        return per_thread_locked(ctx);
    if (!legacy[ctx->device]) {
        legacy[ctx->device] = fake_new_stream(ctx, false, 0);
        legacy[ctx->device]->legacy = true;
    }
    if (legacy[ctx->device]->ctx != ctx)
        legacy[ctx->device]->ctx = ctx;
    return legacy[ctx->device];
}

struct CUstream_st *fake_resolve(CUstream stream) {
    pthread_mutex_lock(&fake_streams_lock);
    struct CUstream_st *s = fake_resolve_locked(stream);
    pthread_mutex_unlock(&fake_streams_lock);
    return s;
}

/* ---- submission ------------------------------------------------------------------------------ */

void fake_add_wait(struct op *op, struct CUstream_st *s, uint64_t seq) {
    if (s->done >= seq)
        return;
    if (op->nwaits == MAX_WAITS) {
        fprintf(stderr, "fake_cuda: more than %d waits in one operation\n", MAX_WAITS);
        abort();
    }
    op->waits[op->nwaits].stream = s;
    op->waits[op->nwaits++].seq = seq;
}

/* The legacy stream and the blocking streams of its context wait for each other. */
static void legacy_waits(struct CUstream_st *s, struct op *op) {
    for (struct CUstream_st *o = fake_streams; o; o = o->next)
        if (o != s && o->ctx == s->ctx && !o->non_blocking && (s->legacy || o->legacy) &&
            !s->non_blocking)
            fake_add_wait(op, o, o->queued);
}

void fake_queue_locked(struct CUstream_st *s, struct op *op) {
    legacy_waits(s, op);
    op->seq = ++s->queued;
    *s->tail = op;
    s->tail = &op->next;
    if (!fake_settings()->lazy)
        release_op(s, op);
    pthread_cond_signal(&s->changed);
}

void fake_append_graph(struct CUgraph_st *g, struct op *op) {
    op->nwaits = 0;
    *g->tail = op;
    g->tail = &op->next;
    g->count++;
}

/* The legacy stream would wait for capturing streams of its context. Using it invalidates these
 * captures, querying it does not. */
bool fake_implicit_in_capture(const struct CUstream_st *legacy_stream, bool use) {
    bool found = false;
    for (struct CUstream_st *s = fake_streams; s; s = s->next) {
        if (!s->capture || s->non_blocking || s->ctx != legacy_stream->ctx)
            continue;
        found = true;
        s->capture->invalid |= use;
    }
    return found;
}

CUresult fake_submit_locked(struct CUstream_st *s, struct op *op) {
    if (s->legacy && fake_implicit_in_capture(s, true)) {
        fake_op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!s->capture) {
        fake_queue_locked(s, op);
        return CUDA_SUCCESS;
    }
    if (s->capture->invalid) {
        fake_op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    s->unjoined = s != s->capture->origin;
    fake_append_graph(s->capture->graph, op);
    return CUDA_SUCCESS;
}

CUresult fake_submit(CUstream stream, struct op *op) {
    pthread_mutex_lock(&fake_streams_lock);
    CUresult r = fake_submit_locked(fake_resolve_locked(stream), op);
    pthread_mutex_unlock(&fake_streams_lock);
    return r;
}

CUresult fake_submit_and_wait(CUstream stream, struct op *op) {
    pthread_mutex_lock(&fake_streams_lock);
    struct CUstream_st *s = fake_resolve_locked(stream);
    CUresult r = fake_submit_locked(s, op);
    if (!r && !s->capture)
        fake_wait_locked(s, s->queued);
    pthread_mutex_unlock(&fake_streams_lock);
    return r ? r : (CUresult)fake_current()->error;
}

CUresult fake_sync_context(CUcontext ctx) {
    pthread_mutex_lock(&fake_streams_lock);
    for (struct CUstream_st *s = fake_streams; s; s = s->next)
        if (s->ctx == ctx)
            fake_wait_locked(s, s->queued);
    pthread_mutex_unlock(&fake_streams_lock);
    return (CUresult)ctx->error;
}

bool fake_is_default(CUstream stream) {
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

bool fake_capturing(CUstream stream) {
    return fake_resolve(stream)->capture;
}

CUcontext fake_stream_context(CUstream stream) {
    return fake_is_default(stream) ? NULL : stream->ctx;
}

CUresult fake_capture_conflict(CUcontext ctx) {
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&fake_streams_lock);
    for (struct CUstream_st *s = fake_streams; s; s = s->next)
        if (s->ctx == ctx && s->capture) {
            s->capture->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&fake_streams_lock);
    return r;
}
