/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines on stderr: "ringcomm [rank 3] warning: text". The level comes from RINGCOMM_LOG
 * (error, warn, info, debug; default warn), read once, or from rcm_log_set_level; rcm_log_set gives
 * lines to a function of the program's instead, which may be called wherever a line is logged. The
 * library records errors and logs them once, where a communicator fails; everything else is info or
 * debug.
 */
#ifndef RCMI_LOG_H
#define RCMI_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum rcmi_log_level { RCMI_LOG_ERROR, RCMI_LOG_WARN, RCMI_LOG_INFO, RCMI_LOG_DEBUG };

/* Whether descriptor 2 is stderr, as far as can be told: if it is closed now, never again. */
bool rcmi_log_has_stderr(void);

bool rcmi_log_enabled(enum rcmi_log_level level);

void rcmi_log(enum rcmi_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Several lines, each ended by a newline, each with the head of a line of the log, in one write. */
void rcmi_log_lines(enum rcmi_log_level level, const char *lines);

/* For lines that others can cause as often as they like: true once a second; `more` says how often
 * it was false since, to be put behind the line: "" or " (and 12 more)". One thread at a time; zero
 * it first. */
struct rcmi_log_rate {
    int64_t next_ns;
    unsigned missed;
};
#define RCMI_LOG_MORE 32
bool rcmi_log_rate_allows(struct rcmi_log_rate *rate, char more[RCMI_LOG_MORE]);

/* The rank shown in this thread's lines; -1 for none. Threads of a rank each call it. */
void rcmi_log_set_rank(int rank);

#endif
