/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for the program's streams: an operation that ends when the work now enqueued on a stream
 * is done. The calling thread records the event, so work enqueued later is not awaited. The
 * device's thread polls the event, which is stored in the operation's `own`.
 */
#include "device_internal.h"
#include "error.h"

static rcm_status stream_captures(void) {
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "the stream is being captured: operations cannot be part of a CUDA graph");
}

/* The stream must belong to this device and not be captured. NULL and the other default streams
 * belong to the current context. */
static rcm_status stream_check(const struct rcmi_device *d, struct rcmi_cuda_stream *stream) {
    struct rcmi_cuda_context *context = NULL;
    int captures = RCMI_CUDA_CAPTURE_NONE;
    rcmi_cuda_code code = d->cuda->cuStreamIsCapturing(stream, &captures);
    if (code == RCMI_CUDA_CAPTURE_IMPLICIT ||
        (code == RCMI_CUDA_SUCCESS && captures != RCMI_CUDA_CAPTURE_NONE))
        return stream_captures();
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuStreamIsCapturing");
    code = d->cuda->cuStreamGetCtx(stream, &context);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuStreamGetCtx");
    return context == d->context
               ? RCM_OK
               : rcmi_fail(RCM_ERR_INVALID, 0,
                           "the stream does not belong to the primary context of %s",
                           d->facts.label);
}

static rcm_status stream_record(struct rcmi_device *d, struct rcmi_cuda_stream *stream,
                                struct rcmi_cuda_event **ret_event) {
    rcm_status status = stream_check(d, stream);
    if (status != RCM_OK)
        return status;
    rcmi_cuda_code code = d->cuda->cuEventCreate(ret_event, RCMI_CUDA_EVENT_DISABLE_TIMING);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuEventCreate");
    code = d->cuda->cuEventRecord(*ret_event, stream);
    if (code == RCMI_CUDA_SUCCESS)
        return RCM_OK;
    (void)d->cuda->cuEventDestroy(*ret_event);
    return code == RCMI_CUDA_CAPTURE_IMPLICIT ? stream_captures()
                                              : rcmi_cuda_fail(code, "cuEventRecord");
}

rcm_status device_follow(struct rcmi_operation *o, void *stream) {
    struct rcmi_device *d = *o->all->device;
    struct rcmi_cuda_event *event;
    struct rcmi_cuda_visit visit;
    const rcmi_cuda_code code = rcmi_cuda_enter(d->cuda, d->context, &visit);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuCtxPushCurrent");
    const rcm_status status = stream_record(d, stream, &event);
    rcmi_cuda_leave(&visit);
    if (status != RCM_OK)
        return status;
    o->own = event;
    o->nsrcs = o->nresults = 0;
    device_submit(d, o);
    return RCM_OK;
}

static void follow_end(struct rcmi_device *d, struct rcmi_operation *o, rcmi_cuda_code code) {
    (void)d->cuda->cuEventDestroy(o->own);
    rcmi_operation_end(o, device_status(code), code);
}

bool device_follow_look(struct rcmi_device *d, struct rcmi_operation *o) {
    const rcmi_cuda_code code = d->cuda->cuEventQuery(o->own);
    if (code == RCMI_CUDA_NOT_READY)
        return false;
    follow_end(d, o, code);
    return true;
}

void device_follow_drop(struct rcmi_device *d, struct rcmi_operation *o) {
    follow_end(d, o, DEVICE_CODE_DROPPED);
}
