/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the CUDA driver, and enters its contexts: see nccl_driver.h. */
#include "nccl_driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "nccl_errors.h"

#define LIBRARY     "libcuda.so.1"
#define DEVICES_MAX 64

struct driver driver;
static char why_not[160]; /* "" once the table is complete */

/* ---- Loading --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int version;
    void *to; /* a pointer to a function */
} functions[] = {
#define ROW(name, version, parameters) {#name, version, &driver.name},
    DRIVER_MAP(ROW)
#undef ROW
};

static void load(void) {
    int (*look_up)(const char *name, void **function, int version, uint64_t flags, int *status);
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    int status;
    if (!function) {
        snprintf(why_not, sizeof why_not, "no NVIDIA driver found (%s)",
                 library ? LIBRARY " is older than CUDA 12" : dlerror());
        return;
    }
    memcpy(&look_up, &function, sizeof look_up);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const int version = functions[i].version;
        function = NULL;
        if (look_up(functions[i].name, &function, version, 1, &status) != 0 || !function) {
            snprintf(why_not, sizeof why_not, "the NVIDIA driver has no %s of CUDA %d.%d",
                     functions[i].name, version / 1000, version % 1000 / 10);
            return;
        }
        memcpy(functions[i].to, &function, sizeof function);
    }
    status = driver.cuInit(0);
    if (status)
        snprintf(why_not, sizeof why_not, "cuInit failed with code %d", status);
}

ncclResult_t driver_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return why_not[0] ? face_fail(ncclUnhandledCudaError, "%s", why_not) : ncclSuccess;
}

ncclResult_t driver_result(const char *call, int code) {
    const char *name = NULL;
    if (code == 0)
        return ncclSuccess;
    if (driver.cuGetErrorName(code, &name) != 0 || !name)
        name = "an unknown code";
    return face_fail(ncclUnhandledCudaError, "%s: %s (%d)", call, name, code);
}

/* ---- Devices and contexts -------------------------------------------------------------------- */

ncclResult_t driver_device(int *ret_device) {
    const ncclResult_t result = driver_load();
    if (result == ncclSuccess && driver.cuCtxGetDevice(ret_device) != 0)
        *ret_device = 0;
    return result;
}

ncclResult_t driver_check_device(int device) {
    int n = 0;
    ncclResult_t result = driver_load();
    if (result == ncclSuccess)
        result = DRIVER(cuDeviceGetCount, &n);
    if (result == ncclSuccess && (device < 0 || device >= n || device >= DEVICES_MAX))
        return face_fail(ncclInvalidArgument, "device %d is not one of the %d here", device, n);
    return result;
}

/* Pinned memory of the face lives in the context, so it is never released. */
static ncclResult_t context_of(int device, void **ret_context) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *contexts[DEVICES_MAX];
    ncclResult_t result = driver_load();
    pthread_mutex_lock(&lock);
    if (result == ncclSuccess && !contexts[device])
        result = DRIVER(cuDevicePrimaryCtxRetain, &contexts[device], device);
    *ret_context = contexts[device];
    pthread_mutex_unlock(&lock);
    return result;
}

/* *ret_visit is the capture mode that the thread had before. */
ncclResult_t driver_enter(int device, int *ret_visit) {
    void *context;
    ncclResult_t result = context_of(device, &context);
    if (result == ncclSuccess)
        result = DRIVER(cuCtxPushCurrent, context);
    *ret_visit = DRIVER_CAPTURE_RELAXED;
    if (result == ncclSuccess)
        (void)driver.cuThreadExchangeStreamCaptureMode(ret_visit);
    return result;
}

void driver_leave(int visit) {
    void *context;
    (void)driver.cuThreadExchangeStreamCaptureMode(&visit);
    (void)driver.cuCtxPopCurrent(&context);
}
