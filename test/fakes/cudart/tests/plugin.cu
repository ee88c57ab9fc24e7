/* SPDX-License-Identifier: BSD-3-Clause */
/* A library with device code, for dlopen and dlclose. */
#include "test.h"

__device__ int calls;

__global__ void count_call() {
    calls++;
}

extern "C" const void *plugin_kernel() {
    return (const void *)count_call;
}

extern "C" void *plugin_variable() {
    void *address;
    OK(cudaGetSymbolAddress(&address, calls));
    return address;
}

extern "C" int plugin_count() {
    int n;
    count_call<<<1, 1>>>();
    OK(cudaMemcpyFromSymbol(&n, calls, sizeof n));
    return n;
}
