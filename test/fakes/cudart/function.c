/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes and occupancy of kernels. */
#include "cudart.h"

/* A kernel's handle is its host function, so that it can stand for it in all calls. */
static CUresult handle_of(const void *kernel, void *ret) {
    if (!rt_kernel_name(kernel))
        return (CUresult)cudaErrorInvalidDeviceFunction;
    *(const void **)ret = kernel;
    return CUDA_SUCCESS;
}

static CUresult name_of(const void *kernel, const char **ret) {
    *ret = rt_kernel_name(kernel);
    return *ret ? CUDA_SUCCESS : (CUresult)cudaErrorInvalidDeviceFunction;
}

/* An attribute that the driver does not support is 0. */
static CUresult attributes(struct cudaFuncAttributes *ret, const void *kernel) {
    CUfunction function;
    int shared = 0, constant = 0, local = 0;
    const struct {
        CUfunction_attribute attribute;
        int *ret;
    } wanted[] = {
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &shared},
        {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &constant},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local},
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &ret->maxThreadsPerBlock},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &ret->numRegs},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, &ret->ptxVersion},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &ret->binaryVersion},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &ret->maxDynamicSharedSizeBytes}};
    *ret = (struct cudaFuncAttributes){0};
    CUresult r = rt_function(kernel, &function);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !r; i++) {
        r = cuFuncGetAttribute(wanted[i].ret, wanted[i].attribute, function);
        r = r == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : r;
    }
    ret->sharedSizeBytes = (size_t)shared;
    ret->constSizeBytes = (size_t)constant;
    ret->localSizeBytes = (size_t)local;
    return r;
}

static CUresult set_attribute(const void *kernel, int a, int value) {
    CUfunction f;
    CUresult r = rt_function(kernel, &f);
    return r ? r : cuFuncSetAttribute(f, (CUfunction_attribute)a, value);
}

static CUresult set_attribute_on(const void *kernel, int a, int value, int device) {
    CUcontext context;
    CUresult r = rt_primary(device, &context);
    if (r || (r = cuCtxPushCurrent(context)))
        return r;
    r = set_attribute(kernel, a, value);
    (void)cuCtxPopCurrent(&context);
    return r;
}

static CUresult occupancy(int *ret, const void *kernel, int block, size_t shared) {
    CUfunction f;
    CUresult r = rt_function(kernel, &f);
    return r ? r : cuOccupancyMaxActiveBlocksPerMultiprocessor(ret, f, block, shared);
}

/* clang-format off */
API(cudaGetKernel, (cudaKernel_t *ret, const void *kernel), handle_of(kernel, ret))
API(cudaGetFuncBySymbol, (cudaFunction_t *ret, const void *kernel),
    rt_function(kernel, (CUfunction *)ret))
API(cudaFuncGetName, (const char **ret, const void *kernel), name_of(kernel, ret))
API(cudaFuncGetAttributes, (struct cudaFuncAttributes *ret, const void *kernel),
    attributes(ret, kernel))
API(cudaFuncSetAttribute, (const void *kernel, enum cudaFuncAttribute a, int value),
    set_attribute(kernel, a, value))
API(cudaKernelSetAttributeForDevice,
    (cudaKernel_t kernel, enum cudaFuncAttribute a, int value, int device),
    set_attribute_on(kernel, a, value, device))
API(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
    (int *ret, const void *kernel, int block, size_t shared),
    occupancy(ret, kernel, block, shared))
API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    (int *ret, const void *kernel, int block, size_t shared, unsigned flags),
    ((void)flags, occupancy(ret, kernel, block, shared)))
/* clang-format on */

/* nvcc's code calls this one in static constructors of functions: no context is needed. */
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *ret, const void *kernel) {
    return rt_result(handle_of(kernel, ret));
}
