/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs without descriptors 0, 1, 2 (daemons): low_descriptors TRANSPORT [FILE]. For each
 * combination of closed descriptors, closed before rcm_spawn, two ranks meet through the store of
 * rcm_spawn, through a unique id and through a file. They sum, log at the highest level, and end.
 * The closed descriptors stay closed at each step; the library's own descriptors are close-on-exec.
 * Then the same with a file of the program at descriptor 2, close-on-exec: the log must not write
 * to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ringcomm.h"

enum { COMBINATIONS = 8, RANKS = 2, OUT = 500 };

struct job {
    int closed; /* a bit per descriptor */
    const char *transport, *file;
    struct rcm_unique_id id;
};

static int errors;

/* Reports to a copy of stderr, since 2 may be closed. */
static void expect(int condition, const struct job *job, const char *what) {
    if (condition)
        return;
    dprintf(OUT, "%s, closed %#x: %s: %s\n", job->transport, (unsigned)job->closed, what,
            rcm_last_error());
    errors++;
}

static void check_closed(const struct job *job, const char *step) {
    for (int fd = 0; fd < 3; fd++)
        if (job->closed & 1 << fd)
            expect(fcntl(fd, F_GETFD) < 0 && errno == EBADF, job, step);
    for (int fd = 3; fd < OUT; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        expect(flags < 0 || flags & FD_CLOEXEC, job, "a descriptor is not close-on-exec");
    }
}

static void use(const struct job *job, rcm_comm *comm) {
    static float data[1 << 17];
    void *memory = NULL;
    rcm_work *work = NULL;
    int fd = -1;
    check_closed(job, "rcm_init made a low descriptor");
    data[0] = 1;
    expect(rcm_all_reduce(comm, data, data, sizeof data / sizeof data[0], RCM_FLOAT32, RCM_SUM,
                          NULL, NULL) == RCM_OK,
           job, "sum");
    expect(data[0] == RANKS, job, "the sum");
    expect(rcm_mem_alloc(comm, 1 << 20, &memory) == RCM_OK, job, "memory");
    expect(rcm_barrier(comm, NULL, &work) == RCM_OK, job, "barrier");
    expect(rcm_work_fd(work, &fd) == RCM_OK && fd > 2, job, "rcm_work_fd");
    check_closed(job, "an operation made a low descriptor");
    expect(rcm_work_wait(work, -1) == RCM_OK, job, "wait");
    rcm_work_free(work);
    expect(rcm_mem_free(comm, memory) == RCM_OK, job, "free");
    expect(rcm_destroy(comm) == RCM_OK, job, "destroy");
    check_closed(job, "rcm_destroy left a low descriptor");
}

static void meet(const struct job *job, struct rcm_init_options *options, const char *how) {
    rcm_comm *comm;
    options->transport = job->transport;
    options->timeout_ms = 30000;
    const rcm_status status = rcm_init(options, &comm);
    expect(status == RCM_OK, job, how);
    if (status == RCM_OK)
        use(job, comm);
}

static int rank_run(int rank, void *arg) {
    const struct job *job = arg;
    struct rcm_init_options plain = RCM_INIT_OPTIONS_INIT, by_id = RCM_INIT_OPTIONS_INIT,
                            by_file = RCM_INIT_OPTIONS_INIT;
    char url[200];
    snprintf(url, sizeof url, "file://%s.%d", job->file, job->closed);
    errors = 0;
    meet(job, &plain, "rcm_init");
    by_id.rank = by_file.rank = rank;
    by_id.world_size = by_file.world_size = RANKS;
    by_id.unique_id = &job->id;
    meet(job, &by_id, "rcm_init by a unique id");
    by_file.url = url;
    meet(job, &by_file, "rcm_init by a file");
    return errors;
}

static void combination_run(struct job *job) {
    int failed, status;
    for (int fd = 0; fd < 3; fd++)
        if (job->closed & 1 << fd)
            close(fd);
    expect(rcm_unique_id_get(&job->id) == RCM_OK, job, "unique id");
    check_closed(job, "rcm_unique_id_get made a low descriptor");
    expect(rcm_spawn(RANKS, rank_run, job, 60000, &failed, &status) == RCM_OK, job, "rcm_spawn");
    check_closed(job, "rcm_spawn made a low descriptor");
}

/* A file of the program at descriptor 2, as open() makes it in a daemon. */
static void file_at_2_run(struct job *job) {
    struct stat info;
    int failed, status;
    close(2);
    const int fd = open(job->file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    expect(fd == 2, job, "no file at 2");
    expect(rcm_unique_id_get(&job->id) == RCM_OK, job, "unique id");
    expect(rcm_spawn(RANKS, rank_run, job, 60000, &failed, &status) == RCM_OK, job, "rcm_spawn");
    expect(fstat(fd, &info) == 0 && info.st_size == 0, job, "the log went into a file at 2");
}

static int in_child(void (*run)(struct job *), struct job *job) {
    int status = 1;
    const pid_t pid = fork();
    if (pid == 0) {
        run(job);
        _exit(errors != 0);
    }
    waitpid(pid, &status, 0);
    return status != 0;
}

int main(int argc, char **argv) {
    char file[] = "/tmp/ringcomm-low-XXXXXX";
    struct job job = {.transport = argc == 2 ? argv[1] : "auto", .file = file};
    int failed = 0;
    close(mkstemp(file));
    setenv("RINGCOMM_LOG", "debug", 1);
    close_range(3, ~0U, 0); /* descriptors inherited from the parent */
    if (dup3(2, OUT, O_CLOEXEC) != OUT)
        return 2;
    for (job.closed = 0; job.closed < COMBINATIONS; job.closed++)
        failed += in_child(combination_run, &job);
    job.closed = 0;
    failed += in_child(file_at_2_run, &job);
    for (job.closed = 0; job.closed < COMBINATIONS; job.closed++) {
        char name[100];
        snprintf(name, sizeof name, "%s.%d", file, job.closed);
        unlink(name);
    }
    unlink(file);
    return failed != 0;
}
