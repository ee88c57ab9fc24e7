/* SPDX-License-Identifier: BSD-3-Clause */
/* See scratch.h. */
#include "scratch.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "device_share.h"
#include "error.h"

#define SCRATCH_LEAST ((size_t)4096)

struct rcmi_scratch {
    struct rcmi_device_job job; /* first */
    struct rcmi_scratch *next;  /* in the pool */
    const struct rcmi_mem_row *row;
    struct rcmi_device *device;
    size_t bytes;
    void (*wake)(void *arg);
    void *arg;
    pthread_mutex_t lock; /* guards all members below */
    void *memory;
    rcm_status status; /* RCM_AGAIN: allocation in progress */
    struct rcmi_error why;
    bool ended;
};

static void scratch_free(struct rcmi_scratch *scratch) {
    if (scratch->status == RCM_OK)
        scratch->row->free(scratch->device, scratch->memory);
    pthread_mutex_destroy(&scratch->lock);
    free(scratch);
}

static void free_run(struct rcmi_device *device, struct rcmi_device_job *job) {
    (void)device;
    scratch_free((struct rcmi_scratch *)job);
}

static void alloc_run(struct rcmi_device *device, struct rcmi_device_job *job) {
    struct rcmi_scratch *scratch = (struct rcmi_scratch *)job;
    void *memory = NULL;
    const rcm_status status = scratch->row->alloc(device, scratch->bytes, &memory);
    pthread_mutex_lock(&scratch->lock);
    scratch->memory = memory;
    scratch->status = status;
    if (status != RCM_OK)
        scratch->why = *rcmi_last_error();
    const bool ended = scratch->ended;
    if (!ended)
        scratch->wake(scratch->arg);
    pthread_mutex_unlock(&scratch->lock);
    if (ended)
        scratch_free(scratch);
}

static rcm_status scratch_begin(const struct rcmi_scratches *all, const struct rcmi_mem_row *row,
                                struct rcmi_device *device, size_t bytes,
                                struct rcmi_scratch **ret_scratch) {
    struct rcmi_scratch *scratch = malloc(sizeof *scratch);
    if (!scratch)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for scratch of %s", row->name);
    *scratch = (struct rcmi_scratch){.job.run = alloc_run,
                                     .row = row,
                                     .device = device,
                                     .bytes = bytes,
                                     .wake = all->wake,
                                     .arg = all->arg,
                                     .status = RCM_AGAIN};
    pthread_mutex_init(&scratch->lock, NULL);
    *ret_scratch = scratch;
    row->do_job(device, &scratch->job);
    return RCM_OK;
}

/* Takes suitable memory out of the pool; NULL: none. */
static struct rcmi_scratch *spare_take(struct rcmi_scratches *all, const struct rcmi_device *device,
                                       size_t bytes) {
    struct rcmi_scratch **at = &all->spare;
    while (*at && ((*at)->device != device || (*at)->bytes < bytes))
        at = &(*at)->next;
    struct rcmi_scratch *scratch = *at;
    if (scratch)
        *at = scratch->next;
    return scratch;
}

/* Rounds up to a power of two, so that growing requests allocate rarely, and the total is at most
 * twice the largest. */
static size_t scratch_round(size_t bytes) {
    size_t rounded = SCRATCH_LEAST;
    while (rounded < bytes && rounded <= SIZE_MAX / 2)
        rounded *= 2;
    return rounded < bytes ? bytes : rounded;
}

rcm_status rcmi_scratch_take(struct rcmi_scratches *all, const struct rcmi_mem_row *row,
                             struct rcmi_device *device, size_t bytes,
                             struct rcmi_scratch **ret_scratch, size_t *ret_bytes) {
    const size_t rounded = scratch_round(bytes);
    struct rcmi_scratch *scratch = spare_take(all, device, bytes);
    rcm_status status = RCM_OK;
    if (!scratch)
        status = scratch_begin(all, row, device, rounded, &scratch);
    if (status != RCM_OK)
        return status;
    *ret_bytes = scratch->bytes;
    *ret_scratch = scratch;
    return RCM_OK;
}

rcm_status rcmi_scratch_look(struct rcmi_scratch *scratch, void **ret_memory) {
    pthread_mutex_lock(&scratch->lock);
    const rcm_status status = scratch->status;
    pthread_mutex_unlock(&scratch->lock);
    if (status == RCM_OK)
        *ret_memory = scratch->memory; /* final from here on */
    else if (status != RCM_AGAIN)
        *rcmi_last_error() = scratch->why;
    return status;
}

static void scratch_end(struct rcmi_scratch *scratch) {
    pthread_mutex_lock(&scratch->lock);
    const bool allocating = scratch->status == RCM_AGAIN;
    scratch->ended = true;
    pthread_mutex_unlock(&scratch->lock);
    if (allocating)
        return; /* the job frees it */
    scratch->job.run = free_run;
    scratch->row->do_job(scratch->device, &scratch->job);
}

void rcmi_scratch_give(struct rcmi_scratches *all, struct rcmi_scratch *scratch) {
    void *memory;
    if (!scratch)
        return;
    if (rcmi_scratch_look(scratch, &memory) < 0) {
        scratch_end(scratch);
        return;
    }
    scratch->next = all->spare;
    all->spare = scratch;
}

void rcmi_scratches_end(struct rcmi_scratches *all) {
    while (all->spare) {
        struct rcmi_scratch *scratch = all->spare;
        all->spare = scratch->next;
        scratch_end(scratch);
    }
}
