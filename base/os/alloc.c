/* SPDX-License-Identifier: BSD-3-Clause */
#include "alloc.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "error.h"

enum { LINE = 64 }; /* bytes of a cache line */

void *rcmi_zalloc(size_t bytes) {
    size_t rounded = (bytes / LINE + 1) * LINE;
    void *memory = aligned_alloc(LINE, rounded);
    if (memory)
        memset(memory, 0, rounded);
    else
        (void)rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for %zu bytes", bytes);
    return memory;
}

void *rcmi_pages_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        (void)rcmi_fail(RCM_ERR_NOMEM, errno, "no memory for %zu bytes", bytes);
        return NULL;
    }
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE); /* best effort */
    return memory;
}
