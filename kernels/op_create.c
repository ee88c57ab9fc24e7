/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that the program creates, as far as they compute: what is checked of them. Their table
 * is base/operator.c. */
#include "error.h"
#include "kernels.h"
#include "operator.h"

static rcm_status premul_check(double imaginary, rcm_dtype dtype) {
    const bool complex = dtype == RCM_COMPLEX64 || dtype == RCM_COMPLEX128;
    if (rcm_dtype_size(dtype) == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is no type", (int)dtype);
    if (!rcmi_reduction_find(dtype, RCMI_OP_PREMUL_SUM))
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "premul_sum of %s is not defined: only floats and complex numbers are "
                         "scaled",
                         rcm_dtype_name(dtype));
    if (!complex && imaginary != 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "imaginary is %g, but %s is not complex", imaginary,
                         rcm_dtype_name(dtype));
    return RCM_OK;
}

rcm_status rcm_op_create_premul_sum(double real, double imaginary, rcm_dtype dtype,
                                    rcm_op *ret_op) {
    const struct rcmi_operator premul = {
        .identity = {.name = "premul_sum", .kind = RCMI_OP_PREMUL_SUM},
        .dtype = dtype,
        .scale = {real, imaginary}};
    const rcm_status status = premul_check(imaginary, dtype);
    if (status != RCM_OK)
        return status;
    if (!ret_op)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_op is NULL");
    return rcmi_operator_add(&premul, ret_op);
}
