/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels on a device: see device_kernels.h. */
#include "device_kernels.h"
#include "error.h"

rcm_status device_kernels_check(const struct rcmi_cuda_image *image, int driver) {
    const int toolkit = image->toolkit;
    if (!image->bytes)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "built without CUDA, so without kernels for GPUs. Build with meson setup "
                         "-Dcuda=enabled and nvcc");
    /* Within a major version an older driver runs the kernels' machine code. */
    if (driver / 1000 >= toolkit / 1000)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "the kernels were built by CUDA %d.%d and need a driver that supports CUDA "
                     "%d.0 or newer, but this one supports CUDA %d.%d",
                     toolkit / 1000, toolkit % 1000 / 10, toolkit / 1000, driver / 1000,
                     driver % 1000 / 10);
}

static rcm_status load_failed(rcmi_cuda_code code, int driver) {
    const int toolkit = rcmi_cuda_image.toolkit;
    (void)rcmi_cuda_fail(code, "cuModuleLoadData");
    return rcmi_fail_context("kernels built by CUDA %d.%d, a driver that supports CUDA %d.%d",
                             toolkit / 1000, toolkit % 1000 / 10, driver / 1000,
                             driver % 1000 / 10);
}

rcm_status device_kernels_load(const struct rcmi_cuda *cuda, int driver,
                               struct device_kernels *kernels) {
    rcm_status status = device_kernels_check(&rcmi_cuda_image, driver);
    if (status != RCM_OK)
        return status;
    rcmi_cuda_code code = cuda->cuModuleLoadData(&kernels->module, rcmi_cuda_image.bytes);
    if (code != RCMI_CUDA_SUCCESS)
        return load_failed(code, driver);
    for (int i = 0; i < RCMI_CUDA_FUNCTIONS && status == RCM_OK; i++) {
        code =
            cuda->cuModuleGetFunction(&kernels->functions[i], kernels->module, rcmi_cuda_names[i]);
        if (code != RCMI_CUDA_SUCCESS) {
            (void)rcmi_cuda_fail(code, "cuModuleGetFunction");
            status = rcmi_fail_context("%s", rcmi_cuda_names[i]);
        }
    }
    return status;
}

void device_kernels_unload(const struct rcmi_cuda *cuda, struct device_kernels *kernels) {
    if (kernels->module)
        (void)cuda->cuModuleUnload(kernels->module);
    kernels->module = NULL;
}

rcmi_cuda_code device_kernels_launch(const struct rcmi_cuda *cuda,
                                     const struct device_kernels *kernels,
                                     const struct rcmi_operation *operation,
                                     unsigned multiprocessors, struct rcmi_cuda_stream *stream) {
    struct rcmi_cuda_launch launch;
    if (!rcmi_cuda_launch_of(operation, multiprocessors, &launch))
        return RCMI_CUDA_INVALID_VALUE;
    void *parameters[] = {&launch.args};
    return cuda->cuLaunchKernel(kernels->functions[launch.function], launch.grid, 1, 1,
                                launch.block, 1, 1, 0, stream, parameters, NULL);
}
