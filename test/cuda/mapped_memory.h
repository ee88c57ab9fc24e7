/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of cuMemCreate at an address of its own, as programs make it. */
#ifndef TEST_CUDA_MAPPED_MEMORY_H
#define TEST_CUDA_MAPPED_MEMORY_H

#include "cuda.h"

struct mapped {
    rcmi_cuda_address at;
    size_t bytes;
    unsigned long long allocation; /* 0: released, or several */
};

/* At least that many bytes. handle_types: RCMI_CUDA_HANDLE_DESCRIPTOR, or 0: other processes cannot
 * open it. The driver's code; *ret_call names the call that failed. */
rcmi_cuda_code mapped_new(const struct rcmi_cuda *cuda, int device, size_t bytes, int handle_types,
                          struct mapped *ret, const char **ret_call);
/* n allocations, mapped one behind the other: a range of several pieces. */
enum { MAPPED_PIECE = 2 << 20 };
rcmi_cuda_code mapped_new_pieces(const struct rcmi_cuda *cuda, int device, int n, int handle_types,
                                 struct mapped *ret, const char **ret_call);
/* One, where nothing is mapped. */
rcmi_cuda_code mapped_piece(const struct rcmi_cuda *cuda, int device, rcmi_cuda_address at,
                            int handle_types, const char **ret_call);
rcmi_cuda_code mapped_free(const struct rcmi_cuda *cuda, const struct mapped *mapped);

#endif
