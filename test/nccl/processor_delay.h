/* SPDX-License-Identifier: BSD-3-Clause */
/* Time limits on a busy machine: a limit grows by the time that threads of the job's ranks were
 * ready, but had no processor (/proc/PID/task/TID/schedstat). On an idle machine that is nothing.
 */
#ifndef TEST_NCCL_PROCESSOR_DELAY_H
#define TEST_NCCL_PROCESSOR_DELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { DELAY_PROCESSES = 8, DELAY_MOST_MS = 5000 };
struct delays {
    int64_t ms[DELAY_PROCESSES];
};

/* Before the ranks' processes are forked; then in each of them. Without it, this process counts. */
void delays_share(void);
void delays_join(int rank);
/* Of all threads that exist, from their start until now. */
void delays_now(struct delays *ret);
/* ms, and the delays of all ranks since then, but no more than DELAY_MOST_MS: an error that comes
 * later than that is late on any machine. Threads that have ended do not count. */
int64_t limit_ms(int64_t ms, const struct delays *since);

/* The number of threads of this process that are the library's. */
int library_threads(void);
/* Waits until there are at most n; false: there were more for 60 s. */
bool library_threads_await(int n);

#endif
