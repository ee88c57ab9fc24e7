/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job: an operation of a group on one of its ranks, from the call to the check of its result. It
 * may run several times, as a persistent operation or by separate calls; the last run may stay
 * pending.
 */
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_ONE_IN = 6, RUNS_MAX = 3, LIMIT_MAX_MS = 3 };

struct job *job_new(struct driver *driver, const struct row *row, struct group *group) {
    struct job *job = calloc(1, sizeof *job);
    const struct episode *episode = driver->episode;
    if (!job)
        abort();
    job->driver = driver;
    job->row = row;
    job->group = group;
    job->uses = 1u << (group - driver->groups);
    job->step = driver->step;
    job->what = draw_of(episode->options->seed, episode->number, (uint64_t)driver->number + 1,
                        driver->step);
    job->how = draw_of_rank(&job->what, driver->rank);
    job->salt = draw_next(&job->what);
    job->runs =
        draw_one_in(&job->what, RUNS_ONE_IN) ? 1 + (int)draw_below(&job->what, RUNS_MAX) : 1;
    job->kind = memory_kind_draw(driver, &job->what);
    job->call = (struct rcm_call)RCM_CALL_INIT;
    return job;
}

static void job_free(struct job *job) {
    rcm_work_free(job->work);
    if (job->row->free)
        job->row->free(job);
    memories_put(job);
    bench_op_close(job->op);
    free(job->own);
    free(job);
}

rcm_work **job_work(struct job *job) {
    return job->blocking ? NULL : &job->work;
}

/* ---- A run ---------------------------------------------------------------------------------- */

static bool job_fine(const struct job *job) {
    return job->status == job->expected || (job->may_abort && job->status == RCM_ERR_ABORTED);
}

static void job_need_fine(struct job *job, const char *when) {
    NEED(job->driver, job_fine(job), "%s, %s: %s instead of %s: %s", job->name, when,
         rcm_status_name(job->status), rcm_status_name(job->expected), rcm_last_error());
}

/* An algorithm that does not support the shape is rejected on all ranks, before anything is
 * sent. */
static void job_call(struct job *job) {
    job->row->call(job);
    if (job->status != RCM_ERR_UNSUPPORTED || !job->call.algorithm)
        return;
    job->call.algorithm = NULL;
    job->row->call(job);
}

static void job_begin(struct job *job) {
    job->row->fill(job);
    memories_write(job);
    if (job->call.flags & RCM_PERSISTENT) {
        if (!job->work)
            job_call(job);
        if (job->work && job->status == RCM_OK) /* some ranks have no part in a message */
            job->status = rcm_work_start(job->work);
    } else {
        job_call(job);
    }
    if (job->status == RCM_PENDING && job->call.wait_ms && job->work)
        job->status = RCM_OK; /* and is pending */
    if (job->work)
        NEED(job->driver, job->status == RCM_OK, "%s, called: %s: %s", job->name,
             rcm_status_name(job->status), rcm_last_error());
}

static void job_check(struct job *job, const char *when) {
    job_need_fine(job, when);
    memories_read(job);
    if (job->status != RCM_ERR_ABORTED)
        job->row->check(job);
}

/* A run before the last one, until it has ended. */
static void job_run_once(struct job *job) {
    job_begin(job);
    if (job->work)
        job->status = rcm_work_wait(job->work, -1);
    job_check(job, "waited for");
    if (!(job->call.flags & RCM_PERSISTENT)) {
        rcm_work_free(job->work);
        job->work = NULL;
    }
    job->salt++;
}

static void job_draw_call(struct job *job) {
    job->wait_method = wait_method_draw(job);
    job->blocking = draw_one_in(&job->how, 3);
    memories_draw_order(job);
    if (job->runs > 1 && draw_one_in(&job->how, 2)) {
        job->call.flags |= RCM_PERSISTENT;
        job->blocking = false;
    } else if (!job->blocking && draw_one_in(&job->how, 6)) {
        job->call.wait_ms = 1 + draw_below(&job->how, LIMIT_MAX_MS);
    }
}

static void job_pend(struct job *job) {
    struct driver *driver = job->driver;
    if (draw_one_in(&job->how, 2)) { /* the work still uses its operator */
        bench_op_close(job->op);
        job->op = 0;
    }
    job->wait_method->begin(job);
    driver->pending[driver->npending++] = job;
}

