/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of the job; see job.h. */
#include "job.h"
#include "../count.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ringcomm.h"

enum { SMALL = 100, BIG = 40000 };

/* ---- What a process has -------------------------------------------------------------------- */

enum { FDS_MAX = 256 };

static int count_shared_maps(void) {
    char line[512];
    FILE *file = fopen("/proc/self/maps", "re");
    int n = 0;
    while (file && fgets(line, sizeof line, file))
        n += strstr(line, "/memfd:") != NULL;
    if (file)
        fclose(file);
    return n;
}

static bool fd_is_open(int fd, char *name, size_t cap) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, name, cap - 1);
    name[len > 0 ? len : 0] = '\0';
    return len >= 0;
}

struct belongings {
    bool open[FDS_MAX];
    int threads, maps;
};

static void belongings_note(struct belongings *b) {
    char name[200];
    for (int fd = 0; fd < FDS_MAX; fd++)
        b->open[fd] = fd_is_open(fd, name, sizeof name);
    b->threads = count_entries("/proc/self/task");
    b->maps = count_shared_maps();
}

static void belongings_compare(const struct belongings *before, struct report *report) {
    char name[200];
    report->threads = count_threads_more(before->threads);
    report->maps = count_shared_maps() - before->maps;
    for (int fd = 0; fd < FDS_MAX; fd++) {
        if (before->open[fd] || !fd_is_open(fd, name, sizeof name))
            continue;
        size_t used = strlen(report->left);
        snprintf(report->left + used, sizeof report->left - used, " %d:%s", fd, name);
        report->fds++;
    }
}

/* ---- The calls ----------------------------------------------------------------------------- */

struct run {
    const struct job *job;
    int rank;
    rcm_comm *comm;
    struct report *report;
};

static float data[BIG], result[BIG];

static bool step(struct run *run, const char *stage, rcm_status status) {
    struct report *report = run->report;
    if (status == RCM_OK)
        return true;
    if (report->status == RCM_OK) {
        report->status = status;
        report->failed = stage;
        snprintf(report->text, sizeof report->text, "%s", rcm_last_error());
        struct rcm_error error = RCM_ERROR_INIT;
        if (run->comm && status != RCM_ERR_UNSUPPORTED) /* also legal on one rank alone */
            report->forgotten = rcm_comm_error(run->comm, &error) == RCM_OK;
    }
    return false;
}

/* Stores the rank's stage, then makes the call. */
#define STEP(run, name, call)                                                                      \
    (atomic_store_explicit(&(run)->report->stage, name, memory_order_relaxed),                     \
     step(run, name, call))

static bool run_init(struct run *run) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    options.rank = run->rank;
    options.world_size = run->job->nranks;
    options.url = run->job->url;
    options.transport = run->job->transport;
    options.secret = run->job->secret;
    options.timeout_ms = run->job->timeout_ms;
    return STEP(run, "init", rcm_init(&options, &run->comm));
}

static void expect(struct run *run, const float *got, int count, float value) {
    for (int i = 0; i < count; i++)
        run->report->wrong += got[i] != value;
}

static bool run_all_reduce(struct run *run, const char *stage, int count) {
    const int n = run->job->nranks;
    for (int i = 0; i < count; i++) {
        data[i] = (float)(run->rank + 1);
        result[i] = -1;
    }
    if (!STEP(run, stage,
              rcm_all_reduce(run->comm, data, result, (size_t)count, RCM_FLOAT32, RCM_SUM, NULL,
                             NULL)))
        return false;
    expect(run, result, count, (float)(n * (n + 1) / 2));
    return true;
}

static bool run_broadcast(struct run *run) {
    for (int i = 0; i < SMALL; i++)
        data[i] = run->rank == 1 ? 7 : -1;
    if (!STEP(run, "broadcast", rcm_broadcast(run->comm, data, SMALL, RCM_FLOAT32, 1, NULL, NULL)))
        return false;
    expect(run, data, SMALL, 7);
    return true;
}

/* A ring: sends to the next rank, receives from the previous one. */
static bool run_ring(struct run *run) {
    const int n = run->job->nranks, next = (run->rank + 1) % n, last = (run->rank + n - 1) % n;
    rcm_work *recv = NULL;
    for (int i = 0; i < BIG; i++) {
        data[i] = (float)run->rank;
        result[i] = -1;
    }
    if (!STEP(run, "irecv", rcm_irecv(run->comm, result, BIG, RCM_FLOAT32, last, 5, &recv)))
        return false;
    bool ok = STEP(run, "send", rcm_send(run->comm, data, BIG, RCM_FLOAT32, next, 5, NULL, NULL));
    ok = STEP(run, "recv", rcm_work_wait(recv, -1)) && ok;
    rcm_work_free(recv);
    if (ok)
        expect(run, result, BIG, (float)last);
    return ok;
}

static bool run_calls(struct run *run) {
    return run_init(run) &&
           STEP(run, "prepare",
                rcm_comm_prepare(run->comm, RCM_ALL_REDUCE, SMALL * sizeof(float), 0, NULL)) &&
           run_all_reduce(run, "all_reduce", SMALL) && run_all_reduce(run, "all_reduce", BIG) &&
           run_broadcast(run) && run_ring(run) &&
           STEP(run, "barrier", rcm_barrier(run->comm, NULL, NULL));
}

void job_run(const struct job *job, int rank, const struct failing_plan *plan,
             struct report *report) {
    struct run run = {.job = job, .rank = rank, .report = report};
    struct belongings before = {.threads = 0};
    belongings_note(&before);
    job->begin(job->arg, rank);
    failing_begin(plan);
    (void)run_calls(&run);
    rcm_comm *comm = run.comm;
    run.comm = NULL;
    (void)STEP(&run, "destroy", rcm_destroy(comm));
    failing_end();
    job->end();
    report->hits = failing_hits();
    report->blocks = failing_blocks();
    for (int i = 0; i < FAILING_FUNCTIONS; i++)
        report->calls[i] = failing_calls(i);
    belongings_compare(&before, report);
    report->done = true;
}
