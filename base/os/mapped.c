/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings of this process: see mapped.h. */
#include "mapped.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fd.h"

/* Without /proc: finds holes by msync, which changes nothing. */
static bool has_no_hole(uintptr_t from, uintptr_t to) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = from / page * page;
    return msync((void *)begin, to - begin, MS_ASYNC) == 0;
}

bool rcmi_memory_is_readable(const void *memory, size_t bytes) {
    const uintptr_t from = (uintptr_t)memory;
    uintptr_t next = from, begin, end;
    char *line = NULL, access;
    size_t room = 0;
    if (bytes > UINTPTR_MAX - from || !has_no_hole(from, from + bytes))
        return false;
    FILE *file = rcmi_fopen("/proc/self/maps");
    bool readable = true;
    while (file && readable && next < from + bytes && getline(&line, &room, file) > 0) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %c", &begin, &end, &access) != 3 || end <= next)
            continue;
        readable = begin <= next && access == 'r';
        next = end;
    }
    free(line);
    if (file)
        (void)fclose(file);
    return readable;
}
