/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_operators.h. */
#include "nccl_operators.h"
#include <string.h>
#include "nccl_driver.h"
#include "nccl_group.h"

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

static ncclResult_t premul_check(ncclRedOp_t *op, const void *scalar, ncclDataType_t dtype,
                                 int residence, rcm_dtype *ret_dtype) {
    if (!op || !scalar)
        return face_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: %s is NULL",
                         op ? "scalar" : "op");
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

NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum)
(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype, ncclScalarResidence_t residence,
 ncclComm_t comm) {
    struct object premul = {0};
    int number;
    ncclResult_t result = comm_hold_ready(comm, COMM_ANY, __func__);
    if (result != ncclSuccess)
        return result;
    result = premul_check(op, scalar, dtype, residence, &premul.dtype);
    if (result == ncclSuccess && residence == ncclScalarDevice)
        premul.scalar.at = scalar;
    else if (result == ncclSuccess)
        memcpy(premul.scalar.value, scalar, rcm_dtype_size(premul.dtype));
    if (result == ncclSuccess)
        result = object_add(&comm->operators, premul, &number, __func__);
    if (result == ncclSuccess)
        *op = (ncclRedOp_t)number;
    comm_unlock();
    return result;
}

/* Also of a communicator that has failed or was finalized. */
NCCL_API(ncclResult_t, ncclRedOpDestroy)(ncclRedOp_t op, ncclComm_t comm) {
    ncclResult_t result = comm_hold(comm, COMM_ANY, __func__);
    if (result != ncclSuccess)
        return result;
    const bool removed = object_remove(&comm->operators, (int)op);
    comm_unlock();
    return removed ? ncclSuccess
                   : face_fail(ncclInvalidArgument,
                               "ncclRedOpDestroy: op %d was not created with this communicator",
                               (int)op);
}

/* ---- Use ------------------------------------------------------------------------------------- */

ncclResult_t operator_check(struct ncclComm *comm, ncclRedOp_t op, rcm_dtype dtype,
                            struct scalar *ret_scalar) {
    const struct object *premul;
    if ((int)op >= 0 && (int)op < ncclNumOps)
        return face_result(rcm_op_defined(ops[op], dtype), "op");
    premul = *object_find(&comm->operators, (int)op);
    if (!premul)
        return face_fail(ncclInvalidArgument,
                         "op is %d: neither 0 to %d nor created with this communicator", (int)op,
                         ncclNumOps - 1);
    if (premul->dtype != dtype)
        return face_fail(ncclInvalidArgument, "op was created for %s, but datatype is %s",
                         rcm_dtype_name(premul->dtype), rcm_dtype_name(dtype));
    *ret_scalar = premul->scalar;
    return ncclSuccess;
}

ncclResult_t operator_prepare(const struct operation *o, cudaStream_t stream, rcm_op *ret_op,
                              struct slot **ret_slot) {
    const size_t bytes = rcm_dtype_size(o->dtype);
    if ((int)o->op < ncclNumOps) {
        *ret_op = ops[o->op];
        return ncclSuccess;
    }
    ncclResult_t result = slot_take(ret_slot);
    if (result != ncclSuccess)
        return result;
    void *to = (*ret_slot)->scalar;
    if (o->scalar.at && o->count > 0) /* an operation without elements does not wait for a copy */
        result = DRIVER(cuMemcpyAsync, to, o->scalar.at, bytes, stream);
    else
        memcpy(to, o->scalar.value, bytes);
    return result == ncclSuccess
               ? face_result(rcm_op_create_premul_sum_from(to, o->dtype, ret_op), "op")
               : result;
}
