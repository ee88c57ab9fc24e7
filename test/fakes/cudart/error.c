/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors: the last one of each thread, names, and the list of calls that are not supported. */
#include "cudart.h"
#include "error_names.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Thread_local cudaError_t last;

cudaError_t rt_result(int error) {
    if (error)
        last = (cudaError_t)error;
    return (cudaError_t)error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
    return last;
}

cudaError_t CUDARTAPI cudaGetLastError(void) {
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof error_names / sizeof *error_names; i++)
        if (error_names[i].error == error)
            return error_names[i].name;
    return "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
    return cudaGetErrorName(error);
}

/* FAKECUDART_MISSING=1 prints each name once. */
cudaError_t rt_unsupported(const char *name, bool *listed) {
    const char *wanted = getenv("FAKECUDART_MISSING");
    if (wanted && atoi(wanted) && !__atomic_exchange_n(listed, true, __ATOMIC_RELAXED))
        fprintf(stderr, "fake_cudart[%d]: %s is not supported\n", (int)getpid(), name);
    return rt_result(cudaErrorNotSupported);
}
