/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the ranks' buffers, of the kind that a test program is linked with: host memory
 * (buffer_memory.c), or the fake device's (../device/buffer_memory.c). */
#ifndef TEST_BUFFER_MEMORY_H
#define TEST_BUFFER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Is it host memory? What concerns no buffers is tested with that only. */
bool mem_is_host(void);
/* Once, before there are ranks. */
void mem_init(void);
/* Never NULL. */
void *mem_new(size_t bytes);
/* NULL is a no-op. */
void mem_free(void *memory);
/* Where the CPU may touch it. */
void *mem_view(const void *memory);
/* What still uses it, though its operation is complete: 0. */
int mem_in_use(const void *memory, size_t bytes);

#endif
