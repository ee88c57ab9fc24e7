/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers in memory of the emulated device. See ../coll/buffer_memory.h. */
#include "buffer_memory.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "cuda.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct rcmi_cuda *cuda;
static struct rcmi_cuda_context *context;
static void *(*view)(rcmi_cuda_address address); /* fakecuda_view */

static void give_up(const char *what, int code) {
    fprintf(stderr, "test/cuda/buffer_memory: %s (%d)\n", what, code);
    abort();
}

/* Runs once per process: a driver is unusable after a fork. */
static void begin(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, "fakecuda_view") : NULL;
    if (!found)
        give_up("libcuda.so.1 is not the emulator", 0);
    *(void **)&view = found;
    if (rcmi_cuda_open(&cuda) != RCM_OK)
        give_up(rcm_last_error(), 0);
    const int code = cuda->cuDevicePrimaryCtxRetain(&context, 0);
    if (code != 0)
        give_up("cuDevicePrimaryCtxRetain", code);
}

static void enter(struct rcmi_cuda_visit *ret_visit) {
    pthread_once(&once, begin);
    const int code = rcmi_cuda_enter(cuda, context, ret_visit);
    if (code != 0)
        give_up("cuCtxPushCurrent", code);
}

bool mem_is_host(void) {
    return false;
}

/* rcm_init opens the named device, because the driver is loaded only later. */
void mem_init(void) {
    setenv("RINGCOMM_DEVICE", "0", 0);
}

void *mem_new(size_t bytes) {
    struct rcmi_cuda_visit visit;
    rcmi_cuda_address address = 0;
    enter(&visit);
    const int code = cuda->cuMemAlloc(&address, bytes ? bytes : 1);
    if (code != 0)
        give_up("cuMemAlloc", code);
    rcmi_cuda_leave(&visit);
    return (void *)(uintptr_t)address;
}

void mem_free(void *memory) {
    struct rcmi_cuda_visit visit;
    if (!memory)
        return;
    enter(&visit);
    const int code = cuda->cuMemFree((rcmi_cuda_address)(uintptr_t)memory);
    if (code != 0)
        give_up("cuMemFree", code);
    rcmi_cuda_leave(&visit);
}

void *mem_view(const void *memory) {
    pthread_once(&once, begin);
    return view((rcmi_cuda_address)(uintptr_t)memory);
}

/* The emulator ends the process if freed memory is used by a kernel or copy. */
int mem_in_use(const void *memory, size_t bytes) {
    (void)memory;
    (void)bytes;
    return 0;
}
