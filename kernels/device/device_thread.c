/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread of a device: sets it up, runs queued work, takes it down. See device.h. */
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "clock.h"
#include "device_internal.h"
#include "error.h"
#include "thread.h"

/* The number of polls without a pause, then the pauses between two polls. */
enum { LOOKS = 200, SLEEP_MIN_NS = 20000, SLEEP_MAX_NS = 500000 };

/* ---- Queues ---------------------------------------------------------------------------------- */

static void queue_clear(struct device_queue *queue) {
    *queue = (struct device_queue){NULL, NULL};
    queue->end = &queue->first;
}

static void queue_put(struct device_queue *queue, struct rcmi_operation *o) {
    o->next = NULL;
    *queue->end = o;
    queue->end = &o->next;
}

/* Removes the operation that `at` points to. */
static void queue_take(struct device_queue *queue, struct rcmi_operation **at) {
    struct rcmi_operation *o = *at;
    if (queue->end == &o->next)
        queue->end = at;
    *at = o->next;
}

static bool run_jobs(struct rcmi_device *d) {
    struct rcmi_device_job *job = atomic_exchange_explicit(&d->jobs, NULL, memory_order_acquire);
    device_jobs_do(d, job);
    return job != NULL;
}

static void receive_one(struct rcmi_device *d, struct rcmi_operation *o) {
    if (o->nresults == 0 && !o->after)
        queue_put(&d->follows, o);
    else
        queue_put(o->after ? &d->later : &d->ready, o);
}

static bool receive(struct rcmi_device *d) {
    struct rcmi_operation *o = atomic_exchange_explicit(&d->incoming, NULL, memory_order_acquire);
    struct rcmi_operation *in_order = NULL;
    while (o) {
        struct rcmi_operation *next = o->next;
        o->next = in_order;
        in_order = o;
        o = next;
    }
    const bool any = in_order != NULL;
    while (in_order) {
        struct rcmi_operation *next = in_order->next;
        receive_one(d, in_order);
        in_order = next;
    }
    return any;
}

/* ---- Polling --------------------------------------------------------------------------------- */

static bool look_at_follows(struct rcmi_device *d) {
    bool any = false;
    struct rcmi_operation **at = &d->follows.first;
    while (*at) {
        struct rcmi_operation *o = *at, *const next = o->next;
        struct rcmi_operation **const end = d->follows.end;
        if (!device_follow_look(d, o)) {
            at = &o->next;
            continue;
        }
        /* The operation may be freed by now: uses only its address. */
        if (end == &o->next)
            d->follows.end = at;
        *at = next;
        any = true;
    }
    return any;
}

/* The awaited operation has ended: the waiting one begins, or fails as well. */
static void later_release(struct rcmi_device *d, struct rcmi_operation *o, rcm_status status,
                          int code) {
    if (status == RCM_OK)
        queue_put(&d->ready, o);
    else
        rcmi_operation_end(o, status, code ? code : DEVICE_CODE_DROPPED);
}

static bool look_at_later(struct rcmi_device *d) {
    bool any = false;
    struct rcmi_operation **at = &d->later.first;
    while (*at) {
        struct rcmi_operation *o = *at;
        int code;
        const rcm_status status = rcmi_operation_may_run(o, &code);
        if (status == RCM_PENDING) {
            at = &o->next;
            continue;
        }
        queue_take(&d->later, at);
        later_release(d, o, status, code);
        any = true;
    }
    return any;
}

static bool look_at_works(struct rcmi_device *d) {
    bool any = false;
    for (int i = 0; i < DEVICE_WORKS; i++) {
        struct device_work *work = &d->works[i];
        any |= device_work_look(d, work);
        struct rcmi_operation *o = d->ready.first;
        if (work->operation || !o)
            continue;
        queue_take(&d->ready, &d->ready.first);
        device_work_begin(d, work, o);
        any = true;
    }
    return any;
}

static bool is_busy(const struct rcmi_device *d) {
    bool busy = d->follows.first || d->later.first || d->ready.first;
    for (int i = 0; i < DEVICE_WORKS; i++)
        busy |= d->works[i].operation != NULL;
    return busy;
}

