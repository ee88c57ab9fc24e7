/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that use streams. Compiled twice, see STREAM. */
#include "cudart.h"
#include "driver_calls.h"
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

API(cudaStreamGetDevice, (cudaStream_t s, int *ret), device_of(STREAM(s), ret))
API(cudaStreamAddCallback, (cudaStream_t s, cudaStreamCallback_t f, void *argument, unsigned flags),
    add_callback(s, f, argument, flags))
STREAM_CALLS(API)
