/* SPDX-License-Identifier: BSD-3-Clause */
/* Time and deadlines. A deadline is an absolute CLOCK_MONOTONIC time in ns; every wait has one. */
#ifndef RCMI_CLOCK_H
#define RCMI_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef int64_t rcmi_deadline;
#define RCMI_NEVER INT64_MAX /* deadline of a wait without limit, on the user's request */

int64_t rcmi_now_ns(void);
/* The same clock at the kernel's last tick, up to 10 ms ago; far cheaper. */
int64_t rcmi_tick_ns(void);

/* Nanoseconds since 1970. May jump: use only to compare the clocks of two processes. */
int64_t rcmi_clock_day_ns(void);

/* Deadline timeout_ms from now; negative means RCMI_NEVER; saturates. */
rcmi_deadline rcmi_deadline_in(int64_t timeout_ms);

bool rcmi_deadline_passed(rcmi_deadline deadline);

/* Milliseconds left, rounded up, for poll() and epoll_wait(): 0 if passed, -1 for RCMI_NEVER,
 * at most INT_MAX. */
int rcmi_deadline_left_ms(rcmi_deadline deadline);

/* Sleeps ms, not past the deadline. */
void rcmi_deadline_sleep(int ms, rcmi_deadline deadline);

#endif
