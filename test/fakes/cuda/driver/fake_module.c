/* SPDX-License-Identifier: BSD-3-Clause */
/* Modules, functions, launches. */
#include "fake.h"
#include <stdlib.h>
#include <string.h>

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
        fake_log("%s", why);
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

/* NULL if f is NULL or its PTX is wrong. */
static const struct ptx_function *function(CUfunction f) {
    char why[500];
    struct ptx_function *fn = (struct ptx_function *)f;
    if (!fn || ptx_prepare(fn, why, sizeof why))
        return fn;
    fake_log("%s", why);
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
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *out = ptx_function_target(fn);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *out = fake_settings()->cc; /* a driver compiles PTX for its device */
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

/* ---- launches ------------------------------------------------------------------------------- */

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
