/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of cuMemCreate at an address of its own, as programs make it. */
#ifndef TEST_CUDA_MAPPED_H
#define TEST_CUDA_MAPPED_H

#include "cuda.h"

struct mapped {
    rcmi_cuda_address at;
    size_t bytes;
    unsigned long long allocation;
};

/* At least that many bytes. handle_types: RCMI_CUDA_HANDLE_DESCRIPTOR, or 0: other processes cannot
 * open it. The driver's code; *ret_call names the call that failed. */
rcmi_cuda_code mapped_new(const struct rcmi_cuda *cuda, int device, size_t bytes, int handle_types,
                          struct mapped *ret, const char **ret_call);
rcmi_cuda_code mapped_free(const struct rcmi_cuda *cuda, const struct mapped *mapped);

#endif
