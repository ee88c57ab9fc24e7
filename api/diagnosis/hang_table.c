/* SPDX-License-Identifier: BSD-3-Clause */
/* See hang.h: the table of what each rank is doing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "hang_text.h"
#include "plan.h"
#include "ringcomm.h"

#define SINGLE_ROWS_MAX 16 /* with more ranks, equal ones share a line */
#define LINES_MAX       40

static const char *state_word(enum rcmi_hang_state state) {
    return state == RCMI_ROW_SILENT    ? "no answer"
           : state == RCMI_ROW_STOPPED ? "stopped"
                                       : "not queried";
}

void rcmi_hang_operation(const struct rcmi_hang_row *row, char *text, size_t cap) {
    const struct rcmi_activity *a = &row->activity;
    const bool answers = row->state > RCMI_ROW_STOPPED;
    char doing[128], call[128];
    text[0] = '\0';
    if (!answers)
        rcmi_text_add(text, cap, "%s%s", state_word(row->state), row->known ? ", in " : "");
    if (!row->known)
        return;
    rcmi_activity_describe(a, doing, sizeof(doing));
    rcmi_call_describe(a, call, sizeof(call));
    if (a->sequence > 0 && !a->parting) /* both begin with "all_reduce" */
        rcmi_text_add(text, cap, "%s%s", doing,
                      call + strlen(rcmi_collective_name((enum rcm_collective)a->collective)));
    else
        rcmi_text_add(text, cap, "%s", doing);
    if (a->failed != RCM_OK)
        rcmi_text_add(text, cap, ", failed: %s", rcm_status_name((rcm_status)a->failed));
}

/* Ranks share a line if their rows differ only in progress. */
static bool rows_are_alike(row_t *a, row_t *b) {
    char x[256], y[256];
    const bool both_answer = a->state > RCMI_ROW_STOPPED && b->state > RCMI_ROW_STOPPED;
    if ((a->state != b->state && !both_answer) || a->known != b->known ||
        strcmp(a->host, b->host) != 0)
        return false;
    rcmi_hang_operation(a, x, sizeof(x));
    rcmi_hang_operation(b, y, sizeof(y));
    return strcmp(x, y) == 0;
}

struct line {
    char ranks[40], waits[32];
    int count, first;
    int waits_for; /* -2 none yet, -1 several */
    uint32_t low_step, high_step, nsteps;
    uint64_t low_done, high_done, longest_ms;
};

/* Adds rank to a list of ranges, "0-6,8", that ends with `last`; "..." when it is full. */
static void ranges_add(char *text, size_t cap, int rank, int *begin, int *last) {
    if (*last == rank - 1 && *last >= 0) {
        char *tail = strrchr(text, ',');
        tail = tail ? tail + 1 : text;
        if (strcmp(tail, "...") != 0)
            snprintf(tail, cap - (size_t)(tail - text), "%d-%d", *begin, rank);
    } else {
        const size_t used = strlen(text);
        if (used + 26 > cap && used >= 3)
            snprintf(text + used, cap - used, "%s", strcmp(text + used - 3, "...") ? ",..." : "");
        else
            snprintf(text + used, cap - used, "%s%d", used ? "," : "", rank);
        *begin = rank;
    }
    *last = rank;
}

static void line_add(struct line *line, row_t *row) {
    const struct rcmi_activity *a = &row->activity;
    const int waits_for = row->known && row->state != RCMI_ROW_IDLE ? a->waits_for : -1;
    line->waits_for = line->count == 0 || line->waits_for == waits_for ? waits_for : -1;
    if (line->count == 0 || a->step < line->low_step)
        line->low_step = a->step;
    if (line->count == 0 || a->step > line->high_step)
        line->high_step = a->step;
    if (line->count == 0 || a->done < line->low_done)
        line->low_done = a->done;
    if (line->count == 0 || a->done > line->high_done)
        line->high_done = a->done;
    if (a->waited_ms > line->longest_ms)
        line->longest_ms = a->waited_ms;
    line->nsteps = a->nsteps;
    line->count++;
}

static void range_print(uint64_t low, uint64_t high, char *text, size_t cap) {
    text[0] = '\0';
    rcmi_text_add(text, cap, "%" PRIu64, low);
    if (high != low)
        rcmi_text_add(text, cap, "-%" PRIu64, high);
}

static void line_print(const struct line *line, row_t *rows, char *text, size_t cap) {
    row_t *row = &rows[line->first];
    const struct rcmi_activity *a = &row->activity;
    char operation[256], step[40] = "-", done[48] = "-", waits[32] = "-", since[24] = "-";
    char pid[16] = "-";
    if (row->pid > 0)
        snprintf(pid, sizeof(pid), "%d%s", row->pid, line->count > 1 ? ",..." : "");
    rcmi_hang_operation(row, operation, sizeof(operation));
    if (row->known && a->sequence > 0 && line->nsteps > 0) {
        range_print(line->low_step, line->high_step, step, sizeof(step));
        rcmi_text_add(step, sizeof(step), "/%" PRIu32, line->nsteps);
        range_print(line->low_done, line->high_done, done, sizeof(done));
    }
    if (line->waits_for >= 0)
        snprintf(waits, sizeof(waits), "rank %d", line->waits_for);
    else if (line->count > 1 && row->known && rcmi_activity_is_busy(a))
        snprintf(waits, sizeof(waits), "several");
    if (row->known && rcmi_activity_is_busy(a))
        snprintf(since, sizeof(since), "%.1f s", (double)line->longest_ms / 1000);
    rcmi_text_add(text, cap, "  %-8s  %-12.32s  %-7s  %-56s  %-5s  %-7s  %-9s  %s\n", line->ranks,
                  row->host[0] ? row->host : "-", pid, operation, step, done, waits, since);
}

/* The line of row `first` and of all later rows that are alike. */
static void line_make(row_t *rows, int n, int first, struct line *line) {
    int begin = -1, last = -2;
    *line = (struct line){.first = first};
    for (int r = first; r < n; r++) {
        if (r > first && (n <= SINGLE_ROWS_MAX || !rows_are_alike(&rows[first], &rows[r])))
            continue;
        line_add(line, &rows[r]);
        ranges_add(line->ranks, sizeof(line->ranks), r, &begin, &last);
    }
}

static bool has_a_line(row_t *rows, int before, int rank) {
    for (int r = 0; r < before; r++)
        if (rows_are_alike(&rows[r], &rows[rank]))
            return true;
    return false;
}

void rcmi_hang_table(const struct rcmi_hang_row *rows, int n, char *text, size_t cap) {
    struct line line;
    int lines = 0, shown = 0;
    text[0] = '\0';
    rcmi_text_add(text, cap, "  %-8s  %-12s  %-7s  %-56s  %-5s  %-7s  %-9s  %s\n", "rank", "host",
                  "pid", "operation", "step", "bytes", "waits for", "for");
    for (int r = 0; r < n && lines < LINES_MAX; r++) {
        if (n > SINGLE_ROWS_MAX && has_a_line(rows, r, r))
            continue;
        line_make(rows, n, r, &line);
        line_print(&line, rows, text, cap);
        shown += line.count;
        lines++;
    }
    if (shown < n)
        rcmi_text_add(text, cap, "  ... and %d more ranks\n", n - shown);
}
