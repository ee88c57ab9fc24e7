/* SPDX-License-Identifier: BSD-3-Clause */
/* Peer access between devices. Access is one-way and belongs to a context. */
#include "fake.h"

bool fake_peer_possible(int a, int b) {
    return a != b && !fake_settings()->no_peer;
}

bool fake_reaches(CUcontext ctx, int device) {
    return device == ctx->device || (ctx->peers >> device & 1);
}

static bool possible(CUdevice a, CUdevice b) {
    return fake_peer_possible(fake_settings()->physical[a], fake_settings()->physical[b]);
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice a, CUdevice b) {
    ENTER(false);
    if (!can || fake_bad_device(a) || fake_bad_device(b))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = possible(a, b);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice a,
                                         CUdevice b) {
    ENTER(false);
    if (fake_bad_device(a) || fake_bad_device(b) || a == b)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    *value = possible(a, b) && attribute != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    ENTER(true);
    CUcontext ctx = fake_current();
    if (!peer || peer == ctx || peer->destroyed)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!possible(ctx->device, peer->device))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    uint32_t bit = 1u << peer->device;
    return atomic_fetch_or(&ctx->peers, bit) & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                                                   : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
    ENTER(true);
    if (!peer)
        return CUDA_ERROR_INVALID_CONTEXT;
    uint32_t bit = 1u << peer->device;
    return atomic_fetch_and(&fake_current()->peers, ~bit) & bit
               ? CUDA_SUCCESS
               : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
