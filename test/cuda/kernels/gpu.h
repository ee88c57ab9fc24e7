/* SPDX-License-Identifier: BSD-3-Clause */
/* A device for tests of kernels: a module of them in its primary context, one stream, one block of
 * memory. Whatever cannot be had ends the program with a sentence. */
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

/* path: of the kernels' image or PTX; NULL: the library's own. */
void gpu_open(struct gpu *gpu, size_t bytes, const char *path);
void gpu_close(struct gpu *gpu);
/* Copies the image to the device's memory, launches, copies it back, all of `bytes`. */
void gpu_run(const struct gpu *gpu, const struct rcmi_cuda_launch *launch, void *image,
             size_t bytes);

#endif
