/* SPDX-License-Identifier: BSD-3-Clause */
/* cudaGetDeviceProperties: a table of the driver's attributes. */
#include "cudart.h"
#include <stddef.h>

/* clang-format off */
#define INTS(X)                                                                                    \
    X(regsPerBlock, MAX_REGISTERS_PER_BLOCK) X(warpSize, WARP_SIZE)                                \
    X(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK) X(maxThreadsDim[0], MAX_BLOCK_DIM_X)              \
    X(maxThreadsDim[1], MAX_BLOCK_DIM_Y) X(maxThreadsDim[2], MAX_BLOCK_DIM_Z)                      \
    X(maxGridSize[0], MAX_GRID_DIM_X) X(maxGridSize[1], MAX_GRID_DIM_Y)                            \
    X(maxGridSize[2], MAX_GRID_DIM_Z) X(major, COMPUTE_CAPABILITY_MAJOR)                           \
    X(minor, COMPUTE_CAPABILITY_MINOR) X(multiProcessorCount, MULTIPROCESSOR_COUNT)                \
    X(integrated, INTEGRATED) X(canMapHostMemory, CAN_MAP_HOST_MEMORY)                             \
    X(concurrentKernels, CONCURRENT_KERNELS) X(ECCEnabled, ECC_ENABLED) X(pciBusID, PCI_BUS_ID)    \
    X(pciDeviceID, PCI_DEVICE_ID) X(pciDomainID, PCI_DOMAIN_ID)                                    \
    X(asyncEngineCount, ASYNC_ENGINE_COUNT) X(unifiedAddressing, UNIFIED_ADDRESSING)               \
    X(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH) X(l2CacheSize, L2_CACHE_SIZE)                       \
    X(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR)                                 \
    X(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED)                                      \
    X(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR) X(managedMemory, MANAGED_MEMORY)    \
    X(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)                  \
    X(cooperativeLaunch, COOPERATIVE_LAUNCH) X(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED)       \
    X(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR)                                   \
    X(hostRegisterSupported, HOST_REGISTER_SUPPORTED) X(ipcEventSupported, IPC_EVENT_SUPPORTED)    \
    X(clusterLaunch, CLUSTER_LAUNCH)
#define SIZES(X)                                                                                   \
    X(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK) X(memPitch, MAX_PITCH)                       \
    X(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)                                   \
    X(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)                            \
    X(totalConstMem, TOTAL_CONSTANT_MEMORY)
/* clang-format on */

static const struct {
    CUdevice_attribute attribute;
    size_t offset;
    bool wide; /* a size_t */
} fields[] = {
#define INT(field, a)  {CU_DEVICE_ATTRIBUTE_##a, offsetof(struct cudaDeviceProp, field), false},
#define SIZE(field, a) {CU_DEVICE_ATTRIBUTE_##a, offsetof(struct cudaDeviceProp, field), true},
    INTS(INT) SIZES(SIZE)};

static CUresult properties(struct cudaDeviceProp *ret, int device) {
    *ret = (struct cudaDeviceProp){0};
    CUresult r = cuDeviceGetName(ret->name, sizeof ret->name, device);
    if (!r)
        r = cuDeviceGetUuid(&ret->uuid, device);
    if (!r)
        r = cuDeviceTotalMem(&ret->totalGlobalMem, device);
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !r; i++) {
        int value = 0;
        void *field = (char *)ret + fields[i].offset;
        r = cuDeviceGetAttribute(&value, fields[i].attribute, device);
        if (fields[i].wide)
            *(size_t *)field = (size_t)value;
        else
            *(int *)field = value;
    }
    return r;
}

API_INIT(cudaGetDeviceProperties, (struct cudaDeviceProp * ret, int device),
         properties(ret, device))
