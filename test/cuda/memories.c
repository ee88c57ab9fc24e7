/* SPDX-License-Identifier: BSD-3-Clause */
/* See memories.h. */
#include "memories.h"
#include <dlfcn.h>
#include <stdio.h>

enum { INTO = 48, GRANULE = 2 << 20 }; /* a buffer lies somewhere in its allocation */

/* CUmemAllocationProp, whose header is not needed to build the tests. */
struct properties {
    int type, handle_types, location_type, device;
    void *none;
    unsigned char flags[8];
};
enum { PINNED = 1 };

/* What the library does not call of the driver. */
static void *found(const char *name) {
    void *function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
    if (!function)
        abort();
    return function;
}

static size_t whole(const struct buffer *buffer) {
    return (buffer->bytes + INTO + GRANULE - 1) / GRANULE * GRANULE;
}

static rcmi_cuda_address base(const struct buffer *buffer) {
    return (rcmi_cuda_address)(uintptr_t)buffer->at - INTO;
}

static int alloc_plain(const struct bench *b, struct buffer *buffer) {
    rcmi_cuda_address at = 0;
    const int errors = bench_driver(b->cuda->cuMemAlloc(&at, buffer->bytes + INTO), "cuMemAlloc");
    buffer->at = (char *)(uintptr_t)at + INTO;
    return errors;
}

static int alloc_pool(const struct bench *b, struct buffer *buffer) {
    int (*alloc)(rcmi_cuda_address *, size_t, struct rcmi_cuda_stream *);
    rcmi_cuda_address at = 0;
    *(void **)&alloc = found("cuMemAllocAsync");
    const int errors = bench_driver(alloc(&at, buffer->bytes + INTO, b->side), "cuMemAllocAsync");
    buffer->at = (char *)(uintptr_t)at + INTO;
    return errors;
}

static int alloc_mapped(const struct bench *b, struct buffer *buffer) {
    int (*create)(unsigned long long *, size_t, const struct properties *, unsigned long long);
    const struct properties prop = {.type = PINNED,
                                    .handle_types = RCMI_CUDA_HANDLE_DESCRIPTOR,
                                    .location_type = RCMI_CUDA_LOCATION_DEVICE,
                                    .device = b->device};
    const struct rcmi_cuda_access access = {RCMI_CUDA_LOCATION_DEVICE, b->device,
                                            RCMI_CUDA_ACCESS_READ_WRITE};
    rcmi_cuda_address at = 0;
    *(void **)&create = found("cuMemCreate");
    int errors = bench_driver(create(&buffer->allocation, whole(buffer), &prop, 0), "cuMemCreate");
    errors += bench_driver(b->cuda->cuMemAddressReserve(&at, whole(buffer), 0, 0, 0), "reserve");
    errors += bench_driver(b->cuda->cuMemMap(at, whole(buffer), 0, buffer->allocation, 0), "map");
    errors += bench_driver(b->cuda->cuMemSetAccess(at, whole(buffer), &access, 1), "access");
    buffer->at = (char *)(uintptr_t)at + INTO;
    return errors;
}

static int alloc_library(const struct bench *b, struct buffer *buffer) {
    void *at = NULL;
    int errors = 0;
    CHECK(errors, rcm_mem_alloc_kind(b->comm, RCM_MEM_DEVICE, buffer->bytes, &at) == RCM_OK, "%s",
          rcm_last_error());
    buffer->at = at;
    return errors;
}

static int alloc_registered(const struct bench *b, struct buffer *buffer) {
    int errors = alloc_plain(b, buffer);
    CHECK(errors, rcm_mem_register(b->comm, buffer->at, buffer->bytes) == RCM_OK, "%s",
          rcm_last_error());
    return errors;
}

int buffer_new(const struct bench *b, enum memory memory, size_t bytes, struct buffer *ret) {
    static int (*const all[MEMORIES])(const struct bench *, struct buffer *) = {
        alloc_library, alloc_plain, alloc_registered, alloc_pool, alloc_mapped};
    *ret = (struct buffer){.memory = memory, .bytes = bytes};
    return all[memory](b, ret);
}

static int free_library(const struct bench *b, const struct buffer *buffer) {
    int errors = 0;
    CHECK(errors, rcm_mem_free(b->comm, buffer->at) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

static int free_plain(const struct bench *b, const struct buffer *buffer) {
    return bench_driver(b->cuda->cuMemFree(base(buffer)), "cuMemFree");
}

static int free_registered(const struct bench *b, const struct buffer *buffer) {
    int errors = 0;
    CHECK(errors, rcm_mem_deregister(b->comm, buffer->at, buffer->bytes) == RCM_OK, "%s",
          rcm_last_error());
    return errors + free_plain(b, buffer);
}

static int free_mapped(const struct bench *b, const struct buffer *buffer) {
    int errors = bench_driver(b->cuda->cuMemUnmap(base(buffer), whole(buffer)), "cuMemUnmap");
    errors += bench_driver(b->cuda->cuMemAddressFree(base(buffer), whole(buffer)), "free");
    return errors + bench_driver(b->cuda->cuMemRelease(buffer->allocation), "cuMemRelease");
}

int buffer_free(const struct bench *b, const struct buffer *buffer) {
    static int (*const all[MEMORIES])(const struct bench *, const struct buffer *) = {
        free_library, free_plain, free_registered, free_plain, free_mapped};
    return all[buffer->memory](b, buffer);
}
