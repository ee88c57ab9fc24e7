/* SPDX-License-Identifier: BSD-3-Clause */
/* See cuda_driver.h. */
#include "cuda_driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { STREAM_NON_BLOCKING = 1 };

/* The driver's symbols include the version of their parameters. */
#define CALLS(X)                                                                                   \
    X(cuInit, "cuInit", (unsigned flags))                                                          \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *n))                                              \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **context, int device))          \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                     \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (void *context))                                         \
    X(cuMemAlloc, "cuMemAlloc_v2", (unsigned long long *address, size_t bytes))                    \
    X(cuMemFree, "cuMemFree_v2", (unsigned long long address))                                     \
    X(cuStreamCreate, "cuStreamCreate", (void **stream, unsigned flags))                           \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (void *stream))                                       \
    X(cuStreamSynchronize, "cuStreamSynchronize", (void *stream))                                  \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                   \
      (unsigned long long to, const void *from, size_t bytes, void *stream))                       \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                   \
      (void *to, unsigned long long from, size_t bytes, void *stream))

static struct {
#define MEMBER(name, symbol, parameters) int(*name) parameters;
    CALLS(MEMBER)
#undef MEMBER
} cuda;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *found(void *driver, const char *symbol) {
    void *function = driver ? dlsym(driver, symbol) : NULL;
    if (!function) {
        fprintf(stderr, "stress: --memory cuda: %s\n", dlerror());
        _Exit(1);
    }
    return function;
}

static void load(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, symbol, parameters) *(void **)&cuda.name = found(driver, symbol);
    CALLS(FIND)
#undef FIND
}

void device_load(int rank) {
    (void)rank;
    pthread_once(&once, load);
}

#define CU(driver, name, ...)                                                                      \
    do {                                                                                           \
        const int code = cuda.name(__VA_ARGS__);                                                   \
        NEED(driver, code == 0, "%s: %d", #name, code);                                            \
    } while (0)

static unsigned long long address_of(const void *memory) {
    return (unsigned long long)(uintptr_t)memory;
}

/* The same choice as the library's. */
static int ordinal(struct driver *driver) {
    int n = 1;
    CU(driver, cuDeviceGetCount, &n);
    return driver->episode->device_named ? 0 : rcm_local_rank(driver->world) % n;
}

void device_enter(struct driver *driver) {
    void *context = NULL;
    if (!driver->episode->options->cuda)
        return;
    CU(driver, cuInit, 0);
    CU(driver, cuDevicePrimaryCtxRetain, &context, ordinal(driver));
    CU(driver, cuCtxSetCurrent, context);
    CU(driver, cuStreamCreate, &driver->stream, STREAM_NON_BLOCKING);
}

void device_leave(struct driver *driver) {
    if (!driver->episode->options->cuda)
        return;
    CU(driver, cuStreamDestroy, driver->stream);
    CU(driver, cuCtxSetCurrent, NULL);
    CU(driver, cuDevicePrimaryCtxRelease, ordinal(driver));
}

void *device_alloc(struct driver *driver, size_t bytes) {
    unsigned long long address = 0;
    CU(driver, cuMemAlloc, &address, bytes);
    return (void *)(uintptr_t)address;
}

void device_free(struct driver *driver, void *memory) {
    CU(driver, cuMemFree, address_of(memory));
}

void device_write(struct driver *driver, void *to, const void *from, size_t bytes, void *stream) {
    CU(driver, cuMemcpyHtoDAsync, address_of(to), from, bytes, stream);
}

void device_read(struct driver *driver, void *to, const void *from, size_t bytes) {
    CU(driver, cuMemcpyDtoHAsync, to, address_of(from), bytes, driver->stream);
    device_await(driver, driver->stream);
}

void device_await(struct driver *driver, void *stream) {
    CU(driver, cuStreamSynchronize, stream);
}
