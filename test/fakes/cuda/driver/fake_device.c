/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices of the emulated driver: names, attributes, compute mode. */
#include "fake.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool fake_bad_device(CUdevice d) {
    return d < 0 || d >= fake_settings()->devices;
}

int fake_ordinal_of(int physical) {
    int i = fake_settings()->devices - 1;
    while (i >= 0 && fake_settings()->physical[i] != physical)
        i--;
    return i;
}

/* ---- compute mode ---------------------------------------------------------------------------- */

/* The number of this process's active contexts on a device, and the lock that excludes other
 * processes of its session. A session stands for a machine, so that tests can run at the same time.
 * Record locks belong to a process: a forked child does not hold them. */
static struct {
    pthread_mutex_t lock;
    int users, fd;
} tenancy[MAX_DEVICES] = {[0 ... MAX_DEVICES - 1] = {PTHREAD_MUTEX_INITIALIZER, 0, -1}};

static int lock_device(int device) {
    char path[80];
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = getsid(0), .l_len = 1};
    snprintf(path, sizeof path, "/tmp/fakecuda-%d-device%d.tenant", (int)getuid(),
             fake_settings()->physical[device]);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && fcntl(fd, F_SETLK, &byte) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool admit(int device) {
    switch (fake_settings()->compute_mode) {
    case CU_COMPUTEMODE_PROHIBITED:
        return false;
    case CU_COMPUTEMODE_EXCLUSIVE_PROCESS:
        if (tenancy[device].users == 0)
            tenancy[device].fd = lock_device(device);
        return tenancy[device].fd >= 0;
    default:
        return true;
    }
}

CUresult fake_device_enter(int device) {
    pthread_mutex_lock(&tenancy[device].lock);
    bool ok = admit(device);
    tenancy[device].users += ok;
    pthread_mutex_unlock(&tenancy[device].lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

void fake_device_leave(int device) {
    pthread_mutex_lock(&tenancy[device].lock);
    if (--tenancy[device].users == 0 && tenancy[device].fd >= 0) {
        close(tenancy[device].fd);
        tenancy[device].fd = -1;
    }
    pthread_mutex_unlock(&tenancy[device].lock);
}

/* ---- devices --------------------------------------------------------------------------------- */

CUresult CUDAAPI cuDeviceGetCount(int *n) {
    ENTER(false);
    *n = fake_settings()->devices;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *out, int ordinal) {
    ENTER(false);
    if (fake_bad_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice d) {
    ENTER(false);
    if (!name || fake_bad_device(d))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len,
             fake_settings()->mig ? "PTX interpreter MIG 1g %d" : "PTX interpreter %d",
             fake_settings()->physical[d]);
    return CUDA_SUCCESS;
}

/* The name is the same in every process that sees the device, whatever its ordinal. */
static void name_device(CUuuid *uuid, const char *kind, int number) {
    memset(uuid, 0, sizeof *uuid);
    snprintf(uuid->bytes, sizeof uuid->bytes, "fake-%s-%d", kind, number);
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice d) {
    ENTER(false);
    if (!uuid || fake_bad_device(d))
        return CUDA_ERROR_INVALID_DEVICE;
    name_device(uuid, fake_settings()->mig ? "mig" : "gpu", fake_settings()->physical[d]);
    return CUDA_SUCCESS;
}

/* The first version returns the GPU of MIG devices. */
CUresult fake_uuid_v1(CUuuid *uuid, CUdevice d) __asm__("cuDeviceGetUuid");
CUresult fake_uuid_v1(CUuuid *uuid, CUdevice d) {
    CUresult r = fake_enter("cuDeviceGetUuid", __builtin_return_address(0), false);
    if (r)
        return r;
    if (!uuid || fake_bad_device(d))
        return CUDA_ERROR_INVALID_DEVICE;
    name_device(uuid, "gpu", fake_settings()->mig ? 0 : fake_settings()->physical[d]);
    return CUDA_SUCCESS;
}

static int bus_of(CUdevice d) {
    return fake_settings()->mig ? 1 : fake_settings()->physical[d] + 1;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice d) {
    ENTER(false);
    (void)d;
    *bytes = 64ull << 30;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *text, int len, CUdevice d) {
    ENTER(false);
    if (!text || fake_bad_device(d))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)len, "0000:%02x:00.0", bus_of(d));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *out, CUdevice_attribute a, CUdevice d) {
    ENTER(false);
    static const struct {
        CUdevice_attribute a;
        int value;
    } table[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    };
    if (fake_bad_device(d))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? fake_settings()->cc / 10
           : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? fake_settings()->cc % 10
           : a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? fake_settings()->sms
           : a == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID               ? bus_of(d)
           : a == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE             ? fake_settings()->compute_mode
                                                               : 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].a == a)
            *out = table[i].value;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER(true);
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}
