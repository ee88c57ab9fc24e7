/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels' image in a build without CUDA; embed.py generates it otherwise. */
#include "cuda_kernels.h"

const struct rcmi_cuda_image rcmi_cuda_image = {NULL, 0, 0};
