/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of a program that uses the driver itself: memory of cuMemAlloc, unknown to the library
 * before a call. */
#ifndef TEST_CUDA_PROGRAM_BUFFERS_H
#define TEST_CUDA_PROGRAM_BUFFERS_H

#include <stddef.h>
#include "cuda.h"

struct program {
    const struct rcmi_cuda *cuda;
    struct rcmi_cuda_context *context;
    rcmi_cuda_address in, out;
    size_t bytes; /* of each */
};

/* Loads the driver. Fills both buffers with `value`. Returns the number of errors. */
int program_begin(struct program *p, size_t bytes, unsigned char value);
int program_end(const struct program *p);
/* How many of the n bytes from `at` on differ from `value`. */
size_t program_wrong(const struct program *p, rcmi_cuda_address at, size_t n, unsigned char value);

/* As an argument of calls. */
static inline void *program_buffer(rcmi_cuda_address address) {
    return (void *)(uintptr_t)address;
}

#endif
