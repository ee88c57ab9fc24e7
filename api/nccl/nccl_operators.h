/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, operators, and the scaled sums that a program creates (PreMulSum). */
#ifndef NCCL_OPERATORS_H
#define NCCL_OPERATORS_H

#include "nccl_driver.h"
#include "stream_order.h"

/* ringcomm's type; false: dtype is no type. */
bool dtype_of(ncclDataType_t dtype, rcm_dtype *ret_dtype);
/* Is it an operator, and of this communicator and type if it was created? The text explains. */
ncclResult_t operator_check(const struct ncclComm *comm, ncclRedOp_t op, rcm_dtype dtype);
/* ringcomm's operator for one operation. A created one reads its scalar from *ret_scalar when the
 * operation begins; the caller frees it (rcm_op_free) once the operation is issued. */
ncclResult_t operator_prepare(const struct driver *driver, const struct ncclComm *comm,
                              ncclRedOp_t op, cudaStream_t stream, rcm_op *ret_op,
                              struct slot **ret_scalar);

#endif
