/* SPDX-License-Identifier: BSD-3-Clause */
/* A device for tests of kernels: a module in its primary context, one stream, one block of memory.
 * Any failure ends the program with a message. */
#ifndef TEST_CUDA_GPU_H
#define TEST_CUDA_GPU_H

#include "cuda.h"
#include "cuda_kernels.h"

struct gpu {
    const struct rcmi_cuda *driver;
    struct rcmi_cuda_module *module;
    struct rcmi_cuda_kernel *functions[RCMI_CUDA_FUNCTIONS];
    struct rcmi_cuda_stream *stream;
    rcmi_cuda_address memory;
};

/* path: of the kernels' image or PTX; NULL: the library's image. */
void gpu_open(struct gpu *gpu, size_t bytes, const char *path);
void gpu_close(struct gpu *gpu);
/* Copies the image of `bytes` bytes to the device, launches, and copies it back. */
void gpu_run(const struct gpu *gpu, const struct rcmi_cuda_launch *launch, void *image,
             size_t bytes);

#endif
