/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes, and buffers of them as ringcomm.h takes them. A derived type is a list of parts, each
 * of which repeats another type: nothing is stored for each element. */
#ifndef DATATYPE_H
#define DATATYPE_H

#include "form.h"

/* The types that an operator accepts. */
enum type_group {
    GROUP_NONE,
    GROUP_INTEGER,
    GROUP_FLOAT,
    GROUP_LOGICAL,
    GROUP_COMPLEX,
    GROUP_BYTE,
    GROUP_PAIR
};

/* `count` blocks of `length` elements of a type; block i begins at offset + i * stride. */
struct type_part {
    MPI_Count offset, count, stride, length;
    struct MPI_ABI_Datatype *type;
};

struct MPI_ABI_Datatype { /* of 256 bytes, so that those of handles are found by a shift */
    const char *name;
    MPI_Count size;     /* of MPI_Type_size, and of a packed element */
    MPI_Count external; /* of a basic type: bytes in external32; 0: not supported */
    MPI_Count lb, extent, true_lb, true_extent;
    rcm_dtype moved;  /* moves it: one type for each kind and size; RCM_UINT8 if kinds are mixed */
    rcm_dtype exact;  /* reduces it; 0: no type of ringcomm.h does */
    MPI_Count nmoved; /* elements of the first in one element */
    struct MPI_ABI_Datatype *in_memory; /* of a pair: one with its gaps, which is reduced */
    enum type_group group;
    unsigned char alignment; /* of its elements in a struct of C */
    bool is_dense;           /* packed elements are equal to those in memory */
    bool is_committed;
    atomic_int references;
    size_t nparts;
    struct type_part *parts;
    struct attribute *attributes;
    struct contents *contents; /* how a derived type was made; NULL: predefined */
    char given_name[MPI_MAX_OBJECT_NAME];
};

enum { TYPE_FIRST = 0x200, TYPE_LAST = 0x2ff }; /* handles of predefined types */
extern struct MPI_ABI_Datatype type_basics[TYPE_LAST - TYPE_FIRST + 1];

/* The error of a handle that is no type, or of a type that is not committed. */
RARE int type_refuse(struct form *form, MPI_Datatype handle);
/* The type of a handle; NULL, or an empty one that is not committed: there is none. */
static inline struct MPI_ABI_Datatype *type_of(MPI_Datatype handle) {
    const uintptr_t i = (uintptr_t)handle - TYPE_FIRST;
    if (i <= TYPE_LAST - TYPE_FIRST)
        return &type_basics[i];
    return is_predefined(handle) ? NULL : handle;
}
/* Finds a type by its handle. type_find_used also requires MPI_Type_commit. */
static inline int type_find(struct form *form, MPI_Datatype handle,
                            struct MPI_ABI_Datatype **ret_type) {
    struct MPI_ABI_Datatype *type = *ret_type = type_of(handle);
    const bool exists =
        type && (type->is_committed || (!is_predefined(handle) && handle->references));
    return exists ? MPI_SUCCESS : type_refuse(form, handle);
}
static inline int type_find_used(struct form *form, MPI_Datatype handle,
                                 struct MPI_ABI_Datatype **ret_type) {
    *ret_type = type_of(handle);
    return *ret_type && (*ret_type)->is_committed ? MPI_SUCCESS : type_refuse(form, handle);
}
MPI_Datatype type_handle(const struct MPI_ABI_Datatype *type);
void type_get(struct MPI_ABI_Datatype *type);
void type_put(struct MPI_ABI_Datatype *type);
/* Makes a type of n parts, whose types gain a reference. parts becomes the type's in every case. */
int type_make(struct form *form, struct type_part *parts, size_t n, MPI_Datatype *ret_type);

/* Gives a type other bounds. */
void type_resize(MPI_Datatype type, MPI_Count lb, MPI_Count extent);
/* Ends a type where the next element of an array of structs of C begins. */
void type_pad(MPI_Datatype type);
/* Gives a type of the same elements all other properties of `from`. */
void type_inherit(MPI_Datatype type, const struct MPI_ABI_Datatype *from);

