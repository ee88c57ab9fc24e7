/* SPDX-License-Identifier: BSD-3-Clause */
/* See datatype.h: the basic types, queries, and buffers of types. */
#include "datatype.h"
#include <complex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include "attributes.h"
#include "device_memory.h"
#include "faces.h"
#include "leaks.h"
#include "long_types.h"

#define OPAQUE(bytes) ((rcm_dtype)(RCM_OPAQUE + (int)(bytes)))
#define BASIC(NAME, SIZE, WIRE, MOVED, EXACT, GROUP)                                               \
    [(uintptr_t)MPI_##NAME - TYPE_FIRST] = {.name = "MPI_" #NAME,                                  \
                                            .size = (SIZE),                                        \
                                            .wire = (WIRE),                                        \
                                            .extent = (WIRE),                                      \
                                            .true_extent = (WIRE),                                 \
                                            .moved = (MOVED),                                      \
                                            .nmoved = 1,                                           \
                                            .exact = (rcm_dtype)(EXACT),                           \
                                            .group = GROUP_##GROUP,                                \
                                            .is_dense = true,                                      \
                                            .is_committed = true}
#define INTEGER(NAME, TYPE, BITS, SIGN)                                                            \
    BASIC(NAME, sizeof(TYPE), sizeof(TYPE), BITS == 8 ? RCM_UINT8 : RCM_INT##BITS,                 \
          RCM_##SIGN##BITS, INTEGER)
#define LOGICAL(NAME, BYTES, BITS)                                                                 \
    BASIC(NAME, BYTES, BYTES, BITS == 8 ? RCM_UINT8 : RCM_INT##BITS, RCM_INT##BITS, LOGICAL)
#define FLOATS(NAME, BYTES, DTYPE)     BASIC(NAME, BYTES, BYTES, RCM_##DTYPE, RCM_##DTYPE, FLOAT)
#define COMPLEXES(NAME, BYTES, DTYPE)  BASIC(NAME, BYTES, BYTES, RCM_##DTYPE, RCM_##DTYPE, COMPLEX)
#define PAIR(NAME, SIZE, DTYPE, BYTES) BASIC(NAME, SIZE, BYTES, RCM_##DTYPE, RCM_##DTYPE, PAIR)
#define BYTES(NAME, EXACT, GROUP)      BASIC(NAME, 1, 1, RCM_UINT8, EXACT, GROUP)
#define OTHER(NAME, SIZE, WIRE, GROUP) BASIC(NAME, SIZE, WIRE, OPAQUE(WIRE), 0, GROUP)

struct MPI_ABI_Datatype type_basics[TYPE_LAST - TYPE_FIRST + 1] = {
    INTEGER(AINT, MPI_Aint, 64, INT),
    INTEGER(COUNT, MPI_Count, 64, INT),
    INTEGER(OFFSET, MPI_Offset, 64, INT),
    BYTES(PACKED, 0, NONE),
    INTEGER(SHORT, short, 16, INT),
    INTEGER(INT, int, 32, INT),
    INTEGER(LONG, long, 64, INT),
    INTEGER(LONG_LONG, long long, 64, INT),
    INTEGER(UNSIGNED_SHORT, unsigned short, 16, UINT),
    INTEGER(UNSIGNED, unsigned, 32, UINT),
    INTEGER(UNSIGNED_LONG, unsigned long, 64, UINT),
    INTEGER(UNSIGNED_LONG_LONG, unsigned long long, 64, UINT),
    FLOATS(FLOAT, 4, FLOAT32),
    COMPLEXES(C_FLOAT_COMPLEX, 8, COMPLEX64),
    COMPLEXES(CXX_FLOAT_COMPLEX, 8, COMPLEX64),
    FLOATS(DOUBLE, 8, FLOAT64),
    COMPLEXES(C_DOUBLE_COMPLEX, 16, COMPLEX128),
    COMPLEXES(CXX_DOUBLE_COMPLEX, 16, COMPLEX128),
    LOGICAL(LOGICAL, 4, 32),
    INTEGER(INTEGER, int32_t, 32, INT),
    FLOATS(REAL, 4, FLOAT32),
    COMPLEXES(COMPLEX, 8, COMPLEX64),
    FLOATS(DOUBLE_PRECISION, 8, FLOAT64),
    COMPLEXES(DOUBLE_COMPLEX, 16, COMPLEX128),
    BYTES(CHARACTER, 0, NONE),
    OTHER(LONG_DOUBLE, sizeof(long double), sizeof(long double), FLOAT),
    OTHER(C_LONG_DOUBLE_COMPLEX, 2 * sizeof(long double), 2 * sizeof(long double), COMPLEX),
    OTHER(CXX_LONG_DOUBLE_COMPLEX, 2 * sizeof(long double), 2 * sizeof(long double), COMPLEX),
    PAIR(FLOAT_INT, 8, FLOAT32_INT32, 8),
    PAIR(DOUBLE_INT, 12, FLOAT64_INT32, 16),
    PAIR(LONG_INT, 12, INT64_INT32, 16),
    PAIR(2INT, 8, INT32_INT32, 8),
    OTHER(SHORT_INT, 6, sizeof(struct short_int), PAIR),
    OTHER(LONG_DOUBLE_INT, sizeof(long double) + sizeof(int), sizeof(struct long_double_int), PAIR),
    OTHER(2REAL, 8, 8, NONE),
    OTHER(2DOUBLE_PRECISION, 16, 16, NONE),
    PAIR(2INTEGER, 8, INT32_INT32, 8),
    BYTES(C_BOOL, RCM_BOOL, LOGICAL),
    BYTES(CXX_BOOL, RCM_BOOL, LOGICAL),
    BASIC(WCHAR, sizeof(wchar_t), sizeof(wchar_t), RCM_INT32, 0, NONE),
    INTEGER(INT8_T, int8_t, 8, INT),
    INTEGER(UINT8_T, uint8_t, 8, UINT),
    BYTES(CHAR, 0, NONE),
    INTEGER(SIGNED_CHAR, signed char, 8, INT),
    INTEGER(UNSIGNED_CHAR, unsigned char, 8, UINT),
    BYTES(BYTE, RCM_UINT8, BYTE),
    INTEGER(INT16_T, int16_t, 16, INT),
    INTEGER(UINT16_T, uint16_t, 16, UINT),
    INTEGER(INT32_T, int32_t, 32, INT),
    INTEGER(UINT32_T, uint32_t, 32, UINT),
    INTEGER(INT64_T, int64_t, 64, INT),
    INTEGER(UINT64_T, uint64_t, 64, UINT),
    LOGICAL(LOGICAL1, 1, 8),
    INTEGER(INTEGER1, int8_t, 8, INT),
    LOGICAL(LOGICAL2, 2, 16),
    INTEGER(INTEGER2, int16_t, 16, INT),
    FLOATS(REAL2, 2, FLOAT16),
    LOGICAL(LOGICAL4, 4, 32),
    INTEGER(INTEGER4, int32_t, 32, INT),
    FLOATS(REAL4, 4, FLOAT32),
    LOGICAL(LOGICAL8, 8, 64),
    INTEGER(INTEGER8, int64_t, 64, INT),
    FLOATS(REAL8, 8, FLOAT64),
    COMPLEXES(COMPLEX8, 8, COMPLEX64),
    COMPLEXES(COMPLEX16, 16, COMPLEX128),
};

int type_refuse(struct form *form, MPI_Datatype handle) {
    if (is_predefined(handle) && handle != MPI_DATATYPE_NULL)
        return form_error(form, MPI_ERR_TYPE, "the datatype 0x%zx is none of this library",
                          (size_t)(uintptr_t)handle);
    return form_error(form, MPI_ERR_TYPE,
                      handle == MPI_DATATYPE_NULL
                          ? "the datatype is MPI_DATATYPE_NULL"
                          : "the datatype is not committed. Call MPI_Type_commit");
}

MPI_Datatype type_handle(const struct MPI_ABI_Datatype *type) {
    const ptrdiff_t i = type - type_basics;
    if (type >= type_basics && type <= &type_basics[TYPE_LAST - TYPE_FIRST])
        return (MPI_Datatype)(uintptr_t)(TYPE_FIRST + i);
    return (MPI_Datatype)type;
}

void type_get(struct MPI_ABI_Datatype *type) {
    atomic_fetch_add(&type->references, 1);
}

void type_put(struct MPI_ABI_Datatype *type) {
    if (is_predefined(type_handle(type)) || atomic_fetch_sub(&type->references, 1) != 1)
        return;
    for (size_t i = 0; i < type->nparts; i++)
        type_put(type->parts[i].type);
    contents_free(type->contents);
    free(type->parts);
    free(type);
    leaks_count(leak_datatype, -1);
}

int data_pack(struct form *form, struct data *data, unsigned use) {
    const int code = memory_check_host(form, data->address, "its datatype is not contiguous");
    if (code != MPI_SUCCESS)
        return code;
    data->packed = malloc(data->bytes);
    if (!data->packed)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %zu packed bytes", data->bytes);
    if (use & DATA_IN)
        type_pack(data->type, data->memory, data->n, data->packed);
    type_get(data->type);
    data->address = data->packed;
    return MPI_SUCCESS;
}

int data_refuse(struct form *form, MPI_Count n) {
    return form_error(form, MPI_ERR_COUNT,
                      n < 0 ? "count is %lld" : "%lld elements are more than memory", (long long)n);
}

void data_finish(struct data *data, bool is_output, size_t bytes) {
    if (!data->packed)
        return;
    if (is_output)
        type_unpack(data->type, data->memory, data->n, data->packed,
                    bytes < data->bytes ? bytes : data->bytes);
    type_put(data->type);
    free(data->packed);
    data->packed = NULL;
}

int face_Type_commit(struct form *form, MPI_Datatype *handle) {
    struct MPI_ABI_Datatype *type;
    const int code = type_find(form, *handle, &type);
    if (code == MPI_SUCCESS)
        type->is_committed = true;
    return code;
}

int face_Type_free(struct form *form, MPI_Datatype *handle) {
    struct MPI_ABI_Datatype *type;
    int code = type_find(form, *handle, &type);
    if (code != MPI_SUCCESS)
        return code;
    if (type->name)
        return form_error(form, MPI_ERR_TYPE, "%s is predefined and cannot be freed", type->name);
    code = attributes_delete(owner_type(type));
    if (code != MPI_SUCCESS)
        return code;
    type_put(type);
    *handle = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

int face_Type_get_name(struct form *form, MPI_Datatype handle, char *name, int *ret_length) {
    struct MPI_ABI_Datatype *type, null = {.name = "MPI_DATATYPE_NULL"};
    const int code = handle == MPI_DATATYPE_NULL ? MPI_SUCCESS : type_find(form, handle, &type);
    if (code != MPI_SUCCESS)
        return code;
    if (handle == MPI_DATATYPE_NULL)
        type = &null;
    const char *text = type->given_name[0] || !type->name ? type->given_name : type->name;
    *ret_length = (int)strlen(text);
    memcpy(name, text, (size_t)*ret_length + 1);
    return MPI_SUCCESS;
}

int face_Type_set_name(struct form *form, struct MPI_ABI_Datatype *type, const char *name) {
    const size_t length = strnlen(name, sizeof type->given_name - 1);
    memcpy(type->given_name, name, length);
    type->given_name[length] = '\0';
    return MPI_SUCCESS;
}
