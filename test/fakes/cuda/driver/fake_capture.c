/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of streams, and graphs. */
#include "fake_stream.h"
#include <stdlib.h>

static struct capture *captures;
static unsigned long long next_capture = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Any GLOBAL capture, and a THREAD_LOCAL capture of this thread, forbid unsafe calls to threads
 * that have not relaxed their mode. */
CUresult fake_unsafe_in_capture(void) {
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&fake_streams_lock);
    for (struct capture *c = captures; c && thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
         c = c->next) {
        bool mine = pthread_equal(c->thread, pthread_self());
        bool global = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                      thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (global || (mine && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED)) {
            c->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&fake_streams_lock);
    return r;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    ENTER(false);
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

static struct CUgraph_st *new_graph(void) {
    struct CUgraph_st *g = calloc(1, sizeof *g);
    g->tail = &g->head;
    return g;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
    ENTER(true);
    struct CUstream_st *s = fake_resolve(stream);
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *c = calloc(1, sizeof *c);
    pthread_mutex_lock(&fake_streams_lock);
    *c = (struct capture){new_graph(), mode, s, next_capture++, false, pthread_self(), captures, 1};
    captures = s->capture = c;
    pthread_mutex_unlock(&fake_streams_lock);
    return CUDA_SUCCESS;
}

static void free_ops(struct CUgraph_st *g) {
    for (struct op *op = g->head, *next; op; op = next) {
        next = op->next;
        fake_op_free(op);
    }
}

static void drop_graph(struct CUgraph_st *g) {
    free_ops(g);
    free(g);
}

static bool leave_capture(struct capture *c) {
    bool unjoined = false;
    for (struct CUstream_st *s = fake_streams; s; s = s->next)
        if (s->capture == c) {
            unjoined |= s != c->origin && s->unjoined;
            s->capture = NULL;
            s->unjoined = false;
        }
    for (struct capture **p = &captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    return unjoined;
}

/* Returns the graph or drops it. Events recorded in the capture may still point to the struct. */
static CUresult finish_capture(struct capture *c, bool unjoined, CUgraph *out) {
    CUresult r = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                 : unjoined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                            : CUDA_SUCCESS;
    *out = r ? NULL : c->graph;
    if (r)
        drop_graph(c->graph);
    c->graph = NULL;
    fake_drop_capture(c);
    return r;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *out) {
    ENTER(true);
    struct CUstream_st *s = fake_resolve(stream);
    if (!s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *c = s->capture;
    if (c->origin != s)
        return c->invalid = true, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    pthread_mutex_lock(&fake_streams_lock);
    bool unjoined = leave_capture(c);
    CUresult r = finish_capture(c, unjoined, out);
    pthread_mutex_unlock(&fake_streams_lock);
    return r;
}

static bool legacy_is_unusable(const struct CUstream_st *s) {
    pthread_mutex_lock(&fake_streams_lock);
    bool unusable = s->legacy && fake_implicit_in_capture(s, false);
    pthread_mutex_unlock(&fake_streams_lock);
    return unusable;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    ENTER(true);
    const struct CUstream_st *s = fake_resolve(stream);
    if (legacy_is_unusable(s))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph) {
    CUresult r = cuStreamIsCapturing(stream, status);
    const struct CUstream_st *s = r ? NULL : fake_resolve(stream);
    if (s && s->capture) {
        if (id)
            *id = s->capture->id;
        if (graph)
            *graph = s->capture->graph;
    }
    return r;
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                           size_t *ndeps) {
    (void)deps;
    if (ndeps)
        *ndeps = 0;
    return capture_info(s, status, id, graph);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                           const CUgraphEdgeData **edges, size_t *ndeps) {
    (void)edges;
    return cuStreamGetCaptureInfo_v2(s, status, id, graph, deps, ndeps);
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                             unsigned long long flags) {
    ENTER(true);
    (void)flags;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec exec = calloc(1, sizeof *exec);
    exec->ops.tail = &exec->ops.head;
    for (struct op *op = graph->head; op; op = op->next)
        fake_append_graph(&exec->ops, fake_op_copy(op));
    *out = exec;
    return CUDA_SUCCESS;
}

/* Nodes run one after the other in capture order, which CUDA allows. */
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    ENTER(true);
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&fake_streams_lock);
    struct CUstream_st *s = fake_resolve_locked(stream);
    for (struct op *op = exec->ops.head; op && !r; op = op->next)
        r = fake_submit_locked(s, fake_op_copy(op));
    pthread_mutex_unlock(&fake_streams_lock);
    return r;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
    ENTER(true);
    (void)nodes;
    *n = graph->count;
    return nodes ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
    ENTER(false);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    drop_graph(graph);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
    ENTER(false);
    free_ops(&exec->ops);
    free(exec);
    return CUDA_SUCCESS;
}