/* Keeps the arguments of the constructor that made *type, for MPI_Type_get_contents. Layout has a
 * letter for each: i an int, c a count, a an address (both MPI_Count), t a datatype; I (const int
 * *), C, A (struct array), T (const MPI_Datatype *): arrays of n. An error of `code`, or one here,
 * is returned, and then there is no type. */
int type_keep(struct form *form, int code, MPI_Datatype *type, int combiner, MPI_Count n,
              const char *layout, ...);
void contents_put(struct contents *contents);

/* Copies n elements to or from packed bytes. Unpack stops after `bytes`. */
void type_pack(const struct MPI_ABI_Datatype *type, const void *memory, MPI_Count n, void *packed);
void type_unpack(const struct MPI_ABI_Datatype *type, void *memory, MPI_Count n, const void *packed,
                 size_t bytes);
/* No array of lengths, in a constructor whose blocks have one length. */
#define NO_ARRAY ((struct array){NULL, false})
/* Checks that n packed elements of `bytes` fit in `size` bytes from `position` on. */
int type_check_room(struct form *form, MPI_Count n, MPI_Count bytes, MPI_Count size,
                    MPI_Count position);

/* An address at an offset from a buffer, which may be MPI_BOTTOM. */
#define AT(base, offset) ((char *)((uintptr_t)(base) + (uintptr_t)(offset)))
/* A buffer of a call: what ringcomm.h gets, and what is left to do when the call is complete. */
struct data {
    void *address;
    size_t count; /* in elements of dtype */
    size_t bytes;
    rcm_dtype dtype;
    void *packed; /* NULL: address is the program's. Else also these: */
    void *memory;
    MPI_Count n;
    struct MPI_ABI_Datatype *type; /* with a reference */
};
enum { DATA_IN = 1, DATA_OUT = 2 };
/* No buffer: all that is read of one. */
static inline void data_clear(struct data *data) {
    data->address = data->packed = NULL;
    data->count = data->bytes = 0;
    data->dtype = RCM_UINT8;
}
/* Packs n elements at memory, or makes room for them. */
RARE int data_pack(struct form *form, const void *memory, MPI_Count n,
                   struct MPI_ABI_Datatype *type, unsigned use, struct data *data);
/* The error of a count that is negative or too large. */
RARE int data_refuse(struct form *form, MPI_Count n);
/* Binds n elements at memory. *ret_packs: the type, if they are left to pack; or NULL. */
static inline int data_find(struct form *form, const void *memory, MPI_Count n, MPI_Datatype handle,
                            struct data *ret_data, struct MPI_ABI_Datatype **ret_packs) {
    struct MPI_ABI_Datatype *type = type_of(handle);
    MPI_Count bytes;
    ret_data->packed = NULL;
    *ret_packs = NULL;
    if (!type || !type->is_committed)
        return type_refuse(form, handle);
    if (n < 0 || __builtin_mul_overflow(n, type->size, &bytes))
        return data_refuse(form, n);
    ret_data->address = AT(memory, type->true_lb);
    ret_data->count = (size_t)(n * type->nmoved);
    ret_data->bytes = (size_t)bytes;
    ret_data->dtype = type->moved;
    if (bytes > 0 && !type->is_dense)
        *ret_packs = type;
    return MPI_SUCCESS;
}
/* Binds n elements at memory. After an error there is nothing to release. */
static inline int data_bind(struct form *form, const void *memory, MPI_Count n, MPI_Datatype handle,
                            unsigned use, struct data *ret_data) {
    struct MPI_ABI_Datatype *packs;
    const int code = data_find(form, memory, n, handle, ret_data, &packs);
    return packs ? data_pack(form, memory, n, packs, use, ret_data) : code;
}
/* The same, but always packed. */
int data_copy(struct form *form, const void *memory, MPI_Count n, MPI_Datatype handle,
              struct data *data);
/* Block `i` of a buffer that has n elements in each block. */
static inline void *data_block(const struct data *data, int i, int nblocks) {
    return (char *)data->address + data->bytes / (size_t)nblocks * (size_t)i;
}
/* Unpacks up to `bytes` received bytes, if it is an output, and releases. */
void data_finish(struct data *data, bool is_output, size_t bytes);

#endif
