/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors: their numbers in NCCL, and the text that ncclGetLastError returns, which belongs to the
 * process, not to a thread. All functions: any thread, no lock needed. */
#ifndef NCCL_ERRORS_H
#define NCCL_ERRORS_H

#include <stdio.h>
#include "nccl_abi.h"
#include "ringcomm.h"

/* Statuses of ringcomm.h and their numbers in NCCL; all others are ncclInternalError. */
#define STATUS_MAP(X)                                                                              \
    X(RCM_OK, ncclSuccess)                                                                         \
    X(RCM_PENDING, ncclInProgress)                                                                 \
    X(RCM_ERR_INVALID, ncclInvalidArgument)                                                        \
    X(RCM_ERR_NOMEM, ncclSystemError)                                                              \
    X(RCM_ERR_SYSTEM, ncclSystemError)                                                             \
    X(RCM_ERR_RESOURCE, ncclSystemError)                                                           \
    X(RCM_ERR_UNSUPPORTED, ncclInvalidUsage)                                                       \
    X(RCM_ERR_MISMATCH, ncclInvalidUsage)                                                          \
    X(RCM_ERR_TRUNCATED, ncclInvalidUsage)                                                         \
    X(RCM_ERR_CONFIG, ncclInvalidUsage)                                                            \
    X(RCM_ERR_FORKED, ncclInvalidUsage)                                                            \
    X(RCM_ERR_PEER, ncclRemoteError)                                                               \
    X(RCM_ERR_TIMEOUT, ncclRemoteError)                                                            \
    X(RCM_ERR_ABORTED, ncclRemoteError)                                                            \
    X(RCM_ERR_CANCELED, ncclRemoteError)                                                           \
    X(RCM_ERR_PROTOCOL, ncclRemoteError)                                                           \
    X(RCM_ERR_AUTH, ncclRemoteError)

/* The text becomes the last error's. Returns result. */
ncclResult_t face_fail(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The number of a status. */
ncclResult_t face_number(rcm_status status);
/* For a call of ringcomm.h that returned status: the number, and the call's text. `what` names
 * NCCL's function. */
ncclResult_t face_result(rcm_status status, const char *what);

#endif
