/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures the library's log during a test. Only the log, at level info, contains the reason why a
 * transport was declined. So stderr goes to a file; at the end its warnings and errors are copied
 * to stderr. Not for: a test's findings (check_frame.h).
 */
#ifndef RINGCOMM_TOOLS_CHECK_LOG_H
#define RINGCOMM_TOOLS_CHECK_LOG_H

#include <stddef.h>
#include <stdio.h>

struct check_log {
    FILE *file;    /* NULL: not available, so the log goes to stderr */
    int stderr_fd; /* the original stderr */
};

/* begin redirects stderr to the file until end. It sets the log's level to info, which works only
 * if this process has not logged before: the level is read once. */
void check_log_begin(struct check_log *log);
void check_log_end(struct check_log *log);

/* The text after `before` in the last line that contains it; "": no such line. Other threads may
 * log at the same time. */
void check_log_find(const struct check_log *log, const char *before, char *ret_text, size_t cap);

#endif
