/* SPDX-License-Identifier: BSD-3-Clause */
/* See memory_kinds.h. */
#include "memory_kinds.h"
#include <dlfcn.h>
#include <stdio.h>

enum { INTO = 48 }; /* offset of a buffer in its allocation */

/* Driver functions that the library does not call. */
static void *found(const char *name) {
    void *function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
    if (!function)
        abort();
    return function;
}

static rcmi_cuda_address base(const struct buffer *buffer) {
    return (rcmi_cuda_address)(uintptr_t)buffer->at - INTO;
}

static int register_it(const struct bench *b, const struct buffer *buffer) {
    int errors = 0;
    CHECK(errors, rcm_mem_register(b->comm, buffer->at, buffer->bytes) == RCM_OK, "%s",
          rcm_last_error());
    return errors;
}

static int deregister(const struct bench *b, const struct buffer *buffer) {
    int errors = 0;
    CHECK(errors, rcm_mem_deregister(b->comm, buffer->at, buffer->bytes) == RCM_OK, "%s",
          rcm_last_error());
    return errors;
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
    const char *call;
    const rcmi_cuda_code code = mapped_new(b->cuda, b->device, buffer->bytes + INTO,
                                           RCMI_CUDA_HANDLE_DESCRIPTOR, &buffer->mapped, &call);
    buffer->at = (char *)(uintptr_t)buffer->mapped.at + INTO;
    return bench_driver(code, call);
}

static int alloc_mapped_registered(const struct bench *b, struct buffer *buffer) {
    return alloc_mapped(b, buffer) + register_it(b, buffer);
}

/* A buffer that lies in two or more pieces. */
static int alloc_pieces(const struct bench *b, struct buffer *buffer) {
    const char *call;
    const int n = (int)(buffer->bytes / MAPPED_PIECE) + 2;
    const rcmi_cuda_code code = mapped_new_pieces(
        b->cuda, b->device, n, RCMI_CUDA_HANDLE_DESCRIPTOR, &buffer->mapped, &call);
    buffer->at =
        (char *)(uintptr_t)buffer->mapped.at + MAPPED_PIECE - buffer->bytes / 2 / INTO * INTO;
    return bench_driver(code, call);
}

static int alloc_pieces_registered(const struct bench *b, struct buffer *buffer) {
    return alloc_pieces(b, buffer) + register_it(b, buffer);
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
    return alloc_plain(b, buffer) + register_it(b, buffer);
}

int buffer_new(const struct bench *b, enum memory memory, size_t bytes, struct buffer *ret) {
    static int (*const all[MEMORIES])(const struct bench *, struct buffer *) = {
        alloc_library,           alloc_plain,  alloc_registered,       alloc_pool, alloc_mapped,
        alloc_mapped_registered, alloc_pieces, alloc_pieces_registered};
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
    return deregister(b, buffer) + free_plain(b, buffer);
}

static int free_mapped(const struct bench *b, const struct buffer *buffer) {
    return bench_driver(mapped_free(b->cuda, &buffer->mapped), "cuMemUnmap and what follows");
}

static int free_mapped_registered(const struct bench *b, const struct buffer *buffer) {
    return deregister(b, buffer) + free_mapped(b, buffer);
}

int buffer_free(const struct bench *b, const struct buffer *buffer) {
    static int (*const all[MEMORIES])(const struct bench *, const struct buffer *) = {
        free_library,           free_plain,  free_registered,       free_plain, free_mapped,
        free_mapped_registered, free_mapped, free_mapped_registered};
    return all[buffer->memory](b, buffer);
}
