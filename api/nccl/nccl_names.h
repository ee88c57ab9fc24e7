/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names, numbers and layouts of NCCL 2.30.7, as tables. There are no types here, so a test can
 * include this file after NCCL's own header and compare (test/nccl/header_test.py).
 */
#ifndef NCCL_NAMES_H
#define NCCL_NAMES_H

#define NCCL_NUMBER    23007 /* major * 10000 + minor * 100 + patch */
#define NCCL_ID_BYTES  128
#define NCCL_MAGIC     0xcafebeefu /* of a configuration */
#define NCCL_UNDEFINED (-2147483647 - 1)
#define NCCL_NO_COLOUR (-1)
#define NCCL_ABORTING  1 /* of ncclCommShrink: ends the parent's operations first */

/* Name, number, text. */
#define NCCL_RESULT_MAP(X)                                                                         \
    X(ncclSuccess, 0, "success")                                                                   \
    X(ncclUnhandledCudaError, 1, "a call of the CUDA driver failed")                               \
    X(ncclSystemError, 2, "a system call failed, or a limit was reached")                          \
    X(ncclInternalError, 3, "a fault in libringcomm itself")                                       \
    X(ncclInvalidArgument, 4, "an argument is not valid")                                          \
    X(ncclInvalidUsage, 5, "not supported here, or the ranks called different operations")         \
    X(ncclRemoteError, 6, "another rank failed, left, aborted or did not join")                    \
    X(ncclInProgress, 7, "still in progress")                                                      \
    X(ncclTimeout, 8, "the deadline passed")

/* Name, number, ringcomm's type. */
#define NCCL_DTYPE_MAP(X)                                                                          \
    X(ncclInt8, 0, RCM_INT8)                                                                       \
    X(ncclUint8, 1, RCM_UINT8)                                                                     \
    X(ncclInt32, 2, RCM_INT32)                                                                     \
    X(ncclUint32, 3, RCM_UINT32)                                                                   \
    X(ncclInt64, 4, RCM_INT64)                                                                     \
    X(ncclUint64, 5, RCM_UINT64)                                                                   \
    X(ncclFloat16, 6, RCM_FLOAT16)                                                                 \
    X(ncclFloat32, 7, RCM_FLOAT32)                                                                 \
    X(ncclFloat64, 8, RCM_FLOAT64)                                                                 \
    X(ncclBfloat16, 9, RCM_BFLOAT16)                                                               \
    X(ncclFloat8e4m3, 10, RCM_FLOAT8_E4M3FN)                                                       \
    X(ncclFloat8e5m2, 11, RCM_FLOAT8_E5M2)

/* Name, number, ringcomm's operator. Created operators have numbers from ncclNumOps on. */
#define NCCL_OP_MAP(X)                                                                             \
    X(ncclSum, 0, RCM_SUM)                                                                         \
    X(ncclProd, 1, RCM_PROD)                                                                       \
    X(ncclMax, 2, RCM_MAX)                                                                         \
    X(ncclMin, 3, RCM_MIN)                                                                         \
    X(ncclAvg, 4, RCM_AVG)

/* Name, number. */
#define NCCL_VALUE_MAP(X)                                                                          \
    X(ncclNumOps, 5)                                                                               \
    X(ncclNumTypes, 12)                                                                            \
    X(ncclScalarDevice, 0)                                                                         \
    X(ncclScalarHostImmediate, 1)

/* Fields of ncclConfig_t. A program may have been compiled with fewer of them: `size` counts. */
#define NCCL_CONFIG_MAP(X)                                                                         \
    X(size_t, size)                                                                                \
    X(unsigned int, magic)                                                                         \
    X(unsigned int, version)                                                                       \
    X(int, blocking)                                                                               \
    X(int, cgaClusterSize)                                                                         \
    X(int, minCTAs)                                                                                \
    X(int, maxCTAs)                                                                                \
    X(const char *, netName)                                                                       \
    X(int, splitShare)                                                                             \
    X(int, trafficClass)                                                                           \
    X(const char *, commName)                                                                      \
    X(int, collnetEnable)                                                                          \
    X(int, CTAPolicy)                                                                              \
    X(int, shrinkShare)                                                                            \
    X(int, nvlsCTAs)                                                                               \
    X(int, nChannelsPerNetPeer)                                                                    \
    X(int, nvlinkCentricSched)                                                                     \
    X(int, graphUsageMode)                                                                         \
    X(int, numRmaCtx)                                                                              \
    X(int, maxP2pPeers)                                                                            \
    X(int, graphStreamOrdering)

