/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks of one host, each with its device: what carries device memory between them, how long a
 * hop takes, and GB/s. A hop is a broadcast of two ranks in memory of rcm_mem_alloc_kind; each rank
 * is the root of every second one. The ranks are processes of their own (check_cuda_pairs.c).
 */
#ifndef RINGCOMM_TOOLS_CHECK_CUDA_HOP_H
#define RINGCOMM_TOOLS_CHECK_CUDA_HOP_H

#include <stdint.h>
#include "ringcomm.h"

enum { HOP_PATIENCE_MS = 45000 };

/* Each rank writes its own `wrong`, and rank 0 the rest. */
struct check_cuda_hop {
    char transport[32]; /* "shm+cuda_ipc"; without a "+" it goes through pinned slots */
    double us, gbps;    /* of a small one; of large ones, one way */
    uint64_t wrong[2];  /* bytes */
};

/* In both of them, which end after an error: it leaves a sentence in rcm_last_error, and the
 * communicator. */
rcm_status check_cuda_hop(int rank, int device, struct check_cuda_hop *hop);

#endif
