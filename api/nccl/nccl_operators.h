/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, operators, and the scaled sums that a program creates (PreMulSum). */
#ifndef NCCL_OPERATORS_H
#define NCCL_OPERATORS_H

#include "nccl_comm.h"
#include "stream_order.h"

/* ringcomm's type; false: dtype is no type. */
bool dtype_of(ncclDataType_t dtype, rcm_dtype *ret_dtype);
/* Under the lock. Is it an operator, and of this communicator and type if it was created? The text
 * explains. *ret_scalar is written if it was created. */
ncclResult_t operator_check(struct ncclComm *comm, ncclRedOp_t op, rcm_dtype dtype,
                            struct scalar *ret_scalar);
/* ringcomm's operator for one operation. A created one reads its scalar from *ret_slot when the
 * operation begins; the caller frees it (rcm_op_free) once the operation is issued. After an error
 * a copy may still write to the slot, which is then not given back. */
struct operation;
ncclResult_t operator_prepare(const struct operation *operation, cudaStream_t stream,
                              rcm_op *ret_op, struct slot **ret_slot);

#endif
