/* SPDX-License-Identifier: BSD-3-Clause */
/* --bind: finds the CPUs for each local rank, with hwloc. rank.c does the binding. */
#ifndef RUN_BIND_H
#define RUN_BIND_H

#include <sched.h>

/* One core: its CPUs (hardware threads) that the launcher may use. */
struct run_core {
    cpu_set_t *cpus; /* CPU_ALLOC */
    char name[128];  /* "core 1 (CPU 1, NUMA node 0)" */
};

/* In hwloc's logical order, so that neighbours share a cache, a socket or a NUMA node if possible.
 */
struct run_cores {
    struct run_core *core; /* core[0..n) */
    int n;                 /* 0: ranks run anywhere */
    size_t bytes;          /* of each set of CPUs */
};

/* Finds the cores of the calling thread's affinity mask. Returns NULL, or the reason why they are
 * unknown; then the list is empty. Undo with run_cores_free. */
const char *run_cores_find(struct run_cores *ret_cores);
void run_cores_free(struct run_cores *cores);

/* The core of a local rank; cores->n must be above 0. */
const struct run_core *run_cores_of(const struct run_cores *cores, int rank);

#endif
