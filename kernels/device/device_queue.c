/* SPDX-License-Identifier: BSD-3-Clause */
/* Submission from any thread to the thread of a device: see device.h. */
#include <stdatomic.h>
#include "device_internal.h"

/* Release: publishes what the operation names. */
void device_submit(struct rcmi_device *d, struct rcmi_operation *o) {
    struct rcmi_operation *last = atomic_load_explicit(&d->incoming, memory_order_relaxed);
    do
        o->next = last;
    while (!atomic_compare_exchange_weak_explicit(&d->incoming, &last, o, memory_order_release,
                                                  memory_order_relaxed));
    rcmi_doorbell_ring(&d->doorbell, -1);
}

void rcmi_device_do(struct rcmi_device *d, struct rcmi_device_job *job) {
    struct rcmi_device_job *last = atomic_load_explicit(&d->jobs, memory_order_relaxed);
    do
        job->next = last;
    while (!atomic_compare_exchange_weak_explicit(&d->jobs, &last, job, memory_order_release,
                                                  memory_order_relaxed));
    rcmi_doorbell_ring(&d->doorbell, -1);
}
