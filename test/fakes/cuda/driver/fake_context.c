/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts, and the common first step of every entry point. */
#include "fake.h"
#include <stdlib.h>
#include <unistd.h>

static _Atomic bool initialised;
static _Atomic pid_t init_pid;
static struct CUctx_st primary[MAX_DEVICES];
static _Thread_local CUcontext stack[16];
static _Thread_local int depth;

CUcontext fake_current(void) {
    return depth ? stack[depth - 1] : NULL;
}

struct CUctx_st *fake_primary(int device) {
    return &primary[device];
}

CUresult fake_enter(const char *name, const void *place, bool needs_context) {
    if (fake_settings()->trace)
        fake_log("%s", name);
    fake_take_time(name);
    CUresult r = fake_injected(name, place);
    if (r)
        return r;
    if (fake_in_host_fn())
        return CUDA_ERROR_NOT_PERMITTED;
    if (init_pid != getpid()) /* CUDA is unusable after fork */
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!needs_context)
        return CUDA_SUCCESS;
    CUcontext ctx = fake_current();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return ctx->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : (CUresult)ctx->error;
}

/* As in the driver, any thread may call any of these. */
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

static void initialise(void) {
    pthread_mutex_lock(&primary_lock);
    for (int i = 0; !initialised && i < MAX_DEVICES; i++)
        primary[i].device = i;
    if (init_pid != getpid())
        init_pid = getpid();
    if (!initialised)
        initialised = true;
    pthread_mutex_unlock(&primary_lock);
}

CUresult CUDAAPI cuInit(unsigned flags) {
    fake_take_time(__func__);
    CUresult r = fake_injected(__func__, __builtin_return_address(0));
    if (r || flags)
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    if (fake_settings()->devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    initialise();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *version) {
    CUresult r = fake_injected(__func__, __builtin_return_address(0));
    if (r || !version)
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    *version = fake_settings()->driver;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d) {
    ENTER(false);
    if (fake_bad_device(d))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&primary_lock);
    CUresult r = primary[d].retained ? CUDA_SUCCESS : fake_device_enter(d);
    primary[d].retained += r == CUDA_SUCCESS;
    pthread_mutex_unlock(&primary_lock);
    if (r)
        return r;
    *out = &primary[d];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice d) {
    ENTER(false);
    if (fake_bad_device(d))
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&primary_lock);
    const bool held = primary[d].retained > 0;
    if (held && --primary[d].retained == 0)
        fake_device_leave(d);
    pthread_mutex_unlock(&primary_lock);
    return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active) {
    ENTER(false);
    *flags = 0;
    *active = primary[d].retained > 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx) {
    ENTER(false);
    if (!ctx || depth == 16)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *out) {
    ENTER(false);
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx) {
    ENTER(false);
    depth -= depth > 0;
    if (ctx)
        stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *out) {
    ENTER(false);
    *out = fake_current();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *out) {
    ENTER(true);
    *out = fake_current()->device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    CUresult r = fake_capture_conflict(fake_current());
    return r ? r : fake_sync_context(fake_current());
}

static CUcontext created; /* all contexts: streams' threads may still access a destroyed one */

static CUresult create_context(CUcontext *out, CUdevice d) {
    if (fake_bad_device(d) || depth == 16)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = fake_device_enter(d);
    if (r)
        return r;
    *out = calloc(1, sizeof **out);
    (*out)->device = d;
    (*out)->next = created;
    created = *out;
    stack[depth++] = *out;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice d) {
    ENTER(false);
    (void)flags;
    return create_context(out, d);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags,
                                CUdevice d) {
    ENTER(false);
    (void)params, (void)flags;
    return create_context(out, d);
}

/* Waiting stream operations of the context end. The struct stays for the streams' threads. */
CUresult CUDAAPI cuCtxDestroy(CUcontext ctx) {
    ENTER(false);
    if (!ctx || ctx->destroyed)
        return CUDA_ERROR_INVALID_CONTEXT;
    ctx->destroyed = true;
    fake_device_leave(ctx->device);
    if (fake_current() == ctx)
        depth--;
    return CUDA_SUCCESS;
}
