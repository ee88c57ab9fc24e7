/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams, events and captures, shared by the files that use them. One lock guards all queues,
 * because the emulator need not be fast. */
#ifndef FAKE_STREAM_H
#define FAKE_STREAM_H
#include "fake.h"
#include <time.h>

struct capture {
    struct CUgraph_st *graph; /* NULL: the capture has ended */
    CUstreamCaptureMode mode;
    struct CUstream_st *origin;
    unsigned long long id;
    bool invalid;
    pthread_t thread;
    struct capture *next;
    int refs; /* the list of captures, and events recorded in it */
};

struct CUstream_st {
    CUcontext ctx;
    bool non_blocking, legacy, destroyed;
    int priority;
    uint64_t queued, released, done; /* sequence numbers */
    struct hw_queue *hw;             /* NULL: a queue of its own */
    struct op *head, **tail;
    pthread_t thread;
    pthread_cond_t changed; /* its first operation may begin, or it is destroyed */
    struct capture *capture;
    bool unjoined;
    const void *of_thread; /* the thread whose per-thread default stream it is; NULL: none */
    struct CUstream_st *next;
};

struct CUevent_st {
    struct CUstream_st *stream; /* NULL: never recorded */
    uint64_t seq;
    unsigned flags;
    struct timespec when;
    struct capture *capture;
    int refs; /* held by the caller and by queued operations that record it */
};

struct CUgraph_st {
    struct op *head, **tail;
    size_t count;
};

struct CUgraphExec_st {
    struct CUgraph_st ops;
};

extern pthread_mutex_t fake_streams_lock;
extern struct CUstream_st *fake_streams;

/* ---- queues (fake_queue.c), all with the lock held ---- */
struct CUstream_st *fake_new_stream(CUcontext ctx, bool non_blocking, int priority);
/* The default streams, too. */
struct CUstream_st *fake_resolve_locked(CUstream stream);
/* It accepts no more operations. Its thread ends when its queue is empty. */
void fake_end_stream_locked(struct CUstream_st *s);
void fake_queue_locked(struct CUstream_st *s, struct op *op);
/* Queues the op, or adds it to the capture. On failure it frees the op. */
CUresult fake_submit_locked(struct CUstream_st *s, struct op *op);
void fake_flush_locked(struct CUstream_st *s, uint64_t seq);
void fake_wait_locked(struct CUstream_st *s, uint64_t seq);
void fake_add_wait(struct op *op, struct CUstream_st *s, uint64_t seq);
bool fake_implicit_in_capture(const struct CUstream_st *legacy_stream, bool use);
void fake_append_graph(struct CUgraph_st *g, struct op *op);

/* Takes the lock. */
struct CUstream_st *fake_resolve(CUstream stream);

/* ---- events (fake_event.c) ---- */
CUevent fake_take_event(CUevent e);
void fake_drop_event(CUevent e);
void fake_drop_capture(struct capture *c);

#endif
