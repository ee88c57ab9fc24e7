/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory as programs get it: what of it another process may open, and how, differs. */
#ifndef TEST_CUDA_MEMORY_KINDS_H
#define TEST_CUDA_MEMORY_KINDS_H

#include "../stream_bench.h"
#include "../mapped_memory.h"

enum memory {
    MEMORY_LIBRARY,           /* rcm_mem_alloc_kind */
    MEMORY_PLAIN,             /* cuMemAlloc, in the middle of it */
    MEMORY_REGISTERED,        /* that, and rcm_mem_register */
    MEMORY_POOL,              /* cuMemAllocAsync: by no handle */
    MEMORY_MAPPED,            /* cuMemCreate */
    MEMORY_DESCRIPTOR,        /* that, and rcm_mem_register: by a descriptor */
    MEMORY_PIECES,            /* cuMemCreate of several allocations, which the buffer lies in */
    MEMORY_PIECES_REGISTERED, /* that, and rcm_mem_register: by no handle */
    MEMORIES
};
struct buffer {
    enum memory memory;
    size_t bytes;
    char *at;
    struct mapped mapped; /* of MEMORY_MAPPED and MEMORY_DESCRIPTOR */
};

/* In the context of the bench; errors. */
int buffer_new(const struct bench *b, enum memory memory, size_t bytes, struct buffer *ret_buffer);
int buffer_free(const struct bench *b, const struct buffer *buffer);

#endif
