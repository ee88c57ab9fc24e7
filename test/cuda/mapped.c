/* SPDX-License-Identifier: BSD-3-Clause */
/* See mapped.h. */
#include "mapped.h"
#include <dlfcn.h>
#include <stdlib.h>

enum { PINNED = 1, GRANULE = 2 << 20 };

/* CUmemAllocationProp, whose header is not needed to build the tests. */
struct properties {
    int type, handle_types, location_type, device;
    void *none;
    unsigned char flags[8];
};

/* The library does not call it. */
static rcmi_cuda_code create(unsigned long long *allocation, size_t bytes,
                             const struct properties *properties) {
    rcmi_cuda_code (*call)(unsigned long long *, size_t, const struct properties *,
                           unsigned long long);
    *(void **)&call = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemCreate");
    if (!call)
        abort();
    return call(allocation, bytes, properties, 0);
}

rcmi_cuda_code mapped_new(const struct rcmi_cuda *cuda, int device, size_t bytes, int handle_types,
                          struct mapped *ret, const char **ret_call) {
    const struct properties properties = {.type = PINNED,
                                          .handle_types = handle_types,
                                          .location_type = RCMI_CUDA_LOCATION_DEVICE,
                                          .device = device};
    const struct rcmi_cuda_access access = {RCMI_CUDA_LOCATION_DEVICE, device,
                                            RCMI_CUDA_ACCESS_READ_WRITE};
    ret->bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    *ret_call = "cuMemCreate";
    rcmi_cuda_code code = create(&ret->allocation, ret->bytes, &properties);
    if (code == RCMI_CUDA_SUCCESS) {
        *ret_call = "cuMemAddressReserve";
        code = cuda->cuMemAddressReserve(&ret->at, ret->bytes, 0, 0, 0);
    }
    if (code == RCMI_CUDA_SUCCESS) {
        *ret_call = "cuMemMap";
        code = cuda->cuMemMap(ret->at, ret->bytes, 0, ret->allocation, 0);
    }
    if (code == RCMI_CUDA_SUCCESS) {
        *ret_call = "cuMemSetAccess";
        code = cuda->cuMemSetAccess(ret->at, ret->bytes, &access, 1);
    }
    return code;
}

rcmi_cuda_code mapped_free(const struct rcmi_cuda *cuda, const struct mapped *mapped) {
    rcmi_cuda_code code = cuda->cuMemUnmap(mapped->at, mapped->bytes);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuMemAddressFree(mapped->at, mapped->bytes);
    return code == RCMI_CUDA_SUCCESS ? cuda->cuMemRelease(mapped->allocation) : code;
}
