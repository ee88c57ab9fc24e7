/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPU access to device buffers. The CPU writes and reads a shadow in host memory, which is copied
 * outside of all measured time. Host buffers need no shadow.
 *
 * Not here: the buffers (bench_memory.c). This file must not call the library's public API, because
 * the programs over MPI and Gloo (compare/) are also built from it.
 */
#include "bench.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include "../common.h"
#include "device.h"
#include "operation.h"

enum { SHADOW_PAGE = 4096 };

bool bench_shadow_open(struct bench_rank *rank, const void *buffer, size_t len) {
    enum rcmi_mem_kind kind;
    char number[16];
    int ordinal;
    if (!rank->options->cuda)
        return true;
    rank->shadow = aligned_alloc(SHADOW_PAGE, len);
    if (rank->shadow && rcmi_mem_kind_of(buffer, &kind, &ordinal) == RCM_OK) {
        snprintf(number, sizeof(number), "%d", ordinal);
        if (rcmi_device_open(number, 0, &rank->device) == RCM_OK)
            return true;
    }
    tool_error("rank %d: %s", rank->rank, rank->shadow ? rcm_last_error() : "out of memory");
    return false;
}

void bench_shadow_close(struct bench_rank *rank) {
    rcmi_device_close(rank->device);
    free(rank->shadow);
    rank->device = NULL;
    rank->shadow = NULL;
}

const char *bench_shadow_label(const struct bench_rank *rank) {
    return rcmi_device_facts(rank->device)->label;
}

void *bench_shadow(const struct bench_rank *rank, void *buffer) {
    return rank->options->cuda ? rank->shadow : buffer;
}

static void wake_none(void *arg) {
    (void)arg;
}

/* A failure ends this process, and so the whole job. */
static void shadow_copy(const struct bench_rank *rank, void *to, const void *from, size_t bytes) {
    struct rcmi_operations owner = {.device = &rank->device, .wake = wake_none};
    struct rcmi_operation copy = {.results = {to},
                                  .srcs = {from},
                                  .nresults = 1,
                                  .nsrcs = 1,
                                  .bytes = bytes,
                                  .dtype = RCM_UINT8,
                                  .kind = RCMI_MEM_DEVICE,
                                  .all = &owner};
    if (bytes == 0)
        return;
    rcm_status status = rcmi_operation_begin(&copy);
    while (!rcmi_operations_quiet(&owner))
        sched_yield();
    rcmi_operations_settle(&owner);
    if (status == RCM_OK)
        status = rcmi_operation_look(&copy);
    if (status == RCM_OK)
        return;
    tool_error("rank %d: %s", rank->rank, rcm_last_error());
    exit(TOOL_FAILED);
}

void bench_upload(const struct bench_rank *rank, void *buffer, size_t bytes) {
    if (rank->options->cuda)
        shadow_copy(rank, buffer, rank->shadow, bytes);
}

void bench_download(const struct bench_rank *rank, const void *buffer, size_t bytes) {
    if (rank->options->cuda)
        shadow_copy(rank, rank->shadow, buffer, bytes);
}
