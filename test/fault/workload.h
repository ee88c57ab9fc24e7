/* SPDX-License-Identifier: BSD-3-Clause */
/* A mix of operations with checked results: declarations of workload.c and workload_blocks.c, and
 * their interface for ranks. Iteration i depends on the seed only. */
#ifndef TEST_FAULT_WORKLOAD_H
#define TEST_FAULT_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "random.h"
#include "ringcomm.h"

struct workload {
    rcm_comm *comm;
    struct rcm_call call; /* with the deadline of every operation */
    int rank, n;
    uint64_t seed;
    unsigned char *send, *recv; /* WORKLOAD_BYTES each */
    char *problem;              /* 256 bytes */
};
#define WORKLOAD_BYTES ((size_t)1 << 21)

/* Iteration i, the same on all ranks; sets *ret_stop if one of them has `stop`. Wrong data are
 * described in `problem`. */
rcm_status workload_step(struct workload *w, uint64_t i, bool stop, bool *ret_stop);
/* One operation of a kind below WORKLOAD_KINDS; size is a measure of its data, at most 60000. */
rcm_status workload_do(struct workload *w, uint64_t kind, uint64_t i, size_t size);
#define WORKLOAD_KINDS 32
/* Small and large operations of every kind; those that move blocks with every algorithm that fits.
 * Returns the number that failed or had wrong data, and prints them on stderr. */
int workload_every(rcm_comm *comm);

/* ---- Internal ------------------------------------------------------------------------------- */

rcm_status workload_blocks(struct workload *w, uint64_t i, enum rcm_collective collective,
                           size_t count);
rcm_status workload_uneven(struct workload *w, uint64_t i, enum rcm_collective collective,
                           size_t count);
rcm_status workload_bytes(struct workload *w, uint64_t i, size_t bytes);

void workload_wrong(struct workload *w, const char *what, uint64_t i, size_t at);

/* Small enough that sums over all ranks are exact in every type. */
static inline int workload_value(int rank, uint64_t i, size_t at) {
    return (int)(((uint64_t)rank * 31 + i * 7 + at * 13) % 23);
}

/* Elements that are checked: the first ones, the last one, and some in between. */
static inline size_t workload_next(size_t at, size_t count) {
    const size_t next = at < 64 ? at + 1 : at + 61;
    return next >= count && at + 1 < count ? count - 1 : next;
}

#endif
