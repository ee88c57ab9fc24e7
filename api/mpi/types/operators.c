/* SPDX-License-Identifier: BSD-3-Clause */
/* See operators.h. A call whose operator ringcomm.h does not have makes one for its type, which
 * lives until the operation is complete. An operator of the program keeps the last one for its next
 * call, which is faster if it has the same arguments as the last one. */
#include "operators.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include "faces.h"
#include "leaks.h"

struct MPI_ABI_Op {
    MPI_User_function *function;
    MPI_User_function_c *large_function; /* one of the two is NULL */
    bool is_commutative;
    atomic_int references;
    _Atomic(struct made_op *) kept; /* of the last operation that is complete, or NULL */
};

enum { ALIGNMENT = 16 /* of long double */ };

struct made_op {
    MPI_Op op;                     /* with a reference, unless it keeps this; or predefined */
    struct MPI_ABI_Datatype *type; /* with a reference */
    rcm_dtype dtype;
    rcm_op number;
};

static void call_pieces(const struct made_op *made, char *in, char *inout, MPI_Count n) {
    MPI_Datatype type = type_handle(made->type);
    if (made->op->large_function) {
        made->op->large_function(in, inout, &n, &type);
        return;
    }
    while (n > 0) {
        int piece = n < INT_MAX ? (int)n : INT_MAX;
        made->op->function(in, inout, &piece, &type);
        in += piece * made->type->extent;
        inout += piece * made->type->extent;
        n -= piece;
    }
}

