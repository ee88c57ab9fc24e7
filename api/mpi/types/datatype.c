/* SPDX-License-Identifier: BSD-3-Clause */
/* See datatype.h: names, and buffers of types. */
#include "datatype.h"
#include <stdlib.h>
#include <string.h>
#include "attributes.h"
#include "device_memory.h"
#include "faces.h"
#include "leaks.h"

int type_refuse(struct form *form, MPI_Datatype handle) {
    if (is_predefined(handle) && handle != MPI_DATATYPE_NULL)
        return form_error(form, MPI_ERR_TYPE, "the datatype 0x%zx is none of this library",
                          (size_t)(uintptr_t)handle);
    return form_error(form, MPI_ERR_TYPE, "the datatype is %s",
                      handle == MPI_DATATYPE_NULL ? "MPI_DATATYPE_NULL"
                      : handle->references        ? "not committed. Call MPI_Type_commit"
                                                  : "one that was freed");
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
    contents_put(type->contents);
    free(type->parts);
    type->is_committed = false;
    handle_free(type);
    leaks_count(leak_datatype, -1);
}

int data_pack(struct form *form, const void *memory, MPI_Count n, struct MPI_ABI_Datatype *type,
              unsigned use, struct data *data) {
    const int code = memory_check_host(form, data->address,
                                       type->is_dense ? "this call needs a copy of it"
                                                      : "its datatype is not contiguous");
    if (code != MPI_SUCCESS)
        return code;
    data->packed = malloc(data->bytes + 1);
    if (!data->packed)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %zu packed bytes", data->bytes);
    if (use & DATA_IN)
        type_pack(type, memory, n, data->packed);
    type_get(type);
    data->type = type;
    data->memory = (void *)memory;
    data->n = n;
    data->address = data->packed;
    return MPI_SUCCESS;
}

int data_copy(struct form *form, const void *memory, MPI_Count n, MPI_Datatype handle,
              struct data *data) {
    struct MPI_ABI_Datatype *packs;
    const int code = data_find(form, memory, n, handle, data, &packs);
    return code == MPI_SUCCESS ? data_pack(form, memory, n, type_of(handle), DATA_IN, data) : code;
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
    struct MPI_ABI_Datatype *type;
    if (handle == MPI_DATATYPE_NULL)
        return name_get("MPI_DATATYPE_NULL", name, ret_length);
    const int code = type_find(form, handle, &type);
    if (code != MPI_SUCCESS)
        return code;
    const bool has_own = type->given_name[0] || !type->name;
    return name_get(has_own ? type->given_name : type->name, name, ret_length);
}

int face_Type_set_name(struct form *form, struct MPI_ABI_Datatype *type, const char *name) {
    name_set(type->given_name, name);
    return MPI_SUCCESS;
}
