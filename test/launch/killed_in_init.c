/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are killed in rcm_init while they meet through a file: the others' error names the
 * rank.
 *     killed_in_init points     after each kind of write, before another rank can have read it
 *     killed_in_init rounds N   rank 0 or 1 of three at a random moment, N times
 *
 * The expected error depends on what the victim has left in the file. Nothing: the rank is unknown,
 * and the deadline passes. If the others' processes started after the victim had joined, they
 * cannot distinguish it from a rank of an earlier job, and the error states that. Otherwise the
 * error is RCM_ERR_PEER, from rcm_init or later. Asserted times: "long before the deadline of 60 s"
 * where the death can be found, "not long after it" elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "ringcomm.h"

enum { RANKS = 3, AT_ONCE = 8, LATE_S = 20 };

static int errors;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            errors++;                                                                              \
        }                                                                                          \
    } while (0)

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void await(const _Atomic bool *flag) {
    while (!*flag)
        usleep(500);
}

/* ---- The victim ------------------------------------------------------------------------------ */

static const char *fatal; /* of this process: it dies after writing this key; NULL: none */

/* Replaces the library's pwrite64. */
ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) {
    const ssize_t done = syscall(SYS_pwrite64, fd, bytes, len, at);
    if (fatal && memmem(bytes, len, fatal, strlen(fatal)))
        raise(SIGKILL);
    return done;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* In memory shared with the test. */
struct outcome {
    int init, status; /* of rcm_init, and of the first call that failed */
    int origin;
    double seconds;
    char text[512];
};

struct shared {
    struct outcome outcome[RANKS];
    _Atomic bool go[RANKS]; /* may call rcm_init */
};

/* When the survivors begin. */
enum begin {
    TOGETHER, /* all at once */
    BEFORE,   /* their processes start before the victim joins, rcm_init comes after its end */
    AFTER,    /* their processes start after its end */
};

struct job {
    int victim;
    const char *fatal;
    enum begin begin;
    int delay_us, timeout_ms;
    char folder[40], path[60];
    struct shared *shared;
    pid_t pids[RANKS];
};

/* After rcm_init all ranks work until an operation fails. */
static void rank_work(const struct job *job, int rank, rcm_comm *comm) {
    struct outcome *outcome = &job->shared->outcome[rank];
    struct rcm_error error = RCM_ERROR_INIT;
    while (outcome->status == RCM_OK)
        outcome->status = rcm_barrier(comm, NULL, NULL);
    (void)!rcm_comm_error(comm, &error);
    outcome->origin = error.origin;
    snprintf(outcome->text, sizeof outcome->text, "%s", error.text);
    (void)!rcm_destroy(comm);
}

static void rank_run(const struct job *job, int rank) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct outcome *outcome = &job->shared->outcome[rank];
    char url[80];
    rcm_comm *comm = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    await(&job->shared->go[rank]);
    const double start = now(CLOCK_MONOTONIC);
    snprintf(url, sizeof url, "file://%s", job->path);
    fatal = rank == job->victim ? job->fatal : NULL;
    options.rank = rank;
    options.world_size = RANKS;
    options.url = url;
    options.timeout_ms = job->timeout_ms;
    outcome->init = outcome->status = rcm_init(&options, &comm);
    outcome->seconds = now(CLOCK_MONOTONIC) - start;
    snprintf(outcome->text, sizeof outcome->text, "%s", outcome->status ? rcm_last_error() : "");
    if (outcome->status == RCM_OK)
        rank_work(job, rank, comm);
    _exit(0);
}

static void rank_start(struct job *job, int rank) {
    fflush(NULL);
    job->pids[rank] = fork();
    if (job->pids[rank] == 0)
        rank_run(job, rank);
}

static void others_start(struct job *job) {
    for (int r = 0; r < RANKS; r++)
        if (r != job->victim)
            rank_start(job, r);
}

static void others_go(const struct job *job) {
    for (int r = 0; r < RANKS; r++)
        job->shared->go[r] = true;
}

/* Waits two ticks of the kernel's clock: start times before and after differ. */
static void ticks_pass(void) {
    const double end = now(CLOCK_BOOTTIME) + 2.0 / (double)sysconf(_SC_CLK_TCK);
    while (now(CLOCK_BOOTTIME) < end)
        usleep(1000);
}

static void job_make(struct job *job) {
    snprintf(job->folder, sizeof job->folder, "/tmp/ringcomm-killed-XXXXXX");
    if (!mkdtemp(job->folder))
        abort();
    snprintf(job->path, sizeof job->path, "%s/store", job->folder);
    job->shared =
        mmap(NULL, sizeof *job->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job->shared == MAP_FAILED)
        abort();
}

static void victim_wait(struct job *job) {
    waitpid(job->pids[job->victim], NULL, 0);
}

static void job_start(struct job *job) {
    job_make(job);
    if (job->begin != AFTER)
        others_start(job);
    if (job->begin == TOGETHER)
        others_go(job);
    ticks_pass();
    job->shared->go[job->victim] = true;
    rank_start(job, job->victim);
    if (job->begin == TOGETHER)
        return;
    victim_wait(job);
    if (job->begin == AFTER) {
        ticks_pass();
        others_start(job);
    }
    others_go(job);
}

/* ---- Expectations ---------------------------------------------------------------------------- */

