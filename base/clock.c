/* SPDX-License-Identifier: BSD-3-Clause */
/* The monotonic clock and deadlines on it. */
#include "clock.h"

#include <limits.h>
#include <time.h>

enum { NS_PER_MS = 1000000 };

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t rcmi_now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t rcmi_tick_ns(void) {
    return clock_ns(CLOCK_MONOTONIC_COARSE);
}

int64_t rcmi_clock_day_ns(void) {
    return clock_ns(CLOCK_REALTIME);
}

rcmi_deadline rcmi_deadline_in(int64_t timeout_ms) {
    if (timeout_ms < 0)
        return RCMI_NEVER;
    int64_t now = rcmi_now_ns();
    if (timeout_ms > (RCMI_NEVER - now) / NS_PER_MS)
        return RCMI_NEVER;
    return now + timeout_ms * NS_PER_MS;
}

bool rcmi_deadline_passed(rcmi_deadline deadline) {
    return deadline != RCMI_NEVER && rcmi_now_ns() >= deadline;
}

int rcmi_deadline_left_ms(rcmi_deadline deadline) {
    if (deadline == RCMI_NEVER)
        return -1;
    int64_t now = rcmi_now_ns();
    if (deadline <= now)
        return 0;
    /* now is positive, so the difference cannot overflow; rounds up without an addition */
    int64_t left = deadline - now;
    int64_t ms = left / NS_PER_MS + (left % NS_PER_MS != 0);
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

void rcmi_deadline_sleep(int ms, rcmi_deadline deadline) {
    int left = rcmi_deadline_left_ms(deadline);
    if (left >= 0 && ms > left)
        ms = left;
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    (void)nanosleep(&t, NULL);
}
