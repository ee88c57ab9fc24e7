/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks are killed (SIGKILL) during operations on device memory, one after the other at drawn
 * moments, until two remain. Each time the others report the killed rank and go on with a
 * communicator of the remaining ranks, on the same buffers. At the end nothing leaks.
 *
 *     successive_kills TRANSPORT SEED RANKS
 *
 * With "shm,tcp" the ranks are on two simulated hosts.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "emulator_counts.h"
#include "leak_check.h"
#include "ranks.h"

/* EXPORTS: three buffers and the arena. Dead ranks may have had them open, so they stay allocated.
 * Each allocation of the emulator is a file. */
enum { RANKS = 32, COUNT = 9001, SECONDS = 200, LATEST_US = 6000, EXPORTS = 4 };

struct job {
    const char *transport, *url;
    unsigned seed;
    int n;
};

/* Three buffers on the device and one on the host. */
struct bench {
    int32_t *in, *out, *more;
    int32_t host[COUNT];
};

static unsigned draw(unsigned *state, unsigned below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* Waits for all works, also after a failure. */
static rcm_status await(rcm_work **works, int n, rcm_status status) {
    for (int i = 0; i < n; i++) {
        const rcm_status one = works[i] ? rcm_work_wait(works[i], -1) : RCM_OK;
        status = status == RCM_OK ? one : status;
        rcm_work_free(works[i]);
    }
    return status;
}

static rcm_status several(rcm_comm *comm, const struct bench *b) {
    rcm_work *works[3] = {NULL};
    const int p = rcm_size(comm), rank = rcm_rank(comm);
    rcm_status status =
        rcm_all_reduce(comm, b->in, b->out, COUNT, RCM_INT32, RCM_SUM, NULL, &works[0]);
    if (status == RCM_OK)
        status = rcm_isend(comm, b->in, COUNT, RCM_INT32, (rank + 1) % p, 1, &works[1]);
    if (status == RCM_OK)
        status = rcm_irecv(comm, b->more, COUNT, RCM_INT32, (rank + p - 1) % p, 1, &works[2]);
    return await(works, 3, status);
}

/* The sum of ones, copied to the host by a message to the own rank. */
static rcm_status sum(rcm_comm *comm, struct bench *b, int *errors) {
    const int me = rcm_rank(comm), p = rcm_size(comm);
    for (int i = 0; i < COUNT; i++)
        b->host[i] = 1;
    rcm_status status =
        rcm_sendrecv(comm, b->host, COUNT, me, 5, b->in, COUNT, me, 5, RCM_INT32, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_all_reduce(comm, b->in, b->out, COUNT, RCM_INT32, RCM_SUM, NULL, NULL);
    if (status == RCM_OK)
        status =
            rcm_sendrecv(comm, b->out, COUNT, me, 6, b->host, COUNT, me, 6, RCM_INT32, NULL, NULL);
    for (int i = 0; i < COUNT && status == RCM_OK && *errors == 0; i++)
        CHECK(*errors, b->host[i] == p, "of %d ranks element %d is %d", p, i, (int)b->host[i]);
    return status;
}

/* Runs operations until one fails. */
static rcm_status work_until_failure(rcm_comm *comm, struct bench *b, int *errors) {
    const int p = rcm_size(comm);
    rcm_status status = sum(comm, b, errors);
    for (int i = 0; status == RCM_OK; i++)
        status = i % 2 ? rcm_broadcast(comm, b->out, COUNT, RCM_INT32, i % p, NULL, NULL)
                       : several(comm, b);
    return status;
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static void *die_later(void *arg) {
    usleep(*(const useconds_t *)arg);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void begin_to_die(unsigned us) {
    static useconds_t wait;
    pthread_t thread;
    wait = us;
    if (pthread_create(&thread, NULL, die_later, &wait) != 0)
        abort();
}

/* One rank dies; *comm becomes the communicator of the others. */
static int one_less(rcm_comm **comm, struct bench *b, int victim) {
    struct rcm_error error = RCM_ERROR_INIT;
    rcm_comm *rest = NULL;
    int errors = 0;
    const rcm_status status = work_until_failure(*comm, b, &errors);
    (void)!rcm_comm_error(*comm, &error);
    CHECK(errors, status == RCM_ERR_PEER && error.origin == victim, "rank %d, not %d: %s: %s",
          error.origin, victim, rcm_status_name(status), error.text);
    CHECK(errors, rcm_comm_shrink(*comm, NULL, &rest) == RCM_OK, "%s", rcm_last_error());
    (void)!rcm_destroy(*comm);
    *comm = rest;
    return errors;
}

static int bench_begin(rcm_comm *comm, struct bench *b) {
    void *all[3] = {NULL};
    int errors = 0;
    for (int i = 0; i < 3; i++)
        CHECK(errors, rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, sizeof b->host, &all[i]) == RCM_OK,
              "%s", rcm_last_error());
    b->in = all[0];
    b->out = all[1];
    b->more = all[2];
    return errors;
}

static int bench_end(rcm_comm *comm, const struct bench *b) {
    int errors = 0;
    CHECK(errors,
          rcm_mem_free(comm, b->in) == RCM_OK && rcm_mem_free(comm, b->out) == RCM_OK &&
              rcm_mem_free(comm, b->more) == RCM_OK,
          "%s", rcm_last_error());
    return errors;
}

static int rank_run(rcm_comm *comm, unsigned seed) {
    static struct bench b;
    int errors = bench_begin(comm, &b);
    while (errors == 0 && comm && rcm_size(comm) > 2) {
        const int victim = (int)draw(&seed, (unsigned)rcm_size(comm));
        const unsigned us = draw(&seed, LATEST_US);
        if (rcm_rank(comm) == victim)
            begin_to_die(us);
        errors += one_less(&comm, &b, victim);
    }
    if (!comm)
        return errors;
    CHECK(errors, sum(comm, &b, &errors) == RCM_OK, "%s", rcm_last_error());
    errors += bench_end(comm, &b);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

static int rank_main(const struct job *job, int rank) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(SECONDS);
    const int files = count_open_files();
    options.url = job->url;
    options.rank = rank;
    options.world_size = job->n;
    options.transport = job->transport;
    options.timeout_ms = 60000;
    if (strchr(job->transport, ','))
        options.host_id = rank % 2 ? "h1" : "h0";
    int errors = 0;
    CHECK(errors, rcm_init(&options, &comm) == RCM_OK, "%s", rcm_last_error());
    if (errors == 0)
        errors = rank_run(comm, job->seed);
    const bool exports = strcmp(job->transport, "auto") == 0 && has_device_backend();
    return errors + leak_check(files + (exports ? EXPORTS : 0));
}

/* ---- All ranks ------------------------------------------------------------------------------- */

static int run(const struct job *job) {
    pid_t pids[RANKS];
    int errors = 0, killed = 0;
    fflush(stdout);
    for (int r = 0; r < job->n; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            exit(rank_main(job, r) ? 1 : 0);
    }
    for (int r = 0; r < job->n; r++) {
        int status;
        waitpid(pids[r], &status, 0);
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        errors += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    CHECK(errors, killed == job->n - 2, "%d ranks were killed, not %d", killed, job->n - 2);
    printf("%d of %d ranks were killed\n", killed, job->n);
    return errors;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/cuda-kill-XXXXXX", url[100], path[60];
    if (argc != 4 || !mkdtemp(folder))
        return 2;
    snprintf(path, sizeof path, "%s/store", folder);
    snprintf(url, sizeof url, "file://%s", path);
    setenv("RINGCOMM_SLOT_BYTES", "16384", 0);
    setenv("RINGCOMM_LOG", "error", 0);
    const struct job job = {argv[1], url, (unsigned)atoi(argv[2]), atoi(argv[3])};
    if (job.n < 3 || job.n > RANKS)
        return 2;
    const int errors = run(&job);
    unlink(path);
    rmdir(folder);
    return errors ? 1 : 0;
}
