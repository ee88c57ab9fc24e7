/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the log says while a test uses the library: why a transport was declined is there, at level
 * info, and nowhere else. So the log goes to a file, and what is of warnings and errors to stderr
 * in the end. Not for: what a test has found (check_frame.h).
 */
#ifndef RINGCOMM_TOOLS_CHECK_LOG_H
#define RINGCOMM_TOOLS_CHECK_LOG_H

#include <stddef.h>
#include <stdio.h>

struct check_log {
    FILE *file;    /* NULL: there is none, and the log goes to stderr */
    int stderr_fd; /* where it went before */
};

/* From now on, until the end, stderr is the file; the log's level is info, if
 * this process has not logged before: the level is read once. */
void check_log_begin(struct check_log *log);
void check_log_end(struct check_log *log);

/* What follows `before` in the last line that has it; "": there is none. Beside threads that
 * log. */
void check_log_find(const struct check_log *log, const char *before, char *ret_text, size_t cap);

#endif
