/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the runtime that are one call of the driver: name, parameters, call. Those of
 * STREAM_CALLS take a stream and are compiled twice, see STREAM in cudart.h. */
#ifndef DRIVER_CALLS_H
#define DRIVER_CALLS_H

/* clang-format off */
/* Need a driver only. */
#define INIT_CALLS(X) \
    X(cudaDeviceGetAttribute, (int *ret, enum cudaDeviceAttr a, int device), \
        cuDeviceGetAttribute(ret, (CUdevice_attribute)a, device)) \
    X(cudaDeviceGetPCIBusId, (char *text, int length, int device), \
        cuDeviceGetPCIBusId(text, length, device)) \
    X(cudaDeviceGetP2PAttribute, (int *ret, enum cudaDeviceP2PAttr a, int from, int to), \
        cuDeviceGetP2PAttribute(ret, (CUdevice_P2PAttribute)a, from, to)) \
    X(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *ret, int device), \
        cuDeviceGetDefaultMemPool(ret, device))

/* Need a current context too. */
#define CONTEXT_CALLS(X) \
    X(cudaDeviceSynchronize, (void), cuCtxSynchronize()) \
    X(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), \
        cuCtxGetStreamPriorityRange(least, greatest)) \
    X(cudaFree, (void *p), cuMemFree(ADDRESS(p))) \
    X(cudaMallocManaged, (void **ret, size_t size, unsigned flags), \
        cuMemAllocManaged((CUdeviceptr *)ret, size, flags)) \
    X(cudaHostRegister, (void *p, size_t size, unsigned flags), cuMemHostRegister(p, size, flags)) \
    X(cudaHostUnregister, (void *p), cuMemHostUnregister(p)) \
    X(cudaHostGetDevicePointer, (void **ret, void *p, unsigned flags), \
        cuMemHostGetDevicePointer((CUdeviceptr *)ret, p, flags)) \
    X(cudaHostGetFlags, (unsigned *ret, void *p), cuMemHostGetFlags(ret, p)) \
    X(cudaMemGetInfo, (size_t *unused, size_t *total), cuMemGetInfo(unused, total)) \
    X(cudaIpcGetMemHandle, (cudaIpcMemHandle_t *ret, void *p), \
        cuIpcGetMemHandle((CUipcMemHandle *)ret, ADDRESS(p))) \
    X(cudaIpcCloseMemHandle, (void *p), cuIpcCloseMemHandle(ADDRESS(p))) \
    X(cudaStreamCreate, (cudaStream_t *ret), cuStreamCreate(ret, CU_STREAM_DEFAULT)) \
    X(cudaStreamCreateWithFlags, (cudaStream_t *ret, unsigned flags), cuStreamCreate(ret, flags)) \
    X(cudaStreamCreateWithPriority, (cudaStream_t *ret, unsigned flags, int priority), \
        cuStreamCreateWithPriority(ret, flags, priority)) \
    X(cudaStreamDestroy, (cudaStream_t s), cuStreamDestroy(s)) \
    X(cudaEventCreate, (cudaEvent_t *ret), cuEventCreate(ret, CU_EVENT_DEFAULT)) \
    X(cudaEventCreateWithFlags, (cudaEvent_t *ret, unsigned flags), cuEventCreate(ret, flags)) \
    X(cudaEventDestroy, (cudaEvent_t e), cuEventDestroy(e)) \
    X(cudaEventQuery, (cudaEvent_t e), cuEventQuery(e)) \
    X(cudaEventSynchronize, (cudaEvent_t e), cuEventSynchronize(e)) \
    X(cudaEventElapsedTime, (float *ret, cudaEvent_t from, cudaEvent_t to), \
        cuEventElapsedTime(ret, from, to)) \
    X(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode *mode), \
        cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode)) \
    X(cudaGraphInstantiate, (cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags), \
        cuGraphInstantiateWithFlags(ret, graph, flags)) \
    X(cudaGraphInstantiateWithFlags, \
        (cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags), \
        cuGraphInstantiateWithFlags(ret, graph, flags)) \
    X(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *ret, size_t *count), \
        cuGraphGetNodes(graph, ret, count)) \
    X(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph)) \
    X(cudaGraphExecDestroy, (cudaGraphExec_t graph), cuGraphExecDestroy(graph)) \
    X(cudaProfilerStart, (void), CUDA_SUCCESS) /* without a profiler attached */ \
    X(cudaProfilerStop, (void), CUDA_SUCCESS)

#define STREAM_CALLS(X) \
    X(cudaStreamSynchronize, (cudaStream_t s), cuStreamSynchronize(STREAM(s))) \
    X(cudaStreamQuery, (cudaStream_t s), cuStreamQuery(STREAM(s))) \
    X(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), \
        cuStreamWaitEvent(STREAM(s), e, flags)) \
    X(cudaStreamGetFlags, (cudaStream_t s, unsigned *ret), cuStreamGetFlags(STREAM(s), ret)) \
    X(cudaStreamGetPriority, (cudaStream_t s, int *ret), cuStreamGetPriority(STREAM(s), ret)) \
    X(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), cuEventRecord(e, STREAM(s))) \
    X(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned flags), \
        cuEventRecordWithFlags(e, STREAM(s), flags)) \
    X(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t function, void *argument), \
        function ? cuLaunchHostFunc(STREAM(s), function, argument) : CUDA_ERROR_INVALID_VALUE) \
    X(cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *ret), \
        cuStreamIsCapturing(STREAM(s), (CUstreamCaptureStatus *)ret)) \
    X(cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode mode), \
        cuStreamBeginCapture(STREAM(s), (CUstreamCaptureMode)mode)) \
    X(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *ret), \
        cuStreamEndCapture(STREAM(s), ret)) \
    X(cudaStreamGetCaptureInfo, (cudaStream_t s, enum cudaStreamCaptureStatus *status, \
        unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes, \
        const cudaGraphEdgeData **edges, size_t *count), \
        cuStreamGetCaptureInfo(STREAM(s), (CUstreamCaptureStatus *)status, (cuuint64_t *)id, \
            graph, nodes, (const CUgraphEdgeData **)edges, count)) \
    X(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t s), cuGraphLaunch(graph, STREAM(s))) \
    X(cudaMallocAsync, (void **ret, size_t size, cudaStream_t s), \
        cuMemAllocAsync((CUdeviceptr *)ret, size, STREAM(s))) \
    X(cudaFreeAsync, (void *p, cudaStream_t s), cuMemFreeAsync(ADDRESS(p), STREAM(s)))
/* clang-format on */

#endif
