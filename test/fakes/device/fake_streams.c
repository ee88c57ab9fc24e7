/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of the fake device: see fake.h. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "error.h"
#include "fake.h"
#include "fake_internal.h"
#include "operation.h"

/* Counts of enqueued work and of work marked as done. */
struct fake_stream {
    struct fake_stream *next;
    long enqueued, done;
};

/* A fence is due when its stream has done the work enqueued so far. */
struct waiting {
    struct waiting *next;
    struct rcmi_operation *operation;
    struct fake_stream *stream;
    long until;
};
static struct waiting *waiting;
static struct fake_stream legacy = {.next = NULL};
static struct fake_stream *streams;
static bool capturing;

static void waiting_look(void) {
    struct waiting **at = &waiting;
    while (*at) {
        struct waiting *w = *at;
        if (w->stream->done < w->until) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->operation->own = NULL; /* due */
        fake_enqueue(w->operation);
        free(w);
    }
}

rcm_status fake_follow(struct rcmi_operation *o, void *stream) {
    struct fake_stream *s = stream ? stream : &legacy;
    struct waiting *w = malloc(sizeof(*w));
    if (!w)
        abort();
    pthread_mutex_lock(&fake_lock);
    if (capturing) {
        pthread_mutex_unlock(&fake_lock);
        free(w);
        return rcmi_fail(RCM_ERR_INVALID, 0, "call->stream is %p, which is being captured", stream);
    }
    fake_thread_start();
    o->code = 0;
    *w = (struct waiting){waiting, o, s, s->enqueued};
    waiting = w;
    waiting_look();
    pthread_mutex_unlock(&fake_lock);
    return RCM_OK;
}

void *fake_stream_new(void) {
    struct fake_stream *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    pthread_mutex_lock(&fake_lock);
    s->next = streams;
    streams = s; /* never freed */
    pthread_mutex_unlock(&fake_lock);
    return s;
}

void fake_stream_enqueue(void *stream) {
    struct fake_stream *s = stream ? stream : &legacy;
    pthread_mutex_lock(&fake_lock);
    s->enqueued++;
    pthread_mutex_unlock(&fake_lock);
}

void fake_stream_done(void *stream) {
    struct fake_stream *s = stream ? stream : &legacy;
    pthread_mutex_lock(&fake_lock);
    fake_thread_start();
    s->done++;
    waiting_look();
    pthread_mutex_unlock(&fake_lock);
}

void fake_stream_capture(bool begins) {
    pthread_mutex_lock(&fake_lock);
    capturing = begins;
    pthread_mutex_unlock(&fake_lock);
}
