/* SPDX-License-Identifier: BSD-3-Clause */
/* See jobs.h. */
#include "jobs.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int errors;

char url[100], path[60];
static char folder[40];

void file_new(void) {
    snprintf(folder, sizeof folder, "/tmp/ringcomm-jobs-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/store", folder);
    snprintf(url, sizeof url, "file://%s", path);
}

void file_remove(void) {
    unlink(path);
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
}

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void *shared_memory(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

/* Runs in a child, which must not outlive a killed test. */
static void die_with_parent(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static _Atomic bool *goes; /* of this process, if it is a late rank */

/* Replaces the library's send. */
ssize_t send(int fd, const void *bytes, size_t len, int flags) {
    while (goes && !*goes && memmem(bytes, len, "/rank/all", 9))
        usleep(1000);
    return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

static void rank_run(const struct job *job, int rank) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct outcome *outcome = &job->outcome[rank];
    rcm_comm *comm = NULL;
    float mine = (float)job->number;
    options.rank = rank;
    options.world_size = job->size;
    options.url = job->url;
    options.timeout_ms = job->timeout_ms ? job->timeout_ms : INIT_MS;
    if (job->log && (!freopen(job->log, "w", stderr) || setenv("RINGCOMM_LOG", "warn", 1) != 0))
        abort();
    if (job->no_files)
        options.transport = "shm";
    if (job->no_files && rank == 0 && setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}) != 0)
        abort();
    if (job->ports && rank == 1) {
        setenv("RINGCOMM_PORTS", job->ports, 1);
        setenv("RINGCOMM_TRANSPORT", "tcp", 1);
    }
    if (job->id && (job->forgets == 0 || job->forgets != rank))
        setenv("RINGCOMM_JOB_ID", job->id, 1);
    if (job->counts[rank] > 0) {
        char text[12];
        snprintf(text, sizeof text, "%d", job->counts[rank]);
        setenv("TORCHELASTIC_RESTART_COUNT", text, 1);
    }
    if (job->late > 0 && job->late == rank)
        goes = job->late_goes;
    if (job->turn && job->turns[rank] == 0)
        exit(0);
    while (job->turn && *job->turn < job->turns[rank])
        usleep(200);
    usleep((useconds_t)job->pause_us[rank]);
    const double start = now();
    do {
        outcome->tries++;
        outcome->status = rcm_init(&options, &comm);
    } while (job->again && outcome->status == RCM_ERR_TIMEOUT && now() - start < SOON_S);
    outcome->seconds = now() - start;
    snprintf(outcome->text, sizeof outcome->text, "%s", outcome->status ? rcm_last_error() : "");
    outcome->joined = true;
    while (comm && job->hold && *job->hold)
        usleep(1000);
    if (comm && rcm_all_reduce(comm, &mine, &outcome->sum, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL))
        outcome->sum = -1;
    if (job->orphan)
        _exit(0);
    outcome->destroyed = rcm_destroy(comm);
    exit(0);
}

/* Runs in the process that is the ranks' parent. */
static void ranks_fork(struct job *job, int first, int last) {
    const pid_t parent = getpid();
    for (int r = first; r <= last; r++) {
        job->pids[r] = fork();
        if (job->pids[r] == 0) {
            die_with_parent(parent);
            rank_run(job, r);
        }
    }
}

static void ranks_wait(struct job *job) {
    for (int r = 0; r < RANKS_MAX; r++)
        if (job->pids[r] > 0)
            waitpid(job->pids[r], NULL, 0);
    memset(job->pids, 0, sizeof job->pids);
}

void job_start_some(struct job *job, int first, int last) {
    fflush(NULL);
    if (!job->outcome)
        job->outcome = shared_memory(sizeof(struct outcome) * RANKS_MAX);
    memset(job->outcome, 0, sizeof(struct outcome) * RANKS_MAX);
    if (!job->apart) {
        ranks_fork(job, first, last);
        return;
    }
    const pid_t test = getpid();
    job->parent = fork();
    if (job->parent == 0) {
        die_with_parent(test);
        ranks_fork(job, first, last);
        ranks_wait(job);
        _exit(0);
    }
}

void job_start(struct job *job) {
    job_start_some(job, 0, job->size - 1);
}

void job_wait(struct job *job) {
    ranks_wait(job);
    if (job->parent > 0)
        waitpid(job->parent, NULL, 0);
    job->parent = 0;
}

void job_await_init(const struct job *job, int rank) {
    while (!job->outcome[rank].joined)
        usleep(1000);
}

void job_refused(const struct job *job, int first, int last, const char *a, const char *b,
                 const char *c) {
    for (int r = first; r <= last; r++) {
        const struct outcome *t = &job->outcome[r];
        printf("  rank %d after %.2f s: %s %s\n", r, t->seconds,
               rcm_status_name((rcm_status)t->status), t->text);
        CHECK(t->status < 0, "rank %d was not refused", r);
        CHECK(t->seconds < SOON_S, "rank %d was refused only after %.1f s", r, t->seconds);
        CHECK(strstr(t->text, a) && strstr(t->text, b) && strstr(t->text, c),
              "rank %d: one of \"%s\", \"%s\", \"%s\" is missing in: %s", r, a, b, c, t->text);
    }
}

void job_went_well(const struct job *job) {
    for (int r = 0; r < job->size; r++)
        CHECK(job->outcome[r].status == RCM_OK && job->outcome[r].destroyed == RCM_OK &&
                  job->outcome[r].sum == (float)(job->number * job->size),
              "rank %d of job %d: %s, sum %g", r, job->number, job->outcome[r].text,
              (double)job->outcome[r].sum);
}

/* ---- Files --------------------------------------------------------------------------------- */

/* ---- Ports --------------------------------------------------------------------------------- */

int listener(int *ret_port) {
    for (int tries = 0; tries < 1000; tries++) {
        struct sockaddr_in a = {.sin_family = AF_INET};
        const int port = 12000 + (int)(((unsigned)getpid() * 31 + (unsigned)rand()) % 20000);
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        a.sin_port = htons((uint16_t)port);
        *ret_port = port;
        if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 10) == 0)
            return fd;
        close(fd);
    }
    abort();
}

int free_port(void) {
    int port;
    close(listener(&port));
    return port;
}

pid_t store_serve(int port) {
    char address[80];
    rcm_store *store;
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d?server=1", port);
    fflush(NULL);
    const pid_t test = getpid();
    const pid_t pid = fork(); /* the test must not have threads when it forks */
    if (pid != 0)
        return pid;
    die_with_parent(test);
    if (rcm_store_open(address, 0, &store) != RCM_OK)
        _exit(1);
    for (;;)
        pause();
}
