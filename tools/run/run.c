/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-run: starts N ranks of a program on this machine, like torchrun and mpirun. This file
 * reads the command line and prepares store, signals and keeper; run/watch.c runs the ranks. The
 * launcher itself serves the store, so the store outlives rank 0. The system chooses a free port,
 * so no other program has it.
 */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringcomm.h"
#include "bind.h"
#include "faces.h"
#include "watch.h"
#include "../units.h"

#define RANKS_MAX 16384

const char *argp_program_version = "ringcomm-run 0.1.0";

static const char doc[] =
    "Starts N ranks of PROGRAM on this machine and waits for them.\v"
    "Each line of output is prefixed with its rank. The environment of each rank contains its rank "
    "and the store's address (RANK, WORLD_SIZE, MASTER_ADDR, ... as torchrun sets them, and "
    "RINGCOMM_RANK, RINGCOMM_URL, RINGCOMM_JOB_ID, ...). rcm_init(NULL, &comm) reads them and "
    "joins "
    "the ranks. stdin of the ranks is empty. SIGINT, SIGTERM and SIGHUP are forwarded; a second "
    "SIGINT or SIGTERM stops the ranks. When one rank fails, the others are stopped (SIGTERM, "
    "after "
    "3 s SIGKILL).\n\n"
    "Exit status: 0 if every rank exited with 0, else the status of the rank that failed first "
    "(128 "
    "+ signal if it was killed); 124 after --timeout; 126 or 127 if PROGRAM cannot be run or "
    "found; "
    "2 for an invalid command line; 1 for other failures of the launcher.\n\n"
    "Examples:\n"
    "  ringcomm-run -n 4 -- ./hello_all_reduce\n"
    "  ringcomm-run -n 8 --timeout 60 --log-dir logs -- ./train --data digits\n"
    "  ringcomm-run -n 2 -- sh -c 'echo I am $RANK of $WORLD_SIZE'\n"
    "  ringcomm-run -n 3 --verbose -- ./hello_all_reduce\n"
    "  ringcomm-run -n 2 --bind none -- ./four_threads_each\n"
    "  ringcomm-run -n 4 --keep-going -- ./survive\n\n"
    "Binding: by default rank R may only run on core R modulo the number of cores, on all hardware "
    "threads of that core. With two cores of two hardware threads each (CPUs 0,2 and 1,3), -n 3 "
    "runs ranks 0 and 2 on CPUs 0,2 and rank 1 on CPUs 1,3. Only the cores that the launcher "
    "itself "
    "may use count (taskset, cpuset). They are in hwloc's order, so neighbours share a NUMA node. "
    "Programs with several threads per rank need --bind none. Several jobs on one machine need it "
    "too, because all would run on the first cores; or give each job its own CPUs: taskset -c 4-7 "
    "ringcomm-run ...\n\n"
    "Across machines use srun, mpirun or torchrun: the library reads their environment.";

enum { OPT_TIMEOUT = 256, OPT_LOG_DIR, OPT_BIND, OPT_KEEP_GOING, OPT_NEAR, OPT_NCCL, OPT_MPI };

static const struct argp_option options[] = {
    {"ranks", 'n', "N", 0, "how many ranks to start", 0},
    {"timeout", OPT_TIMEOUT, "S", 0, "stop all ranks after S seconds", 0},
    {"log-dir", OPT_LOG_DIR, "D", 0,
     "also write the output of rank R, unprefixed, to D/rank_R.out and D/rank_R.err", 0},
    {"bind", OPT_BIND, "auto|core|none", 0,
     "auto (default): each rank may only run on its own core, see below, or anywhere if that is "
     "not possible (no hwloc); core: the same, but an error if it is not possible; none: ranks "
     "run anywhere",
     0},
    {"near", OPT_NEAR, NULL, 0,
     "all ranks share a last-level cache (RINGCOMM_NEAR=1); needed in a virtual machine only, "
     "which "
     "does not show its caches",
     0},
    {"nccl", OPT_NCCL, NULL, 0,
     "adds libnccl.so.2 of this library to LD_PRELOAD of the ranks, for programs that are linked "
     "with NCCL",
     0},
    {"mpi", OPT_MPI, NULL, 0,
     "puts libmpi_abi.so.1 of this library first in LD_LIBRARY_PATH of the ranks, for programs "
     "that "
     "are compiled for the ABI of MPI (mpicc_abi)",
     0},
    {"verbose", 'v', NULL, 0, "print the core of each rank", 0},
    {"keep-going", OPT_KEEP_GOING, NULL, 0,
     "do not stop the others when a rank fails, for programs that shrink their communicator; the "
     "exit status is 0 if any rank exited with 0",
     0},
    {0},
};

enum bind { BIND_AUTO, BIND_CORE, BIND_NONE };

struct arguments {
    int nranks;
    int64_t timeout_ms;
    const char *log_dir;
    enum bind bind;
    bool keep_going, near, nccl, mpi, verbose;
    char **argv;
};

static int parse_ranks(const char *text, struct argp_state *state) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 1 || n > RANKS_MAX)
        argp_error(state, "-n needs a number of ranks from 1 to %d, not '%s'", RANKS_MAX, text);
    return (int)n;
}

static int64_t parse_seconds(const char *text, struct argp_state *state) {
    char *end;
    double s = strtod(text, &end) * tool_unit_seconds(end);
    if (end == text || !(s >= 0.001 && s <= 1e9))
        argp_error(state, "--timeout needs a duration above 0, in seconds or as 90s, 10m, not '%s'",
                   text);
    return (int64_t)(s * 1000);
}

