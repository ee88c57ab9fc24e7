/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_spawn: ranks as children of this process. The parent binds the store's port, then forks, then
 * serves the store, so that it forks before it has threads. Each child dies with the parent.
 */
#include "auth.h"
#include "clock.h"
#include "entry.h"
#include "error.h"
#include "fd.h"
#include "rendezvous.h"
#include "ringcomm.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_AFTER_MS 3000
#define MAX_RANKS     4096 /* of one machine: more are a mistake */

struct child {
    pid_t pid; /* 0 once reaped */
    int pidfd;
};

/* A rank's own report of its exit, for a parent whose children another part of the process
 * collects. */
struct report {
    _Atomic int exit_status; /* NOT_REPORTED, or the argument of _exit or exit */
    pid_t pid;               /* the rank's: its own children do not report */
};
enum { NOT_REPORTED = -1, UNKNOWN_EXIT = 125 };

struct spawn {
    int n, running;
    int port;     /* of the store */
    char job[40]; /* the job's id */
    struct child *children;
    struct report *reports; /* shared with the children */
    bool unknown;           /* the failed rank left no status */
    struct pollfd *polls;
    int failed_rank, exit_status;
};

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static void report_exit(int exit_status, void *report) {
    struct report *own = report;
    if (own->pid == getpid())
        atomic_store(&own->exit_status, exit_status & 0xff);
}

/* In the child: sets the environment of a rank, then calls fn. Does not return. */
static void child_run(const struct spawn *spawn, int rank, pid_t parent, int (*fn)(int, void *),
                      void *arg) {
    char url[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    snprintf(url, sizeof(url), "tcp://127.0.0.1:%d?server=0", spawn->port);
    setenv("RINGCOMM_URL", url, 1);
    setenv("RINGCOMM_JOB_ID", spawn->job, 1);
    set_number("RINGCOMM_RANK", rank);
    set_number("RINGCOMM_WORLD_SIZE", spawn->n);
    set_number("RINGCOMM_LOCAL_RANK", rank);
    set_number("RINGCOMM_LOCAL_WORLD_SIZE", spawn->n);
    spawn->reports[rank].pid = getpid();
    (void)on_exit(report_exit, &spawn->reports[rank]);
    const int result = fn(rank, arg);
    const int exit_status = result >= 0 && result <= 125 ? result : 125;
    fflush(NULL);
    report_exit(exit_status, &spawn->reports[rank]);
    _exit(exit_status);
}

/* Names the job and listens for its ranks. */
static rcm_status spawn_name(struct spawn *spawn, int *ret_fd) {
    uint64_t random;
    rcm_status status = rcmi_random(&random, sizeof(random));
    snprintf(spawn->job, sizeof(spawn->job), "spawn-%016" PRIx64, random);
    return status == RCM_OK ? rcmi_store_listen("127.0.0.1", 0, ret_fd, &spawn->port) : status;
}

/* By descriptor: if the child was collected elsewhere, the pid may be another process's. */
static int child_signal(const struct child *child, int signal) {
    return child->pidfd >= 0 ? (int)syscall(SYS_pidfd_send_signal, child->pidfd, signal, NULL, 0)
                             : kill(child->pid, signal);
}

static int child_wait(const struct child *child, siginfo_t *ret_info) {
    int failed;
    do
        failed = child->pidfd >= 0 ? waitid(P_PIDFD, (id_t)child->pidfd, ret_info, WEXITED)
                                   : waitid(P_PID, (id_t)child->pid, ret_info, WEXITED);
    while (failed && errno == EINTR);
    return failed;
}

/* Collects rank r, which has ended. If SIGCHLD is ignored, or a handler or thread waits for all
 * children, its status is lost. */
static void spawn_reap(struct spawn *spawn, int r) {
    siginfo_t info = {0};
    struct child *child = &spawn->children[r];
    int exit_status;
    bool unknown = false;
    if (child_wait(child, &info) == 0) {
        exit_status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    } else {
        exit_status = atomic_load(&spawn->reports[r].exit_status);
        unknown = exit_status == NOT_REPORTED;
        exit_status = unknown ? UNKNOWN_EXIT : exit_status;
    }
    child->pid = 0;
    rcmi_fd_close(&child->pidfd);
    spawn->running--;
    if (exit_status != 0 && spawn->failed_rank < 0) {
        spawn->failed_rank = r;
        spawn->exit_status = exit_status;
        spawn->unknown = unknown;
    }
}

static rcm_status spawn_fork(struct spawn *spawn, int listen_fd, int (*fn)(int, void *),
                             void *arg) {
    const pid_t parent = getpid();
    fflush(NULL); /* or children print the parent's buffered output again */
    for (int r = 0; r < spawn->n; r++) {
        const pid_t pid = fork();
        if (pid < 0)
            return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot fork rank %d of %d", r,
                             spawn->n);
        if (pid == 0) {
            close(listen_fd);
            child_run(spawn, r, parent, fn, arg);
        }
        spawn->children[r].pid = pid;
        spawn->running++;
        spawn->children[r].pidfd =
            rcmi_fd_high((int)syscall(SYS_pidfd_open, pid, 0)); /* close-on-exec */
        if (spawn->children[r].pidfd < 0 && errno == ESRCH)
            spawn_reap(spawn, r); /* it has ended, and was collected elsewhere */
        else if (spawn->children[r].pidfd < 0)
            return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot watch rank %d", r);
    }
    return RCM_OK;
}

