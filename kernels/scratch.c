/* SPDX-License-Identifier: BSD-3-Clause */
/* See scratch.h. */
#include "scratch.h"
#include <pthread.h>
#include <stdlib.h>
#include "device_share.h"
#include "error.h"

struct rcmi_scratch {
    struct rcmi_device_job job; /* first */
    const struct rcmi_mem_row *row;
    struct rcmi_device *device;
    size_t bytes;
    void (*wake)(void *arg);
    void *arg;
    pthread_mutex_t lock; /* of all below */
    void *memory;
    rcm_status status; /* RCM_AGAIN: the job is to allocate it */
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

rcm_status rcmi_scratch_begin(const struct rcmi_mem_row *row, struct rcmi_device *device,
                              size_t bytes, void (*wake)(void *arg), void *arg,
                              struct rcmi_scratch **ret_scratch) {
    struct rcmi_scratch *scratch = malloc(sizeof *scratch);
    if (!scratch)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for scratch of %s", row->name);
    *scratch = (struct rcmi_scratch){.job.run = alloc_run,
                                     .row = row,
                                     .device = device,
                                     .bytes = bytes,
                                     .wake = wake,
                                     .arg = arg,
                                     .status = RCM_AGAIN};
    pthread_mutex_init(&scratch->lock, NULL);
    *ret_scratch = scratch;
    row->do_job(device, &scratch->job);
    return RCM_OK;
}

rcm_status rcmi_scratch_look(struct rcmi_scratch *scratch, void **ret_memory) {
    pthread_mutex_lock(&scratch->lock);
    const rcm_status status = scratch->status;
    pthread_mutex_unlock(&scratch->lock);
    if (status == RCM_OK)
        *ret_memory = scratch->memory; /* final, as all of it from here on */
    else if (status != RCM_AGAIN)
        *rcmi_last_error() = scratch->why;
    return status;
}

void rcmi_scratch_end(struct rcmi_scratch *scratch) {
    if (!scratch)
        return;
    pthread_mutex_lock(&scratch->lock);
    const bool allocating = scratch->status == RCM_AGAIN;
    scratch->ended = true;
    pthread_mutex_unlock(&scratch->lock);
    if (allocating)
        return; /* the job frees it */
    scratch->job.run = free_run;
    scratch->row->do_job(scratch->device, &scratch->job);
}