/* Sleeps until something is queued; while the device is busy, for ns. */
static void thread_sleep(struct rcmi_device *d, int64_t ns) {
    const rcmi_deadline deadline = ns ? rcmi_now_ns() + ns : RCMI_NEVER;
    const uint32_t seen = rcmi_doorbell_arm(&d->doorbell, RCMI_DOORBELL_FUTEX_ONE);
    if (!atomic_load_explicit(&d->incoming, memory_order_relaxed) &&
        !atomic_load_explicit(&d->jobs, memory_order_relaxed) &&
        !atomic_load_explicit(&d->ends, memory_order_relaxed))
        rcmi_doorbell_sleep(&d->doorbell, seen, deadline);
    rcmi_doorbell_disarm(&d->doorbell, RCMI_DOORBELL_FUTEX_ONE);
}

/* idle: polls since anything changed. */
static void thread_pause(struct rcmi_device *d, int idle) {
    if (!is_busy(d)) {
        thread_sleep(d, 0);
    } else if (idle < LOOKS) {
        sched_yield();
    } else {
        const int64_t ns = (int64_t)SLEEP_MIN_NS * (idle - LOOKS + 1);
        thread_sleep(d, ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS);
    }
}

static bool thread_look(struct rcmi_device *d) {
    bool any = receive(d);
    any |= run_jobs(d);
    any |= look_at_follows(d);
    any |= look_at_later(d);
    any |= look_at_works(d);
    return any;
}

/* Runs until the users have gone, and with them their operations; jobs and followed streams may
 * remain. */
static void thread_run(struct rcmi_device *d) {
    for (int idle = 0; !atomic_load_explicit(&d->ends, memory_order_acquire);) {
        if (thread_look(d))
            idle = 0;
        else
            thread_pause(d, idle++);
    }
    (void)run_jobs(d); /* memory to be freed */
    device_jobs_end(d);
    (void)receive(d);
    while (d->follows.first) {
        struct rcmi_operation *o = d->follows.first;
        queue_take(&d->follows, &d->follows.first);
        device_follow_drop(d, o);
    }
}

/* ---- Setting up ------------------------------------------------------------------------------ */

/* Pages that this thread touches first from now on come from the node, or from elsewhere if it has
 * none left. A rejection by the kernel is no failure. */
static void prefer_node(int node) {
    unsigned long mask[16] = {0};
    const unsigned bits = 8 * sizeof mask[0];
    if (node < 0 || (unsigned)node >= bits * 16)
        return;
    mask[(unsigned)node / bits] = 1ul << (unsigned)node % bits;
    (void)syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, bits * 16ul);
}

static rcm_status set_up_streams(struct rcmi_device *d) {
    rcmi_cuda_code code = d->cuda->cuStreamCreate(&d->side, RCMI_CUDA_STREAM_NON_BLOCKING);
    for (int i = 0; i < DEVICE_STREAMS && code == RCMI_CUDA_SUCCESS; i++)
        code = d->cuda->cuStreamCreate(&d->streams[i], RCMI_CUDA_STREAM_NON_BLOCKING);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuStreamCreate");
}

static rcm_status set_up_works(struct rcmi_device *d) {
    rcmi_cuda_code code = RCMI_CUDA_SUCCESS;
    prefer_node(d->facts.numa);
    for (int i = 0; i < DEVICE_WORKS && code == RCMI_CUDA_SUCCESS; i++)
        code = device_work_make(d, &d->works[i], d->streams[i % DEVICE_STREAMS]);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "events and pinned slots");
}

static void take_down(struct rcmi_device *d) {
    device_kernels_unload(d->cuda, &d->kernels);
    for (int i = 0; i < DEVICE_WORKS; i++)
        device_work_free(d, &d->works[i]);
    for (int i = 0; i < DEVICE_STREAMS; i++)
        if (d->streams[i])
            (void)d->cuda->cuStreamDestroy(d->streams[i]);
    if (d->side)
        (void)d->cuda->cuStreamDestroy(d->side);
}

