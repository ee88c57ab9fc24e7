/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs: calls of the driver that may block until the context's work is done, such as closing memory
 * of other processes. A stream of the program may wait for an operation of this device, so the
 * thread that runs operations must not make these calls. Nor may an operation that needs memory
 * wait for a release of other memory. So there are two threads, one for releases; each starts with
 * its first job.
 */
#include "device_internal.h"
#include "thread.h"

static struct rcmi_device_job *jobs_take(struct device_jobs *jobs) {
    pthread_mutex_lock(&jobs->lock);
    while (!jobs->first && !jobs->ends)
        (void)rcmi_condition_wait(&jobs->changed, &jobs->lock, RCMI_NEVER);
    struct rcmi_device_job *first = jobs->first;
    jobs->first = NULL;
    pthread_mutex_unlock(&jobs->lock);
    return first;
}

/* In any order: they do not depend on each other. */
static void jobs_run(struct rcmi_device *d, struct rcmi_device_job *job) {
    while (job) {
        struct rcmi_device_job *next = job->next;
        job->run(d, job);
        job = next;
    }
}

static void *jobs_main(void *arg) {
    struct device_jobs *jobs = arg;
    struct rcmi_device *d = jobs->device;
    struct rcmi_cuda_visit visit;
    struct rcmi_device_job *job;
    pthread_setname_np(pthread_self(), jobs == &d->releases ? "ringcomm-free" : "ringcomm-jobs");
    const bool entered = rcmi_cuda_enter(d->cuda, d->context, &visit) == RCMI_CUDA_SUCCESS;
    while ((job = jobs_take(jobs)) != NULL)
        jobs_run(d, job);
    if (entered)
        rcmi_cuda_leave(&visit);
    return NULL;
}

static bool jobs_start(struct rcmi_device *d, struct device_jobs *jobs) {
    static const struct rcmi_thread_kind kind = {.name = "the thread of a CUDA device's jobs",
                                                 .stack_kib = RCMI_STACK_DRIVER_KIB};
    if (jobs->running)
        return !jobs->ends;
    jobs->device = d;
    pthread_mutex_init(&jobs->lock, NULL);
    rcmi_condition_init(&jobs->changed);
    jobs->running = rcmi_thread_start(&kind, jobs_main, jobs, &jobs->thread) == RCM_OK;
    return jobs->running;
}

static void job_do(struct rcmi_device *d, struct rcmi_device_job *job) {
    struct device_jobs *jobs = job->releases ? &d->releases : &d->blocking;
    if (!jobs_start(d, jobs)) {
        job->run(d, job);
        return;
    }
    pthread_mutex_lock(&jobs->lock);
    job->next = jobs->first;
    jobs->first = job;
    pthread_cond_signal(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
}

void device_jobs_do(struct rcmi_device *d, struct rcmi_device_job *job) {
    while (job) {
        struct rcmi_device_job *next = job->next;
        job_do(d, job);
        job = next;
    }
}

static void jobs_end(struct device_jobs *jobs) {
    if (!jobs->running)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->ends = true;
    pthread_cond_signal(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
    pthread_join(jobs->thread, NULL);
    pthread_mutex_destroy(&jobs->lock);
    pthread_cond_destroy(&jobs->changed);
}

/* Jobs of the first thread may have queued releases meanwhile; job_do runs others here. */
void device_jobs_end(struct rcmi_device *d) {
    jobs_end(&d->blocking);
    device_jobs_do(d, atomic_exchange_explicit(&d->jobs, NULL, memory_order_acquire));
    jobs_end(&d->releases);
}
