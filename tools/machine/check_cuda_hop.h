/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures two ranks of one host, each with its device: the transport of device memory between
 * them, the time of a hop, and GB/s. A hop is a broadcast of two ranks in memory of
 * rcm_mem_alloc_kind; the ranks alternate as its root. The ranks are processes
 * (check_cuda_pairs.c).
 */
#ifndef RINGCOMM_TOOLS_CHECK_CUDA_HOP_H
#define RINGCOMM_TOOLS_CHECK_CUDA_HOP_H

#include <stdint.h>
#include "ringcomm.h"

enum { HOP_PATIENCE_MS = 45000 };

/* The result. Each rank writes its own `wrong`; rank 0 writes the rest. */
struct check_cuda_hop {
    char transport[32]; /* "shm+cuda_ipc"; without a "+" data goes through pinned slots */
    double us, gbps;    /* time of a small hop; one-way bandwidth of large hops */
    uint64_t wrong[2];  /* bytes */
};

/* Called by both ranks. After an error, which is in rcm_last_error, the communicator is not
 * destroyed: the process must end. */
rcm_status check_cuda_hop(int rank, int device, struct check_cuda_hop *hop);

#endif
