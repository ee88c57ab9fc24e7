/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields of struct cudaDeviceProp, int and size_t, and the driver's
 * attributes for them (CU_DEVICE_ATTRIBUTE_). */
#ifndef DEVICE_PROPERTIES_H
#define DEVICE_PROPERTIES_H

/* clang-format off */
#define DEVICE_INTS(X)                                                                             \
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
#define DEVICE_SIZES(X)                                                                            \
    X(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK) X(memPitch, MAX_PITCH)                       \
    X(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)                                   \
    X(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)                            \
    X(totalConstMem, TOTAL_CONSTANT_MEMORY)
/* clang-format on */

#endif
