/* SPDX-License-Identifier: BSD-3-Clause */
/* Events. Operations that record them hold a reference. */
#include "fake_stream.h"
#include <stdlib.h>

void fake_drop_capture(struct capture *c) {
    if (c && __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(c);
}

/* Sets the event's capture; NULL: none. */
static void set_capture(CUevent e, struct capture *c) {
    if (c)
        __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    fake_drop_capture(e->capture);
    e->capture = c;
}

CUevent fake_take_event(CUevent e) {
    __atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
    return e;
}

void fake_drop_event(CUevent e) {
    if (__atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        fake_drop_capture(e->capture);
        free(e);
    }
}

CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned flags) {
    ENTER(true);
    *out = calloc(1, sizeof **out);
    (*out)->flags = flags;
    (*out)->refs = 1;
    return CUDA_SUCCESS;
}

/* Never waits: an operation that still has to record the event keeps its memory. */
CUresult CUDAAPI cuEventDestroy(CUevent e) {
    ENTER(false);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    fake_drop_event(e);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent e, CUstream stream) {
    ENTER(true);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    struct op *op = fake_op(OP_STAMP);
    op->event = fake_take_event(e);
    pthread_mutex_lock(&fake_streams_lock);
    struct CUstream_st *s = fake_resolve_locked(stream);
    set_capture(e, s->capture);
    CUresult r = CUDA_SUCCESS;
    if (s->capture)
        fake_op_free(op);
    else
        r = fake_submit_locked(s, op);
    e->stream = s;
    e->seq = s->queued;
    pthread_mutex_unlock(&fake_streams_lock);
    return r;
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent e, CUstream stream, unsigned flags) {
    return flags ? CUDA_ERROR_NOT_SUPPORTED : cuEventRecord(e, stream);
}

/* A captured event can be neither queried nor waited for, in any mode of the thread. */
static CUresult refuse_captured(CUevent e) {
    pthread_mutex_lock(&fake_streams_lock);
    bool captured = e->capture != NULL;
    if (captured)
        e->capture->invalid = true;
    pthread_mutex_unlock(&fake_streams_lock);
    return captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent e) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = refuse_captured(e);
    if (r)
        return r;
    pthread_mutex_lock(&fake_streams_lock);
    if (e->stream)
        fake_flush_locked(e->stream, e->seq);
    bool busy = e->stream && e->stream->done < e->seq;
    pthread_mutex_unlock(&fake_streams_lock);
    return fake_current()->error ? (CUresult)fake_current()->error
           : busy                ? CUDA_ERROR_NOT_READY
                                 : CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventSynchronize(CUevent e) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = refuse_captured(e);
    if (r)
        return r;
    pthread_mutex_lock(&fake_streams_lock);
    if (e->stream)
        fake_wait_locked(e->stream, e->seq);
    pthread_mutex_unlock(&fake_streams_lock);
    return (CUresult)fake_current()->error;
}

static bool timed(CUevent e) {
    return e && e->stream && !(e->flags & CU_EVENT_DISABLE_TIMING);
}

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
    ENTER(true);
    if (!timed(a) || !timed(b))
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&fake_streams_lock);
    bool busy = a->stream->done < a->seq || b->stream->done < b->seq;
    if (!busy)
        *ms = (float)((double)(b->when.tv_sec - a->when.tv_sec) * 1e3 +
                      (double)(b->when.tv_nsec - a->when.tv_nsec) / 1e6);
    pthread_mutex_unlock(&fake_streams_lock);
    return busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* Waiting for a captured event adds the stream to that capture. */
static CUresult wait_captured(struct CUstream_st *s, CUevent e) {
    if (s->capture && (!e->capture || !e->capture->graph)) /* not of an active capture */
        return s->capture->invalid = true, CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (!e->capture->graph)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (s->capture && s->capture != e->capture)
        return e->capture->invalid = true, CUDA_ERROR_STREAM_CAPTURE_MERGE;
    if (s != e->stream)
        e->stream->unjoined = false;
    if (!s->capture) {
        s->capture = e->capture;
        s->unjoined = true;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent e, unsigned flags) {
    ENTER(true);
    (void)flags;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&fake_streams_lock);
    struct CUstream_st *s = fake_resolve_locked(stream);
    if (e->capture || s->capture)
        r = wait_captured(s, e);
    else if (e->stream) {
        struct op *op = fake_op(OP_NOP);
        fake_add_wait(op, e->stream, e->seq);
        fake_queue_locked(s, op);
    }
    pthread_mutex_unlock(&fake_streams_lock);
    return r;
}
