/* SPDX-License-Identifier: BSD-3-Clause */
/* See mapped_memory.h. */
#include "mapped_memory.h"
#include <dlfcn.h>
#include <stdlib.h>

enum { PINNED = 1, GRANULE = MAPPED_PIECE };

/* CUmemAllocationProp. The tests are built without its header. */
struct properties {
    int type, handle_types, location_type, device;
    void *none;
    unsigned char flags[8];
};

/* The library does not use cuMemCreate. */
static rcmi_cuda_code create(unsigned long long *allocation, size_t bytes,
                             const struct properties *properties) {
    rcmi_cuda_code (*call)(unsigned long long *, size_t, const struct properties *,
                           unsigned long long);
    *(void **)&call = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemCreate");
    if (!call)
        abort();
    return call(allocation, bytes, properties, 0);
}

static rcmi_cuda_code reserve(const struct rcmi_cuda *cuda, struct mapped *mapped,
                              const char **ret_call) {
    *ret_call = "cuMemAddressReserve";
    return cuda->cuMemAddressReserve(&mapped->at, mapped->bytes, 0, 0, 0);
}

static rcmi_cuda_code map(const struct rcmi_cuda *cuda, rcmi_cuda_address at, int device,
                          size_t bytes, int handle_types, unsigned long long *ret_allocation,
                          const char **ret_call) {
    const struct properties properties = {.type = PINNED,
                                          .handle_types = handle_types,
                                          .location_type = RCMI_CUDA_LOCATION_DEVICE,
                                          .device = device};
    const struct rcmi_cuda_access access = {RCMI_CUDA_LOCATION_DEVICE, device,
                                            RCMI_CUDA_ACCESS_READ_WRITE};
    *ret_call = "cuMemCreate";
    rcmi_cuda_code code = create(ret_allocation, bytes, &properties);
    if (code == RCMI_CUDA_SUCCESS) {
        *ret_call = "cuMemMap";
        code = cuda->cuMemMap(at, bytes, 0, *ret_allocation, 0);
    }
    if (code == RCMI_CUDA_SUCCESS) {
        *ret_call = "cuMemSetAccess";
        code = cuda->cuMemSetAccess(at, bytes, &access, 1);
    }
    return code;
}

rcmi_cuda_code mapped_new(const struct rcmi_cuda *cuda, int device, size_t bytes, int handle_types,
                          struct mapped *ret, const char **ret_call) {
    ret->bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    const rcmi_cuda_code code = reserve(cuda, ret, ret_call);
    return code == RCMI_CUDA_SUCCESS
               ? map(cuda, ret->at, device, ret->bytes, handle_types, &ret->allocation, ret_call)
               : code;
}

rcmi_cuda_code mapped_piece(const struct rcmi_cuda *cuda, int device, rcmi_cuda_address at,
                            int handle_types, const char **ret_call) {
    unsigned long long allocation;
    const rcmi_cuda_code code =
        map(cuda, at, device, MAPPED_PIECE, handle_types, &allocation, ret_call);
    return code == RCMI_CUDA_SUCCESS ? cuda->cuMemRelease(allocation) : code;
}

rcmi_cuda_code mapped_new_pieces(const struct rcmi_cuda *cuda, int device, int n, int handle_types,
                                 struct mapped *ret, const char **ret_call) {
    *ret = (struct mapped){.bytes = (size_t)n * MAPPED_PIECE};
    rcmi_cuda_code code = reserve(cuda, ret, ret_call);
    for (int i = 0; i < n && code == RCMI_CUDA_SUCCESS; i++)
        code =
            mapped_piece(cuda, device, ret->at + (size_t)i * MAPPED_PIECE, handle_types, ret_call);
    return code;
}

rcmi_cuda_code mapped_free(const struct rcmi_cuda *cuda, const struct mapped *mapped) {
    rcmi_cuda_code code = cuda->cuMemUnmap(mapped->at, mapped->bytes);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuMemAddressFree(mapped->at, mapped->bytes);
    return code == RCMI_CUDA_SUCCESS && mapped->allocation ? cuda->cuMemRelease(mapped->allocation)
                                                           : code;
}
