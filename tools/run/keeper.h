/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper: a small process that outlives the launcher by a moment. PR_SET_PDEATHSIG ends the
 * ranks when the launcher is killed, but not what they started; the keeper, which hears of the
 * launcher's death by the end of a pipe, kills the process groups that were not given back.
 */
#ifndef RUN_KEEPER_H
#define RUN_KEEPER_H

#include <sys/types.h>

struct run_keeper {
    pid_t pid;
    int fd; /* write end, O_CLOEXEC */
};

/* Forks it; call this before the process has threads. 0, or -1 with errno. */
int run_keeper_start(struct run_keeper *ret_keeper);
/* Group pgid begins (called by the rank itself, before exec: async-signal-safe) or has ended. */
void run_keeper_add(const struct run_keeper *keeper, pid_t pgid);
void run_keeper_remove(const struct run_keeper *keeper, pid_t pgid);
/* Ends the keeper and collects it. */
void run_keeper_stop(struct run_keeper *keeper);

#endif
