/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams and events as objects, and graphs of captures. */
#include "cudart.h"

/* clang-format off */
API(cudaStreamCreate, (cudaStream_t *ret), cuStreamCreate(ret, CU_STREAM_DEFAULT))
API(cudaStreamCreateWithFlags, (cudaStream_t *ret, unsigned flags), cuStreamCreate(ret, flags))
API(cudaStreamCreateWithPriority, (cudaStream_t *ret, unsigned flags, int priority),
    cuStreamCreateWithPriority(ret, flags, priority))
API(cudaStreamDestroy, (cudaStream_t s), cuStreamDestroy(s))

API(cudaEventCreate, (cudaEvent_t *ret), cuEventCreate(ret, CU_EVENT_DEFAULT))
API(cudaEventCreateWithFlags, (cudaEvent_t *ret, unsigned flags), cuEventCreate(ret, flags))
API(cudaEventDestroy, (cudaEvent_t e), cuEventDestroy(e))
API(cudaEventQuery, (cudaEvent_t e), cuEventQuery(e))
API(cudaEventSynchronize, (cudaEvent_t e), cuEventSynchronize(e))
API(cudaEventElapsedTime, (float *ret, cudaEvent_t from, cudaEvent_t to),
    cuEventElapsedTime(ret, from, to))

API(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode *mode),
    cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
API(cudaGraphInstantiate, (cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags),
    cuGraphInstantiateWithFlags(ret, graph, flags))
API(cudaGraphInstantiateWithFlags,
    (cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags),
    cuGraphInstantiateWithFlags(ret, graph, flags))
API(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *ret, size_t *count),
    cuGraphGetNodes(graph, ret, count))
API(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
API(cudaGraphExecDestroy, (cudaGraphExec_t graph), cuGraphExecDestroy(graph))
/* clang-format on */
