/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between devices, which need no peer access. The runtime has no per-thread form of them. */
#include "cudart.h"

static CUresult copy(void *to, int to_device, const void *from, int from_device, size_t n,
                     CUstream s) {
    CUcontext to_context, from_context;
    CUresult r = rt_primary(to_device, &to_context);
    if (r || (r = rt_primary(from_device, &from_context)))
        return r;
    return cuMemcpyPeerAsync(ADDRESS(to), to_context, ADDRESS(from), from_context, n, s);
}

/* clang-format off */
API(cudaMemcpyPeerAsync, (void *to, int to_device, const void *from, int from_device, size_t n,
    cudaStream_t s),
    copy(to, to_device, from, from_device, n, s))
API(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t n),
    copy(to, to_device, from, from_device, n, NULL))
/* clang-format on */
