/* SPDX-License-Identifier: BSD-3-Clause */
/* See leaks.h. */
#include "leaks.h"
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 256 };

const char leak_comm[] = "communicators", leak_datatype[] = "datatypes", leak_group[] = "groups";
const char leak_errhandler[] = "error handlers", leak_op[] = "operators";

static struct count {
    _Atomic(const char *) name;
    atomic_long n;
} counts[NAMES];

static struct count *find(const char *name) {
    for (size_t i = (uintptr_t)name / 8; i < (uintptr_t)name / 8 + NAMES; i++) {
        struct count *count = &counts[i % NAMES];
        const char *free_name = NULL;
        if (atomic_load(&count->name) == name ||
            atomic_compare_exchange_strong(&count->name, &free_name, name) || free_name == name)
            return count;
    }
    return &counts[0];
}

void leaks_count(const char *name, int change) {
    atomic_fetch_add(&find(name)->n, change);
}

void leaks_report(void) {
    const char *level = getenv("RINGCOMM_LOG");
    if (!level || (strcmp(level, "info") != 0 && strcmp(level, "debug") != 0))
        return;
    for (size_t i = 0; i < NAMES; i++) {
        const char *name = atomic_load(&counts[i].name);
        const long n = atomic_load(&counts[i].n);
        if (n > 0)
            fprintf(stderr, "ringcomm: MPI_Finalize: %ld %s%s were not %s\n", n,
                    strncmp(name, "MPI_", 4) == 0 ? "requests of " : "", name,
                    strncmp(name, "MPI_", 4) == 0 ? "completed or freed" : "freed");
    }
}
