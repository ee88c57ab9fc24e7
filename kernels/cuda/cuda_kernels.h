/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPU kernels from the host's view: an image that a driver loads as a module, the names of its
 * functions, which function serves a type and an operator, and how it is launched.
 *
 *      image = &rcmi_cuda_image                     once per context
 *      cuModuleLoadData, cuModuleGetFunction of all rcmi_cuda_names
 *      rcmi_cuda_launch_of(operation, sms, &launch)    per operation
 *      cuLaunchKernel(functions[launch.function], launch.grid, 1, 1, launch.block, 1, 1, 0, stream,
 *                     (void *[]){&launch.args}, NULL)
 *
 * Results have the same bits as those of the CPU's kernels (kernels.h), for every grid. No function
 * waits for another block, so any of them can run concurrently with other kernels. This header has
 * no CUDA types, and its implementation calls no driver.
 */
#ifndef RCMI_CUDA_KERNELS_H
#define RCMI_CUDA_KERNELS_H

#include "args.h"
#include "functions.h"
#include "operation.h"

#define RCMI_CUDA_INDEX(kernel, ...) RCMI_CUDA_##kernel,
enum rcmi_cuda_function { RCMI_CUDA_FUNCTION_MAP(RCMI_CUDA_INDEX) RCMI_CUDA_FUNCTIONS };
#undef RCMI_CUDA_INDEX

/* Names in the module, by enum rcmi_cuda_function; also in a build without CUDA. */
extern const char *const rcmi_cuda_names[RCMI_CUDA_FUNCTIONS];

/* A fatbin of the toolkit's version (CUDA_VERSION of its cuda.h: 12040 is 12.4), with code for GPUs
 * from compute capability 8.0 on. In a build without CUDA: NULL, 0, 0. */
struct rcmi_cuda_image {
    const void *bytes;
    size_t size;
    int toolkit;
};
extern const struct rcmi_cuda_image rcmi_cuda_image;

/* The function that reduces by an operator number (kernels.h; for created operators their kind). -1
 * if it is not defined for the type, or is a user-defined function. */
int rcmi_cuda_function_of(rcm_dtype dtype, rcm_op op);

struct rcmi_cuda_launch {
    enum rcmi_cuda_function function;
    unsigned grid, block; /* x; y and z are 1 */
    struct rcmi_cuda_args args;
};

/* The launch of an operation on a device with `multiprocessors`. False: no function for its type
 * and operator. 0 bytes launch nothing: the grid is 0. */
bool rcmi_cuda_launch_of(const struct rcmi_operation *operation, unsigned multiprocessors,
                         struct rcmi_cuda_launch *ret_launch);

#endif
