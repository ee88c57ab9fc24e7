/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the driver API's errors. */
#include "fake.h"

/* clang-format off */
#define ERRORS(X)                                                                                  \
    X(CUDA_SUCCESS) X(CUDA_ERROR_INVALID_VALUE) X(CUDA_ERROR_OUT_OF_MEMORY)                        \
    X(CUDA_ERROR_NOT_INITIALIZED) X(CUDA_ERROR_NO_DEVICE) X(CUDA_ERROR_INVALID_DEVICE)             \
    X(CUDA_ERROR_INVALID_IMAGE) X(CUDA_ERROR_INVALID_CONTEXT) X(CUDA_ERROR_MAP_FAILED)             \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU) X(CUDA_ERROR_INVALID_PTX) X(CUDA_ERROR_INVALID_HANDLE)         \
    X(CUDA_ERROR_ILLEGAL_STATE) X(CUDA_ERROR_NOT_FOUND) X(CUDA_ERROR_NOT_READY)                    \
    X(CUDA_ERROR_ILLEGAL_ADDRESS) X(CUDA_ERROR_MISALIGNED_ADDRESS) X(CUDA_ERROR_LAUNCH_FAILED)     \
    X(CUDA_ERROR_LAUNCH_TIMEOUT) X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)                             \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) X(CUDA_ERROR_CONTEXT_IS_DESTROYED)                  \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)          \
    X(CUDA_ERROR_NOT_SUPPORTED) X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)                           \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) X(CUDA_ERROR_STREAM_CAPTURE_MERGE)                    \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)                   \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION) X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                   \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE) X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)                         \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED) X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)                \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED) X(CUDA_ERROR_NOT_PERMITTED)                              \
    X(CUDA_ERROR_CAPTURED_EVENT) X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) X(CUDA_ERROR_UNKNOWN)
/* clang-format on */

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **out) {
    switch ((int)error) {
#define X(e)                                                                                       \
    case e:                                                                                        \
        *out = #e;                                                                                 \
        return CUDA_SUCCESS;
        ERRORS(X)
#undef X
    }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **out) {
    return cuGetErrorName(error, out);
}
