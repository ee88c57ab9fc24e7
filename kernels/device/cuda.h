/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the CUDA driver that the library uses: a table of its functions, found at run time,
 * so that one library serves machines with and without it. The names are the driver's, and its
 * documentation applies. The declarations are the library's own, so no CUDA header is needed.
 *
 *   rcmi_cuda_there      is the driver loaded in this process? Loads and initialises nothing
 *   rcmi_cuda_open       loads and initialises it; the error text explains why it cannot be used
 *   rcmi_cuda_enter      a thread's calls in a context; then restores the thread's own context
 *   rcmi_cuda_fail       converts a code of the driver to a status and an error text
 *
 * A forked child makes no call of the driver.
 *
 * Not here: devices, their threads and memory (kernels/device/device.h).
 */
#ifndef RCMI_CUDA_H
#define RCMI_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

/* The oldest supported driver, as cuDriverGetVersion counts: CUDA 12.0. */
#define RCMI_CUDA_OLDEST 12000

/* The return type of the driver's functions; 0 is success. */
typedef int rcmi_cuda_code;
enum {
    RCMI_CUDA_SUCCESS = 0,
    RCMI_CUDA_INVALID_VALUE = 1,
    RCMI_CUDA_NOT_INITIALIZED = 3,
    RCMI_CUDA_DEINITIALIZED = 4,
    RCMI_CUDA_STUB_LIBRARY = 34,
    RCMI_CUDA_NO_DEVICE = 100,
    RCMI_CUDA_INVALID_CONTEXT = 201,
    RCMI_CUDA_NO_BINARY = 209,
    RCMI_CUDA_NOT_READY = 600,
    RCMI_CUDA_PEER_ENABLED = 704,
    RCMI_CUDA_CAPTURE_IMPLICIT = 906,
};

/* Numbers that the library passes and reads, with CUDA's meaning. */
enum {
    RCMI_CUDA_LEGACY_STREAM = 1, /* cuGetProcAddress: NULL is the legacy default stream */
    RCMI_CUDA_STREAM_NON_BLOCKING = 1,
    RCMI_CUDA_EVENT_DISABLE_TIMING = 2,
    RCMI_CUDA_HOST_PORTABLE = 1, /* for cuMemHostAlloc, cuMemHostRegister */
    RCMI_CUDA_HOST_MAPPED = 2,
    RCMI_CUDA_CAPTURE_RELAXED = 2,
    RCMI_CUDA_CAPTURE_NONE = 0,
    RCMI_CUDA_IPC_LAZY_PEER_ACCESS = 1,
    RCMI_CUDA_MEMORY_HOST = 1, /* values of RCMI_CUDA_POINTER_MEMORY_TYPE */
    RCMI_CUDA_MEMORY_DEVICE = 2,
    RCMI_CUDA_COMPUTE_EXCLUSIVE_PROCESS = 3,
    RCMI_CUDA_COMPUTE_PROHIBITED = 2,
};
enum rcmi_cuda_pointer_attribute {
    RCMI_CUDA_POINTER_CONTEXT = 1,
    RCMI_CUDA_POINTER_MEMORY_TYPE = 2,
    RCMI_CUDA_POINTER_DEVICE_POINTER = 3,
    RCMI_CUDA_POINTER_BUFFER_ID = 7,
    RCMI_CUDA_POINTER_IS_MANAGED = 8,
    RCMI_CUDA_POINTER_DEVICE_ORDINAL = 9,
    RCMI_CUDA_POINTER_LEGACY_IPC = 10,
    RCMI_CUDA_POINTER_RANGE_START = 11,
    RCMI_CUDA_POINTER_RANGE_BYTES = 12,
    RCMI_CUDA_POINTER_HANDLE_TYPES = 14,
    RCMI_CUDA_POINTER_MEMPOOL = 17,
};
enum rcmi_cuda_device_attribute {
    RCMI_CUDA_DEVICE_MULTIPROCESSORS = 16,
    RCMI_CUDA_DEVICE_COMPUTE_MODE = 20,
    RCMI_CUDA_DEVICE_COPY_ENGINES = 40,
    RCMI_CUDA_DEVICE_UNIFIED_ADDRESSING = 41,
    RCMI_CUDA_DEVICE_CC_MAJOR = 75,
    RCMI_CUDA_DEVICE_CC_MINOR = 76,
    RCMI_CUDA_DEVICE_PREEMPTION = 90,
    RCMI_CUDA_DEVICE_VMM = 102,
    RCMI_CUDA_DEVICE_VMM_DESCRIPTORS = 103,
    RCMI_CUDA_DEVICE_MEMORY_POOLS = 115,
    RCMI_CUDA_DEVICE_GPUDIRECT_RDMA = 116,
    RCMI_CUDA_DEVICE_GPUDIRECT_ORDER = 118,
    RCMI_CUDA_DEVICE_WAIT_NOR = 123,
    RCMI_CUDA_DEVICE_DMA_BUF = 124,
    RCMI_CUDA_DEVICE_MPS = 133,
};

