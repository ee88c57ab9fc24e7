/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, their primary contexts, and versions. The current device of a thread is that of its
 * current context, so that a program can mix both APIs. */
#include "cudart.h"
#include "driver_calls.h"
#include <pthread.h>
#include <string.h>

static CUresult init_error;

static void initialise(void) {
    init_error = cuInit(0);
}

/* A child of a process that has called CUDA gets the driver's error from its first call. */
CUresult rt_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialise);
    return init_error;
}

CUresult rt_primary(int device, CUcontext *ret) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static CUcontext primary[RT_DEVICES];
    CUresult r = rt_init();
    if (r || device < 0 || device >= RT_DEVICES)
        return r ? r : CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    if (!primary[device])
        r = cuDevicePrimaryCtxRetain(&primary[device], device);
    *ret = primary[device];
    pthread_mutex_unlock(&lock);
    return r;
}

static CUresult use(int device) {
    CUcontext context;
    CUresult r = rt_primary(device, &context);
    return r ? r : cuCtxSetCurrent(context);
}

CUresult rt_enter(void) {
    CUcontext current = NULL;
    CUresult r = rt_init();
    if (!r)
        r = cuCtxGetCurrent(&current);
    return r || current ? r : use(0);
}

CUresult rt_device(int *ret) {
    return cuCtxGetDevice(ret);
}

API_INIT(cudaSetDevice, (int device), use(device))
INIT_CALLS(API_INIT)
CONTEXT_CALLS(API)

/* Makes no context. */
cudaError_t CUDARTAPI cudaGetDevice(int *ret) {
    CUcontext current = NULL;
    CUresult r = rt_init();
    if (!r)
        r = cuCtxGetCurrent(&current);
    *ret = 0;
    return rt_result(r || !current ? r : rt_device(ret));
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *ret) {
    CUresult r = rt_init();
    *ret = 0;
    return rt_result(r ? r : cuDeviceGetCount(ret));
}

/* ---- peers ---------------------------------------------------------------------------------- */

static CUresult peer_access(bool enable, int peer, unsigned flags) {
    CUcontext context;
    CUresult r = rt_primary(peer, &context);
    if (r)
        return r;
    return enable ? cuCtxEnablePeerAccess(context, flags) : cuCtxDisablePeerAccess(context);
}

/* clang-format off */
API_INIT(cudaDeviceCanAccessPeer, (int *ret, int device, int peer),
    device == peer ? (*ret = 0, CUDA_SUCCESS) : cuDeviceCanAccessPeer(ret, device, peer))
API(cudaDeviceEnablePeerAccess, (int peer, unsigned flags),
    peer_access(true, peer, flags))
API(cudaDeviceDisablePeerAccess, (int peer), peer_access(false, peer, 0))
/* clang-format on */

/* ---- versions and the driver ---------------------------------------------------------------- */

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *ret) {
    return *ret = CUDART_VERSION, cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *ret) {
    return rt_result(cuDriverGetVersion(ret));
}

/* The results of both queries have the same numbers. */
static CUresult entry_point(const char *name, void **ret, unsigned version,
                            unsigned long long flags,
                            enum cudaDriverEntryPointQueryResult *ret_status) {
    CUdriverProcAddressQueryResult status;
    CUresult r = cuGetProcAddress(name, ret, (int)version, flags, &status);
    if (ret_status)
        *ret_status = (enum cudaDriverEntryPointQueryResult)status;
    return r;
}

/* clang-format off */
API_INIT(cudaGetDriverEntryPointByVersion, (const char *name, void **ret, unsigned version,
    unsigned long long flags, enum cudaDriverEntryPointQueryResult *status),
    entry_point(name, ret, version, flags, status))
API_INIT(cudaGetDriverEntryPointByVersion_ptsz, (const char *name, void **ret, unsigned version,
    unsigned long long flags, enum cudaDriverEntryPointQueryResult *status),
    entry_point(name, ret, version, flags | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, status))
/* clang-format on */

/* Only a struct. A stub cannot stand for it, because it returns no error. */
struct cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
                                                             enum cudaChannelFormatKind kind) {
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}
