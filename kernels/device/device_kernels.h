/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels (cuda_kernels.h) on one device: loads all of them into its context at once, because
 * the driver may wait for the device when it loads one; then launches them.
 *
 * Not here: what they compute, and for which types (cuda_kernels.h).
 */
#ifndef RCMI_DEVICE_KERNELS_H
#define RCMI_DEVICE_KERNELS_H

#include "cuda.h"
#include "cuda_kernels.h"

struct device_kernels {
    struct rcmi_cuda_module *module;
    struct rcmi_cuda_kernel *functions[RCMI_CUDA_FUNCTIONS];
};

/* Can a driver of that version load these kernels? The error text explains why not. */
rcm_status device_kernels_check(const struct rcmi_cuda_image *image, int driver);

/* In the current context. */
rcm_status device_kernels_load(const struct rcmi_cuda *cuda, int driver,
                               struct device_kernels *kernels);
void device_kernels_unload(const struct rcmi_cuda *cuda, struct device_kernels *kernels);

/* Enqueues a reduction. All addresses must be valid on the device, and a function must exist for
 * it. */
rcmi_cuda_code device_kernels_launch(const struct rcmi_cuda *cuda,
                                     const struct device_kernels *kernels,
                                     const struct rcmi_operation *operation,
                                     unsigned multiprocessors, struct rcmi_cuda_stream *stream);

#endif
