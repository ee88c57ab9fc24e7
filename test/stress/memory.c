/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers at any address, plain, registered or of rcm_mem_alloc, between bytes that must stay. */
#include "stress.h"
#include <stdlib.h>
#include <string.h>

enum {
    GUARD = 64,
    GUARD_BYTE = 0x5a,
    SHARED_ONE_IN = 5,
    REGISTERED_ONE_IN = 4,
    SHIFTED_ONE_IN = 3,
    SHIFT_MAX = 64
};

/* Alignments of types are kept; the kernels are tested with others elsewhere. */
enum { ALIGN = 16 };

static unsigned char *base_get(struct driver *driver, struct draw *how, size_t bytes,
                               struct memory *memory) {
    void *base = NULL;
    memory->owner = draw_one_in(how, SHARED_ONE_IN) ? driver->world : NULL;
    if (!memory->owner)
        base = malloc(bytes);
    else if (rcm_mem_alloc(memory->owner, bytes, &base) != RCM_OK)
        stress_fail(driver, "rcm_mem_alloc of %zu bytes: %s", bytes, rcm_last_error());
    if (!base)
        abort();
    memory->registrar =
        !memory->owner && draw_one_in(how, REGISTERED_ONE_IN) ? driver->world : NULL;
    if (memory->registrar && rcm_mem_register(memory->registrar, base, bytes) != RCM_OK)
        stress_fail(driver, "rcm_mem_register of %zu bytes: %s", bytes, rcm_last_error());
    return base;
}

void memory_get(struct job *job, size_t bytes, struct memory *ret_memory) {
    struct draw *how = &job->how;
    const size_t shift = draw_one_in(how, SHIFTED_ONE_IN) ? draw_below(how, SHIFT_MAX) : 0;
    ret_memory->bytes = bytes;
    ret_memory->base = base_get(job->driver, how, bytes + 2 * GUARD + SHIFT_MAX, ret_memory);
    ret_memory->data = ret_memory->base + GUARD + shift / ALIGN * ALIGN;
    memset(ret_memory->data - GUARD, GUARD_BYTE, GUARD);
    memset(ret_memory->data + bytes, GUARD_BYTE, GUARD);
    ret_memory->next = job->memories;
    job->memories = ret_memory;
}

static void memory_put(struct driver *driver, const struct memory *memory) {
    for (size_t i = 0; i < GUARD; i++)
        NEED(driver,
             memory->data[(ptrdiff_t)i - GUARD] == GUARD_BYTE &&
                 memory->data[memory->bytes + i] == GUARD_BYTE,
             "%s: bytes beside a buffer of %zu were written to", driver->doing, memory->bytes);
    if (memory->registrar && rcm_mem_deregister(memory->registrar, memory->base,
                                                memory->bytes + 2 * GUARD + SHIFT_MAX) != RCM_OK)
        stress_fail(driver, "%s: rcm_mem_deregister: %s", driver->doing, rcm_last_error());
    if (!memory->owner)
        free(memory->base);
    else if (rcm_mem_free(memory->owner, memory->base) != RCM_OK)
        stress_fail(driver, "%s: rcm_mem_free: %s", driver->doing, rcm_last_error());
}

void memories_put(struct job *job) {
    for (; job->memories; job->memories = job->memories->next)
        memory_put(job->driver, job->memories);
}
