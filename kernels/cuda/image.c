/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels' image of a build without CUDA; embed.py makes that of others. */
#include "cuda_kernels.h"

const struct rcmi_cuda_image rcmi_cuda_image = {NULL, 0, 0};
