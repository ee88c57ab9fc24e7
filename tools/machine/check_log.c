/* SPDX-License-Identifier: BSD-3-Clause */
/* Redirects the log to a file; see check_log.h. */
#include "check_log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

void check_log_begin(struct check_log *log) {
    log->file = tmpfile();
    log->stderr_fd = log->file ? dup(STDERR_FILENO) : -1;
    if (log->stderr_fd >= 0)
        (void)!dup2(fileno(log->file), STDERR_FILENO);
    setenv("RINGCOMM_LOG", "info", 1);
}

void check_log_end(struct check_log *log) {
    char line[1200];
    if (log->stderr_fd < 0)
        return;
    (void)!dup2(log->stderr_fd, STDERR_FILENO);
    close(log->stderr_fd);
    rewind(log->file);
    while (fgets(line, sizeof(line), log->file))
        if (!strstr(line, " info: "))
            fputs(line, stderr);
    fclose(log->file);
}

/* Uses pread: the descriptor's offset is where other threads write the log. */
void check_log_find(const struct check_log *log, const char *before, char *ret_text, size_t cap) {
    char line[1200];
    size_t len = 0;
    ret_text[0] = '\0';
    for (off_t at = 0; log->file && pread(fileno(log->file), &line[len], 1, at) == 1; at++) {
        if (line[len] != '\n' && len + 2 < sizeof(line)) {
            len++;
            continue;
        }
        line[len] = '\0';
        len = 0;
        const char *found = strstr(line, before);
        if (found)
            snprintf(ret_text, cap, "%s", found + strlen(before));
    }
}
