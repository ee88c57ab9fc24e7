/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of cuMemCreate, mapped at a reserved address, as programs make it. */
#ifndef TEST_CUDA_MAPPED_MEMORY_H
#define TEST_CUDA_MAPPED_MEMORY_H

#include "cuda.h"

struct mapped {
    rcmi_cuda_address at;
    size_t bytes;
    unsigned long long allocation; /* 0: released, or several allocations */
};

/* At least `bytes` bytes. handle_types: RCMI_CUDA_HANDLE_DESCRIPTOR, or 0, which other processes
 * cannot open. Returns the driver's code; *ret_call is the name of the failed call. */
rcmi_cuda_code mapped_new(const struct rcmi_cuda *cuda, int device, size_t bytes, int handle_types,
                          struct mapped *ret, const char **ret_call);
/* n allocations mapped at adjacent addresses. */
enum { MAPPED_PIECE = 2 << 20 };
rcmi_cuda_code mapped_new_pieces(const struct rcmi_cuda *cuda, int device, int n, int handle_types,
                                 struct mapped *ret, const char **ret_call);
/* Maps one piece at an unmapped address. */
rcmi_cuda_code mapped_piece(const struct rcmi_cuda *cuda, int device, rcmi_cuda_address at,
                            int handle_types, const char **ret_call);
rcmi_cuda_code mapped_free(const struct rcmi_cuda *cuda, const struct mapped *mapped);

#endif
