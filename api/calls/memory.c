/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that ranks of one host can map, and registered memory. The node owns both
 * (transport/channel/allocation.c, registration.c). This file rejects wrong use, above all the
 * release of memory that an unfinished operation uses.
 */
#include "error.h"
#include "engine.h"
#include "entry.h"
#include "failure.h"
#include "mapped.h"
#include "work.h"
#include <sched.h>
#include <stdio.h>

/* A block, and the first work found that uses it: "send", "all_reduce (number 3)"; "": none. */
struct search {
    uintptr_t begin, end;
    char found[64];
};

static bool search_touches(const struct search *search, const void *buffer, size_t bytes) {
    const uintptr_t from = (uintptr_t)buffer;
    return bytes > 0 && from < search->end && from + bytes > search->begin;
}

static bool search_touches_bind(const struct search *search, const struct rcmi_bind *bind) {
    const uint32_t n = bind->blocks ? bind->plan->in.n + bind->plan->out.n : 0;
    for (uint32_t i = 0; i < n; i++) {
        if (search_touches(search, bind->blocks[i].mem.bytes, bind->blocks[i].mem.len))
            return true;
    }
    return search_touches(search, bind->in.bytes, bind->in.len) ||
           search_touches(search, bind->out.bytes, bind->out.len);
}

static bool search_touches_work(const struct search *search, const struct rcm_work *work) {
    if (work->stages && work->stages->touches &&
        work->stages->touches(work->stages, search->begin, search->end))
        return true;
    return work->kind == RCMI_WORK_COLLECTIVE
               ? search_touches_bind(search, &work->bind)
               : search_touches(search, work->transfer.mem.bytes, work->transfer.mem.len);
}

/* Messages have no number. The text is made here, because the work may be freed after the visit. */
static bool search_visit(void *arg, struct rcm_work *work) {
    struct search *search = arg;
    if (search->found[0])
        return false;
    if (!search_touches_work(search, work))
        return true;
    const int n = snprintf(search->found, sizeof(search->found), "%s", rcmi_work_name(work));
    if (work->sequence > 0)
        snprintf(search->found + n, sizeof(search->found) - (size_t)n, " (number %llu)",
                 (unsigned long long)work->sequence);
    return false;
}

/* Does not wait with the engine's lock: a driver may be waiting for the loop thread, which takes
 * the lock. */
static rcm_status memory_idle(struct rcmi_engine *engine, void *memory, size_t bytes) {
    struct search search = {.begin = (uintptr_t)memory, .end = (uintptr_t)memory + bytes};
    const rcm_status status = rcmi_operator_check();
    if (status != RCM_OK)
        return status;
    while (!rcmi_engine_visit(engine, search_visit, &search) && !search.found[0])
        sched_yield();
    return search.found[0]
               ? rcmi_fail(RCM_ERR_INVALID, 0, "memory %p is in use by an unfinished %s", memory,
                           search.found)
               : RCM_OK;
}

static rcm_status memory_take(const rcm_comm *comm, struct rcmi_engine *engine,
                              enum rcm_mem_kind kind, size_t bytes, void **ret_memory) {
    if (kind == RCM_MEM_HOST)
        return rcmi_node_memory_alloc(engine->node, NULL, bytes, RCMI_NEVER, ret_memory);
    const rcmi_deadline deadline = rcmi_deadline_in(rcm_comm_timeout(comm));
    const rcm_status status = rcmi_rank_device_open(&engine->device, deadline);
    return status == RCM_OK ? rcmi_node_memory_alloc(engine->node, engine->device.device, bytes,
                                                     deadline, ret_memory)
                            : status;
}

static rcm_status alloc_call(rcm_comm *comm, enum rcm_mem_kind kind, size_t bytes,
                             void **ret_memory) {
    RCMI_ENTRY;
    struct rcmi_engine *engine = NULL;
    rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK && !ret_memory)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "ret_memory is NULL");
    if (status == RCM_OK && (bytes == 0 || bytes > SIZE_MAX / 4))
        status = rcmi_fail(RCM_ERR_INVALID, 0, "bytes is %zu, %s", bytes,
                           bytes == 0 ? "must be at least 1" : "more than memory can hold");
    if (status == RCM_OK && kind != RCM_MEM_HOST && kind != RCM_MEM_DEVICE)
        status = rcmi_fail(RCM_ERR_INVALID, 0,
                           "kind is %d, neither RCM_MEM_HOST nor RCM_MEM_DEVICE", (int)kind);
    return status == RCM_OK ? memory_take(comm, engine, kind, bytes, ret_memory) : status;
}

