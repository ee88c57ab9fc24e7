/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of the CUDA driver that this face makes itself: for the order after an operation,
 * copies of the caller's data on the caller's streams, and ncclMemAlloc. The driver is loaded at
 * run time, and its functions come from cuGetProcAddress_v2, so that each has the signature below.
 * Addresses in device memory are pointers here.
 */
#ifndef NCCL_DRIVER_H
#define NCCL_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include "nccl_abi.h"

enum {
    DRIVER_WAIT_GEQ = 0,
    DRIVER_CAPTURE_RELAXED = 2,
    DRIVER_CAPTURE_IMPLICIT = 906,
    DRIVER_HOST_PORTABLE = 1,
    DRIVER_HOST_MAPPED = 2,
    DRIVER_EVENT_DISABLE_TIMING = 2,
    DRIVER_POINTER_ORDINAL = 9,
};

/* Name, the version of CUDA that introduced this signature, parameters. */
#define DRIVER_MAP(X)                                                                              \
    X(cuInit, 2000, (unsigned flags))                                                              \
    X(cuGetErrorName, 6000, (int code, const char **name))                                         \
    X(cuDeviceGetCount, 2000, (int *n))                                                            \
    X(cuDevicePrimaryCtxRetain, 7000, (void **context, int device))                                \
    X(cuCtxGetDevice, 2000, (int *device))                                                         \
    X(cuCtxPushCurrent, 4000, (void *context))                                                     \
    X(cuCtxPopCurrent, 4000, (void **context))                                                     \
    X(cuThreadExchangeStreamCaptureMode, 10010, (int *mode))                                       \
    X(cuMemAlloc, 3020, (void **address, size_t bytes))                                            \
    X(cuMemFree, 3020, (void *address))                                                            \
    X(cuMemHostAlloc, 2020, (void **memory, size_t bytes, unsigned flags))                         \
    X(cuPointerGetAttribute, 4000, (void *value, int attribute, const void *address))              \
    X(cuMemcpyAsync, 4000, (void *to, const void *from, size_t bytes, cudaStream_t stream))        \
    X(cuStreamIsCapturing, 10000, (cudaStream_t stream, int *status))                              \
    X(cuStreamWaitEvent, 3020, (cudaStream_t stream, void *event, unsigned flags))                 \
    X(cuStreamWaitValue32, 11070,                                                                  \
      (cudaStream_t stream, void *address, uint32_t value, unsigned flags))                        \
    X(cuEventCreate, 2000, (void **event, unsigned flags))                                         \
    X(cuEventRecord, 2000, (void *event, cudaStream_t stream))                                     \
    X(cuEventDestroy, 4000, (void *event))

extern struct driver {
#define DRIVER_MEMBER(name, version, parameters) int(*name) parameters;
    DRIVER_MAP(DRIVER_MEMBER)
#undef DRIVER_MEMBER
} driver; /* complete after driver_load or a function below it */

/* A call of the driver: ncclSuccess, or an error whose text names the call and the driver's code.
 */
#define DRIVER(name, ...) driver_result(#name, driver.name(__VA_ARGS__))
ncclResult_t driver_result(const char *call, int code);

/* Loads and initialises the driver once. */
ncclResult_t driver_load(void);
/* The device of the calling thread's context; 0 without one, as in the CUDA runtime. */
ncclResult_t driver_device(int *ret_device);
ncclResult_t driver_check_device(int device);

/* The thread visits the primary context of a device, which this process then keeps. Calls during
 * the visit are allowed while another thread captures a stream. */
ncclResult_t driver_enter(int device, int *ret_visit);
void driver_leave(int visit);

#endif
