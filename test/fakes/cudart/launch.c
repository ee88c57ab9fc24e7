/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches. Compiled twice, see STREAM. */
#include "cudart.h"
#include <stddef.h>

#ifdef RT_PER_THREAD
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute) &&
                   offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value),
               "launch attributes of both APIs have the same layout");

/* Limits of any launch, for which the runtime has an error of its own. */
static bool fits(dim3 grid, dim3 block) {
    return grid.x && grid.y && grid.z && block.x && block.y && block.z &&
           (size_t)block.x * block.y * block.z <= 1024;
}

static CUresult launch(dim3 grid, dim3 block, size_t shared, CUstream stream,
                       const cudaLaunchAttribute *attributes, unsigned count, const void *kernel,
                       void **arguments) {
    CUlaunchConfig config = {grid.x,
                             grid.y,
                             grid.z,
                             block.x,
                             block.y,
                             block.z,
                             (unsigned)shared,
                             stream,
                             (CUlaunchAttribute *)attributes,
                             count};
    CUfunction function;
    CUresult r;
    if (!fits(grid, block))
        return (CUresult)cudaErrorInvalidConfiguration;
    if (rt_fill(rt_kernel_name(kernel), arguments, stream, &r))
        return r;
    r = rt_function(kernel, &function);
    return r ? r : cuLaunchKernelEx(&config, function, arguments, NULL);
}

static const cudaLaunchAttribute cooperative = {.id = cudaLaunchAttributeCooperative,
                                                .val = {.cooperative = 1}};

/* clang-format off */
API(cudaLaunchKernel, (const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
    cudaStream_t stream),
    launch(grid, block, shared, STREAM(stream), NULL, 0, kernel, arguments))
API(__cudaLaunchKernel, (cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
    size_t shared, cudaStream_t stream),
    launch(grid, block, shared, STREAM(stream), NULL, 0, kernel, arguments))
API(cudaLaunchCooperativeKernel, (const void *kernel, dim3 grid, dim3 block, void **arguments,
    size_t shared, cudaStream_t stream),
    launch(grid, block, shared, STREAM(stream), &cooperative, 1, kernel, arguments))
API(cudaLaunchKernelExC, (const cudaLaunchConfig_t *c, const void *kernel, void **arguments),
    launch(c->gridDim, c->blockDim, c->dynamicSmemBytes, STREAM(c->stream), c->attrs, c->numAttrs,
        kernel, arguments))
/* clang-format on */
