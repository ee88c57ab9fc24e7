/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies, sets, and stream-ordered memory. Compiled twice, see STREAM. A blocking call is an
 * asynchronous one, and a wait for its stream unless documented otherwise. */
#include "cudart.h"

static CUresult copy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, CUstream s) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return cuMemcpyHtoDAsync(ADDRESS(to), from, n, s);
    case cudaMemcpyDeviceToHost:
        return cuMemcpyDtoHAsync(to, ADDRESS(from), n, s);
    case cudaMemcpyDeviceToDevice:
        return cuMemcpyDtoDAsync(ADDRESS(to), ADDRESS(from), n, s);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return cuMemcpyAsync(ADDRESS(to), ADDRESS(from), n, s);
    default:
        return (CUresult)cudaErrorInvalidMemcpyDirection;
    }
}

/* Copies inside a device do not wait. */
static CUresult copy_now(void *to, const void *from, size_t n, enum cudaMemcpyKind kind) {
    CUstream s = STREAM(NULL);
    CUresult r = copy(to, from, n, kind, s);
    return r || kind == cudaMemcpyDeviceToDevice ? r : cuStreamSynchronize(s);
}

static CUresult copy_rows(char *to, size_t to_pitch, const char *from, size_t from_pitch,
                          size_t width, size_t height, enum cudaMemcpyKind kind, CUstream s) {
    CUresult r = CUDA_SUCCESS;
    if (width > to_pitch || width > from_pitch)
        return (CUresult)cudaErrorInvalidPitchValue;
    for (size_t i = 0; i < height && !r; i++)
        r = copy(to + i * to_pitch, from + i * from_pitch, width, kind, s);
    return r;
}

static CUresult to_symbol(const void *symbol, const void *from, size_t n, size_t offset,
                          enum cudaMemcpyKind kind, CUstream s) {
    CUdeviceptr to;
    CUresult r = rt_variable(symbol, &to, NULL);
    return r ? r : copy((void *)(uintptr_t)(to + offset), from, n, kind, s);
}

static CUresult from_symbol(void *to, const void *symbol, size_t n, size_t offset,
                            enum cudaMemcpyKind kind, CUstream s) {
    CUdeviceptr from;
    CUresult r = rt_variable(symbol, &from, NULL);
    return r ? r : copy(to, (void *)(uintptr_t)(from + offset), n, kind, s);
}

static CUresult then_wait(CUresult r) {
    return r ? r : cuStreamSynchronize(STREAM(NULL));
}

static CUresult set(void *to, int value, size_t n, CUstream s) {
    return n ? cuMemsetD8Async(ADDRESS(to), (unsigned char)value, n, s) : CUDA_SUCCESS;
}

/* The default pool is the only one. */
static CUresult allocate_from(void **ret, size_t size, cudaMemPool_t pool, CUstream s) {
    cudaMemPool_t here;
    int device;
    CUresult r = rt_device(&device);
    if (r || (r = cuDeviceGetDefaultMemPool(&here, device)))
        return r;
    return pool == here ? cuMemAllocAsync((CUdeviceptr *)ret, size, s) : CUDA_ERROR_NOT_SUPPORTED;
}

/* clang-format off */
API(cudaMemcpyAsync, (void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
    cudaStream_t s),
    copy(to, from, n, kind, STREAM(s)))
API(cudaMemcpy, (void *to, const void *from, size_t n, enum cudaMemcpyKind kind),
    copy_now(to, from, n, kind))
API(cudaMemcpy2DAsync, (void *to, size_t to_pitch, const void *from, size_t from_pitch,
    size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t s),
    copy_rows(to, to_pitch, from, from_pitch, width, height, kind, STREAM(s)))
API(cudaMemcpy2D, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
    size_t height, enum cudaMemcpyKind kind),
    then_wait(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, STREAM(NULL))))
API(cudaMemcpyToSymbolAsync, (const void *symbol, const void *from, size_t n, size_t offset,
    enum cudaMemcpyKind kind, cudaStream_t s),
    to_symbol(symbol, from, n, offset, kind, STREAM(s)))
API(cudaMemcpyToSymbol, (const void *symbol, const void *from, size_t n, size_t offset,
    enum cudaMemcpyKind kind),
    then_wait(to_symbol(symbol, from, n, offset, kind, STREAM(NULL))))
API(cudaMemcpyFromSymbolAsync, (void *to, const void *symbol, size_t n, size_t offset,
    enum cudaMemcpyKind kind, cudaStream_t s),
    from_symbol(to, symbol, n, offset, kind, STREAM(s)))
API(cudaMemcpyFromSymbol, (void *to, const void *symbol, size_t n, size_t offset,
    enum cudaMemcpyKind kind),
    then_wait(from_symbol(to, symbol, n, offset, kind, STREAM(NULL))))
API(cudaMemsetAsync, (void *to, int value, size_t n, cudaStream_t s), set(to, value, n, STREAM(s)))
API(cudaMemset, (void *to, int value, size_t n), set(to, value, n, STREAM(NULL)))
API(cudaMallocFromPoolAsync, (void **ret, size_t size, cudaMemPool_t pool, cudaStream_t s),
    allocate_from(ret, size, pool, STREAM(s)))
/* clang-format on */
