/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes that are a part of an array of several dimensions: subarray and darray. Each dimension
 * is a datatype of the one before, whose extent is that of a whole row. */
#include <stdlib.h>
#include "datatype.h"
#include "faces.h"

/* The elements of a dimension that are part of the type: `count` blocks of `length` elements, every
 * `step` elements from `start` on, and a last one of `rest`. */
struct dimension {
    MPI_Count size, start, count, step, length, rest;
};

static int add_dimension(struct form *form, const struct dimension *dimension, MPI_Count stride,
                         struct MPI_ABI_Datatype *type, MPI_Datatype *ret_type) {
    struct type_part *parts = malloc(2 * sizeof *parts);
    const MPI_Count last = dimension->start + dimension->count * dimension->step;
    if (parts) {
        parts[0] = (struct type_part){dimension->start * stride, dimension->count,
                                      dimension->step * stride, dimension->length, type};
        parts[1] = (struct type_part){last * stride, 1, 0, dimension->rest, type};
    }
    const int code = type_make(form, parts, dimension->rest > 0 ? 2 : 1, ret_type);
    if (code == MPI_SUCCESS)
        type_resize(*ret_type, 0, stride * dimension->size);
    return code;
}

/* Makes the type of dimensions, whose order is that of C, or of Fortran. */
static int make_grid(struct form *form, int ndims, const struct dimension *dimensions, int order,
                     struct MPI_ABI_Datatype *old, MPI_Datatype *ret_type) {
    struct MPI_ABI_Datatype *inner = old;
    int code = MPI_SUCCESS;
    for (int i = 0; code == MPI_SUCCESS && i < ndims; i++) {
        const struct dimension *next = &dimensions[order == MPI_ORDER_C ? ndims - 1 - i : i];
        *ret_type = MPI_DATATYPE_NULL;
        code = add_dimension(form, next, inner->extent, inner, ret_type);
        if (inner != old)
            type_put(inner);
        inner = *ret_type;
    }
    return code;
}

static int check_grid(struct form *form, int ndims, int order) {
    if (ndims < 1)
        return form_error(form, MPI_ERR_ARG, "ndims is %d", ndims);
    if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)
        return form_error(form, MPI_ERR_ARG, "order is %d, not MPI_ORDER_C or MPI_ORDER_FORTRAN",
                          order);
    return MPI_SUCCESS;
}

int face_Type_create_subarray(struct form *form, int ndims, struct array sizes,
                              struct array subsizes, struct array starts, int order,
                              struct MPI_ABI_Datatype *old, MPI_Datatype *ret_type) {
    int code = check_grid(form, ndims, order);
    struct dimension *dimensions = calloc(ndims > 0 ? (size_t)ndims : 1, sizeof *dimensions);
    if (code == MPI_SUCCESS && !dimensions)
        code = form_error(form, MPI_ERR_NO_MEM, "no memory for %d dimensions", ndims);
    for (int d = 0; code == MPI_SUCCESS && d < ndims; d++) {
        const MPI_Count size = array_at(sizes, d), part = array_at(subsizes, d);
        const MPI_Count start = array_at(starts, d);
        dimensions[d] = (struct dimension){size, start, 1, 0, part, 0};
        if (part < 1 || start < 0 || start + part > size)
            code =
                form_error(form, MPI_ERR_ARG,
                           "dimension %d has %lld elements, of which %lld from %lld on are no part",
                           d, (long long)size, (long long)part, (long long)start);
    }
    if (code == MPI_SUCCESS)
        code = make_grid(form, ndims, dimensions, order, old, ret_type);
    free(dimensions);
    return code;
}

/* The elements of process `at` of `processes`: of each round of blocks the one at its place. */
static int distribute(struct form *form, MPI_Count size, int distribution, int block_size,
                      int processes, int at, struct dimension *ret_dimension) {
    MPI_Count block = block_size;
    const bool is_default = block_size == MPI_DISTRIBUTE_DFLT_DARG;
    if (distribution == MPI_DISTRIBUTE_NONE)
        block = size;
    else if (distribution == MPI_DISTRIBUTE_BLOCK && is_default)
        block = (size + processes - 1) / processes;
    else if (distribution == MPI_DISTRIBUTE_CYCLIC && is_default)
        block = 1;
    if (size < 1 || processes < 1 || block < 1 ||
        (distribution == MPI_DISTRIBUTE_NONE && processes != 1) ||
        (distribution == MPI_DISTRIBUTE_BLOCK && block * processes < size) ||
        distribution < MPI_DISTRIBUTE_NONE || distribution > MPI_DISTRIBUTE_CYCLIC)
        return form_error(
            form, MPI_ERR_ARG,
            "%lld elements in blocks of %lld on %d processes are no distribution (%d)",
            (long long)size, (long long)block, processes, distribution);
    const MPI_Count start = at * block, step = block * processes;
    const MPI_Count left = size > start ? size - start : 0;
    const MPI_Count rest = left % step;
    *ret_dimension = (struct dimension){size, start, left / step + (rest >= block),
                                        step, block, rest >= block ? 0 : rest};
    return MPI_SUCCESS;
}

int face_Type_create_darray(struct form *form, int size, int rank, int ndims, struct array sizes,
                            const int *distributions, const int *blocks, const int *processes,
                            int order, struct MPI_ABI_Datatype *old, MPI_Datatype *ret_type) {
    int code = check_grid(form, ndims, order), left = size, at = rank;
    struct dimension *dimensions = calloc(ndims > 0 ? (size_t)ndims : 1, sizeof *dimensions);
    if (code == MPI_SUCCESS && !dimensions)
        code = form_error(form, MPI_ERR_NO_MEM, "no memory for %d dimensions", ndims);
    if (code == MPI_SUCCESS && (rank < 0 || rank >= size))
        code = form_error(form, MPI_ERR_ARG, "rank is %d, but size is %d", rank, size);
    for (int d = 0; code == MPI_SUCCESS && d < ndims; d++) {
        if (processes[d] < 1 || left % processes[d] != 0)
            break;
        left /= processes[d];
        code = distribute(form, array_at(sizes, d), distributions[d], blocks[d], processes[d],
                          at / left, &dimensions[d]);
        at %= left;
    }
    if (code == MPI_SUCCESS && left != 1)
        code =
            form_error(form, MPI_ERR_ARG, "the product of psizes is not size, which is %d", size);
    if (code == MPI_SUCCESS)
        code = make_grid(form, ndims, dimensions, order, old, ret_type);
    free(dimensions);
    return code;
}
