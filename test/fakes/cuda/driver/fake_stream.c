/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the driver API on streams. */
#include "fake_stream.h"

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
    ENTER(true);
    if (!out || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_streams_lock);
    *out = fake_new_stream(fake_current(), flags & CU_STREAM_NON_BLOCKING, priority);
    pthread_mutex_unlock(&fake_streams_lock);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned flags) {
    return cuStreamCreateWithPriority(out, flags, 0);
}

/* Returns at once. The stream's thread ends when its queue is empty. The struct is never freed. */
CUresult CUDAAPI cuStreamDestroy(CUstream s) {
    ENTER(true);
    if (fake_is_default(s) || s->destroyed)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&fake_streams_lock);
    fake_end_stream_locked(s);
    pthread_mutex_unlock(&fake_streams_lock);
    return CUDA_SUCCESS;
}

static CUresult refuse_if_capturing(CUstream stream) {
    struct CUstream_st *s = fake_resolve(stream);
    if (!s->capture)
        return CUDA_SUCCESS;
    s->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
    ENTER(true);
    CUresult r = refuse_if_capturing(stream);
    if (r)
        return r;
    UNSAFE_IN_CAPTURE;
    pthread_mutex_lock(&fake_streams_lock);
    struct CUstream_st *s = fake_resolve_locked(stream);
    if (s->legacy) /* includes earlier operations of blocking streams */
        fake_queue_locked(s, fake_op(OP_NOP));
    fake_wait_locked(s, s->queued);
    pthread_mutex_unlock(&fake_streams_lock);
    return (CUresult)s->ctx->error;
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
    ENTER(true);
    CUresult r = refuse_if_capturing(stream);
    if (r)
        return r;
    UNSAFE_IN_CAPTURE;
    pthread_mutex_lock(&fake_streams_lock);
    struct CUstream_st *s = fake_resolve_locked(stream);
    fake_flush_locked(s, s->queued);
    bool busy = s->done < s->queued;
    pthread_mutex_unlock(&fake_streams_lock);
    return s->ctx->error ? (CUresult)s->ctx->error : busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream s, unsigned *flags) {
    ENTER(true);
    *flags = fake_resolve(s)->non_blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetPriority(CUstream s, int *priority) {
    ENTER(true);
    *priority = fake_resolve(s)->priority;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream s, CUcontext *ctx) {
    ENTER(true);
    *ctx = fake_is_default(s) ? fake_current() : s->ctx;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg) {
    ENTER(true);
    struct op *op = fake_op(OP_HOST);
    op->host_fn = fn;
    op->host_arg = arg;
    return fake_submit(stream, op);
}
