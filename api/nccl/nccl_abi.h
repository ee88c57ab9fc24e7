/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and functions of NCCL 2.30.7 as programs are compiled with them, made from nccl_names.h.
 * NCCL's documentation applies. No header of NCCL or CUDA is needed. */
#ifndef NCCL_ABI_H
#define NCCL_ABI_H

#include <stddef.h>
#include "nccl_names.h"

typedef struct ncclComm *ncclComm_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct {
    char internal[NCCL_ID_BYTES];
} ncclUniqueId;
typedef struct {
    int nranks, rank, stride;
} ncclTeam_t;

#define NCCL_ENUM2(name, number)       name = number,
#define NCCL_ENUM3(name, number, more) name = number,
typedef enum { NCCL_RESULT_MAP(NCCL_ENUM3) } ncclResult_t;
typedef enum { NCCL_DTYPE_MAP(NCCL_ENUM3) } ncclDataType_t;
typedef enum { NCCL_OP_MAP(NCCL_ENUM3) ncclMaxRedOp = 0x7fffffff } ncclRedOp_t;
enum { NCCL_VALUE_MAP(NCCL_ENUM2) };
typedef int ncclScalarResidence_t;

#define NCCL_FIELD(type, name) type name;
typedef struct {
    NCCL_CONFIG_MAP(NCCL_FIELD)
} ncclConfig_t;

/* Each function also has a name with a p, for profilers that define the other one. */
#define NCCL_DECLARE(result, name, parameters)                                                     \
    result name parameters;                                                                        \
    result p##name parameters;
#define NCCL_DECLARE_OPERATION(result, name, parameters, ...) NCCL_DECLARE(result, name, parameters)
NCCL_FUNCTION_MAP(NCCL_DECLARE)
NCCL_OPERATION_MAP(NCCL_DECLARE_OPERATION)

/* Begins the definition of a function, and defines its name with a p. */
#define NCCL_API(result, name)                                                                     \
    extern __typeof__(name) p##name __attribute__((alias(#name)));                                 \
    result name

#endif
