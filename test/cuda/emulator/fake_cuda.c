/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in libcuda.so.1: contexts, errors, copies, modules, launches. */
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- contexts
 * ------------------------------------------------------------------------------------------ */

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
        fake_say("%s", name);
    fake_take_time(name);
    CUresult r = fake_injected(name, place);
    if (r)
        return r;
    if (fake_in_host_fn())
        return CUDA_ERROR_NOT_PERMITTED;
    if (init_pid != getpid()) /* after fork CUDA is gone */
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!needs_context)
        return CUDA_SUCCESS;
    CUcontext ctx = fake_current();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return ctx->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : (CUresult)ctx->error;
}

/* As the driver does, any thread may do each. */
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

static CUcontext created; /* all of them: streams' threads may still look at a destroyed one */

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

/* Waiting stream operations of the context give up; the struct stays for the streams' threads. */
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

/* ---- errors
 * --------------------------------------------------------------------------------------
 */

/* clang-format off */
#define ERRORS(X)                                                                                  \
    X(CUDA_SUCCESS) X(CUDA_ERROR_INVALID_VALUE) X(CUDA_ERROR_OUT_OF_MEMORY)                        \
    X(CUDA_ERROR_NOT_INITIALIZED) X(CUDA_ERROR_NO_DEVICE) X(CUDA_ERROR_INVALID_DEVICE)             \
    X(CUDA_ERROR_INVALID_IMAGE) X(CUDA_ERROR_INVALID_CONTEXT) X(CUDA_ERROR_MAP_FAILED)             \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU) X(CUDA_ERROR_INVALID_PTX) X(CUDA_ERROR_INVALID_HANDLE)         \
    X(CUDA_ERROR_ILLEGAL_STATE) X(CUDA_ERROR_NOT_FOUND) X(CUDA_ERROR_NOT_READY)                    \
    X(CUDA_ERROR_ILLEGAL_ADDRESS) X(CUDA_ERROR_MISALIGNED_ADDRESS) X(CUDA_ERROR_LAUNCH_FAILED)     \
    X(CUDA_ERROR_LAUNCH_TIMEOUT) X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)                             \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) X(CUDA_ERROR_CONTEXT_IS_DESTROYED)                  \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)          \
    X(CUDA_ERROR_NOT_SUPPORTED) X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)                           \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) X(CUDA_ERROR_STREAM_CAPTURE_MERGE)                    \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)                   \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION) X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                   \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE) X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)                         \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED) X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)                \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED) X(CUDA_ERROR_NOT_PERMITTED)                              \
    X(CUDA_ERROR_CAPTURED_EVENT) X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) X(CUDA_ERROR_UNKNOWN)
/* clang-format on */

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **out) {
    switch ((int)error) {
#define X(e)                                                                                       \
    case e:                                                                                        \
        *out = #e;                                                                                 \
        return CUDA_SUCCESS;
        ERRORS(X)
#undef X
    }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **out) {
    return cuGetErrorName(error, out);
}

/* ---- copies and sets
 * --------------------------------------------------------------------------------------------- */

enum direction { ANY, TO_DEVICE, FROM_DEVICE, ON_DEVICE };

/* Pageable sources are read at once, as the driver stages them; pageable targets are waited for. */
static CUresult staged_copy(uint64_t to, uint64_t from, size_t n, CUstream stream,
                            enum direction dir, bool wait) {
    bool to_known, from_known;
    void *t = fake_host_ptr(to, n, &to_known);
    const void *f = fake_host_ptr(from, n, &from_known);
    bool bad = (!to_known && (dir == TO_DEVICE || dir == ON_DEVICE)) ||
               (!from_known && (dir == FROM_DEVICE || dir == ON_DEVICE));
    if (n == 0)
        return CUDA_SUCCESS;
    if (!t || !f || bad)
        return CUDA_ERROR_INVALID_VALUE;
    struct op *op = fake_op(OP_COPY);
    op->to = t;
    op->from = f;
    op->to_address = to_known ? to : 0;
    op->from_address = from_known ? from : 0;
    op->bytes = n;
    if (!from_known && !wait) {
        op->from = op->owned = malloc(n);
        memcpy(op->owned, f, n);
    }
    bool block = wait || (!to_known && !fake_capturing(stream));
    return block ? fake_submit_and_wait(stream, op) : fake_submit(stream, op);
}

