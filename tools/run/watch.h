/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the ranks: starts them, handles output, signals and failures, prints the reports. */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "rank.h"

#define RUN_GRACE_MS 3000 /* between SIGTERM and SIGKILL */

#define RUN_STATUS_TIMEOUT 124 /* as in timeout(1) */
#define RUN_STATUS_NO_EXEC 126 /* as in shells: found but not executable */
#define RUN_STATUS_NO_FILE 127 /* not found */

/* Starts job->nranks ranks, forwards their output, and forwards signals from signal_fd (a signalfd
 * for SIGINT, SIGTERM, SIGHUP and SIGCHLD) to them. Returns the launcher's exit status when no rank
 * and no unread output is left. timeout_ms 0: none. */
int run_watch(const struct run_job *job, int signal_fd, int64_t timeout_ms);

#endif
