/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that use streams: waits, queries, events, host functions, captures. Compiled twice, see
 * STREAM. */
#include "cudart.h"
#include <stdlib.h>

/* cudaStreamAddCallback: a host function with the stream and its status, which is success, because
 * the driver runs no host function after an error. */
struct callback {
    cudaStreamCallback_t function;
    cudaStream_t stream;
    void *argument;
};

static void CUDA_CB call_back(void *argument) {
    struct callback *c = argument;
    c->function(c->stream, cudaSuccess, c->argument);
    free(c);
}

static CUresult add_callback(cudaStream_t s, cudaStreamCallback_t function, void *argument,
                             unsigned flags) {
    if (!function || flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct callback *c = malloc(sizeof *c);
    *c = (struct callback){function, s, argument};
    CUresult r = cuLaunchHostFunc(STREAM(s), call_back, c);
    if (r)
        free(c);
    return r;
}

static CUresult device_of(CUstream s, int *ret) {
    CUcontext context;
    CUresult r = cuStreamGetCtx(s, &context);
    if (r || (r = cuCtxPushCurrent(context)))
        return r;
    r = rt_device(ret);
    (void)cuCtxPopCurrent(&context);
    return r;
}

/* clang-format off */
API(cudaStreamSynchronize, (cudaStream_t s), cuStreamSynchronize(STREAM(s)))
API(cudaStreamQuery, (cudaStream_t s), cuStreamQuery(STREAM(s)))
API(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags),
    cuStreamWaitEvent(STREAM(s), e, flags))
API(cudaStreamGetFlags, (cudaStream_t s, unsigned *ret), cuStreamGetFlags(STREAM(s), ret))
API(cudaStreamGetPriority, (cudaStream_t s, int *ret), cuStreamGetPriority(STREAM(s), ret))
API(cudaStreamGetDevice, (cudaStream_t s, int *ret), device_of(STREAM(s), ret))
API(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), cuEventRecord(e, STREAM(s)))
API(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned flags),
    cuEventRecordWithFlags(e, STREAM(s), flags))
API(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t function, void *argument),
    function ? cuLaunchHostFunc(STREAM(s), function, argument) : CUDA_ERROR_INVALID_VALUE)
API(cudaStreamAddCallback, (cudaStream_t s, cudaStreamCallback_t f, void *argument, unsigned flags),
    add_callback(s, f, argument, flags))

API(cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *ret),
    cuStreamIsCapturing(STREAM(s), (CUstreamCaptureStatus *)ret))
API(cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode mode),
    cuStreamBeginCapture(STREAM(s), (CUstreamCaptureMode)mode))
API(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *ret), cuStreamEndCapture(STREAM(s), ret))
API(cudaStreamGetCaptureInfo, (cudaStream_t s, enum cudaStreamCaptureStatus *status,
    unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
    const cudaGraphEdgeData **edges, size_t *count),
    cuStreamGetCaptureInfo(STREAM(s), (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph,
        nodes, (const CUgraphEdgeData **)edges, count))
API(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t s), cuGraphLaunch(graph, STREAM(s)))
/* clang-format on */
