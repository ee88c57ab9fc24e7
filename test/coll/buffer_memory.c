/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers in host memory: see buffer_memory.h. */
#include "buffer_memory.h"
#include <stdlib.h>

bool mem_is_host(void) {
    return true;
}

void mem_init(void) {
}

void *mem_new(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        abort();
    return memory;
}

void mem_free(void *memory) {
    free(memory);
}

void *mem_view(const void *memory) {
    return (void *)memory;
}

int mem_in_use(const void *memory, size_t bytes) {
    (void)memory;
    (void)bytes;
    return 0;
}
