/* SPDX-License-Identifier: BSD-3-Clause */
/* --bind: which CPUs each local rank may run on, by hwloc. Nothing here binds; rank.c does. */
#ifndef RUN_BIND_H
#define RUN_BIND_H

#include <sched.h>

/* One core, as far as the launcher may use it: the CPUs (hardware threads) of it. */
struct run_core {
    cpu_set_t *cpus; /* CPU_ALLOC */
    char name[128];  /* "core 1 (CPU 1, NUMA node 0)" */
};

/* In hwloc's logical order, so neighbours share a cache, a socket, a NUMA node as far as
 * possible. */
struct run_cores {
    struct run_core *core; /* core[0..n) */
    int n;                 /* 0: ranks run anywhere */
    size_t bytes;          /* of each set of CPUs */
};

/* The cores of the calling thread's affinity mask. NULL, or in a sentence why they are not known:
 * then there are none. Undo with run_cores_free. */
const char *run_cores_find(struct run_cores *ret_cores);
void run_cores_free(struct run_cores *cores);

/* Where a local rank runs; there must be cores. */
const struct run_core *run_cores_of(const struct run_cores *cores, int rank);

#endif
