/* SPDX-License-Identifier: BSD-3-Clause */
/* A device for tests of kernels; see gpu.h. */
#include "gpu.h"
#include <stdio.h>
#include <stdlib.h>

static void check(const struct gpu *gpu, rcmi_cuda_code code, const char *call) {
    const char *name = "?";
    if (code == RCMI_CUDA_SUCCESS)
        return;
    (void)gpu->driver->cuGetErrorName(code, &name);
    fprintf(stderr, "%s: %s (%d)\n", call, name, code);
    exit(1);
}
#define CU(gpu, function, ...) check(gpu, (gpu)->driver->function(__VA_ARGS__), #function)

/* The driver copies the image, so it can be freed. */
static void load(struct gpu *gpu, const char *path) {
    enum { LARGEST = 16 << 20 };
    FILE *file = fopen(path, "re");
    char *image = calloc(1, LARGEST);
    if (!file || !image || fread(image, 1, LARGEST - 1, file) == 0) {
        perror(path);
        exit(1);
    }
    fclose(file);
    CU(gpu, cuModuleLoadData, &gpu->module, image);
    free(image);
}

void gpu_open(struct gpu *gpu, size_t bytes, const char *path) {
    struct rcmi_cuda_context *context;
    int device;
    if (rcmi_cuda_open(&gpu->driver) != RCM_OK) {
        fprintf(stderr, "%s\n", rcm_last_error());
        exit(1);
    }
    CU(gpu, cuDeviceGet, &device, 0);
    CU(gpu, cuDevicePrimaryCtxRetain, &context, device);
    CU(gpu, cuCtxPushCurrent, context);
    if (path)
        load(gpu, path);
    else
        CU(gpu, cuModuleLoadData, &gpu->module, rcmi_cuda_image.bytes);
    for (int k = 0; k < RCMI_CUDA_FUNCTIONS; k++)
        CU(gpu, cuModuleGetFunction, &gpu->functions[k], gpu->module, rcmi_cuda_names[k]);
    CU(gpu, cuStreamCreate, &gpu->stream, RCMI_CUDA_STREAM_NON_BLOCKING);
    CU(gpu, cuMemAlloc, &gpu->memory, bytes);
}

void gpu_close(struct gpu *gpu) {
    struct rcmi_cuda_context *context;
    CU(gpu, cuMemFree, gpu->memory);
    CU(gpu, cuStreamDestroy, gpu->stream);
    CU(gpu, cuModuleUnload, gpu->module);
    CU(gpu, cuCtxPopCurrent, &context);
    CU(gpu, cuDevicePrimaryCtxRelease, 0);
}

void gpu_run(const struct gpu *gpu, const struct rcmi_cuda_launch *launch, void *image,
             size_t bytes) {
    struct rcmi_cuda_args args = launch->args;
    CU(gpu, cuMemcpyHtoDAsync, gpu->memory, image, bytes, gpu->stream);
    CU(gpu, cuLaunchKernel, gpu->functions[launch->function], launch->grid, 1, 1, launch->block, 1,
       1, 0, gpu->stream, (void *[]){&args}, NULL);
    CU(gpu, cuMemcpyDtoHAsync, image, gpu->memory, bytes, gpu->stream);
    CU(gpu, cuStreamSynchronize, gpu->stream);
}
