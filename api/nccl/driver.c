/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the CUDA driver, and enters its contexts: see nccl_driver.h. */
#include "nccl_driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include "nccl_errors.h"

#define LIBRARY     "libcuda.so.1"
#define DEVICES_MAX 64

typedef int (*look_up)(const char *name, void **function, int version, uint64_t flags, int *status);

static struct driver driver;
static char why_not[160]; /* "" once the table is complete */

/* ---- Loading --------------------------------------------------------------------------------- */

static void driver_fill(look_up look) {
    static const struct {
        const char *name;
        int version;
        void *to; /* a pointer to a function */
    } all[] = {
#define ROW(name, version, parameters) {#name, version, &driver.name},
        DRIVER_MAP(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        void *function = NULL;
        int status;
        if (look(all[i].name, &function, all[i].version, 1, &status) != 0 || !function) {
            snprintf(why_not, sizeof why_not, "the NVIDIA driver has no %s of CUDA %d.%d",
                     all[i].name, all[i].version / 1000, all[i].version % 1000 / 10);
            return;
        }
        memcpy(all[i].to, &function, sizeof function);
    }
    const int code = driver.cuInit(0);
    if (code)
        snprintf(why_not, sizeof why_not, "cuInit failed with code %d", code);
}

static void driver_load(void) {
    look_up look;
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *symbol = handle ? dlsym(handle, "cuGetProcAddress_v2") : NULL;
    if (!symbol) {
        snprintf(why_not, sizeof why_not, "no NVIDIA driver found (%s)",
                 handle ? LIBRARY " is older than CUDA 12" : dlerror());
        return;
    }
    memcpy(&look, &symbol, sizeof look);
    driver_fill(look);
}

ncclResult_t driver_get(const struct driver **ret_driver) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, driver_load);
    *ret_driver = &driver;
    return why_not[0] ? face_fail(ncclUnhandledCudaError, "%s", why_not) : ncclSuccess;
}

ncclResult_t driver_result(const struct driver *d, const char *call, int code) {
    const char *name = NULL;
    if (code == 0)
        return ncclSuccess;
    if (d->cuGetErrorName(code, &name) != 0 || !name)
        name = "an unknown code";
    return face_fail(ncclUnhandledCudaError, "%s: %s (%d)", call, name, code);
}

/* ---- Devices and contexts -------------------------------------------------------------------- */

ncclResult_t driver_device(int *ret_device) {
    const struct driver *d;
    const ncclResult_t result = driver_get(&d);
    if (result == ncclSuccess && d->cuCtxGetDevice(ret_device) != 0)
        *ret_device = 0;
    return result;
}

ncclResult_t driver_check_device(int device) {
    const struct driver *d;
    int n = 0;
    ncclResult_t result = driver_get(&d);
    if (result == ncclSuccess)
        result = driver_result(d, "cuDeviceGetCount", d->cuDeviceGetCount(&n));
    if (result == ncclSuccess && (device < 0 || device >= n || device >= DEVICES_MAX))
        return face_fail(ncclInvalidArgument, "device %d is not one of the %d here", device, n);
    return result;
}

/* Pinned memory of the face lives in the context, so it is never released. */
static ncclResult_t context_of(const struct driver *d, int device, void **ret_context) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *contexts[DEVICES_MAX];
    int code = 0;
    pthread_mutex_lock(&lock);
    if (!contexts[device])
        code = d->cuDevicePrimaryCtxRetain(&contexts[device], device);
    *ret_context = contexts[device];
    pthread_mutex_unlock(&lock);
    return driver_result(d, "cuDevicePrimaryCtxRetain", code);
}

ncclResult_t driver_enter(int device, struct driver_visit *ret_visit) {
    const struct driver *d;
    void *context;
    ncclResult_t result = driver_get(&d);
    if (result == ncclSuccess)
        result = context_of(d, device, &context);
    if (result != ncclSuccess)
        return result;
    *ret_visit = (struct driver_visit){.driver = d, .mode = DRIVER_CAPTURE_RELAXED};
    (void)d->cuThreadExchangeStreamCaptureMode(&ret_visit->mode);
    result = driver_result(d, "cuCtxPushCurrent", d->cuCtxPushCurrent(context));
    if (result != ncclSuccess)
        (void)d->cuThreadExchangeStreamCaptureMode(&ret_visit->mode);
    return result;
}

void driver_leave(const struct driver_visit *visit) {
    void *context;
    int mode = visit->mode;
    (void)visit->driver->cuCtxPopCurrent(&context);
    (void)visit->driver->cuThreadExchangeStreamCaptureMode(&mode);
}
