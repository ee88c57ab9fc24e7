/* SPDX-License-Identifier: BSD-3-Clause */
/* See hang_text.h. */
#include "hang_text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rcmi_text_add(char *text, size_t cap, const char *format, ...) {
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, cap - used, format, args);
    va_end(args);
}

void rcmi_text_add_rank(char *text, size_t cap, row_t *rows, int rank) {
    rcmi_text_add(text, cap, "rank %d", rank);
    if (rows[rank].pid > 0)
        rcmi_text_add(text, cap, " (pid %d%s%.64s)", rows[rank].pid,
                      rows[rank].host[0] ? " on " : "", rows[rank].host);
}
