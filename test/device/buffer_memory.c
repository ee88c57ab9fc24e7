/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers in the fake device's memory. See ../coll/buffer_memory.h. DEVICE_SEED: seed of its
 * delays. */
#include "buffer_memory.h"
#include <stdlib.h>
#include "../fakes/device/fake.h"

bool mem_is_host(void) {
    return false;
}

void mem_init(void) {
    const char *seed = getenv("DEVICE_SEED");
    fake_add(seed ? (unsigned)atoi(seed) : 1);
}

void *mem_new(size_t bytes) {
    return fake_alloc(bytes ? bytes : 1);
}

void mem_free(void *memory) {
    if (memory)
        fake_free(memory);
}

void *mem_view(const void *memory) {
    return fake_view(memory);
}

int mem_in_use(const void *memory, size_t bytes) {
    return fake_running(memory, bytes);
}
