/* SPDX-License-Identifier: BSD-3-Clause */
/* The single argument of a kernel on a GPU, shared by C and the kernels' C++. Pointers are
 * addresses of the device, or of pinned host memory as seen by the device. */
#ifndef RCMI_CUDA_ARGS_H
#define RCMI_CUDA_ARGS_H

#include <stdint.h>

#define RCMI_CUDA_MAX 16 /* sources, and results */

struct rcmi_cuda_args {
    void *results[RCMI_CUDA_MAX]; /* each may be one of the sources; no other overlap */
    const void *srcs[RCMI_CUDA_MAX];
    uint64_t count;           /* elements; for rcmi_copy bytes */
    double scale[2];          /* as in struct rcmi_reduce_context (kernels.h), like the next two */
    uint32_t scaled, divisor; /* divisor: 0 is 1 */
    uint32_t nsrcs, nresults; /* at least one of each */
};

#endif
