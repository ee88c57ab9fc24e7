/* SPDX-License-Identifier: BSD-3-Clause */
/* The configurations of <<<>>>: nvcc's code pushes one, and the kernel's stub pops it. An argument
 * that launches a kernel itself makes them nest. */
#include "cudart.h"

#define DEPTH 16

static _Thread_local struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} pushed[DEPTH];
static _Thread_local int depth;

unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                               struct CUstream_st *stream) {
    if (depth == DEPTH)
        return (unsigned)rt_result(cudaErrorInvalidConfiguration);
    pushed[depth++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                                 void *stream) {
    if (depth == 0)
        return rt_result(cudaErrorMissingConfiguration);
    *grid = pushed[--depth].grid;
    *block = pushed[depth].block;
    *shared = pushed[depth].shared;
    *(cudaStream_t *)stream = pushed[depth].stream;
    return cudaSuccess;
}
