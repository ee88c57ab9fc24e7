/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines on stderr: "ringcomm [rank 3] warning: text". The level comes from RINGCOMM_LOG (error,
 * warn, info, debug; default warn), read once, or from rcm_log_set_level. rcm_log_set passes lines
 * to a function of the program instead, which may be called wherever a line is logged. The library
 * records errors and logs them once, when a communicator fails; everything else is info or debug.
 */
#ifndef RCMI_LOG_H
#define RCMI_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum rcmi_log_level { RCMI_LOG_ERROR, RCMI_LOG_WARN, RCMI_LOG_INFO, RCMI_LOG_DEBUG };

/* Is descriptor 2 still stderr? False for good once it was found closed. */
bool rcmi_log_has_stderr(void);

bool rcmi_log_enabled(enum rcmi_log_level level);

void rcmi_log(enum rcmi_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Logs several newline-terminated lines, each with a line head, in one write. */
void rcmi_log_lines(enum rcmi_log_level level, const char *lines);

/* Log rate limit, for lines that others can trigger at will: true once a second. `more` is to be
 * appended to the line: "" or " (and 12 more)" with the number of suppressed lines. One thread at a
 * time; zero the struct first. */
struct rcmi_log_rate {
    int64_t next_ns;
    unsigned missed;
};
#define RCMI_LOG_MORE 32
bool rcmi_log_rate_allows(struct rcmi_log_rate *rate, char more[RCMI_LOG_MORE]);

/* Sets the rank shown in this thread's lines; -1: none. Each thread of a rank calls it. */
void rcmi_log_set_rank(int rank);

#endif
