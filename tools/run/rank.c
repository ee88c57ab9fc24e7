/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank.c: see rank.h. Between fork and exec the child calls only async-signal-safe functions,
 * because the launcher also runs the store's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env.h"
#include "rank.h"

/* Both ends of the pipes between launcher and child; -1 when closed. */
struct rank_pipes {
    int out[2], err[2];
    int exec[2]; /* carries errno of a failed exec, -errno of a failed binding; else end of file */
};

static void pipes_close(struct rank_pipes *pipes) {
    int *all[] = {pipes->out, pipes->err, pipes->exec};
    for (size_t i = 0; i < 3; i++)
        for (int end = 0; end < 2; end++) {
            if (all[i][end] >= 0)
                close(all[i][end]);
            all[i][end] = -1;
        }
}

static int pipes_open(struct rank_pipes *pipes) {
    *pipes = (struct rank_pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(pipes->out, O_CLOEXEC) == 0 && pipe2(pipes->err, O_CLOEXEC) == 0 &&
        pipe2(pipes->exec, O_CLOEXEC) == 0 && fcntl(pipes->out[0], F_SETFL, O_NONBLOCK) == 0 &&
        fcntl(pipes->err[0], F_SETFL, O_NONBLOCK) == 0)
        return 0;
    int saved = errno;
    pipes_close(pipes);
    return saved;
}

static int log_open(const struct run_job *job, int rank, const char *suffix, int *ret_fd) {
    char path[PATH_MAX];
    *ret_fd = -1;
    if (!job->log_dir)
        return 0;
    if (snprintf(path, sizeof(path), "%s/rank_%d.%s", job->log_dir, rank, suffix) >= PATH_MAX)
        return ENAMETOOLONG;
    *ret_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *ret_fd < 0 ? errno : 0;
}

/* Restores the signal disposition and mask that the launcher changed. */
static void child_signals(const struct run_job *job) {
    sigaction(SIGPIPE, &job->sigpipe, NULL);
    sigprocmask(SIG_SETMASK, &job->mask, NULL);
}

static int child_io(const struct rank_pipes *pipes) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(pipes->out[1], 1) < 0 || dup2(pipes->err[1], 2) < 0)
        return -1;
    return 0;
}

static int child_bind(const struct run_rank *rank, const struct run_job *job) {
    if (job->cores.n == 0)
        return 0;
    const struct run_core *core = run_cores_of(&job->cores, rank->rank);
    const int result = sched_setaffinity(0, job->cores.bytes, core->cpus);
    return job->must_bind ? result : 0;
}

static _Noreturn void child_fail(const struct rank_pipes *pipes, int error) {
    while (write(pipes->exec[1], &error, sizeof(error)) < 0 && errno == EINTR)
        ;
    _exit(127);
}

static _Noreturn void child_main(const struct run_rank *rank, const struct run_job *job,
                                 const struct rank_pipes *pipes, pid_t launcher, char **env) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) /* the launcher died before the line above */
        _exit(1);
    setpgid(0, 0);
    run_keeper_add(&job->keeper, getpid());
    if (child_bind(rank, job) != 0)
        child_fail(pipes, -errno);
    if (child_io(pipes) == 0) {
        child_signals(job);
        execvpe(job->argv[0], job->argv, env);
    }
    child_fail(pipes, errno);
}

/* Waits for the exec: 0, or the error of child_fail. */
static int exec_result(int fd) {
    int saved = 0;
    ssize_t n;
    do
        n = read(fd, &saved, sizeof(saved));
    while (n < 0 && errno == EINTR);
    return n == sizeof(saved) ? saved : 0;
}

static int rank_fork(struct run_rank *rank, const struct run_job *job, struct rank_pipes *pipes) {
    char **env = run_env_make(job, rank->rank);
    if (!env)
        return ENOMEM;
    pid_t launcher = getpid();
    pid_t pid = fork();
    if (pid == 0)
        child_main(rank, job, pipes, launcher, env);
    int saved = errno;
    run_env_free(env);
    if (pid < 0)
        return saved;
    setpgid(pid, pid); /* parent and child both call it; fails after the child's exec */
    close(pipes->exec[1]);
    pipes->exec[1] = -1;
    saved = exec_result(pipes->exec[0]);
    if (saved != 0) {
        waitpid(pid, NULL, 0);
        run_keeper_remove(&job->keeper, pid);
        return saved;
    }
    rank->pid = pid;
    rank->state = RUN_RANK_ALIVE;
    return 0;
}

int run_rank_start(struct run_rank *rank, const struct run_job *job, struct run_sink *out,
                   struct run_sink *err, const char **ret_what) {
    struct rank_pipes pipes;
    *ret_what = "open the pipes of";
    int error = pipes_open(&pipes);
    if (error != 0)
        return error;
    rank->out = (struct run_stream){.fd = -1, .rank = rank->rank, .sink = out};
    rank->err = (struct run_stream){.fd = -1, .rank = rank->rank, .sink = err};
    *ret_what = "open the log files of";
    error = log_open(job, rank->rank, "out", &rank->out.log_fd);
    if (error == 0)
        error = log_open(job, rank->rank, "err", &rank->err.log_fd);
    if (error == 0) {
        error = rank_fork(rank, job, &pipes);
        *ret_what = error < 0 ? "bind" : "run";
        error = abs(error);
    }
    if (error == 0) {
        rank->out.fd = pipes.out[0];
        rank->err.fd = pipes.err[0];
        pipes.out[0] = pipes.err[0] = -1;
    } else {
        run_stream_close(&rank->out);
        run_stream_close(&rank->err);
    }
    pipes_close(&pipes);
    return error;
}

bool run_rank_check(struct run_rank *rank) {
    siginfo_t info = {0};
    if (rank->state != RUN_RANK_ALIVE)
        return false;
    int flags = WEXITED | WNOHANG | WNOWAIT;
    while (waitid(P_PID, (id_t)rank->pid, &info, flags) != 0 && errno == EINTR)
        ;
    if (info.si_pid != rank->pid)
        return false;
    rank->state = RUN_RANK_ENDED;
    rank->by_signal = info.si_code != CLD_EXITED;
    rank->code = info.si_status;
    return true;
}

void run_rank_collect(struct run_rank *rank, const struct run_keeper *keeper) {
    kill(-rank->pid, SIGKILL);
    while (waitpid(rank->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    run_keeper_remove(keeper, rank->pid);
    rank->state = RUN_RANK_GONE;
}

void run_rank_signal(const struct run_rank *rank, int sig) {
    if (rank->state == RUN_RANK_ALIVE || rank->state == RUN_RANK_ENDED)
        kill(-rank->pid, sig);
}

int run_rank_status(const struct run_rank *rank) {
    return rank->by_signal ? 128 + rank->code : rank->code;
}