static enum bind parse_bind(const char *text, struct argp_state *state) {
    static const char *const names[] = {
        [BIND_AUTO] = "auto", [BIND_CORE] = "core", [BIND_NONE] = "none"};
    for (int bind = BIND_AUTO; bind <= BIND_NONE; bind++)
        if (strcmp(text, names[bind]) == 0)
            return (enum bind)bind;
    argp_error(state, "--bind is auto, core or none, not '%s'", text);
    return BIND_NONE; /* not reached */
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
    struct arguments *args = state->input;
    switch (key) {
    case 'n':
        args->nranks = parse_ranks(arg, state);
        return 0;
    case OPT_TIMEOUT:
        args->timeout_ms = parse_seconds(arg, state);
        return 0;
    case OPT_LOG_DIR:
        args->log_dir = arg;
        return 0;
    case OPT_BIND:
        args->bind = parse_bind(arg, state);
        return 0;
    case OPT_NEAR:
        args->near = true;
        return 0;
    case OPT_NCCL:
        args->nccl = true;
        return 0;
    case OPT_MPI:
        args->mpi = true;
        return 0;
    case 'v':
        args->verbose = true;
        return 0;
    case OPT_KEEP_GOING:
        args->keep_going = true;
        return 0;
    case ARGP_KEY_ARGS:
        args->argv = state->argv + state->next;
        return 0;
    case ARGP_KEY_END:
        if (args->nranks == 0)
            argp_error(state, "the number of ranks is missing: -n N");
        if (!args->argv)
            argp_error(state, "the program is missing: -- PROGRAM");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Opens descriptors 0..2 if they are closed, so that no pipe gets one of these numbers. */
static void open_standard_fds(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            exit(1);
}

static int signals_prepare(struct run_job *job) {
    sigset_t set;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaddset(&set, signals[i]);
    signal(SIGCHLD, SIG_DFL); /* with an inherited SIG_IGN the kernel would reap the ranks */
    if (sigprocmask(SIG_BLOCK, &set, &job->mask) != 0 ||
        sigaction(SIGPIPE, &ignore, &job->sigpipe) != 0)
        return -1;
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Raises the limit to the hard limit. The launcher needs two pipes, two log files and one store
 * connection per rank; each rank needs up to three descriptors per other rank. */
static void raise_fd_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        warn("cannot raise the limit of open files to %llu", (unsigned long long)limit.rlim_cur);
}

/* mkdir -p */
static void make_log_dir(const char *path) {
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(part))
        errx(1, "--log-dir: '%s' is not a usable path", path);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        char c = part[i];
        if (c != '/' && c != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            err(1, "--log-dir: cannot create '%s'", part);
        part[i] = c;
    }
    if (access(path, W_OK | X_OK) != 0)
        err(1, "--log-dir: cannot write in '%s'", path);
}

static void find_cores(struct run_job *job, const struct arguments *args) {
    const char *why = args->bind == BIND_NONE ? "--bind none" : run_cores_find(&job->cores);
    job->must_bind = args->bind == BIND_CORE;
    if (why && job->must_bind)
        errx(1, "--bind core: %s", why);
    if (why && args->verbose)
        fprintf(stderr, "ringcomm-run: ranks are not bound: %s\n", why);
    for (int r = 0; !why && args->verbose && r < job->nranks; r++)
        fprintf(stderr, "ringcomm-run: rank %d is bound to %s\n", r,
                run_cores_of(&job->cores, r)->name);
}

/* The port of "tcp://host:port?...". */
static int url_port(const char *url) {
    const char *text = strstr(url, "://");
    text = text ? text + 3 : url;
    const char *end = text + strcspn(text, "/?");
    while (end > text && end[-1] != ':')
        end--;
    return atoi(end);
}

static rcm_store *serve_store(struct run_job *job) {
    rcm_store *store;
    if (rcm_store_open("tcp://127.0.0.1:0?server=1", 10000, &store) != RCM_OK)
        errx(1, "cannot serve the store: %s", rcm_last_error());
    job->port = url_port(rcm_store_url(store));
    if (job->port <= 0)
        errx(1, "the store has no port: '%s'", rcm_store_url(store));
    return store;
}

/* A name that is unique among the jobs of all machines. */
static void job_name(char *name, size_t cap) {
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        err(1, "cannot draw the job's number");
    snprintf(name, cap, "ringcomm-%016" PRIx64, number);
}

int main(int argc, char **argv) {
    const struct argp parser = {options, parse_option, "-- PROGRAM [ARGS...]", doc, NULL,
                                NULL,    NULL};
    struct arguments args = {0};
    struct run_job job = {0};
    char run_id[32];
    open_standard_fds();
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &args);
    job_name(run_id, sizeof(run_id));
    job.argv = args.argv;
    job.nranks = args.nranks;
    job.keep_going = args.keep_going;
    job.near = args.near;
    if (args.nccl)
        run_nccl_preload();
    if (args.mpi)
        run_mpi_path();
    job.run_id = run_id;
    job.log_dir = args.log_dir;
    raise_fd_limit();
    if (job.log_dir)
        make_log_dir(job.log_dir);
    find_cores(&job, &args);
    int signal_fd = signals_prepare(&job);
    if (signal_fd < 0)
        err(1, "cannot prepare for signals");
    if (run_keeper_start(&job.keeper) != 0) /* before the store's thread exists */
        err(1, "cannot start the keeper process");
    rcm_store *store = serve_store(&job);
    int status = run_watch(&job, signal_fd, args.timeout_ms);
    run_keeper_stop(&job.keeper);
    rcm_store_close(store);
    run_cores_free(&job.cores);
    return status;
}
