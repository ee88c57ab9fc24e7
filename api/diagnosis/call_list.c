/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last calls of this rank as text, for a hang report: they show what led to the hang. Programs
 * repeat the same calls, so equal calls in a row share a line.
 *
 *      called by rank 2, the last first:
 *        1003: all_reduce of 1000 float32, sum (two_shot)
 *        3 to 1002: barrier (flat), 1000 times
 *
 * Not here: how they are stored (call_log.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "diagnosis.h"

#define LINE_BYTES 256
#define LINES_READ 20 /* of a report, unless all are requested */

/* Equal calls in a row. */
struct streak {
    uint64_t first, last;
    char text[LINE_BYTES - 64];
};

/* Finds the streak that ends with that call; false: the call is no longer stored. */
static bool streak_find(const struct rcmi_call_log *log, uint64_t last, struct streak *streak) {
    struct rcmi_call_record record;
    char text[sizeof(streak->text)];
    if (last == 0 || !rcmi_call_log_read(log, last, &record))
        return false;
    rcmi_call_record_describe(&record, streak->text, sizeof(streak->text));
    streak->first = streak->last = last;
    while (streak->first > 1 && rcmi_call_log_read(log, streak->first - 1, &record)) {
        rcmi_call_record_describe(&record, text, sizeof(text));
        if (strcmp(text, streak->text) != 0)
            break;
        streak->first--;
    }
    return true;
}

static size_t streak_write(const struct streak *streak, char *text) {
    const uint64_t n = streak->last - streak->first + 1;
    int len =
        n == 1
            ? snprintf(text, LINE_BYTES, "    %" PRIu64 ": %s\n", streak->last, streak->text)
            : snprintf(text, LINE_BYTES, "    %" PRIu64 " to %" PRIu64 ": %s, %" PRIu64 " times\n",
                       streak->first, streak->last, streak->text, n);
    return len > 0 && len < LINE_BYTES ? (size_t)len : 0;
}

char *rcmi_calls_list(const struct rcmi_call_log *log, int rank, bool all) {
    const int lines = all ? RCMI_CALLS_KEPT : LINES_READ;
    char *text = malloc(((size_t)lines + 2) * LINE_BYTES);
    uint64_t last = rcmi_call_log_last(log);
    struct streak streak;
    size_t used = 0;
    if (!text)
        return NULL;
    text[0] = '\0';
    bool more = streak_find(log, last, &streak);
    if (more)
        used = (size_t)snprintf(text, LINE_BYTES, "  called by rank %d, the last first:\n", rank);
    for (int i = 0; more && i < lines; i++) {
        used += streak_write(&streak, text + used);
        more = streak_find(log, streak.first - 1, &streak);
    }
    if (more)
        snprintf(text + used, LINE_BYTES,
                 "    and others before (RINGCOMM_LOG=info shows the last %d calls)\n",
                 RCMI_CALLS_KEPT);
    return text;
}
