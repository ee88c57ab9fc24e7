/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_operators.h. */
#include "nccl_operators.h"
#include <stdlib.h>
#include <string.h>

static const rcm_dtype dtypes[] = {
#define ROW(name, number, ringcomm) [number] = (ringcomm),
    NCCL_DTYPE_MAP(ROW)
#undef ROW
};
static const rcm_op ops[] = {
#define ROW(name, number, ringcomm) [number] = (ringcomm),
    NCCL_OP_MAP(ROW)
#undef ROW
};

bool dtype_of(ncclDataType_t dtype, rcm_dtype *ret_dtype) {
    const bool valid = (size_t)dtype < sizeof dtypes / sizeof dtypes[0];
    if (valid)
        *ret_dtype = dtypes[dtype];
    return valid;
}

/* ---- Scaled sums ----------------------------------------------------------------------------- */

/* Created operators of all communicators. */
struct premul {
    struct premul *next;
    const struct ncclComm *comm;
    int number;
    rcm_dtype dtype;
    struct scalar scalar;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct premul *created;
static int last_number = ncclNumOps - 1;

static struct premul **find(const struct ncclComm *comm, ncclRedOp_t op) {
    struct premul **at = &created;
    while (*at && ((*at)->comm != comm || (*at)->number != (int)op))
        at = &(*at)->next;
    return at;
}

/* A copy; false: comm has no such operator. */
static bool premul_of(const struct ncclComm *comm, ncclRedOp_t op, struct premul *ret_premul) {
    pthread_mutex_lock(&lock);
    const struct premul *found = *find(comm, op);
    if (found)
        *ret_premul = *found;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

static ncclResult_t premul_check(ncclRedOp_t *op, const void *scalar, ncclDataType_t dtype,
                                 int residence, const struct ncclComm *comm, rcm_dtype *ret_dtype) {
    if (!op || !scalar || !comm)
        return face_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: %s is NULL",
                         !op       ? "op"
                         : !scalar ? "scalar"
                                   : "comm");
    if (!dtype_of(dtype, ret_dtype) || residence < ncclScalarDevice ||
        residence > ncclScalarHostImmediate)
        return face_fail(ncclInvalidArgument,
                         "ncclRedOpCreatePreMulSum: datatype is %d and residence %d", (int)dtype,
                         residence);
    if (dtype < ncclFloat16)
        return face_fail(ncclInvalidUsage,
                         "ncclRedOpCreatePreMulSum: only floats are scaled, not %s",
                         rcm_dtype_name(*ret_dtype));
    return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
    rcm_dtype type;
    const ncclResult_t result = premul_check(op, scalar, dtype, residence, comm, &type);
    if (result != ncclSuccess)
        return result;
    struct premul *premul = calloc(1, sizeof *premul);
    if (!premul)
        return face_fail(ncclSystemError, "ncclRedOpCreatePreMulSum: no memory");
    *premul = (struct premul){.comm = comm, .dtype = type};
    if (residence == ncclScalarDevice)
        premul->scalar.at = scalar;
    else
        memcpy(premul->scalar.value, scalar, rcm_dtype_size(type));
    pthread_mutex_lock(&lock);
    last_number = last_number == INT32_MAX ? (int)ncclNumOps : last_number + 1;
    premul->number = last_number;
    premul->next = created;
    created = premul;
    pthread_mutex_unlock(&lock);
    *op = (ncclRedOp_t)premul->number;
    return ncclSuccess;
}
NCCL_ALSO_P(ncclRedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
    pthread_mutex_lock(&lock);
    struct premul **at = find(comm, op), *premul = *at;
    if (premul)
        *at = premul->next;
    pthread_mutex_unlock(&lock);
    free(premul);
    return premul ? ncclSuccess
                  : face_fail(ncclInvalidArgument,
                              "ncclRedOpDestroy: op %d was not created with this communicator",
                              (int)op);
}
NCCL_ALSO_P(ncclRedOpDestroy);

void operators_forget(const struct ncclComm *comm) {
    pthread_mutex_lock(&lock);
    struct premul **at = &created;
    while (*at) {
        struct premul *premul = *at;
        if (premul->comm != comm) {
            at = &premul->next;
            continue;
        }
        *at = premul->next;
        free(premul);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Use ------------------------------------------------------------------------------------- */

ncclResult_t operator_check(const struct ncclComm *comm, ncclRedOp_t op, rcm_dtype dtype,
                            struct scalar *ret_scalar) {
    struct premul premul;
    if ((int)op >= 0 && (int)op < ncclNumOps)
        return face_result(rcm_op_defined(ops[op], dtype), "op");
    if (!premul_of(comm, op, &premul))
        return face_fail(ncclInvalidArgument,
                         "op is %d: neither 0 to %d nor created with this communicator", (int)op,
                         ncclNumOps - 1);
    if (premul.dtype != dtype)
        return face_fail(ncclInvalidArgument, "op was created for %s, but datatype is %s",
                         rcm_dtype_name(premul.dtype), rcm_dtype_name(dtype));
    *ret_scalar = premul.scalar;
    return ncclSuccess;
}

ncclResult_t operator_prepare(const struct driver *driver, int device,
                              const struct operand *operand, rcm_op *ret_op,
                              struct slot **ret_slot) {
    const size_t bytes = rcm_dtype_size(operand->dtype);
    const struct scalar *scalar = operand->scalar;
    if ((int)operand->op < ncclNumOps) {
        *ret_op = ops[operand->op];
        return ncclSuccess;
    }
    ncclResult_t result = slot_take(device, ret_slot);
    if (result != ncclSuccess)
        return result;
    void *to = slot_scalar(*ret_slot);
    if (scalar->at)
        result = driver_result(driver, "cuMemcpyAsync",
                               driver->cuMemcpyAsync((uint64_t)(uintptr_t)to,
                                                     (uint64_t)(uintptr_t)scalar->at, bytes,
                                                     operand->stream));
    else
        memcpy(to, scalar->value, bytes);
    return result == ncclSuccess
               ? face_result(rcm_op_create_premul_sum_from(to, operand->dtype, ret_op), "op")
               : result;
}
