/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeroed memory. */
#ifndef RCMI_ALLOC_H
#define RCMI_ALLOC_H

#include <stddef.h>

/* Zeroed memory that starts on a cache line. Free with free. NULL with the thread's error set. */
void *rcmi_zalloc(size_t bytes);
/* Zeroed memory for slots, of which most may never be used: the kernel gives each page with the
 * first write to it, however the program's allocator fills what it hands out, and gives no huge
 * ones. Undo with munmap. NULL with the thread's error set. */
void *rcmi_pages_map(size_t bytes);

#endif