struct rcmi_cuda_context;
struct rcmi_cuda_module;
struct rcmi_cuda_kernel;
struct rcmi_cuda_stream;
struct rcmi_cuda_event;
struct rcmi_cuda_uuid {
    unsigned char bytes[16];
};
/* The handle by which another process opens memory. */
struct rcmi_cuda_ipc {
    char bytes[64];
};
typedef unsigned long long rcmi_cuda_address;    /* of device memory */
typedef unsigned long long rcmi_cuda_allocation; /* of cuMemCreate: memory without an address */
enum rcmi_cuda_handle_type {
    RCMI_CUDA_HANDLE_DESCRIPTOR = 1, /* a file descriptor, sent by SCM_RIGHTS */
};
/* The access to mapped memory that cuMemSetAccess grants a device. */
struct rcmi_cuda_access {
    int location_type, device, flags;
};
enum {
    RCMI_CUDA_LOCATION_DEVICE = 1,
    RCMI_CUDA_ACCESS_READ_WRITE = 3,
};

/* Name, the version of CUDA that introduced this signature, parameters. */
#define RCMI_CUDA_MAP(X)                                                                           \
    X(cuInit, 2000, (unsigned flags))                                                              \
    X(cuDriverGetVersion, 2020, (int *version))                                                    \
    X(cuGetErrorName, 6000, (rcmi_cuda_code code, const char **name))                              \
    X(cuDeviceGetCount, 2000, (int *n))                                                            \
    X(cuDeviceGet, 2000, (int *device, int ordinal))                                               \
    X(cuDeviceGetName, 2000, (char *name, int cap, int device))                                    \
    X(cuDeviceGetUuid, 11040, (struct rcmi_cuda_uuid * uuid, int device))                          \
    X(cuDeviceGetPCIBusId, 4010, (char *text, int cap, int device))                                \
    X(cuDeviceTotalMem, 3020, (size_t * bytes, int device))                                        \
    X(cuDeviceGetAttribute, 2000,                                                                  \
      (int *value, enum rcmi_cuda_device_attribute attribute, int device))                         \
    X(cuDevicePrimaryCtxRetain, 7000, (struct rcmi_cuda_context * *context, int device))           \
    X(cuDevicePrimaryCtxRelease, 11000, (int device))                                              \
    X(cuDevicePrimaryCtxGetState, 7000, (int device, unsigned *flags, int *active))                \
    X(cuCtxGetCurrent, 4000, (struct rcmi_cuda_context * *context))                                \
    X(cuCtxPushCurrent, 4000, (struct rcmi_cuda_context * context))                                \
    X(cuCtxPopCurrent, 4000, (struct rcmi_cuda_context * *context))                                \
    X(cuThreadExchangeStreamCaptureMode, 10010, (int *mode))                                       \
    X(cuModuleLoadData, 2000, (struct rcmi_cuda_module * *module, const void *image))              \
    X(cuModuleUnload, 2000, (struct rcmi_cuda_module * module))                                    \
    X(cuModuleGetFunction, 2000,                                                                   \
      (struct rcmi_cuda_kernel * *function, struct rcmi_cuda_module * module, const char *name))   \
    X(cuLaunchKernel, 4000,                                                                        \
      (struct rcmi_cuda_kernel * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,      \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       struct rcmi_cuda_stream *stream, void **parameters, void **extra))                          \
    X(cuMemAlloc, 3020, (rcmi_cuda_address * address, size_t bytes))                               \
    X(cuMemFree, 3020, (rcmi_cuda_address address))                                                \
    X(cuMemHostAlloc, 2020, (void **memory, size_t bytes, unsigned flags))                         \
    X(cuMemFreeHost, 2000, (void *memory))                                                         \
    X(cuPointerGetAttributes, 7000,                                                                \
      (unsigned n, enum rcmi_cuda_pointer_attribute *attributes, void **values,                    \
       rcmi_cuda_address address))                                                                 \
    X(cuMemGetAddressRange, 3020,                                                                  \
      (rcmi_cuda_address * base, size_t * bytes, rcmi_cuda_address address))                       \
    X(cuDeviceCanAccessPeer, 4000, (int *can, int device, int peer))                               \
    X(cuCtxEnablePeerAccess, 4000, (struct rcmi_cuda_context * context, unsigned flags))           \
    X(cuMemcpyHtoDAsync, 3020,                                                                     \
      (rcmi_cuda_address to, const void *from, size_t bytes, struct rcmi_cuda_stream *stream))     \
    X(cuMemcpyDtoHAsync, 3020,                                                                     \
      (void *to, rcmi_cuda_address from, size_t bytes, struct rcmi_cuda_stream *stream))           \
    X(cuMemcpyDtoDAsync, 3020,                                                                     \
      (rcmi_cuda_address to, rcmi_cuda_address from, size_t bytes,                                 \
       struct rcmi_cuda_stream * stream))                                                          \
    X(cuMemsetD8Async, 3020,                                                                       \
      (rcmi_cuda_address to, unsigned char value, size_t bytes, struct rcmi_cuda_stream *stream))  \
    X(cuIpcGetMemHandle, 4010, (struct rcmi_cuda_ipc * handle, rcmi_cuda_address address))         \
    X(cuIpcOpenMemHandle, 11000,                                                                   \
      (rcmi_cuda_address * address, struct rcmi_cuda_ipc handle, unsigned flags))                  \
    X(cuIpcCloseMemHandle, 4010, (rcmi_cuda_address address))                                      \
    X(cuMemRetainAllocationHandle, 11000, (rcmi_cuda_allocation * allocation, void *address))      \
    X(cuMemExportToShareableHandle, 10020,                                                         \
      (void *ret_handle, rcmi_cuda_allocation allocation, enum rcmi_cuda_handle_type type,         \
       unsigned long long flags))                                                                  \
    X(cuMemImportFromShareableHandle, 10020,                                                       \
      (rcmi_cuda_allocation * allocation, void *handle, enum rcmi_cuda_handle_type type))          \
    X(cuMemRelease, 10020, (rcmi_cuda_allocation allocation))                                      \
    X(cuMemAddressReserve, 10020,                                                                  \
      (rcmi_cuda_address * address, size_t bytes, size_t alignment, rcmi_cuda_address wish,        \
       unsigned long long flags))                                                                  \
    X(cuMemAddressFree, 10020, (rcmi_cuda_address address, size_t bytes))                          \
    X(cuMemMap, 10020,                                                                             \
      (rcmi_cuda_address address, size_t bytes, size_t offset, rcmi_cuda_allocation allocation,    \
       unsigned long long flags))                                                                  \
    X(cuMemUnmap, 10020, (rcmi_cuda_address address, size_t bytes))                                \
    X(cuMemSetAccess, 10020,                                                                       \
      (rcmi_cuda_address address, size_t bytes, const struct rcmi_cuda_access *access, size_t n))  \
    X(cuStreamCreate, 2000, (struct rcmi_cuda_stream * *stream, unsigned flags))                   \
    X(cuStreamDestroy, 4000, (struct rcmi_cuda_stream * stream))                                   \
    X(cuStreamSynchronize, 2000, (struct rcmi_cuda_stream * stream))                               \
    X(cuStreamWaitEvent, 3020,                                                                     \
      (struct rcmi_cuda_stream * stream, struct rcmi_cuda_event * event, unsigned flags))          \
    X(cuStreamIsCapturing, 10000, (struct rcmi_cuda_stream * stream, int *status))                 \
    X(cuStreamGetCtx, 9020,                                                                        \
      (struct rcmi_cuda_stream * stream, struct rcmi_cuda_context * *context))                     \
    X(cuEventCreate, 2000, (struct rcmi_cuda_event * *event, unsigned flags))                      \
    X(cuEventDestroy, 4000, (struct rcmi_cuda_event * event))                                      \
    X(cuEventRecord, 2000, (struct rcmi_cuda_event * event, struct rcmi_cuda_stream * stream))     \
    X(cuEventQuery, 2000, (struct rcmi_cuda_event * event))                                        \
    X(cuEventElapsedTime, 2000,                                                                    \
      (float *ms, struct rcmi_cuda_event *begin, struct rcmi_cuda_event *end))

