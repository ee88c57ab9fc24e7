/* SPDX-License-Identifier: BSD-3-Clause */
/* From the start of the first rank to the end of the last: what happens when, and what is said. */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "rank.h"

#define RUN_GRACE_MS 3000 /* between SIGTERM and SIGKILL */

#define RUN_STATUS_TIMEOUT 124 /* as timeout(1) has it */
#define RUN_STATUS_NO_EXEC 126 /* as shells have it: found but not runnable */
#define RUN_STATUS_NO_FILE 127 /* not found */

/* Starts job->nranks ranks, passes on their output and the signals that arrive on signal_fd (a
 * signalfd for SIGINT, SIGTERM, SIGHUP and SIGCHLD), and returns the launcher's exit status when
 * no rank and no unread output is left. timeout_ms 0: none. */
int run_watch(const struct run_job *job, int signal_fd, int64_t timeout_ms);

#endif
