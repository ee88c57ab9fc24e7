/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers at any address, plain, registered or from rcm_mem_alloc, between guard bytes; on the host
 * or on the rank's device. The CPU does not access device buffers: each has a copy on the host, the
 * view, which is written to the device before each run and read back after it.
 */
#include "cuda_driver.h"
#include <stdlib.h>
#include <string.h>

enum {
    GUARD = 64,
    GUARD_BYTE = 0x5a,
    SHARED_ONE_IN = 5,
    REGISTERED_ONE_IN = 4,
    SHIFTED_ONE_IN = 3,
    SHIFT_MAX = 64,
    HOST_ONE_IN = 4
};

/* Alignments of types are kept; kernel tests cover the others. */
enum { ALIGN = 16 };

enum rcm_mem_kind memory_kind_draw(const struct driver *driver, struct draw *draw) {
    if (!driver->episode->options->cuda || draw_one_in(draw, HOST_ONE_IN))
        return RCM_MEM_HOST;
    return RCM_MEM_DEVICE;
}

/* ---- One ------------------------------------------------------------------------------------- */

/* With the guard bytes, wherever the buffer starts among them. */
static size_t length(const struct memory *memory) {
    return memory->bytes + 2 * GUARD + SHIFT_MAX;
}

static unsigned char *base_get(struct job *job, struct memory *memory) {
    struct driver *driver = job->driver;
    const size_t bytes = length(memory);
    void *base = NULL;
    memory->owner = draw_one_in(&job->how, SHARED_ONE_IN) ? driver->world : NULL;
    if (!memory->owner)
        base = memory->kind == RCM_MEM_DEVICE ? device_alloc(driver, bytes) : malloc(bytes);
    else if (rcm_mem_alloc_kind(memory->owner, memory->kind, bytes, &base) != RCM_OK)
        stress_fail(driver, "rcm_mem_alloc_kind of %zu bytes: %s", bytes, rcm_last_error());
    if (!base)
        abort();
    memory->registrar =
        !memory->owner && draw_one_in(&job->how, REGISTERED_ONE_IN) ? driver->world : NULL;
    if (memory->registrar && rcm_mem_register(memory->registrar, base, bytes) != RCM_OK)
        stress_fail(driver, "rcm_mem_register of %zu bytes: %s", bytes, rcm_last_error());
    return base;
}

static void base_put(struct driver *driver, const struct memory *memory) {
    if (memory->registrar &&
        rcm_mem_deregister(memory->registrar, memory->base, length(memory)) != RCM_OK)
        stress_fail(driver, "%s: rcm_mem_deregister: %s", driver->doing, rcm_last_error());
    if (memory->owner && rcm_mem_free(memory->owner, memory->base) != RCM_OK)
        stress_fail(driver, "%s: rcm_mem_free: %s", driver->doing, rcm_last_error());
    if (!memory->owner && memory->kind == RCM_MEM_DEVICE)
        device_free(driver, memory->base);
    else if (!memory->owner)
        free(memory->base);
}

void memory_get(struct job *job, enum rcm_mem_kind kind, size_t bytes, struct memory *ret_memory) {
    struct memory *memory = ret_memory;
    const size_t shift =
        draw_one_in(&job->how, SHIFTED_ONE_IN) ? draw_below(&job->how, SHIFT_MAX) : 0;
    const size_t before = GUARD + shift / ALIGN * ALIGN;
    memory->kind = kind;
    memory->bytes = bytes;
    memory->base = base_get(job, memory);
    memory->copy = kind == RCM_MEM_DEVICE ? malloc(length(memory)) : memory->base;
    if (!memory->copy)
        abort();
    memset(memory->copy, GUARD_BYTE, length(memory));
    memory->data = memory->base + before;
    memory->view = memory->copy + before;
    memory->next = job->memories;
    job->memories = memory;
}

static void memory_put(struct driver *driver, const struct memory *memory) {
    for (size_t i = 0; i < GUARD; i++)
        NEED(driver,
             memory->view[(ptrdiff_t)i - GUARD] == GUARD_BYTE &&
                 memory->view[memory->bytes + i] == GUARD_BYTE,
             "%s: guard bytes of a buffer of %zu bytes were overwritten", driver->doing,
             memory->bytes);
    base_put(driver, memory);
    if (memory->copy != memory->base)
        free(memory->copy);
}

/* ---- All buffers of a job -------------------------------------------------------------------- */

static bool has(const struct job *job, enum rcm_mem_kind kind) {
    for (const struct memory *memory = job->memories; memory; memory = memory->next)
        if (memory->kind == kind)
            return true;
    return false;
}

/* A stream can be passed only if no buffer is on the host. */
void memories_draw_order(struct job *job) {
    if (!has(job, RCM_MEM_DEVICE))
        return;
    const unsigned order = draw_below(&job->how, 3);
    if (order == 0)
        job->call.flags |= RCM_NO_STREAM;
    else if (order == 1 && !has(job, RCM_MEM_HOST))
        job->call.stream = job->driver->stream;
}

void memories_write(struct job *job) {
    if (!has(job, RCM_MEM_DEVICE))
        return;
    for (const struct memory *memory = job->memories; memory; memory = memory->next)
        if (memory->kind == RCM_MEM_DEVICE)
            device_write(job->driver, memory->base, memory->copy, length(memory), job->call.stream);
    if (job->call.flags & RCM_NO_STREAM)
        device_await(job->driver, job->call.stream);
}

/* A call without bytes of a buffer did not wait for the write of that buffer. */
void memories_read(struct job *job) {
    if (!has(job, RCM_MEM_DEVICE))
        return;
    device_await(job->driver, job->call.stream);
    for (const struct memory *memory = job->memories; memory; memory = memory->next)
        if (memory->kind == RCM_MEM_DEVICE)
            device_read(job->driver, memory->copy, memory->base, length(memory));
}

void memories_put(struct job *job) {
    for (; job->memories; job->memories = job->memories->next)
        memory_put(job->driver, job->memories);
}
