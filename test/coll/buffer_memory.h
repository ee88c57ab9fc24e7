/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for the ranks' buffers. The linked file decides its kind: host memory (buffer_memory.c),
 * memory of the fake device (../device/buffer_memory.c), or of the emulated one
 * (../cuda/buffer_memory.c). */
#ifndef TEST_BUFFER_MEMORY_H
#define TEST_BUFFER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* True for host memory. Tests that need no buffers run with host memory only. */
bool mem_is_host(void);
/* Called once, before ranks start. */
void mem_init(void);
/* Never NULL. */
void *mem_new(size_t bytes);
/* NULL is a no-op. */
void mem_free(void *memory);
/* The address at which the CPU may access it. */
void *mem_view(const void *memory);
/* How many operations still use it. 0 is expected once the operation is complete. */
int mem_in_use(const void *memory, size_t bytes);

#endif