void job_run(struct job *job) {
    job_draw_call(job);
    stress_doing(job->driver, "step %llu: %s (%s)", (unsigned long long)job->driver->step,
                 job->name, job->blocking ? "blocking" : job->wait_method->name);
    if (!job->row->whole) {
        for (; job->runs > 1; job->runs--)
            job_run_once(job);
        job_begin(job);
    } else {
        job->row->call(job);
    }
    if (job->work) {
        job_pend(job);
        return;
    }
    job_check(job, "called");
    job_free(job);
}

/* ---- The end of pending jobs ---------------------------------------------------------------- */

static void pending_remove(struct driver *driver, const struct job *job) {
    int i = 0;
    while (driver->pending[i] != job)
        i++;
    memmove(&driver->pending[i], &driver->pending[i + 1],
            (size_t)(driver->npending - i - 1) * sizeof driver->pending[0]);
    driver->npending--;
}

void job_end(struct job *job) {
    stress_doing(job->driver, "step %llu: ends %s by %s", (unsigned long long)job->driver->step,
                 job->name, job->wait_method->name);
    job->status = job->wait_method->finish(job);
    pending_remove(job->driver, job);
    job_check(job, job->wait_method->name);
    job_free(job);
}

static int pending_works(const struct driver *driver, rcm_work **ret_works) {
    for (int i = 0; i < driver->npending; i++)
        ret_works[i] = driver->pending[i]->work;
    return driver->npending;
}

static void reap_together(struct driver *driver) {
    rcm_work *works[PENDING_MAX];
    const int n = pending_works(driver, works);
    stress_doing(driver, "step %llu: waits for %d works", (unsigned long long)driver->step, n);
    (void)!rcm_work_wait_all(works, (size_t)n, -1); /* each status is checked below */
    while (driver->npending > 0)
        job_end(driver->pending[0]);
}

static void reap_any(struct driver *driver) {
    rcm_work *works[PENDING_MAX];
    const int n = pending_works(driver, works);
    size_t at = 0;
    stress_doing(driver, "step %llu: waits for one of %d works", (unsigned long long)driver->step,
                 n);
    rcm_status status = rcm_work_test_any(works, (size_t)n, &at);
    if (status == RCM_PENDING)
        status = rcm_work_wait_any(works, (size_t)n, -1, &at);
    NEED(driver, status != RCM_PENDING && at <= (size_t)n, "rcm_work_wait_any: %s, %zu of %d",
         rcm_status_name(status), at, n);
    if (at < (size_t)n)
        NEED(driver, rcm_work_status(works[at]) == status,
             "rcm_work_wait_any: %s of one that is %s", rcm_status_name(status),
             rcm_status_name(rcm_work_status(works[at])));
    job_end(driver->pending[at < (size_t)n ? at : 0]);
}

void jobs_reap(struct driver *driver, struct draw *how, bool all) {
    if (driver->npending == 0)
        return;
    const unsigned kind = draw_below(how, 4);
    if (kind == 0)
        reap_together(driver);
    else if (kind == 1)
        reap_any(driver);
    else
        job_end(driver->pending[draw_below(how, (unsigned)driver->npending)]);
    if (all)
        jobs_reap(driver, how, all);
}

static bool job_uses(const struct job *job, const struct group *group) {
    return job->uses >> (group - job->driver->groups) & 1;
}

void jobs_end_of(struct driver *driver, const struct group *group) {
    for (int i = driver->npending - 1; i >= 0; i--)
        if (job_uses(driver->pending[i], group))
            job_end(driver->pending[i]);
}

void jobs_need_no_queue(struct driver *driver, const struct group *group) {
    for (int i = 0; i < driver->npending; i++)
        if (job_uses(driver->pending[i], group) &&
            driver->pending[i]->wait_method == &wait_method_queue)
            driver->pending[i]->wait_method = &wait_method_wait;
}

void jobs_may_abort(struct driver *driver, const struct group *group) {
    for (int i = 0; i < driver->npending; i++)
        if (job_uses(driver->pending[i], group))
            driver->pending[i]->may_abort = true;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

unsigned char byte_at(uint64_t salt, size_t i) {
    return (unsigned char)((salt + i) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

void bytes_fill(uint64_t salt, void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)bytes)[i] = byte_at(salt, i);
}

bool bytes_right(uint64_t salt, const void *bytes, size_t n) {
    size_t i = 0;
    while (i < n && ((const unsigned char *)bytes)[i] == byte_at(salt, i))
        i++;
    return i == n;
}
