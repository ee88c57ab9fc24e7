/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines, as the emulator plays them, and which plane carries device memory between ranks of one
 * host there. */
#ifndef TEST_CUDA_EMULATED_MACHINES_H
#define TEST_CUDA_EMULATED_MACHINES_H

#include <stdbool.h>
#include <stddef.h>

enum plane {
    PLANE_DEVICE, /* ranks read each other's device memory */
    PLANE_PINNED, /* slots are pinned host memory */
    PLANE_EITHER, /* not said */
};

struct situation {
    const char *name, *transport;
    int ranks, hosts; /* 0: as it is */
    bool threads;
    enum plane plane;
    const char *environment; /* "NAME=value NAME=value" */
    const char *each;        /* the same, of a rank: %d is its number modulo the devices, and a
                                second one that of the next device */
    int devices;
};

extern const struct situation situations_plain[], situations_threads[], situations_hostile[];
extern const size_t situations_plain_count, situations_threads_count, situations_hostile_count;

/* In the process that starts the ranks, and in a rank before rcm_init. The emulator's settings of
 * the situation before are gone. */
void situation_enter(const struct situation *s);
void situation_enter_rank(const struct situation *s, int rank);

#endif