/* Whether the victim has joined, according to the file. */
static bool victim_joined(const struct job *job) {
    char key[40];
    static char bytes[1 << 20];
    snprintf(key, sizeof key, "/member/%d", job->victim);
    const int fd = open(job->path, O_RDONLY | O_CLOEXEC);
    const ssize_t len = fd >= 0 ? read(fd, bytes, sizeof bytes) : 0;
    if (fd >= 0)
        close(fd);
    return len > 0 && memmem(bytes, (size_t)len, key, strlen(key));
}

static void check_peer(const struct job *job, int rank) {
    const struct outcome *outcome = &job->shared->outcome[rank];
    char who[40], pid[40];
    snprintf(who, sizeof who, "rank %d", job->victim);
    snprintf(pid, sizeof pid, "(pid %d on ", (int)job->pids[job->victim]);
    CHECK(outcome->status == RCM_ERR_PEER && strstr(outcome->text, who) &&
              strstr(outcome->text, pid),
          "rank %d, of which %s %s: %s %s", rank, who, pid,
          rcm_status_name((rcm_status)outcome->status), outcome->text);
    CHECK(outcome->init != RCM_OK || outcome->origin == job->victim, "rank %d: origin %d", rank,
          outcome->origin);
}

static void check_both(const struct job *job, int rank) {
    const struct outcome *outcome = &job->shared->outcome[rank];
    CHECK(outcome->status < 0 && strstr(outcome->text, job->path) &&
              strstr(outcome->text,
                     " ended before all ranks had joined, or it was of an earlier job"),
          "rank %d: %s %s", rank, rcm_status_name((rcm_status)outcome->status), outcome->text);
}

static void job_check(const struct job *job) {
    const bool joined = victim_joined(job);
    printf("rank %d dies behind %s, or after %d us; it has %sjoined\n", job->victim,
           job->fatal ? job->fatal : "nothing", job->delay_us, joined ? "" : "not ");
    for (int r = 0; r < RANKS; r++) {
        const struct outcome *outcome = &job->shared->outcome[r];
        if (r == job->victim)
            continue;
        printf("  rank %d after %.2f s: %s %s\n", r, outcome->seconds,
               rcm_status_name((rcm_status)outcome->status), outcome->text);
        CHECK(outcome->seconds < (joined ? 0 : job->timeout_ms / 1e3) + LATE_S,
              "rank %d came back after %.1f s", r, outcome->seconds);
        if (!joined)
            CHECK(outcome->status == RCM_ERR_TIMEOUT, "rank %d: %s", r, outcome->text);
        else if (job->begin == AFTER)
            check_both(job, r);
        else
            check_peer(job, r);
    }
}

static void job_finish(struct job *job) {
    for (int r = 0; r < RANKS; r++)
        waitpid(job->pids[r], NULL, 0);
    job_check(job);
    munmap(job->shared, sizeof *job->shared);
    unlink(job->path);
    CHECK(rmdir(job->folder) == 0, "something is left in %s", job->folder);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static int points(void) {
    static const struct job rows[] = {
        {.victim = 0, .fatal = "/member/0", .begin = TOGETHER},
        {.victim = 0, .fatal = "/1/job", .begin = TOGETHER},
        {.victim = 0, .fatal = "/1/rank/0", .begin = TOGETHER},
        {.victim = 0, .fatal = "/1/rank/arrived", .begin = TOGETHER},
        {.victim = 1, .fatal = "/member/1", .begin = TOGETHER},
        {.victim = 1, .fatal = "/1/rank/1", .begin = TOGETHER},
        {.victim = 1, .fatal = "/1/rank/arrived", .begin = TOGETHER},
        {.victim = 0, .fatal = "/member/0", .begin = BEFORE},
        {.victim = 0, .fatal = "/1/job", .begin = BEFORE},
        {.victim = 0, .fatal = "/1/rank/arrived", .begin = BEFORE},
        {.victim = 0, .fatal = "/member/0", .begin = AFTER},
        {.victim = 0, .fatal = "/1/job", .begin = AFTER},
    };
    enum { N = sizeof rows / sizeof rows[0] };
    struct job jobs[N];
    for (int i = 0; i < N; i++) {
        jobs[i] = rows[i];
        jobs[i].timeout_ms = 60000;
        job_start(&jobs[i]);
    }
    for (int i = 0; i < N; i++)
        job_finish(&jobs[i]);
    return errors;
}

/* All ranks enter rcm_init at once; the victim is killed at whatever point it has reached. */
static void round_start(struct job *job) {
    job_make(job);
    others_start(job);
    ticks_pass();
    rank_start(job, job->victim);
    others_go(job);
    usleep((useconds_t)job->delay_us);
    kill(job->pids[job->victim], SIGKILL);
}

static int rounds(int n) {
    struct job jobs[AT_ONCE];
    srand((unsigned)time(NULL) ^ (unsigned)getpid());
    for (int done = 0; done < n; done += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            jobs[i] =
                (struct job){.victim = i % 2, .timeout_ms = 4000, .delay_us = 500 + rand() % 15000};
            round_start(&jobs[i]);
        }
        for (int i = 0; i < AT_ONCE; i++)
            job_finish(&jobs[i]);
    }
    return errors;
}

int main(int argc, char **argv) {
    setenv("RINGCOMM_LOG", "error", 1);
    if (argc == 2 && strcmp(argv[1], "points") == 0)
        return points() > 0;
    if (argc == 3 && strcmp(argv[1], "rounds") == 0)
        return rounds(atoi(argv[2])) > 0;
    fprintf(stderr, "usage: killed points|rounds N\n");
    return 2;
}
