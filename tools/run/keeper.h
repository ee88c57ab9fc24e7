/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper: a small process that cleans up after a killed launcher. PR_SET_PDEATHSIG ends the
 * ranks when the launcher is killed, but not the ranks' children. The keeper detects the launcher's
 * death by the end of a pipe, and kills the process groups that were not removed.
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
/* Add group pgid, and remove it when it has ended. The rank itself calls add before exec, so add is
 * async-signal-safe. */
void run_keeper_add(const struct run_keeper *keeper, pid_t pgid);
void run_keeper_remove(const struct run_keeper *keeper, pid_t pgid);
/* Ends the keeper and waits for it. */
void run_keeper_stop(struct run_keeper *keeper);

#endif