/* Result, name, parameters of the functions that are built, without the operations. */
#define NCCL_FUNCTION_MAP(X)                                                                       \
    X(ncclResult_t, ncclGetVersion, (int *version))                                                \
    X(const char *, ncclGetErrorString, (ncclResult_t result))                                     \
    X(const char *, ncclGetLastError, (ncclComm_t comm))                                           \
    X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))                                          \
    X(ncclResult_t, ncclCommInitRank,                                                              \
      (ncclComm_t * newcomm, int nranks, ncclUniqueId id, int rank))                               \
    X(ncclResult_t, ncclCommInitRankConfig,                                                        \
      (ncclComm_t * newcomm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config))         \
    X(ncclResult_t, ncclCommInitRankScalable,                                                      \
      (ncclComm_t * newcomm, int nranks, int rank, int nids, ncclUniqueId *ids,                    \
       ncclConfig_t *config))                                                                      \
    X(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int ndevices, const int *devices))       \
    X(ncclResult_t, ncclCommSplit,                                                                 \
      (ncclComm_t comm, int colour, int key, ncclComm_t *newcomm, ncclConfig_t *config))           \
    X(ncclResult_t, ncclCommShrink,                                                                \
      (ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *newcomm, ncclConfig_t *config,   \
       int flags))                                                                                 \
    X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))                                           \
    X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))                                            \
    X(ncclResult_t, ncclCommAbort, (ncclComm_t comm))                                              \
    X(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags))                                  \
    X(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * result))               \
    X(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))                            \
    X(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))                        \
    X(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))                          \
    X(ncclResult_t, ncclCommRegister,                                                              \
      (const ncclComm_t comm, void *buffer, size_t bytes, void **handle))                          \
    X(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle))                     \
    X(ncclResult_t, ncclMemAlloc, (void **memory, size_t bytes))                                   \
    X(ncclResult_t, ncclMemFree, (void *memory))                                                   \
    X(ncclResult_t, ncclRedOpCreatePreMulSum,                                                      \
      (ncclRedOp_t * op, void *scalar, ncclDataType_t dtype, ncclScalarResidence_t residence,      \
       ncclComm_t comm))                                                                           \
    X(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))                           \
    X(ncclResult_t, ncclGroupStart, (void))                                                        \
    X(ncclResult_t, ncclGroupEnd, (void))

/* Operations: result, name, parameters, and what they are to this library: fields of struct
 * operation (nccl_group.h). */
#define NCCL_OPERATION_MAP(X)                                                                      \
    X(ncclResult_t, ncclAllReduce,                                                                 \
      (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op,           \
       ncclComm_t comm, cudaStream_t stream),                                                      \
      .kind = RCM_ALL_REDUCE, .send = send, .recv = recv, .op = op)                                \
    X(ncclResult_t, ncclReduce,                                                                    \
      (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op, int root, \
       ncclComm_t comm, cudaStream_t stream),                                                      \
      .kind = RCM_REDUCE, .send = send, .recv = recv, .op = op, .root = root)                      \
    X(ncclResult_t, ncclBroadcast,                                                                 \
      (const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,                 \
       ncclComm_t comm, cudaStream_t stream),                                                      \
      .kind = RCM_BROADCAST, .send = send, .recv = recv, .root = root)                             \
    X(ncclResult_t, ncclBcast,                                                                     \
      (void *buffer, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,                \
       cudaStream_t stream),                                                                       \
      .kind = RCM_BROADCAST, .send = buffer, .recv = buffer, .root = root)                         \
    X(ncclResult_t, ncclAllGather,                                                                 \
      (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclComm_t comm,          \
       cudaStream_t stream),                                                                       \
      .kind = RCM_ALL_GATHER, .send = send, .recv = recv)                                          \
    X(ncclResult_t, ncclReduceScatter,                                                             \
      (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op,           \
       ncclComm_t comm, cudaStream_t stream),                                                      \
      .kind = RCM_REDUCE_SCATTER, .send = send, .recv = recv, .op = op)                            \
    X(ncclResult_t, ncclAlltoAll,                                                                  \
      (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclComm_t comm,          \
       cudaStream_t stream),                                                                       \
      .kind = RCM_ALL_TO_ALL, .send = send, .recv = recv)                                          \
    X(ncclResult_t, ncclGather,                                                                    \
      (const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,                 \
       ncclComm_t comm, cudaStream_t stream),                                                      \
      .kind = RCM_GATHER, .send = send, .recv = recv, .root = root)                                \
    X(ncclResult_t, ncclScatter,                                                                   \
      (const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,                 \
       ncclComm_t comm, cudaStream_t stream),                                                      \
      .kind = RCM_SCATTER, .send = send, .recv = recv, .root = root)                               \
    X(ncclResult_t, ncclSend,                                                                      \
      (const void *send, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,            \
       cudaStream_t stream),                                                                       \
      .kind = OPERATION_SEND, .send = send, .root = peer)                                          \
    X(ncclResult_t, ncclRecv,                                                                      \
      (void *recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,                  \
       cudaStream_t stream),                                                                       \
      .kind = OPERATION_RECV, .recv = recv, .root = peer)