/* Both sides must be in reach of the context: only cuMemcpyPeer crosses devices without that. */
static CUresult copy(uint64_t to, uint64_t from, size_t n, CUstream stream, enum direction dir,
                     bool wait) {
    CUcontext ctx = fake_current();
    if (n && (!fake_reachable(ctx, to) || !fake_reachable(ctx, from))) {
        fake_say("copy between devices without cuCtxEnablePeerAccess");
        return CUDA_ERROR_INVALID_VALUE;
    }
    return staged_copy(to, from, n, stream, dir, wait);
}

#define ADDR(p) ((uint64_t)(uintptr_t)(p))

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                              CUcontext from_ctx, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return to_ctx && from_ctx ? staged_copy(to, from, n, NULL, ON_DEVICE, false)
                              : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                                   CUcontext from_ctx, size_t n, CUstream s) {
    ENTER(true);
    return to_ctx && from_ctx ? staged_copy(to, from, n, s, ON_DEVICE, false)
                              : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return copy(to, from, n, NULL, ANY, true);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    ENTER(true);
    return copy(to, from, n, s, ANY, false);
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return copy(to, ADDR(from), n, NULL, TO_DEVICE, true);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream s) {
    ENTER(true);
    return copy(to, ADDR(from), n, s, TO_DEVICE, false);
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return copy(ADDR(to), from, n, NULL, FROM_DEVICE, true);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream s) {
    ENTER(true);
    return copy(ADDR(to), from, n, s, FROM_DEVICE, false);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return copy(to, from, n, NULL, ON_DEVICE, false);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    ENTER(true);
    return copy(to, from, n, s, ON_DEVICE, false);
}

static CUresult set(CUdeviceptr to, uint32_t value, unsigned width, size_t n, CUstream s) {
    bool known;
    void *t = fake_host_ptr(to, n * width, &known);
    if (!t || !known || to % width || !fake_reachable(fake_current(), to))
        return CUDA_ERROR_INVALID_VALUE;
    struct op *op = fake_op(OP_SET);
    op->to = t;
    op->to_address = to;
    op->value = value;
    op->width = width;
    op->bytes = n * width;
    return fake_submit(s, op);
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char v, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return set(to, v, 1, n, NULL);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
    ENTER(true);
    return set(to, v, 1, n, s);
}

CUresult CUDAAPI cuMemsetD32(CUdeviceptr to, unsigned v, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return set(to, v, 4, n, NULL);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream s) {
    ENTER(true);
    return set(to, v, 4, n, s);
}

/* ---- modules
 * -----------------------------------------------------------------------------------------
 */

struct CUmod_st {
    struct ptx_module *ptx;
};

static CUresult load(CUmodule *out, const void *image) {
    char *text, why[500];
    size_t len;
    CUresult r = fake_image_ptx(image, fake_settings()->cc, &text, &len);
    if (r)
        return r;
    fake_sync_alloc();
    if ((r = fake_check_ptx_version(text))) {
        free(text);
        return r;
    }
    struct ptx_module *ptx =
        ptx_module_load(text, len, &fake_env, fake_current()->device, why, sizeof why);
    free(text);
    if (!ptx) {
        fake_say("%s", why);
        return CUDA_ERROR_INVALID_PTX;
    }
    if (ptx_module_target(ptx) > fake_settings()->cc) {
        ptx_module_free(ptx);
        return CUDA_ERROR_INVALID_PTX;
    }
    *out = calloc(1, sizeof **out);
    (*out)->ptx = ptx;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return out && image ? load(out, image) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *o,
                                    void **v) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    (void)n, (void)o, (void)v;
    return out && image ? load(out, image) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *out, const void *image) {
    return cuModuleLoadData(out, image);
}

CUresult CUDAAPI cuModuleUnload(CUmodule m) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    fake_sync_context(fake_current());
    ptx_module_free(m->ptx);
    free(m);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
    ENTER(true);
    if (!out || !m || !name)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUfunction)ptx_find_function(m->ptx, name);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr *addr, size_t *size, CUmodule m, const char *name) {
    ENTER(true);
    uint64_t a;
    size_t n;
    if (!ptx_find_global(m->ptx, name, &a, &n))
        return CUDA_ERROR_NOT_FOUND;
    if (addr)
        *addr = a;
    if (size)
        *size = n;
    return CUDA_SUCCESS;
}

