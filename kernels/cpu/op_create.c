/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates operators: validates their arguments. base/operator.c has their table. */
#include <string.h>
#include "error.h"
#include "kernels.h"
#include "operator.h"

static rcm_status premul_check(double imaginary, rcm_dtype dtype) {
    const bool complex = dtype == RCM_COMPLEX64 || dtype == RCM_COMPLEX128;
    if (rcm_dtype_size(dtype) == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is not a type", (int)dtype);
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

static rcm_status name_check(const char *name) {
    if (!name)
        return rcmi_fail(RCM_ERR_INVALID, 0, "name is NULL");
    if (name[0] == '\0' || strlen(name) >= RCM_OP_NAME_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "name \"%.64s\" has %zu bytes. Use 1 to %d", name,
                         strlen(name), RCM_OP_NAME_MAX - 1);
    for (const char *c = name; *c; c++)
        if (*c < ' ' || *c > '~')
            return rcmi_fail(RCM_ERR_INVALID, 0, "byte %zu of name is 0x%02x: a name is ASCII text",
                             (size_t)(c - name), (unsigned char)*c);
    return RCM_OK;
}

static rcm_status function_check(rcm_op_function function, uint32_t flags, const char *name,
                                 rcm_dtype dtype) {
    if (!function)
        return rcmi_fail(RCM_ERR_INVALID, 0, "function is NULL");
    if (flags & ~RCM_OP_COMMUTATIVE)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "flags is 0x%x: the only known flag is RCM_OP_COMMUTATIVE", flags);
    if (dtype != RCM_ANY_DTYPE && rcm_dtype_size(dtype) == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is not a type", (int)dtype);
    return name_check(name);
}

rcm_status rcm_op_create(rcm_op_function function, void *context, uint32_t flags, const char *name,
                         rcm_dtype dtype, rcm_op *ret_op) {
    struct rcmi_operator created = {.identity = {.kind = RCMI_OP_FUNCTION, .flags = flags},
                                    .dtype = dtype,
                                    .function = function,
                                    .context = context};
    const rcm_status status = function_check(function, flags, name, dtype);
    if (status != RCM_OK)
        return status;
    if (!ret_op)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_op is NULL");
    memcpy(created.identity.name, name, strlen(name));
    return rcmi_operator_add(&created, ret_op);
}

rcm_status rcm_op_create_premul_sum(double real, double imaginary, rcm_dtype dtype,
                                    rcm_op *ret_op) {
    const struct rcmi_operator premul = {
        .identity = {.name = "premul_sum", .kind = RCMI_OP_PREMUL_SUM, .flags = RCM_OP_COMMUTATIVE},
        .dtype = dtype,
        .scale = {real, imaginary}};
    const rcm_status status = premul_check(imaginary, dtype);
    if (status != RCM_OK)
        return status;
    if (!ret_op)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_op is NULL");
    return rcmi_operator_add(&premul, ret_op);
}

rcm_status rcm_op_create_premul_sum_from(const void *scale, rcm_dtype dtype, rcm_op *ret_op) {
    const struct rcmi_operator premul = {
        .identity = {.name = "premul_sum", .kind = RCMI_OP_PREMUL_SUM, .flags = RCM_OP_COMMUTATIVE},
        .dtype = dtype,
        .scale_at = scale};
    const rcm_status status = premul_check(0, dtype);
    if (status != RCM_OK)
        return status;
    if (!scale || !ret_op)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", scale ? "ret_op" : "scale");
    return rcmi_operator_add(&premul, ret_op);
}

rcm_status rcm_op_free(rcm_op op) {
    const char *name = rcm_op_name(op);
    if (!rcmi_op_is_created(op) && strcmp(name, "?") != 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "op %d is %s, which is built in", (int)op, name);
    return rcmi_operator_free(op);
}
