/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of the runtime's tests, and arrays in device memory. */
#ifndef CUDART_KERNELS_H
#define CUDART_KERNELS_H
#include "test.h"

/* to[i] = from[i] * factor + i */
__global__ void scale(int *to, const int *from, int factor, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[i] * factor + (int)i;
}

__global__ void add_one(int *value) {
    atomicAdd(value, 1);
}

__global__ void write_out_of_bounds(int *value) {
    value[1 << 28] = 1;
}

/* Waits for a flag, which only the host sets. */
__global__ void wait_for(volatile int *flag) {
    while (!*flag)
        ;
}

static int *device_array(unsigned n, int first) {
    int *p, *values = (int *)malloc(n * sizeof *values);
    for (unsigned i = 0; i < n; i++)
        values[i] = first + (int)i;
    OK(cudaMalloc(&p, n * sizeof *p));
    OK(cudaMemcpy(p, values, n * sizeof *p, cudaMemcpyHostToDevice));
    free(values);
    return p;
}

static int value_at(const int *p) {
    int value;
    OK(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

/* A word that both the host and kernels access. */
static volatile int *host_flag(void) {
    void *p;
    OK(cudaHostAlloc(&p, sizeof(int), cudaHostAllocMapped));
    *(volatile int *)p = 0;
    return (volatile int *)p;
}

#endif
