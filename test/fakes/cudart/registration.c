/* SPDX-License-Identifier: BSD-3-Clause */
/* Fatbins, kernels and variables that nvcc's code registers. A module is loaded on a device at the
 * first use of one of its kernels or variables there. */
#include "cudart.h"
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

struct fatbin {
    const void *image;
    struct {
        bool tried;
        CUresult error;
        CUmodule module;
    } on[RT_DEVICES];
    struct symbol *symbols;
};

/* A kernel or a variable: its host address stands for it. Libraries with the same template share
 * one: the first of them is used until it is closed. */
struct symbol {
    const void *host;
    const char *name;
    struct fatbin *fatbin;
    struct symbol *next; /* of its fatbin */
    struct symbol *same; /* the next one of the same address */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *symbols; /* a tree of tsearch(3), by host address */
static _Atomic bool exiting;

static int compare(const void *a, const void *b) {
    const struct symbol *x = a, *y = b;
    return (x->host > y->host) - (x->host < y->host);
}

static const struct symbol *find_locked(const void *host) {
    const struct symbol key = {.host = host};
    struct symbol **at = tfind(&key, &symbols, compare);
    return at ? *at : NULL;
}

static void insert_locked(struct symbol *s) {
    struct symbol *at = *(struct symbol **)tsearch(s, &symbols, compare);
    while (at != s && at->same)
        at = at->same;
    if (at != s)
        at->same = s;
}

static void remove_locked(struct symbol *s) {
    struct symbol **node = tfind(s, &symbols, compare), **at = node;
    while (*at != s)
        at = &(*at)->same;
    if (at == node && !s->same)
        (void)tdelete(s, &symbols, compare);
    else
        *at = s->same;
}

static void add(void **handle, const void *host, const char *name) {
    struct fatbin *fatbin = (struct fatbin *)handle;
    struct symbol *s = malloc(sizeof *s);
    pthread_mutex_lock(&lock);
    *s = (struct symbol){host, name, fatbin, fatbin->symbols, NULL};
    fatbin->symbols = s;
    insert_locked(s);
    pthread_mutex_unlock(&lock);
}

/* ---- called by nvcc's code before main, in dlopen, in dlclose, and at exit ------------------ */

void **CUDARTAPI __cudaRegisterFatBinary(void *image) {
    struct fatbin *fatbin = calloc(1, sizeof *fatbin);
    fatbin->image = image;
    return (void **)fatbin;
}

void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device,
                                      const char *name, int threads, uint3 *tid, uint3 *bid,
                                      dim3 *block, dim3 *grid, int *warp) {
    (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    add(handle, host, name);
}

void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *address, const char *name,
                                 int external, size_t size, int constant, int global) {
    (void)address, (void)external, (void)size, (void)constant, (void)global;
    add(handle, host, name);
}

char CUDARTAPI __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}

static void unload_locked(struct fatbin *fatbin) {
    for (int d = 0; d < RT_DEVICES; d++) {
        CUcontext context;
        if (!fatbin->on[d].module || rt_primary(d, &context) || cuCtxPushCurrent(context))
            continue;
        (void)cuModuleUnload(fatbin->on[d].module);
        (void)cuCtxPopCurrent(&context);
    }
}

/* Unloads the modules of a library that is closed. At exit all stay: cuModuleUnload waits for the
 * device's work, and a thread that holds the lock may wait for it too. It may never end. */
void CUDARTAPI __cudaUnregisterFatBinary(void **handle) {
    struct fatbin *fatbin = (struct fatbin *)handle;
    if (exiting)
        return;
    pthread_mutex_lock(&lock);
    for (struct symbol *s = fatbin->symbols, *next; s; s = next) {
        next = s->next;
        remove_locked(s);
        free(s);
    }
    unload_locked(fatbin);
    pthread_mutex_unlock(&lock);
    free(fatbin);
}

/* ---- look-up --------------------------------------------------------------------------------- */

static void begin_exit(void) {
    exiting = true;
}

/* nvcc's code unregisters at exit by functions that it registered before this one, so later. */
static void watch_exit(void) {
    (void)atexit(begin_exit);
}

/* A capture allows the runtime to load modules. */
static CUresult load(const void *image, CUmodule *ret) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult r = cuThreadExchangeStreamCaptureMode(&mode);
    if (r)
        return r;
    r = cuModuleLoadData(ret, image);
    (void)cuThreadExchangeStreamCaptureMode(&mode);
    return r;
}

static CUresult module_locked(struct fatbin *fatbin, CUmodule *ret) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int device;
    CUresult r = rt_device(&device);
    if (r)
        return r;
    pthread_once(&once, watch_exit);
    if (!fatbin->on[device].tried) {
        fatbin->on[device].tried = true;
        fatbin->on[device].error = load(fatbin->image, &fatbin->on[device].module);
    }
    *ret = fatbin->on[device].module;
    return fatbin->on[device].error;
}

const char *rt_kernel_name(const void *kernel) {
    pthread_mutex_lock(&lock);
    const struct symbol *s = find_locked(kernel);
    pthread_mutex_unlock(&lock);
    return s ? s->name : NULL;
}

/* NOT_FOUND if the host address is not registered. */
static CUresult locate(const void *host, CUmodule *ret, const char **ret_name) {
    pthread_mutex_lock(&lock);
    const struct symbol *s = find_locked(host);
    CUresult r = s ? module_locked(s->fatbin, ret) : CUDA_ERROR_NOT_FOUND;
    *ret_name = s ? s->name : NULL;
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult rt_function(const void *kernel, CUfunction *ret) {
    CUmodule module;
    const char *name;
    CUresult r = locate(kernel, &module, &name);
    if (!r)
        r = cuModuleGetFunction(ret, module, name);
    return r == CUDA_ERROR_NOT_FOUND ? (CUresult)cudaErrorInvalidDeviceFunction : r;
}

CUresult rt_variable(const void *symbol, CUdeviceptr *ret_address, size_t *ret_size) {
    CUmodule module;
    const char *name;
    CUresult r = locate(symbol, &module, &name);
    if (!r)
        r = cuModuleGetGlobal(ret_address, ret_size, module, name);
    return r == CUDA_ERROR_NOT_FOUND ? (CUresult)cudaErrorInvalidSymbol : r;
}

API(cudaGetSymbolAddress, (void **ret, const void *symbol),
    rt_variable(symbol, (CUdeviceptr *)ret, NULL))
API(cudaGetSymbolSize, (size_t * ret, const void *symbol), rt_variable(symbol, NULL, ret))
