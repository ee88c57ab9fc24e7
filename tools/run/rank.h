/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank: a program in its own process group, with its environment, its two pipes, and its end.
 * watch.c decides when ranks are stopped and what is printed.
 */
#ifndef RUN_RANK_H
#define RUN_RANK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bind.h"
#include "keeper.h"
#include "output.h"

/* Common to all ranks. */
struct run_job {
    char **argv; /* the program and its arguments */
    int nranks;
    bool near;           /* RINGCOMM_NEAR=1 for all ranks */
    bool keep_going;     /* a failed rank does not end the others */
    int port;            /* of the launcher's store */
    const char *run_id;  /* TORCHELASTIC_RUN_ID, RINGCOMM_JOB_ID */
    const char *log_dir; /* NULL: none */
    struct run_cores cores;
    bool must_bind; /* a rank that cannot be bound is not started */
    sigset_t mask;  /* the original signal mask and SIGPIPE disposition */
    struct sigaction sigpipe;
    struct run_keeper keeper;
};

enum run_rank_state {
    RUN_RANK_NONE,  /* not started */
    RUN_RANK_ALIVE, /* the program runs */
    RUN_RANK_ENDED, /* ended, but not reaped; its children may still run */
    RUN_RANK_GONE   /* reaped, its process group killed */
};

struct run_rank {
    int rank;
    pid_t pid; /* and process group */
    enum run_rank_state state;
    bool by_signal;   /* ENDED, GONE: how it ended */
    int code;         /* exit status or signal number */
    int64_t leave_at; /* ENDED: when its remaining children are killed, monotonic ms */
    struct run_stream out, err;
};

/* Opens the log files and starts the program. Returns 0 or an errno. *ret_what is the action that
 * failed ("run", "bind", "open the log files of", ...). */
int run_rank_start(struct run_rank *rank, const struct run_job *job, struct run_sink *out,
                   struct run_sink *err, const char **ret_what);

/* ALIVE -> ENDED if the program has ended; true if the state changed. The process is not reaped, so
 * that its number still identifies its process group. */
bool run_rank_check(struct run_rank *rank);

/* ENDED -> GONE: kills the rest of the process group, reaps the process. */
void run_rank_collect(struct run_rank *rank, const struct run_keeper *keeper);

/* Sends a signal to the whole process group; does nothing when NONE or GONE. */
void run_rank_signal(const struct run_rank *rank, int sig);

/* 0 on success, else its exit status or 128 + signal. */
int run_rank_status(const struct run_rank *rank);

#endif
