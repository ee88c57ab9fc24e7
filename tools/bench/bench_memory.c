/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of ringcomm-bench: ordinary host memory, memory that ranks of a host map (--registered),
 * or memory of the rank's device (--memory cuda).
 *
 * Not here: access to their data (bench_shadow.c).
 */
#include "bench.h"

#include <stdlib.h>
#include "../common.h"

enum { MEMORY_PAGE = 4096 };

static void *memory_of_comm(const struct bench_rank *rank, size_t len) {
    const enum rcm_mem_kind kind = rank->options->cuda ? RCM_MEM_DEVICE : RCM_MEM_HOST;
    void *memory = NULL;
    if (rcm_mem_alloc_kind(rank->comm, kind, len, &memory) != RCM_OK)
        tool_error("rank %d: %s", rank->rank, rcm_last_error());
    return memory;
}

void *bench_buffer_get(const struct bench_rank *rank, size_t len) {
    if (rank->options->registered || rank->options->cuda)
        return memory_of_comm(rank, len);
    return aligned_alloc(MEMORY_PAGE, len);
}

/* rcm_destroy has already freed the communicator's memory. */
void bench_buffer_put(const struct bench_rank *rank, void *memory) {
    if (!rank->options->registered && !rank->options->cuda)
        free(memory);
}
