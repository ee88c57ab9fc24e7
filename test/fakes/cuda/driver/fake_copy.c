/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies and sets. */
#include "fake.h"
#include <stdlib.h>
#include <string.h>

enum direction { ANY, TO_DEVICE, FROM_DEVICE, ON_DEVICE };

/* Pageable sources are read at once, as the driver stages them. The call waits for pageable
 * targets. */
static CUresult staged_copy(uint64_t to, uint64_t from, size_t n, CUstream stream,
                            enum direction dir, bool wait) {
    bool to_known, from_known;
    void *t = fake_host_ptr(to, n, &to_known);
    const void *f = fake_host_ptr(from, n, &from_known);
    bool bad = (!to_known && (dir == TO_DEVICE || dir == ON_DEVICE)) ||
               (!from_known && (dir == FROM_DEVICE || dir == ON_DEVICE));
    if (n == 0)
        return CUDA_SUCCESS;
    if (!t || !f || bad)
        return CUDA_ERROR_INVALID_VALUE;
    struct op *op = fake_op(OP_COPY);
    op->to = t;
    op->from = f;
    op->to_address = to_known ? to : 0;
    op->from_address = from_known ? from : 0;
    op->bytes = n;
    if (!from_known && !wait) {
        op->from = op->owned = malloc(n);
        memcpy(op->owned, f, n);
    }
    bool block = wait || (!to_known && !fake_capturing(stream));
    return block ? fake_submit_and_wait(stream, op) : fake_submit(stream, op);
}

/* Both sides must be reachable from the context. Only cuMemcpyPeer crosses devices without peer
 * access. */
static CUresult copy(uint64_t to, uint64_t from, size_t n, CUstream stream, enum direction dir,
                     bool wait) {
    CUcontext ctx = fake_current();
    if (n && (!fake_reachable(ctx, to, n) || !fake_reachable(ctx, from, n))) {
        fake_log("copy between devices without cuCtxEnablePeerAccess");
        return CUDA_ERROR_INVALID_VALUE;
    }
    return staged_copy(to, from, n, stream, dir, wait);
}

#define ADDR(p) ((uint64_t)(uintptr_t)(p))

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                              CUcontext from_ctx, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return to_ctx && from_ctx ? staged_copy(to, from, n, NULL, ON_DEVICE, false)
                              : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                                   CUcontext from_ctx, size_t n, CUstream s) {
    ENTER(true);
    return to_ctx && from_ctx ? staged_copy(to, from, n, s, ON_DEVICE, false)
                              : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return copy(to, from, n, NULL, ANY, true);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    ENTER(true);
    return copy(to, from, n, s, ANY, false);
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return copy(to, ADDR(from), n, NULL, TO_DEVICE, true);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream s) {
    ENTER(true);
    return copy(to, ADDR(from), n, s, TO_DEVICE, false);
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return copy(ADDR(to), from, n, NULL, FROM_DEVICE, true);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream s) {
    ENTER(true);
    return copy(ADDR(to), from, n, s, FROM_DEVICE, false);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return copy(to, from, n, NULL, ON_DEVICE, false);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    ENTER(true);
    return copy(to, from, n, s, ON_DEVICE, false);
}

static CUresult set(CUdeviceptr to, uint32_t value, unsigned width, size_t n, CUstream s) {
    bool known;
    void *t = fake_host_ptr(to, n * width, &known);
    if (!t || !known || to % width || !fake_reachable(fake_current(), to, n * width))
        return CUDA_ERROR_INVALID_VALUE;
    struct op *op = fake_op(OP_SET);
    op->to = t;
    op->to_address = to;
    op->value = value;
    op->width = width;
    op->bytes = n * width;
    return fake_submit(s, op);
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char v, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return set(to, v, 1, n, NULL);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
    ENTER(true);
    return set(to, v, 1, n, s);
}

CUresult CUDAAPI cuMemsetD32(CUdeviceptr to, unsigned v, size_t n) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    return set(to, v, 4, n, NULL);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream s) {
    ENTER(true);
    return set(to, v, 4, n, s);
}