rcm_status rcm_mem_alloc_kind(rcm_comm *comm, enum rcm_mem_kind kind, size_t bytes,
                              void **ret_memory) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, alloc_call(comm, kind, bytes, ret_memory));
}

rcm_status rcm_mem_alloc(rcm_comm *comm, size_t bytes, void **ret_memory) {
    return rcm_mem_alloc_kind(comm, RCM_MEM_HOST, bytes, ret_memory);
}

static rcm_status free_call(rcm_comm *comm, void *memory) {
    RCMI_ENTRY;
    struct rcmi_engine *engine = NULL;
    if (!memory)
        return RCM_OK;
    rcm_status status = rcmi_comm_own(comm, &engine);
    if (status != RCM_OK)
        return status;
    const size_t bytes = rcmi_node_memory_size(engine->node, memory);
    if (bytes > 0)
        status = memory_idle(engine, memory, bytes);
    return status == RCM_OK ? rcmi_node_memory_free(engine->node, memory,
                                                    rcmi_deadline_in(rcm_comm_timeout(comm)))
                            : status;
}

rcm_status rcm_mem_free(rcm_comm *comm, void *memory) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, free_call(comm, memory));
}

/* ---- Memory of the program ------------------------------------------------------------------- */

/* Checks a caller's range: any but an empty one. */
static rcm_status range_check(const void *memory, size_t bytes) {
    if (!memory)
        return rcmi_fail(RCM_ERR_INVALID, 0, "memory is NULL");
    if (bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)memory)
        return rcmi_fail(RCM_ERR_INVALID, 0, "bytes is %zu, %s", bytes,
                         bytes == 0 ? "must be at least 1" : "more than can be read at memory");
    return RCM_OK;
}

/* Checks that the range from memory on has this length, as memory of one kind and device. The
 * driver checks the middle of a range of device memory. */
static rcm_status range_lies_behind(const void *memory, size_t bytes) {
    enum rcmi_mem_kind kind, last_kind;
    int device, last_device;
    rcm_status status = rcmi_mem_kind_of(memory, &kind, &device);
    if (status == RCM_OK)
        status = rcmi_mem_kind_of((const char *)memory + bytes - 1, &last_kind, &last_device);
    if (status != RCM_OK)
        return status;
    if (kind == last_kind && device == last_device &&
        (kind != RCMI_MEM_HOST || rcmi_memory_is_readable(memory, bytes)))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INVALID, 0, "bytes is %zu, more than can be read at memory (%p)",
                     bytes, memory);
}

/* Opens the rank's device: transports cannot use device memory before, and a registration is not
 * repeated later. */
static rcm_status device_prepare(const rcm_comm *comm, struct rcmi_engine *engine,
                                 const void *memory) {
    enum rcmi_mem_kind kind;
    int device;
    rcmi_device_notice_driver();
    const rcm_status status = rcmi_mem_kind_of(memory, &kind, &device);
    if (status != RCM_OK || kind == RCMI_MEM_HOST)
        return status;
    return rcmi_rank_device_open(&engine->device, rcmi_deadline_in(rcm_comm_timeout(comm)));
}

static rcm_status register_call(rcm_comm *comm, void *memory, size_t bytes) {
    RCMI_ENTRY;
    struct rcmi_engine *engine = NULL;
    rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK)
        status = range_check(memory, bytes);
    if (status == RCM_OK)
        status = device_prepare(comm, engine, memory);
    if (status == RCM_OK)
        status = range_lies_behind(memory, bytes);
    return status == RCM_OK ? rcmi_node_memory_register(engine->node, memory, bytes) : status;
}

rcm_status rcm_mem_register(rcm_comm *comm, void *memory, size_t bytes) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, register_call(comm, memory, bytes));
}

static rcm_status deregister_call(rcm_comm *comm, void *memory, size_t bytes) {
    RCMI_ENTRY;
    struct rcmi_engine *engine = NULL;
    rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK)
        status = range_check(memory, bytes);
    if (status == RCM_OK && rcmi_node_memory_uses(engine->node, memory, bytes) == 1)
        status = memory_idle(engine, memory, bytes);
    return status == RCM_OK ? rcmi_node_memory_deregister(engine->node, memory, bytes) : status;
}

rcm_status rcm_mem_deregister(rcm_comm *comm, void *memory, size_t bytes) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, deregister_call(comm, memory, bytes));
}