struct rcmi_cuda {
#define RCMI_CUDA_MEMBER(name, version, parameters) rcmi_cuda_code(*name) parameters;
    RCMI_CUDA_MAP(RCMI_CUDA_MEMBER)
#undef RCMI_CUDA_MEMBER
};

/* The driver that this process has loaded, from any of its libraries. NULL: none, an unusable one,
 * or a child of the process that used it. It may not be initialised; its functions then return an
 * error. */
const struct rcmi_cuda *rcmi_cuda_there(void);
/* Loads the driver if necessary, but does not initialise it: a child forked later can still use it.
 * The error text explains why it cannot be used. */
rcm_status rcmi_cuda_load(void);
/* Loads the driver if necessary and initialises it; at least one device exists. The table lives as
 * long as the process. */
rcm_status rcmi_cuda_open(const struct rcmi_cuda **ret_cuda);
/* Is this a child of the process that got the table, so that the table is useless here? */
bool rcmi_cuda_forked(void);
/* Between the files of the driver: returns the found table without searching; sets it; records that
 * this process uses it. */
const struct rcmi_cuda *rcmi_cuda_found(void);
void rcmi_cuda_find(const struct rcmi_cuda *cuda);
void rcmi_cuda_use(void);
/* For tests: the table that the library opens from now on instead of the driver; NULL: the
 * driver. */
void rcmi_cuda_set(const struct rcmi_cuda *cuda);

/* A visit of this thread to a context. Calls during the visit work in that context, whatever the
 * thread's own context is, and are allowed while another thread captures a stream. */
struct rcmi_cuda_visit {
    const struct rcmi_cuda *cuda;
    int mode; /* the thread's own capture mode */
};
rcmi_cuda_code rcmi_cuda_enter(const struct rcmi_cuda *cuda, struct rcmi_cuda_context *context,
                               struct rcmi_cuda_visit *ret_visit);
void rcmi_cuda_leave(const struct rcmi_cuda_visit *visit);

/* Sets the thread's error: `call` returned `code`, with its meaning. */
rcm_status rcmi_cuda_fail(rcmi_cuda_code code, const char *call);
/* "out of memory of the device (CUDA_ERROR_OUT_OF_MEMORY, 2)" */
void rcmi_cuda_explain(rcmi_cuda_code code, char *text, size_t cap);
rcm_status rcmi_cuda_status(rcmi_cuda_code code);

#endif