static void set_up_done(struct rcmi_device *d, rcm_status status) {
    pthread_mutex_lock(&d->lock);
    d->set_up = true;
    d->set_up_error = *rcmi_last_error();
    d->set_up_error.status = status;
    pthread_cond_signal(&d->set_up_changed);
    pthread_mutex_unlock(&d->lock);
}

/* Runs in the context, which stays current on this thread until it ends. */
static void thread_in_context(struct rcmi_device *d) {
    rcm_status status = set_up_streams(d);
    if (status == RCM_OK)
        status = set_up_works(d);
    if (status == RCM_OK)
        status = device_kernels_load(d->cuda, d->facts.driver, &d->kernels);
    set_up_done(d, status);
    if (status == RCM_OK)
        thread_run(d);
    take_down(d);
}

static void thread_retained(struct rcmi_device *d) {
    struct rcmi_cuda_visit visit;
    const rcmi_cuda_code code = rcmi_cuda_enter(d->cuda, d->context, &visit);
    if (code != RCMI_CUDA_SUCCESS) {
        set_up_done(d, rcmi_cuda_fail(code, "cuCtxPushCurrent"));
        return;
    }
    thread_in_context(d);
    rcmi_cuda_leave(&visit);
}

static void *thread_main(void *arg) {
    struct rcmi_device *d = arg;
    pthread_setname_np(pthread_self(), "ringcomm-device");
    const rcmi_cuda_code code = d->cuda->cuDevicePrimaryCtxRetain(&d->context, d->facts.ordinal);
    if (code != RCMI_CUDA_SUCCESS) {
        set_up_done(d, rcmi_cuda_fail(code, "cuDevicePrimaryCtxRetain"));
        return NULL;
    }
    thread_retained(d);
    (void)d->cuda->cuDevicePrimaryCtxRelease(d->facts.ordinal);
    pthread_mutex_lock(&d->lock);
    d->ended = true;
    pthread_cond_signal(&d->set_up_changed);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

/* Has the thread finished setting up, successfully or not? */
static bool set_up_await(struct rcmi_device *d) {
    const rcmi_deadline until = rcmi_deadline_in(DEVICE_SETUP_S * 1000);
    pthread_mutex_lock(&d->lock);
    while (!d->set_up && rcmi_condition_wait(&d->set_up_changed, &d->lock, until))
        ;
    const bool set_up = d->set_up;
    pthread_mutex_unlock(&d->lock);
    return set_up;
}

rcm_status device_thread_start(struct rcmi_device *d) {
    queue_clear(&d->follows);
    queue_clear(&d->ready);
    queue_clear(&d->later);
    static const struct rcmi_thread_kind kind = {.name = "the thread of a CUDA device",
                                                 .stack_kib = RCMI_STACK_DRIVER_KIB};
    const rcm_status status = rcmi_thread_start(&kind, thread_main, d, &d->thread);
    if (status != RCM_OK)
        return rcmi_fail_context("%s", d->facts.label);
    if (!set_up_await(d))
        return rcmi_fail(RCM_ERR_TIMEOUT, 0, "the CUDA driver did not set up %s in %d seconds",
                         d->facts.label, DEVICE_SETUP_S);
    if (d->set_up_error.status != RCM_OK) {
        pthread_join(d->thread, NULL);
        *rcmi_last_error() = d->set_up_error;
        return rcmi_fail_context("%s", d->facts.label);
    }
    return RCM_OK;
}

/* Is the thread done with the driver, so that joining it does not block? */
static bool end_await(struct rcmi_device *d) {
    const rcmi_deadline until = rcmi_deadline_in(DEVICE_STOP_S * 1000);
    pthread_mutex_lock(&d->lock);
    while (!d->ended && rcmi_condition_wait(&d->set_up_changed, &d->lock, until))
        ;
    const bool ended = d->ended;
    pthread_mutex_unlock(&d->lock);
    return ended;
}

bool device_thread_stop(struct rcmi_device *d) {
    atomic_store_explicit(&d->ends, true, memory_order_release);
    rcmi_doorbell_ring(&d->doorbell, -1);
    return end_await(d) && pthread_join(d->thread, NULL) == 0;
}