/* NULL if f is, or if its PTX is wrong. */
static const struct ptx_function *function(CUfunction f) {
    char why[500];
    struct ptx_function *fn = (struct ptx_function *)f;
    if (!fn || ptx_prepare(fn, why, sizeof why))
        return fn;
    fake_say("%s", why);
    return NULL;
}

CUresult CUDAAPI cuFuncGetAttribute(int *out, CUfunction_attribute a, CUfunction f) {
    ENTER(true);
    const struct ptx_function *fn = function(f);
    if (!fn)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (a) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = (int)ptx_max_threads(fn);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *out = (int)ptx_static_shared(fn);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *out = 32;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
    ENTER(true);
    bool ok = f && value >= 0 && value <= 232448;
    return a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && !ok ? CUDA_ERROR_INVALID_VALUE
                                                                       : CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int block,
                                                             size_t shared) {
    ENTER(true);
    (void)f, (void)shared;
    *n = 2048 / (block > 0 ? block : 1) < 2 ? 1 : 2; /* as FAKECUDA_RESIDENT's default */
    return CUDA_SUCCESS;
}

/* ---- launches
 * -------------------------------------------------------------------------------------------
 */

static CUresult collect_params(const struct ptx_function *fn, void **params, void **extra,
                               void *to) {
    if (extra && params)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; params && i < ptx_param_count(fn); i++) {
        size_t offset, size;
        ptx_param_at(fn, i, &offset, &size);
        memcpy((char *)to + offset, params[i], size);
    }
    const void *buffer = NULL;
    size_t size = 0;
    for (int i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[i + 1];
    }
    if (buffer)
        memcpy(to, buffer, size < ptx_param_size(fn) ? size : ptx_param_size(fn));
    return params || buffer || ptx_param_count(fn) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_shape(const struct ptx_function *fn, const struct ptx_launch *la,
                            bool cooperative) {
    uint64_t threads = (uint64_t)la->block[0] * la->block[1] * la->block[2];
    uint64_t blocks = (uint64_t)la->grid[0] * la->grid[1] * la->grid[2];
    if (threads == 0 || threads > 1024 || blocks == 0 || la->grid[1] > 65535 || la->grid[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > ptx_max_threads(fn))
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (la->dynamic_shared + ptx_static_shared(fn) > 232448)
        return CUDA_ERROR_INVALID_VALUE;
    return cooperative && blocks > la->resident ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
                                                : CUDA_SUCCESS;
}

static CUresult launch(const struct ptx_function *fn, struct ptx_launch la, CUstream s,
                       void **params, void **extra, bool cooperative) {
    static _Atomic uint64_t launches;
    const struct settings *set = fake_settings();
    if (!fn || (fake_stream_context(s) && fake_stream_context(s) != fake_current()))
        return CUDA_ERROR_INVALID_HANDLE;
    la.device = fake_current()->device;
    la.seed = set->seed ? set->seed + atomic_fetch_add(&launches, 1) : 0;
    la.resident = set->resident;
    la.weak = set->weak;
    CUresult r = check_shape(fn, &la, cooperative);
    if (r)
        return r;
    struct op *op = fake_op(OP_KERNEL);
    op->fn = fn;
    op->launch = la;
    op->params = calloc(1, ptx_param_size(fn) + 1);
    r = collect_params(fn, params, extra, op->params);
    if (r) {
        fake_op_free(op);
        return r;
    }
    return fake_submit(s, op);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                unsigned by, unsigned bz, unsigned shared, CUstream s,
                                void **params, void **extra) {
    ENTER(true);
    return launch(
        function(f),
        (struct ptx_launch){.grid = {gx, gy, gz}, .block = {bx, by, bz}, .dynamic_shared = shared},
        s, params, extra, false);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                           unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                           CUstream s, void **params) {
    ENTER(true);
    return launch(
        function(f),
        (struct ptx_launch){.grid = {gx, gy, gz}, .block = {bx, by, bz}, .dynamic_shared = shared},
        s, params, NULL, true);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params,
                                  void **extra) {
    ENTER(true);
    bool cooperative = false;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            cooperative = c->attrs[i].value.cooperative;
        else if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct ptx_launch la = {.grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                            .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                            .dynamic_shared = c->sharedMemBytes};
    return launch(function(f), la, c->hStream, params, extra, cooperative);
}