/* Result, name of the functions that are not built: see missing.c. */
#define NCCL_MISSING_MAP(X)                                                                        \
    X(ncclResult_t, ncclCommGetUniqueId)                                                           \
    X(ncclResult_t, ncclCommGrow)                                                                  \
    X(ncclResult_t, ncclCommSuspend)                                                               \
    X(ncclResult_t, ncclCommResume)                                                                \
    X(ncclResult_t, ncclCommMemStats)                                                              \
    X(ncclResult_t, ncclCommQueryProperties)                                                       \
    X(ncclResult_t, ncclCommWindowRegister)                                                        \
    X(ncclResult_t, ncclCommWindowDeregister)                                                      \
    X(ncclResult_t, ncclWinGetUserPtr)                                                             \
    X(ncclResult_t, ncclPutSignal)                                                                 \
    X(ncclResult_t, ncclSignal)                                                                    \
    X(ncclResult_t, ncclWaitSignal)                                                                \
    X(ncclResult_t, ncclDevCommCreate)                                                             \
    X(ncclResult_t, ncclDevCommDestroy)                                                            \
    X(ncclResult_t, ncclGetLsaDevicePointer)                                                       \
    X(ncclResult_t, ncclGetLsaMultimemDevicePointer)                                               \
    X(ncclResult_t, ncclGetMultimemDevicePointer)                                                  \
    X(ncclResult_t, ncclGetPeerDevicePointer)                                                      \
    X(ncclResult_t, ncclGinBarrierCreateRequirement)                                               \
    X(ncclResult_t, ncclGinInboxA2ACreateRequirement)                                              \
    X(ncclResult_t, ncclGinOutboxCreateRequirement)                                                \
    X(ncclResult_t, ncclLLA2ACreateRequirement)                                                    \
    X(ncclResult_t, ncclLsaBarrierCreateRequirement)                                               \
    X(ncclResult_t, ncclParamBind)                                                                 \
    X(ncclResult_t, ncclParamGet)                                                                  \
    X(ncclResult_t, ncclParamGetAllParameterKeys)                                                  \
    X(ncclResult_t, ncclParamGetI8)                                                                \
    X(ncclResult_t, ncclParamGetI16)                                                               \
    X(ncclResult_t, ncclParamGetI32)                                                               \
    X(ncclResult_t, ncclParamGetI64)                                                               \
    X(ncclResult_t, ncclParamGetParameter)                                                         \
    X(ncclResult_t, ncclParamGetStr)                                                               \
    X(ncclResult_t, ncclParamGetU8)                                                                \
    X(ncclResult_t, ncclParamGetU16)                                                               \
    X(ncclResult_t, ncclParamGetU32)                                                               \
    X(ncclResult_t, ncclParamGetU64)                                                               \
    X(void, ncclParamDumpAll)                                                                      \
    X(void, ncclResetDebugInitInternal)                                                            \
    X(void, ncclResetDebugInit)                                                                    \
    X(ncclTeam_t, ncclTeamWorld)                                                                   \
    X(ncclTeam_t, ncclTeamLsa)                                                                     \
    X(ncclTeam_t, ncclTeamRail)                                                                    \
    X(int, ncclTeamRankToLsa)                                                                      \
    X(int, ncclTeamRankToWorld)                                                                    \
    X(int, ncclLLA2ACalcSlots)

#endif
