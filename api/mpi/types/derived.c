/* SPDX-License-Identifier: BSD-3-Clause */
/* Derived datatypes: their bounds and the copies between memory and packed bytes. */
#include <stdlib.h>
#include <string.h>
#include "datatype.h"
#include "leaks.h"

/* Where packed bytes are read or written. */
struct cursor {
    char *at, *end;
    bool is_packing;
};

static void copy_bytes(char *memory, size_t bytes, struct cursor *cursor) {
    const size_t left = (size_t)(cursor->end - cursor->at);
    if (bytes > left)
        bytes = left;
    if (cursor->is_packing)
        memcpy(cursor->at, memory, bytes);
    else
        memcpy(memory, cursor->at, bytes);
    cursor->at += bytes;
}

static void copy_elements(const struct MPI_ABI_Datatype *type, char *memory, MPI_Count n,
                          struct cursor *cursor) {
    if (type->is_dense) {
        if (n > 0)
            copy_bytes(AT(memory, type->true_lb), (size_t)n * (size_t)type->size, cursor);
        return;
    }
    for (MPI_Count i = 0; i < n && cursor->at < cursor->end; i++) {
        for (size_t k = 0; k < type->nparts; k++) {
            const struct type_part *part = &type->parts[k];
            char *block = AT(memory, i * type->extent + part->offset);
            for (MPI_Count b = 0; b < part->count && cursor->at < cursor->end; b++)
                copy_elements(part->type, AT(block, b * part->stride), part->length, cursor);
        }
    }
}

void type_pack(const struct MPI_ABI_Datatype *type, const void *memory, MPI_Count n, void *packed) {
    struct cursor cursor = {packed, AT(packed, n * type->size), true};
    copy_elements(type, (char *)memory, n, &cursor);
}

void type_unpack(const struct MPI_ABI_Datatype *type, void *memory, MPI_Count n, const void *packed,
                 size_t bytes) {
    struct cursor cursor = {(char *)packed, AT(packed, bytes), false};
    copy_elements(type, memory, n, &cursor);
}

struct bounds {
    MPI_Count low, high;
    bool any;
};

static void bounds_add(struct bounds *bounds, MPI_Count low, MPI_Count high) {
    if (!bounds->any || low < bounds->low)
        bounds->low = low;
    if (!bounds->any || high > bounds->high)
        bounds->high = high;
    bounds->any = true;
}

/* Adds where a part lies: by extents to `bounds`, by data to `true_bounds`. */
static void part_bounds(const struct type_part *part, struct bounds *bounds,
                        struct bounds *true_bounds) {
    const struct MPI_ABI_Datatype *type = part->type;
    const MPI_Count elements[2] = {0, (part->length - 1) * type->extent};
    const MPI_Count blocks[2] = {0, (part->count - 1) * part->stride};
    if (part->count <= 0 || part->length <= 0)
        return;
    for (int i = 0; i < 4; i++) {
        const MPI_Count at = part->offset + elements[i & 1] + blocks[i >> 1];
        bounds_add(bounds, at + type->lb, at + type->lb + type->extent);
        if (type->size > 0)
            bounds_add(true_bounds, at + type->true_lb, at + type->true_lb + type->true_extent);
    }
}

/* Whether packed bytes and memory are the same: parts follow one another without gaps. */
static bool parts_are_dense(const struct type_part *parts, size_t n,
                            const struct bounds *true_bounds, MPI_Count extent) {
    MPI_Count at = true_bounds->low;
    for (size_t i = 0; i < n; i++) {
        const struct type_part *part = &parts[i];
        const MPI_Count block = part->length * part->type->size;
        if (part->count <= 0 || block <= 0)
            continue;
        if (!part->type->is_dense || part->offset + part->type->true_lb != at ||
            (part->count > 1 && part->stride != block))
            return false;
        at += part->count * block;
    }
    return at == true_bounds->high && at - true_bounds->low == extent;
}

/* Adds a part's bytes to those of the type; false: they are too many. */
static bool add_sizes(const struct type_part *part, struct MPI_ABI_Datatype *made) {
    MPI_Count elements, size;
    return !__builtin_mul_overflow(part->count, part->length, &elements) &&
           !__builtin_mul_overflow(elements, part->type->size, &size) &&
           !__builtin_add_overflow(made->size, size, &made->size);
}

int type_make(struct form *form, struct type_part *parts, size_t n, MPI_Datatype *ret_type) {
    struct MPI_ABI_Datatype *made = calloc(1, sizeof *made);
    struct bounds bounds = {0}, true_bounds = {0};
    if (!made || !parts) {
        free(made);
        free(parts);
        return form_error(form, MPI_ERR_NO_MEM, "no memory for a datatype of %zu parts", n);
    }
    for (size_t i = 0; i < n; i++)
        if (!add_sizes(&parts[i], made)) {
            free(made);
            free(parts);
            return form_error(form, MPI_ERR_COUNT, "a datatype of more bytes than memory");
        }
    leaks_count(leak_datatype, 1);
    for (size_t i = 0; i < n; i++) {
        const struct type_part *part = &parts[i];
        const MPI_Count elements = part->count * part->length;
        part_bounds(part, &bounds, &true_bounds);
        type_get(part->type);
        if (elements > 0 && part->type->alignment > made->alignment)
            made->alignment = part->type->alignment;
        if (elements > 0 && part->type->size > 0)
            made->moved =
                !made->moved || made->moved == part->type->moved ? part->type->moved : RCM_UINT8;
    }
    if (!made->moved) /* without elements it is still one of a collective's types */
        made->moved = n > 0 ? parts[0].type->moved : RCM_UINT8;
    made->nmoved = made->size / (MPI_Count)rcm_dtype_size(made->moved);
    made->lb = bounds.low;
    made->extent = bounds.high - bounds.low;
    made->true_lb = true_bounds.low;
    made->true_extent = true_bounds.high - true_bounds.low;
    made->is_dense = parts_are_dense(parts, n, &true_bounds, made->extent);
    made->nparts = n;
    made->parts = parts;
    atomic_init(&made->references, 1);
    *ret_type = made;
    return MPI_SUCCESS;
}

void type_resize(MPI_Datatype type, MPI_Count lb, MPI_Count extent) {
    type->lb = lb;
    type->extent = extent;
    type->is_dense = type->is_dense && extent == type->size;
}

void type_pad(MPI_Datatype type) {
    const MPI_Count behind = type->alignment ? type->extent % type->alignment : 0;
    if (behind > 0)
        type_resize(type, type->lb, type->extent + type->alignment - behind);
}

void type_inherit(MPI_Datatype type, const struct MPI_ABI_Datatype *from) {
    type->lb = from->lb;
    type->extent = from->extent;
    type->is_dense = from->is_dense;
    type->is_committed = from->is_committed;
    type->exact = from->exact;
    type->in_memory = from->in_memory;
    type->group = from->group;
}
