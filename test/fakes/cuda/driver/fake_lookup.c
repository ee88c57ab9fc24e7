/* SPDX-License-Identifier: BSD-3-Clause */
/* Look-up of entry points by name and version. */
#include "fake.h"
#include <string.h>

/* clang-format off */
#define FUNCTIONS(X)                                                                               \
    X(cuInit) X(cuDriverGetVersion) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease)       \
    X(cuDevicePrimaryCtxGetState) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxSetCurrent)        \
    X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize) X(cuCtxDestroy) X(cuDeviceGetCount)   \
    X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceTotalMem)                       \
    X(cuDeviceGetPCIBusId) X(cuDeviceCanAccessPeer) X(cuCtxEnablePeerAccess)                       \
    X(cuDeviceGetAttribute) X(cuCtxGetStreamPriorityRange) X(cuGetErrorName) X(cuGetErrorString)   \
    X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoH)              \
    X(cuMemcpyDtoHAsync) X(cuMemcpyDtoD) X(cuMemcpyDtoDAsync) X(cuMemsetD8) X(cuMemsetD8Async)     \
    X(cuMemsetD32) X(cuMemsetD32Async) X(cuModuleLoadData) X(cuModuleLoadDataEx)                   \
    X(cuModuleLoadFatBinary) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal)         \
    X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuOccupancyMaxActiveBlocksPerMultiprocessor)     \
    X(cuLaunchKernel) X(cuLaunchCooperativeKernel) X(cuLaunchKernelEx) X(cuMemAlloc) X(cuMemFree)  \
    X(cuMemGetInfo) X(cuMemGetAddressRange) X(cuMemHostAlloc) X(cuMemAllocHost) X(cuMemFreeHost)   \
    X(cuMemAllocManaged) X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer)  \
    X(cuMemHostGetFlags) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle)         \
    X(cuPointerGetAttribute) X(cuPointerGetAttributes) X(cuPointerSetAttribute) X(cuStreamCreate)  \
    X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery)       \
    X(cuStreamGetFlags) X(cuStreamGetPriority) X(cuStreamGetCtx) X(cuLaunchHostFunc)               \
    X(cuStreamBatchMemOp) X(cuStreamWriteValue32) X(cuStreamWriteValue64) X(cuStreamWaitValue32)   \
    X(cuStreamWaitValue64) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord)                     \
    X(cuEventRecordWithFlags) X(cuEventQuery) X(cuEventSynchronize) X(cuEventElapsedTime)          \
    X(cuStreamWaitEvent) X(cuThreadExchangeStreamCaptureMode) X(cuStreamBeginCapture)              \
    X(cuStreamEndCapture) X(cuStreamIsCapturing) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch)   \
    X(cuGraphGetNodes) X(cuGraphDestroy) X(cuGraphExecDestroy) X(cuMemcpyPeer)                     \
    X(cuMemcpyPeerAsync) X(cuCtxDisablePeerAccess) X(cuDeviceGetP2PAttribute)                      \
    X(cuMemGetAllocationGranularity) X(cuMemCreate) X(cuMemRelease)                                \
    X(cuMemGetAllocationPropertiesFromHandle) X(cuMemExportToShareableHandle)                      \
    X(cuMemImportFromShareableHandle) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap)       \
    X(cuMemUnmap) X(cuMemRetainAllocationHandle) X(cuMemSetAccess) X(cuMemGetAccess)             \
    X(cuDeviceGetDefaultMemPool) X(cuMemAllocAsync) X(cuMemFreeAsync)
/* clang-format on */

/* cuda.h declares only the newest of these */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *,
                                           CUgraph *, const CUgraphNode **, size_t *);

CUresult fake_uuid_v1(CUuuid *uuid, CUdevice d) __asm__("cuDeviceGetUuid");
CUresult fake_proc_address_v1(const char *name, void **out, int version,
                              cuuint64_t flags) __asm__("cuGetProcAddress");

static const struct {
    const char *name;
    int from; /* the first CUDA version of this signature */
    void *function;
} functions[] = {
#define X(f) {#f, 0, (void *)f},
    FUNCTIONS(X)
#undef X
        {"cuDeviceGetUuid", 11040, (void *)cuDeviceGetUuid_v2},
    {"cuDeviceGetUuid", 0, (void *)fake_uuid_v1},
    {"cuGetProcAddress", 12000, (void *)cuGetProcAddress},
    {"cuGetProcAddress", 11030, (void *)fake_proc_address_v1},
    {"cuCtxCreate", 12050, (void *)cuCtxCreate_v4},
    {"cuCtxCreate", 0, (void *)cuCtxCreate_v2},
    {"cuStreamGetCaptureInfo", 12030, (void *)cuStreamGetCaptureInfo_v3},
    {"cuStreamGetCaptureInfo", 11030, (void *)cuStreamGetCaptureInfo_v2},
    {"cuGraphInstantiate", 11040, (void *)cuGraphInstantiateWithFlags},
};

/* The newest function of that name whose signature the version knows. */
static void *find(const char *name, int version, CUdriverProcAddressQueryResult *status) {
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].name, name) != 0)
            continue;
        if (version >= functions[i].from) {
            *status = CU_GET_PROC_ADDRESS_SUCCESS;
            return functions[i].function;
        }
        *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
    return NULL;
}

/* An unknown name is not an error: the pointer is NULL, and the status reports it. */
CUresult CUDAAPI cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status) {
    CUdriverProcAddressQueryResult unused;
    CUresult r = fake_injected(__func__, __builtin_return_address(0));
    if (r)
        return r;
    if (!name || !out || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ||
        version > fake_settings()->driver)
        return CUDA_ERROR_INVALID_VALUE;
    *out = find(name, version, status ? status : &unused);
    if (!*out && fake_settings()->trace)
        fake_log("cuGetProcAddress: no %s of version %d here", name, version);
    return CUDA_SUCCESS;
}

/* Before CUDA 12 there was no status, and the return code reported it. */
CUresult fake_proc_address_v1(const char *name, void **out, int version, cuuint64_t flags) {
    CUresult r = cuGetProcAddress(name, out, version, flags, NULL);
    return r || *out ? r : CUDA_ERROR_NOT_FOUND;
}