/* Copies to the layout of the program, in memory that is aligned for every type. */
static void call_unpacked(const struct made_op *made, const void *in, void *inout, MPI_Count n) {
    const struct MPI_ABI_Datatype *type = made->type;
    const size_t bytes = (size_t)n * (size_t)type->size;
    const MPI_Count low = type->true_lb < 0 ? type->true_lb : 0;
    const MPI_Count span = (n - 1) * type->extent + type->true_lb + type->true_extent - low;
    const MPI_Count room = (span + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *memory = calloc(2, (size_t)room);
    if (!memory) {
        fprintf(stderr, "ringcomm: no memory to unpack %zu bytes for an operator\n", bytes);
        abort();
    }
    char *first = memory - low, *second = memory + room - low;
    type_unpack(type, first, n, in, bytes);
    type_unpack(type, second, n, inout, bytes);
    call_pieces(made, first, second, n);
    type_pack(type, second, n, inout);
    free(memory);
}

static void call_function(const void *in, void *inout, size_t count, rcm_dtype dtype,
                          void *context) {
    const struct made_op *made = context;
    const uintptr_t misaligned = ((uintptr_t)in | (uintptr_t)inout) % ALIGNMENT;
    if (count == 0)
        return;
    if (made->type->is_dense && made->type->true_lb == 0 &&
        (misaligned == 0 || made->type->size % ALIGNMENT != 0))
        call_pieces(made, (char *)in, inout, (MPI_Count)count);
    else
        call_unpacked(made, in, inout, (MPI_Count)count);
}

static void made_free(struct made_op *made) {
    if (!made)
        return;
    const rcm_status status = rcm_op_free(made->number);
    (void)status; /* it was made */
    type_put(made->type);
    free(made);
}

/* Takes what an operator of the program keeps, if it is for this type; or NULL. */
static struct made_op *take_kept(MPI_Op op, const struct MPI_ABI_Datatype *type) {
    struct made_op *made = is_predefined(op) ? NULL : atomic_exchange(&op->kept, NULL);
    if (!made || made->type == type)
        return made;
    made_free(made);
    return NULL;
}

/* Makes an operator. */
static int make_new(struct form *form, MPI_Op handle, struct MPI_ABI_Datatype *type,
                    struct made_op **ret_made) {
    struct made_op *made = *ret_made = calloc(1, sizeof *made);
    char name[RCM_OP_NAME_MAX] = "function";
    if (!made)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for an operator");
    made->op = handle;
    made->type = type;
    rcm_status status = rcm_dtype_opaque((size_t)type->size, &made->dtype);
    if (status == RCM_OK && is_predefined(handle)) {
        const struct predefined_op *op = &op_basics[(uintptr_t)handle - OP_FIRST];
        snprintf(name, sizeof name, "%s", op->name + 4);
        status = long_operator(type->name, op->op, name, made->dtype, &made->number);
    } else if (status == RCM_OK) {
        status = rcm_op_create(call_function, made, handle->is_commutative ? RCM_OP_COMMUTATIVE : 0,
                               name, made->dtype, &made->number);
    }
    if (status != RCM_OK) {
        free(made);
        return form_status(form, status);
    }
    type_get(type);
    return MPI_SUCCESS;
}

static int make_operator(struct form *form, MPI_Op handle, struct MPI_ABI_Datatype *type,
                         struct reduction *ret_reduction) {
    struct made_op *made = take_kept(handle, type);
    const int code = made ? MPI_SUCCESS : make_new(form, handle, type, &made);
    if (code != MPI_SUCCESS)
        return code;
    op_get(handle);
    *ret_reduction = (struct reduction){made->number, made->dtype, made, NULL};
    return MPI_SUCCESS;
}

void reduction_end(struct made_op *made) {
    if (!made)
        return;
    const MPI_Op op = made->op;
    made_free(is_predefined(op) ? made : atomic_exchange(&op->kept, made));
    op_put(op);
}

int reduction_make(struct form *form, MPI_Op handle, MPI_Datatype type_number,
                   struct reduction *ret_reduction) {
    struct MPI_ABI_Datatype *type;
    const uintptr_t i = (uintptr_t)handle - OP_FIRST;
    const struct predefined_op *op = i <= OP_LAST - OP_FIRST ? &op_basics[i] : NULL;
    ret_reduction->made = NULL;
    const int code = type_find_used(form, type_number, &type);
    if (code != MPI_SUCCESS)
        return code;
    if (is_predefined(handle) && (!op || !op->name))
        return form_error(form, MPI_ERR_OP, "op is %s",
                          handle == MPI_OP_NULL ? "MPI_OP_NULL" : "no operator of collectives");
    if (op && !(op->groups & 1u << type->group))
        return form_error(form, MPI_ERR_OP, "%s is not defined for %s", op->name,
                          type->name ? type->name : "a derived datatype");
    if (!op || !type->in_memory)
        return make_operator(form, handle, type, ret_reduction);
    const int made = reduction_find(form, handle, type->in_memory, ret_reduction);
    ret_reduction->pairs = type->in_memory;
    return made;
}

static int create(struct form *form, MPI_User_function *function, MPI_User_function_c *large,
                  int commute, MPI_Op *ret_op) {
    MPI_Op made = calloc(1, sizeof *made);
    if (!made)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for an operator");
    made->function = function;
    made->large_function = large;
    made->is_commutative = commute != 0;
    atomic_init(&made->references, 1);
    *ret_op = made;
    leaks_count(leak_op, 1);
    return MPI_SUCCESS;
}

int face_Op_create(struct form *form, MPI_User_function *function, int commute, MPI_Op *ret_op) {
    return create(form, function, NULL, commute, ret_op);
}

int face_Op_create_c(struct form *form, MPI_User_function_c *function, int commute,
                     MPI_Op *ret_op) {
    return create(form, NULL, function, commute, ret_op);
}

void op_get(MPI_Op op) {
    if (!is_predefined(op))
        atomic_fetch_add(&op->references, 1);
}

void op_put(MPI_Op op) {
    if (is_predefined(op) || atomic_fetch_sub(&op->references, 1) != 1)
        return;
    made_free(atomic_load(&op->kept));
    free(op);
    leaks_count(leak_op, -1);
}

int face_Op_free(struct form *form, MPI_Op *op) {
    if (is_predefined(*op))
        return form_error(form, MPI_ERR_OP, "op is predefined or MPI_OP_NULL and cannot be freed");
    op_put(*op);
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

int face_Op_commutative(struct form *form, MPI_Op op, int *ret_commute) {
    *ret_commute = is_predefined(op) ? op != MPI_REPLACE && op != MPI_NO_OP : op->is_commutative;
    return MPI_SUCCESS;
}

int face_Reduce_local(struct form *form, const void *in, void *inout, MPI_Count count,
                      MPI_Datatype type, MPI_Op op) {
    struct reduction reduction;
    struct data from, to;
    if (in == MPI_IN_PLACE || inout == MPI_IN_PLACE)
        return form_error(form, MPI_ERR_BUFFER, "a buffer is MPI_IN_PLACE");
    int code = reduction_find(form, op, type, &reduction);
    from.packed = to.packed = NULL;
    type = code == MPI_SUCCESS && reduction.pairs ? reduction.pairs : type;
    if (code == MPI_SUCCESS)
        code = data_bind(form, in, count, type, DATA_IN, &from);
    if (code == MPI_SUCCESS)
        code = data_bind(form, inout, count, type, DATA_IN | DATA_OUT, &to);
    if (code == MPI_SUCCESS) {
        code = form_status(form, rcm_reduce_local(from.address, to.address, (size_t)count,
                                                  reduction.dtype, reduction.op));
        data_finish(&to, true, to.bytes);
    }
    data_finish(&from, false, 0);
    reduction_end(reduction.made);
    return code;
}
