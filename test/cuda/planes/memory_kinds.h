/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory as programs get it. The kinds differ in whether and how another process can open
 * them. */
#ifndef TEST_CUDA_MEMORY_KINDS_H
#define TEST_CUDA_MEMORY_KINDS_H

#include "../stream_bench.h"
#include "../mapped_memory.h"

enum memory {
    MEMORY_LIBRARY,           /* rcm_mem_alloc_kind */
    MEMORY_PLAIN,             /* cuMemAlloc, the middle of it */
    MEMORY_REGISTERED,        /* the same, and rcm_mem_register */
    MEMORY_POOL,              /* cuMemAllocAsync: no handle */
    MEMORY_MAPPED,            /* cuMemCreate */
    MEMORY_DESCRIPTOR,        /* the same, and rcm_mem_register: by a descriptor */
    MEMORY_PIECES,            /* several allocations of cuMemCreate that contain the buffer */
    MEMORY_PIECES_REGISTERED, /* the same, and rcm_mem_register: no handle */
    MEMORIES
};
struct buffer {
    enum memory memory;
    size_t bytes;
    char *at;
    struct mapped mapped; /* of memory of cuMemCreate */
};

/* Called in the bench's context. Return the number of errors. */
int buffer_new(const struct bench *b, enum memory memory, size_t bytes, struct buffer *ret_buffer);
int buffer_free(const struct bench *b, const struct buffer *buffer);

#endif
