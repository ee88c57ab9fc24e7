/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal interface of the stand-in for libcudart.so.13. See README.md. */
#ifndef CUDART_H
#define CUDART_H

#include <cuda.h>
#ifdef RT_PER_THREAD
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#endif
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#define RT_DEVICES 16 /* more than the emulator has */

/* A stream argument. Some files are compiled twice, the second time for programs of
 * nvcc --default-stream per-thread: 0 is the thread's default stream, and cuda_runtime_api.h
 * appends _ptsz or _ptds to the names. */
#ifdef RT_PER_THREAD
#define STREAM(s) ((s) ? (s) : CU_STREAM_PER_THREAD)
#else
#define STREAM(s) (s)
#endif
#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))

/* ---- errors (error.c). Errors of the driver and of the runtime have the same numbers. ---- */
/* Makes an error the thread's last error. Returns it. */
cudaError_t rt_result(int error);
cudaError_t rt_unsupported(const char *name, bool *listed);

/* ---- devices (device.c) ---- */
/* First step of calls that need a driver, and of those that need a current context: without one,
 * device 0 becomes current. */
CUresult rt_init(void);
CUresult rt_enter(void);
CUresult rt_primary(int device, CUcontext *ret);
/* The device of the current context. */
CUresult rt_device(int *ret);

/* A call of the runtime API that is one expression of the driver API. */
#define CALL_AFTER(step, call)                                                                     \
    CUresult step_ = step();                                                                       \
    return rt_result(step_ ? (int)step_ : (int)(call));
#define API(name, parameters, call)                                                                \
    cudaError_t CUDARTAPI name parameters {                                                        \
        CALL_AFTER(rt_enter, call)                                                                 \
    }
#define API_INIT(name, parameters, call)                                                           \
    cudaError_t CUDARTAPI name parameters {                                                        \
        CALL_AFTER(rt_init, call)                                                                  \
    }

/* ---- kernels and variables of the program (registration.c) ---- */
/* The name of a kernel, NULL if it is not registered. */
const char *rt_kernel_name(const void *kernel);
/* The kernel on the current device. */
CUresult rt_function(const void *kernel, CUfunction *ret);
CUresult rt_variable(const void *symbol, CUdeviceptr *ret_address, size_t *ret_size);

/* ---- torch's fill kernels (fill.c) ---- */
/* True if the launch is one of a fill kernel. Its error is in *ret. */
bool rt_fill(const char *name, void **arguments, CUstream stream, CUresult *ret);

#endif