static void spawn_signal(const struct spawn *spawn, int signal) {
    for (int r = 0; r < spawn->n; r++)
        if (spawn->children[r].pid > 0)
            (void)child_signal(&spawn->children[r], signal);
}

/* Waits for children to end until all have, one failed, or the deadline. */
static void spawn_wait(struct spawn *spawn, rcmi_deadline deadline, bool until_failure) {
    RCMI_ENTRY;
    while (spawn->running > 0 && !(until_failure && spawn->failed_rank >= 0)) {
        int n = 0;
        for (int r = 0; r < spawn->n; r++)
            if (spawn->children[r].pid > 0)
                spawn->polls[n++] =
                    (struct pollfd){.fd = spawn->children[r].pidfd, .events = POLLIN};
        if (poll(spawn->polls, (nfds_t)n, rcmi_deadline_left_ms(deadline)) == 0)
            return;
        for (int r = 0, i = 0; r < spawn->n; r++)
            if (spawn->children[r].pid > 0 && spawn->polls[i++].revents)
                spawn_reap(spawn, r);
    }
}

/* Ends the ranks that still run. */
static void spawn_stop(struct spawn *spawn) {
    if (spawn->running == 0)
        return;
    spawn_signal(spawn, SIGTERM);
    spawn_wait(spawn, rcmi_deadline_in(KILL_AFTER_MS), false);
    spawn_signal(spawn, SIGKILL);
    for (int r = 0; r < spawn->n; r++)
        if (spawn->children[r].pid > 0)
            spawn_reap(spawn, r);
}

static rcm_status spawn_run(struct spawn *spawn, int (*fn)(int, void *), void *arg,
                            int64_t timeout_ms) {
    int listen_fd = -1;
    rcm_store *store = NULL;
    const rcmi_deadline deadline = rcmi_deadline_in(timeout_ms);
    rcm_status status = spawn_name(spawn, &listen_fd);
    if (status != RCM_OK)
        return status;
    status = spawn_fork(spawn, listen_fd, fn, arg);
    if (status == RCM_OK)
        status = rcmi_store_serve(listen_fd, &store);
    else
        rcmi_fd_close(&listen_fd);
    if (status == RCM_OK) {
        spawn_wait(spawn, deadline, true);
        if (spawn->failed_rank >= 0) /* survivors report the error themselves, if they can */
            spawn_wait(spawn, rcmi_deadline_in(KILL_AFTER_MS), false);
        else if (spawn->running > 0)
            status = rcmi_fail(RCM_ERR_TIMEOUT, 0, "%d of %d ranks still ran after %.1f s",
                               spawn->running, spawn->n, (double)timeout_ms / 1000);
    }
    struct rcmi_error cause = *rcmi_last_error();
    const struct spawn before = *spawn;
    spawn_stop(spawn); /* ranks that end from here on were stopped by it */
    spawn->failed_rank = before.failed_rank;
    spawn->exit_status = before.exit_status;
    spawn->unknown = before.unknown;
    rcm_store_close(store);
    *rcmi_last_error() = cause;
    if (status == RCM_OK && spawn->failed_rank >= 0 && spawn->unknown)
        return rcmi_fail_origin(RCM_ERR_PEER, spawn->failed_rank,
                                "rank %d ended without a result, by a signal or _exit: this "
                                "process ignores SIGCHLD or waits for all its children, so that "
                                "the status is lost",
                                spawn->failed_rank);
    if (status == RCM_OK && spawn->failed_rank >= 0)
        return rcmi_fail_origin(RCM_ERR_PEER, spawn->failed_rank,
                                spawn->exit_status > 128 ? "rank %d was killed by signal %d"
                                                         : "rank %d exited with status %d",
                                spawn->failed_rank,
                                spawn->exit_status > 128 ? spawn->exit_status - 128
                                                         : spawn->exit_status);
    return status;
}

rcm_status rcm_spawn(int nranks, int (*fn)(int rank, void *arg), void *arg, int64_t timeout_ms,
                     int *ret_failed_rank, int *ret_exit) {
    if (nranks < 1 || nranks > MAX_RANKS)
        return rcmi_fail(RCM_ERR_INVALID, 0, "nranks is %d, must be from 1 to %d", nranks,
                         MAX_RANKS);
    if (!fn)
        return rcmi_fail(RCM_ERR_INVALID, 0, "fn is NULL");
    struct spawn spawn = {.n = nranks, .failed_rank = -1};
    spawn.children = calloc((size_t)nranks, sizeof(*spawn.children));
    spawn.polls = calloc((size_t)nranks, sizeof(*spawn.polls));
    const size_t reports_len = (size_t)nranks * sizeof(*spawn.reports);
    void *const reports =
        mmap(NULL, reports_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    rcm_status status;
    if (!spawn.children || !spawn.polls || reports == MAP_FAILED) {
        status = rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", nranks);
    } else {
        spawn.reports = reports;
        for (int r = 0; r < nranks; r++) {
            spawn.children[r].pidfd = -1;
            atomic_init(&spawn.reports[r].exit_status, NOT_REPORTED);
        }
        status = spawn_run(&spawn, fn, arg, timeout_ms);
    }
    if (reports != MAP_FAILED)
        munmap(reports, reports_len);
    free(spawn.children);
    free(spawn.polls);
    if (ret_failed_rank)
        *ret_failed_rank = spawn.failed_rank;
    if (ret_exit)
        *ret_exit = spawn.exit_status;
    return status;
}
