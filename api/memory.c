/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that ranks of one host can map. The node has it (transport/memory.c); here is what a user
 * can do wrong with it: above all free what an unfinished operation still uses.
 */
#include "comm.h"
#include <sched.h>
#include <stdio.h>

/* A block, and the first work found that uses it. */
struct search {
    uintptr_t begin, end;
    const struct rcm_work *work;
};

static bool search_touches(const struct search *search, const void *buffer, size_t bytes) {
    const uintptr_t from = (uintptr_t)buffer;
    return bytes > 0 && from < search->end && from + bytes > search->begin;
}

static bool work_visit(void *arg, struct rcm_work *work) {
    struct search *search = arg;
    const bool found =
        work->kind == RCMI_WORK_COLLECTIVE
            ? search_touches(search, work->bind.in.bytes, work->bind.in.len) ||
                  search_touches(search, work->bind.out.bytes, work->bind.out.len)
            : search_touches(search, work->transfer.mem.bytes, work->transfer.mem.len);
    if (found)
        search->work = work;
    return !found;
}

static void list_visit(struct search *search, struct rcm_work *work) {
    while (work && work_visit(search, work))
        work = work->next;
}

/* Looks as the driver, so that the lists stand still, and no blocking call is on its short way.
 * False: another one drives. */
static bool comm_search(rcm_comm *comm, struct search *search) {
    if (!rcmi_comm_try_drive(comm))
        return false;
    list_visit(search, comm->active);
    if (!search->work)
        rcmi_transfers_each(comm, work_visit, search);
    pthread_mutex_lock(&comm->submit_lock);
    if (!search->work)
        list_visit(search, comm->submitted);
    pthread_mutex_unlock(&comm->submit_lock);
    rcmi_comm_stop_driving(comm);
    return true;
}

/* Messages have no number. */
static rcm_status memory_in_use(const void *memory, const rcm_work *work) {
    char number[40] = "";
    if (work->sequence > 0)
        snprintf(number, sizeof(number), " (number %llu)", (unsigned long long)work->sequence);
    return rcmi_fail(RCM_ERR_INVALID, 0, "memory %p is in use by an unfinished %s%s", memory,
                     rcmi_work_name(work), number);
}

/* All communicators, until a work is found. False: of one it cannot be told now. */
static bool engine_search(struct rcmi_engine *engine, struct search *search) {
    for (rcm_comm *comm = engine->comms; comm && !search->work; comm = comm->next)
        if (!comm_search(comm, search))
            return false;
    return true;
}

/* Does not wait with the lock: who drives may be waiting for the loop thread, which wants it. */
static rcm_status memory_idle(struct rcmi_engine *engine, void *memory, size_t bytes) {
    struct search search = {.begin = (uintptr_t)memory, .end = (uintptr_t)memory + bytes};
    rcm_status status = RCM_AGAIN;
    while (status == RCM_AGAIN) {
        pthread_mutex_lock(&engine->lock);
        if (engine_search(engine, &search))
            status = search.work ? memory_in_use(memory, search.work) : RCM_OK;
        pthread_mutex_unlock(&engine->lock);
        if (status == RCM_AGAIN)
            sched_yield();
    }
    return status;
}

static rcm_status memory_usable(const rcm_comm *comm) {
    if (!comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "comm is NULL");
    if (comm->fork_generation != rcmi_fork_generation())
        return rcmi_comm_usable(comm);
    return RCM_OK;
}

rcm_status rcm_mem_alloc(rcm_comm *comm, size_t bytes, void **ret_memory) {
    rcm_status status = memory_usable(comm);
    if (status == RCM_OK && !ret_memory)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "ret_memory is NULL");
    if (status == RCM_OK && (bytes == 0 || bytes > SIZE_MAX / 4))
        status = rcmi_fail(RCM_ERR_INVALID, 0, "bytes is %zu, %s", bytes,
                           bytes == 0 ? "must be at least 1" : "more than memory can hold");
    return status == RCM_OK ? rcmi_node_memory_alloc(comm->engine->node, bytes, ret_memory)
                            : status;
}

rcm_status rcm_mem_free(rcm_comm *comm, void *memory) {
    if (!memory)
        return RCM_OK;
    rcm_status status = memory_usable(comm);
    if (status != RCM_OK)
        return status;
    const size_t bytes = rcmi_node_memory_size(comm->engine->node, memory);
    if (bytes > 0)
        status = memory_idle(comm->engine, memory, bytes);
    return status == RCM_OK ? rcmi_node_memory_free(comm->engine->node, memory) : status;
}
