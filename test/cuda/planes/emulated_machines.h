/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines that the emulator provides, and the plane that carries device memory there between ranks
 * of one host. */
#ifndef TEST_CUDA_EMULATED_MACHINES_H
#define TEST_CUDA_EMULATED_MACHINES_H

#include <stdbool.h>
#include <stddef.h>

enum plane {
    PLANE_DEVICE, /* ranks read each other's device memory */
    PLANE_PINNED, /* slots are pinned host memory */
    PLANE_EITHER, /* either is allowed */
};

struct machine {
    const char *name, *transport;
    int ranks, hosts; /* hosts: number of simulated ones; 0: none */
    bool threads;
    enum plane plane;
    const char *environment; /* "NAME=value NAME=value" */
    const char *each;        /* the same per rank: the first %d is its device, a second one the
                                next device */
    int devices;
};

extern const struct machine machines_plain[], machines_threads[], machines_hostile[];
extern const size_t machines_plain_count, machines_threads_count, machines_hostile_count;

/* Called in the process that starts the ranks, and in each rank before rcm_init. Unsets the
 * settings of the previous machine. */
void machine_enter(const struct machine *s);
void machine_enter_rank(const struct machine *s, int rank);

#endif
