/* SPDX-License-Identifier: BSD-3-Clause */
/* Which operators are defined for which types, with error texts: those with a kernel (pairs.h). */
#include "error.h"
#include "kernels.h"
#include "operator.h"
#include <string.h>

static bool dtype_is_any_of(rcm_dtype dtype, const rcm_dtype *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == dtype)
            return true;
    return false;
}

/* Why most operators are not defined for a type. */
static const char *dtype_lack(rcm_dtype dtype) {
    static const rcm_dtype complex[] = {RCM_COMPLEX64, RCM_COMPLEX128};
    static const rcm_dtype pairs[] = {RCM_FLOAT32_INT32, RCM_FLOAT64_INT32, RCM_INT32_INT32,
                                      RCM_INT64_INT32};
    if (dtype_is_any_of(dtype, complex, sizeof(complex) / sizeof(complex[0])))
        return "complex numbers have no order and no bits, only sums and products";
    if (dtype_is_any_of(dtype, pairs, sizeof(pairs) / sizeof(pairs[0])))
        return "pairs have only minloc and maxloc";
    return NULL;
}

static const char *op_lack(rcm_op op, rcm_dtype dtype) {
    const char *lack = dtype_lack(dtype);
    if (dtype > RCM_OPAQUE)
        return "opaque elements support only operators of rcm_op_create";
    if (op == RCM_MINLOC || op == RCM_MAXLOC)
        return "they are for pairs of a value and an index";
    if (dtype == RCM_BOOL)
        return "truth values have no avg";
    return lack ? lack : "floats have no bit or truth operations";
}

static rcm_status created_fits(const struct rcmi_operator *created, rcm_dtype dtype) {
    if (created->dtype == RCM_ANY_DTYPE || created->dtype == dtype)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INVALID, 0, "%s, op %d, was created for %s, not for %s",
                     created->identity.name, (int)created->op, rcm_dtype_name(created->dtype),
                     rcm_dtype_name(dtype));
}

static rcm_status created_defined(rcm_op op, rcm_dtype dtype) {
    rcm_status status = rcmi_operator_hold(op);
    if (status != RCM_OK)
        return status;
    status = created_fits(rcmi_operator_of(op), dtype);
    rcmi_operator_drop(op);
    return status;
}

rcm_status rcm_op_defined(rcm_op op, rcm_dtype dtype) {
    if (rcmi_op_is_created(op) && rcm_dtype_size(dtype) > 0)
        return created_defined(op, dtype);
    if (op != RCMI_OP_PREMUL_SUM && rcmi_reduction_find(dtype, op))
        return RCM_OK;
    const char *dtype_name = rcm_dtype_name(dtype), *op_name = rcm_op_name(op);
    if (strcmp(dtype_name, "?") == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is not a type", (int)dtype);
    if (strcmp(op_name, "?") == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "op %d is not an operator", (int)op);
    return rcmi_fail(RCM_ERR_INVALID, 0, "%s of %s is not defined: %s", op_name, dtype_name,
                     op_lack(op, dtype));
}
