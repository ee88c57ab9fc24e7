/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeroed memory. */
#ifndef RCMI_ALLOC_H
#define RCMI_ALLOC_H

#include <stddef.h>

/* Zeroed memory that starts on a cache line. Free with free. NULL with the thread's error set. */
void *rcmi_zalloc(size_t bytes);
/* Zeroed memory for slots, most of which may never be used. The kernel allocates each page at its
 * first write, independent of the program's allocator, and uses no huge pages. Free with munmap.
 * NULL with the thread's error set. */
void *rcmi_pages_map(size_t bytes);

#endif
