/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver that was found, and the process that uses it: see cuda.h. */
#include <stdatomic.h>
#include "cuda.h"
#include "fork.h"

static _Atomic(const struct rcmi_cuda *) found; /* from cuda_load.c, or a test */
static _Atomic uint32_t used_by; /* generation of the using process, or 0: base/fork.h */

const struct rcmi_cuda *rcmi_cuda_found(void) {
    return atomic_load_explicit(&found, memory_order_acquire);
}

void rcmi_cuda_find(const struct rcmi_cuda *cuda) {
    atomic_store_explicit(&found, cuda, memory_order_release);
}

void rcmi_cuda_use(void) {
    if (atomic_load_explicit(&used_by, memory_order_relaxed) == 0)
        atomic_store_explicit(&used_by, rcmi_fork_watch(), memory_order_relaxed);
}

bool rcmi_cuda_forked(void) {
    const uint32_t by = atomic_load_explicit(&used_by, memory_order_relaxed);
    return by != 0 && by != rcmi_fork_generation();
}
