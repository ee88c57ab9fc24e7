/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels for GPUs as the host sees them: an image that a driver loads as a module, the names
 * of its functions, which of them serves a type and an operator, and how it is launched.
 *
 *      image = &rcmi_cuda_image                     once per context
 *      cuModuleLoadData, cuModuleGetFunction of all rcmi_cuda_names
 *      rcmi_cuda_launch_of(operation, sms, &launch)    per operation
 *      cuLaunchKernel(functions[launch.function], launch.grid, 1, 1, launch.block, 1, 1, 0, stream,
 *                     (void *[]){&launch.args}, NULL)
 *
 * Their results have the bits of the CPU's kernels (kernels.h), whatever the grid. No function
 * waits for another block, so that any of them runs beside anything else. This header has no type
 * of CUDA's, and the file that it describes calls no driver.
 */
#ifndef RCMI_CUDA_KERNELS_H
#define RCMI_CUDA_KERNELS_H

#include "args.h"
#include "functions.h"
#include "operation.h"

#define RCMI_CUDA_INDEX(kernel, ...) RCMI_CUDA_##kernel,
enum rcmi_cuda_function { RCMI_CUDA_FUNCTION_MAP(RCMI_CUDA_INDEX) RCMI_CUDA_FUNCTIONS };
#undef RCMI_CUDA_INDEX

/* As the module knows them, by enum rcmi_cuda_function; in a build without CUDA too. */
extern const char *const rcmi_cuda_names[RCMI_CUDA_FUNCTIONS];

/* A fatbin, of the toolkit's version (CUDA_VERSION of its cuda.h: 12040 is 12.4), with code for
 * GPUs from compute capability 8.0 on. In a build without CUDA: NULL, 0, 0. */
struct rcmi_cuda_image {
    const void *bytes;
    size_t size;
    int toolkit;
};
extern const struct rcmi_cuda_image rcmi_cuda_image;

/* What reduces by an operator with this number (kernels.h), created ones by their kind: -1 where it
 * is not defined for the type, and of functions of the program's. */
int rcmi_cuda_function_of(rcm_dtype dtype, rcm_op op);

struct rcmi_cuda_launch {
    enum rcmi_cuda_function function;
    unsigned grid, block; /* x; y and z are 1 */
    struct rcmi_cuda_args args;
};

/* Of an operation on a device with that many multiprocessors. False if there is no function for its
 * type and operator. One of 0 bytes launches nothing: its grid is 0. */
bool rcmi_cuda_launch_of(const struct rcmi_operation *operation, unsigned multiprocessors,
                         struct rcmi_cuda_launch *ret_launch);

#endif
