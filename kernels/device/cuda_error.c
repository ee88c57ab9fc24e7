/* SPDX-License-Identifier: BSD-3-Clause */
/* Codes of the CUDA driver for users of the library: see cuda.h. */
#include <stdio.h>
#include "cuda.h"
#include "error.h"

struct row {
    rcmi_cuda_code code;
    rcm_status status;
    const char *name, *text;
};

/* Codes that a user can act on, or that name the faulty part. */
static const struct row rows[] = {
    {1, RCM_ERR_SYSTEM, "INVALID_VALUE", "an argument is not valid"},
    {2, RCM_ERR_NOMEM, "OUT_OF_MEMORY", "out of memory of the device, or of memory to be pinned"},
    {3, RCM_ERR_SYSTEM, "NOT_INITIALIZED",
     "the driver is not initialised, or only the parent initialised it before fork"},
    {4, RCM_ERR_SYSTEM, "DEINITIALIZED", "the driver is shutting down"},
    {34, RCM_ERR_UNSUPPORTED, "STUB_LIBRARY", "the library is the toolkit's stub, not a driver"},
    {46, RCM_ERR_RESOURCE, "DEVICE_UNAVAILABLE",
     "another process has the device: its compute mode is exclusive (nvidia-smi -c DEFAULT allows "
     "several), or prohibited"},
    {100, RCM_ERR_UNSUPPORTED, "NO_DEVICE",
     "there is no NVIDIA device for this process: the machine has none, CUDA_VISIBLE_DEVICES hides "
     "them, or the container was given none"},
    {101, RCM_ERR_INVALID, "INVALID_DEVICE", "there is no such device"},
    {200, RCM_ERR_UNSUPPORTED, "INVALID_IMAGE", "the driver cannot read the kernels"},
    {201, RCM_ERR_SYSTEM, "INVALID_CONTEXT", "there is no valid context"},
    {209, RCM_ERR_UNSUPPORTED, "NO_BINARY_FOR_GPU", "the kernels have no code for this GPU"},
    {214, RCM_ERR_SYSTEM, "ECC_UNCORRECTABLE",
     "memory of the device failed: the machine needs a reset of the GPU"},
    {218, RCM_ERR_UNSUPPORTED, "INVALID_PTX", "the driver cannot compile the kernels"},
    {220, RCM_ERR_SYSTEM, "NVLINK_UNCORRECTABLE", "a link between GPUs failed"},
    {221, RCM_ERR_UNSUPPORTED, "JIT_COMPILER_NOT_FOUND",
     "the driver's compiler (libnvidia-ptxjitcompiler.so.1) is missing"},
    {222, RCM_ERR_UNSUPPORTED, "UNSUPPORTED_PTX_VERSION",
     "the kernels were built by a CUDA newer than the driver"},
    {304, RCM_ERR_SYSTEM, "OPERATING_SYSTEM", "a system call failed in the driver"},
    {700, RCM_ERR_SYSTEM, "ILLEGAL_ADDRESS",
     "work on the device touched memory that it may not; every later call in this context fails"},
    {702, RCM_ERR_SYSTEM, "LAUNCH_TIMEOUT", "the system's watchdog stopped work on the device"},
    {716, RCM_ERR_SYSTEM, "MISALIGNED_ADDRESS", "work on the device used a misaligned address"},
    {719, RCM_ERR_SYSTEM, "LAUNCH_FAILED",
     "work on the device failed; every later call in this context fails"},
    {801, RCM_ERR_UNSUPPORTED, "NOT_SUPPORTED", "this device or system cannot do it"},
    {802, RCM_ERR_SYSTEM, "SYSTEM_NOT_READY",
     "the system is not ready: on machines with NVSwitch nvidia-fabricmanager has to run, in the "
     "driver's version"},
    {803, RCM_ERR_UNSUPPORTED, "SYSTEM_DRIVER_MISMATCH",
     "libcuda and the kernel's driver are of different versions: after an update the machine needs "
     "a restart; in a container, remove its compat folder from LD_LIBRARY_PATH"},
    {804, RCM_ERR_UNSUPPORTED, "COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "the container's compat library of CUDA works with data centre GPUs only: take it out of "
     "LD_LIBRARY_PATH, or use an image for the machine's driver"},
    {805, RCM_ERR_SYSTEM, "MPS_CONNECTION_FAILED",
     "the MPS control daemon cannot be reached: it runs as another user, or with another "
     "CUDA_MPS_PIPE_DIRECTORY"},
    {806, RCM_ERR_SYSTEM, "MPS_RPC_FAILURE", "the MPS server sent an invalid answer"},
    {807, RCM_ERR_SYSTEM, "MPS_SERVER_NOT_READY",
     "the MPS server is starting or recovering: try again"},
    {808, RCM_ERR_RESOURCE, "MPS_MAX_CLIENTS_REACHED",
     "the MPS server has its maximum number of clients"},
    {809, RCM_ERR_RESOURCE, "MPS_MAX_CONNECTIONS_REACHED",
     "the MPS server has its maximum number of connections. Lower CUDA_DEVICE_MAX_CONNECTIONS"},
    {810, RCM_ERR_SYSTEM, "MPS_CLIENT_TERMINATED", "the MPS server ended this process's use"},
    {900, RCM_ERR_UNSUPPORTED, "STREAM_CAPTURE_UNSUPPORTED",
     "this cannot be part of a stream capture"},
    {906, RCM_ERR_UNSUPPORTED, "STREAM_CAPTURE_IMPLICIT",
     "the default stream cannot be used while a stream that it waits for is captured"},
    {999, RCM_ERR_SYSTEM, "UNKNOWN",
     "the driver gives no reason. See the kernel's log (dmesg, Xid); after a suspend, or if "
     "/dev/nvidia-uvm is missing, reload the module nvidia_uvm"},
};

static const struct row *row_of(rcmi_cuda_code code) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

/* The driver's own name of a code that is not in the table. */
static const char *driver_name(rcmi_cuda_code code) {
    const struct rcmi_cuda *cuda = rcmi_cuda_forked() ? NULL : rcmi_cuda_found();
    const char *name = NULL;
    if (!cuda || cuda->cuGetErrorName(code, &name) != RCMI_CUDA_SUCCESS || !name)
        return "no name";
    return name;
}

void rcmi_cuda_explain(rcmi_cuda_code code, char *text, size_t cap) {
    const struct row *row = row_of(code);
    if (row)
        snprintf(text, cap, "%s (CUDA_ERROR_%s, %d)", row->text, row->name, code);
    else
        snprintf(text, cap, "CUDA driver error %s (%d)", driver_name(code), code);
}

rcm_status rcmi_cuda_status(rcmi_cuda_code code) {
    const struct row *row = row_of(code);
    return row ? row->status : RCM_ERR_SYSTEM;
}

rcm_status rcmi_cuda_fail(rcmi_cuda_code code, const char *call) {
    char text[300];
    rcmi_cuda_explain(code, text, sizeof text);
    return rcmi_fail(rcmi_cuda_status(code), 0, "%s: %s", call, text);
}
