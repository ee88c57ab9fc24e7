/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * torch's fill kernels by copies, because torch's wheels have no PTX. They are templates of
 * ATen/native/cuda/CUDALoops.cuh with FillFunctor<T>, a struct that has only the value. The names
 * of the two whose output is contiguous begin with
 *
 *     _ZN2at6native29vectorized_elementwise_kernelILi<2, 4, 8>ENS0_11FillFunctorI<T>EE
 *     _ZN2at6native27unrolled_elementwise_kernelINS0_11FillFunctorI<T>EE
 *
 * and go on with St5arrayIPcLm1EE, the outputs. The second also has a loader and a storer, which
 * must be those that do not convert types. The arguments of both begin with
 *
 *     arguments[0]  int                      number of elements
 *     arguments[1]  FillFunctor<T>           the value, sizeof(T) bytes
 *     arguments[2]  std::array<char *, 1>    address of the first element
 *
 * Other fill kernels (elementwise_kernel: strides in a lambda; StoreWithCast) return
 * NO_BINARY_FOR_GPU.
 */
#include "cudart.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (16u << 20)

/* sizeof(T), by its mangled name. */
/* clang-format off */
static const struct {
    const char *type;
    size_t size;
} types[] = {
    {"b", 1}, {"a", 1}, {"h", 1}, {"s", 2}, {"t", 2}, {"i", 4}, {"j", 4}, {"l", 8}, {"m", 8},
    {"f", 4}, {"d", 8}, {"N3c104HalfE", 2}, {"N3c108BFloat16E", 2},
    {"N3c1011Float8_e5m2E", 1}, {"N3c1013Float8_e4m3fnE", 1}, {"N3c1014Float8_e8m0fnuE", 1},
    {"N3c1015Float8_e5m2fnuzE", 1}, {"N3c1015Float8_e4m3fnuzE", 1},
    {"N3c107complexIfEE", 8}, {"N3c107complexIdEE", 16},
    {"N3c107complexINS3_4HalfEEE", 4}, {"N3c107complexINS3_8BFloat16EEE", 4},
};
/* clang-format on */

/* The rest of the text after the prefix, NULL if it does not begin so. */
static const char *after(const char *text, const char *prefix) {
    size_t n = strlen(prefix);
    return text && strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* The size of an element, 0 for a kernel whose arguments are not known. */
static size_t element_size(const char *name) {
    static const char *const vectorized[] = {"2", "4", "8"};
    const char *unrolled = after(name, "_ZN2at6native27unrolled_elementwise_kernelI");
    const char *rest = unrolled, *tail;
    for (size_t i = 0; !rest && i < 3; i++) {
        rest = after(name, "_ZN2at6native29vectorized_elementwise_kernelILi");
        rest = after(after(rest, vectorized[i]), "E");
    }
    if (unrolled && !strstr(unrolled, "16StoreWithoutCast"))
        return 0;
    rest = after(rest, "NS0_11FillFunctorI");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((tail = after(rest, types[i].type)) && after(tail, "EESt5arrayIPcLm1EE"))
            return types[i].size;
    return 0;
}

/* The driver has read the pieces when cuMemcpyHtoDAsync returns, because they are pageable. */
static CUresult fill(CUdeviceptr to, const void *value, size_t size, size_t count,
                     CUstream stream) {
    size_t bytes = count * size, piece = bytes < PIECE ? bytes : PIECE;
    CUresult r = CUDA_SUCCESS;
    char *values = malloc(piece);
    if (!values)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < piece; i += size)
        memcpy(values + i, value, size);
    for (size_t done = 0, n; done < bytes && !r; done += n) {
        n = bytes - done < piece ? bytes - done : piece;
        r = cuMemcpyHtoDAsync(to + done, values, n, stream);
    }
    free(values);
    return r;
}

bool rt_fill(const char *name, void **arguments, CUstream stream, CUresult *ret) {
    if (!name || !strstr(name, "11FillFunctorI"))
        return false;
    size_t size = element_size(name);
    *ret = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (size)
        *ret = fill(ADDRESS(*(char **)arguments[2]), arguments[1], size,
                    (size_t) * (const int *)arguments[0], stream);
    return true;
}
