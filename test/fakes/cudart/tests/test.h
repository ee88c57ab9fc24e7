/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the runtime's tests, which are CUDA C++ without the C++ library. */
#ifndef CUDART_TEST_H
#define CUDART_TEST_H
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT(code, call)                                                                         \
    do {                                                                                           \
        cudaError_t got_ = (call);                                                                 \
        if (got_ != (code)) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s, expected %s\n", __FILE__, __LINE__, #call,             \
                    cudaGetErrorName(got_), cudaGetErrorName(code));                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define OK(call) EXPECT(cudaSuccess, call)

struct test_case {
    const char *name;
    void (*run)(void);
};
#define CASE(f)                                                                                    \
    { #f, f }

static inline int run_case(const struct test_case *cases, size_t count, int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < count; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            return cases[i].run(), 0;
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
}

#endif
