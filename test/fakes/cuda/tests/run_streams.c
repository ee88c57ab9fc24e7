/* SPDX-License-Identifier: BSD-3-Clause */
/* The special handles of streams: NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD. */
#include "child.h"
#include <pthread.h>

static void with_context(void (*test)(void)) {
    open_device(0);
    test();
}

static struct {
    CUcontext ctx;
    CUdeviceptr flag;
    CUresult query;
} thread_of;

/* Its per-thread stream differs from that of the waiting thread. */
static void *query_own_stream(void *unused) {
    (void)unused;
    CU(cuCtxPushCurrent(thread_of.ctx));
    CU(cuMemsetD32Async(thread_of.flag + 4, 5, 1, CU_STREAM_PER_THREAD));
    CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    thread_of.query = cuStreamQuery(CU_STREAM_PER_THREAD);
    CU(cuMemsetD32Async(thread_of.flag, 1, 1, CU_STREAM_PER_THREAD)); /* ends after the thread */
    return NULL;
}

static void per_thread_streams(void) {
    pthread_t t;
    CUevent e;
    uint32_t got[2];
    CU(cuCtxGetCurrent(&thread_of.ctx));
    thread_of.flag = device_bytes(8);
    CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CU(cuMemsetD32(thread_of.flag, 0, 2));
    CU(cuCtxSynchronize());
    CU(cuStreamWaitValue32(CU_STREAM_PER_THREAD, thread_of.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuEventRecord(e, CU_STREAM_PER_THREAD));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    CHECK(pthread_create(&t, NULL, query_own_stream, NULL) == 0 && pthread_join(t, NULL) == 0);
    CHECK(thread_of.query == CUDA_SUCCESS);
    CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CU(cuEventQuery(e));
    CU(cuMemcpyDtoH(got, thread_of.flag, 8));
    CHECK(got[0] == 1 && got[1] == 5);
}

/* A per-thread stream is a blocking stream: it and the legacy stream wait for each other. */
static void per_thread_and_legacy(void) {
    CUstream s;
    CUdeviceptr flag = device_bytes(4);
    CU(cuMemsetD32(flag, 0, 1));
    CU(cuCtxSynchronize());
    CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CU(cuStreamWaitValue32(CU_STREAM_LEGACY, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuMemsetD32Async(flag, 2, 1, CU_STREAM_PER_THREAD));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL)); /* the same as CU_STREAM_LEGACY */
    CU(cuStreamWriteValue32(s, flag, 1, 0));
    CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CU(cuStreamWaitValue32(CU_STREAM_PER_THREAD, flag, 3, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuMemsetD32Async(flag, 4, 1, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    CU(cuStreamWriteValue32(s, flag, 3, 0));
    CU(cuStreamSynchronize(CU_STREAM_LEGACY));
}

static void special_handles(void) {
    static const CUstream special[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    CUcontext current, ctx;
    CUgraph g;
    CUstreamCaptureStatus status;
    CUdeviceptr x = device_bytes(4);
    unsigned flags;
    int priority;
    CU(cuCtxGetCurrent(&current));
    for (int i = 0; i < 3; i++) {
        CU(cuStreamGetCtx(special[i], &ctx));
        CHECK(ctx == current);
        CU(cuStreamGetFlags(special[i], &flags));
        CU(cuStreamGetPriority(special[i], &priority));
        CHECK(flags == CU_STREAM_DEFAULT && priority == 0);
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(special[i]));
    }
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuStreamIsCapturing(CU_STREAM_PER_THREAD, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
    CU(cuMemsetD32Async(x, 0, 1, CU_STREAM_PER_THREAD));
    CU(cuStreamEndCapture(CU_STREAM_PER_THREAD, &g));
    CU(cuGraphDestroy(g));
}

#define RUN(test, ...)                                                                             \
    failed += run_child(#test, with_context, test, 0, (const char *[]){__VA_ARGS__, NULL})

int main(void) {
    int failed = 0;
    RUN(per_thread_streams, "FAKECUDA_LAZY=0");
    RUN(per_thread_streams, "FAKECUDA_LAZY=1");
    RUN(per_thread_and_legacy, "FAKECUDA_LAZY=0");
    RUN(special_handles, "FAKECUDA_LAZY=0");
    return failed != 0;
}
