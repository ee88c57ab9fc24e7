/* SPDX-License-Identifier: BSD-3-Clause */
/* See hang.h: the ranks missing from a monitored barrier. */
#include <inttypes.h>
#include <string.h>
#include "hang_text.h"

#define RANGES_TEXT 60 /* length of a list of ranks in a sentence; then "and N more" */

static bool has_not_called(row_t *row, uint64_t number) {
    return row->state != RCMI_ROW_NOT_QUERIED && !(row->known && row->activity.called >= number);
}

static bool does_not_answer(row_t *row, uint64_t number) {
    (void)number;
    return row->state == RCMI_ROW_STOPPED || (row->state == RCMI_ROW_SILENT && !row->runs);
}

/* Collects at most `most` ranks for which `is` holds; returns how many. */
static int missing_collect(row_t *rows, int n, uint64_t number, bool (*is)(row_t *, uint64_t),
                           int most, struct rcmi_rank_set *set) {
    int found = 0;
    for (int r = 0; r < n && found < most; r++) {
        if (!is(&rows[r], number))
            continue;
        rcmi_rank_set_add(set, (uint32_t)r);
        found++;
    }
    return found;
}

/* Adds "1, 3-7 and 12 more". */
static void add_ranges(char *text, size_t cap, const struct rcmi_rank_set *set, int count) {
    const size_t begin = strlen(text);
    for (uint32_t r = 0; count > 0; r++) {
        uint32_t last = r;
        if (!rcmi_rank_set_has(set, r))
            continue;
        if (strlen(text) - begin > RANGES_TEXT) {
            rcmi_text_add(text, cap, " and %d more", count);
            return;
        }
        while (rcmi_rank_set_has(set, last + 1))
            last++;
        rcmi_text_add(text, cap, "%s%" PRIu32, strlen(text) > begin ? ", " : "", r);
        if (last > r)
            rcmi_text_add(text, cap, "%s%" PRIu32, last == r + 1 ? ", " : "-", last);
        count -= (int)(last - r + 1);
        r = last;
    }
}

/* Adds "is in recv from rank 1 (tag 7)", "is stopped, in no operation ...". */
static void add_doing(char *text, size_t cap, row_t *row) {
    char doing[128];
    const bool answers = row->state > RCMI_ROW_STOPPED;
    if (!answers)
        rcmi_text_add(text, cap, " %s",
                      row->state == RCMI_ROW_STOPPED ? "is stopped" : "does not answer");
    if (!row->known)
        return;
    rcmi_activity_describe(&row->activity, doing, sizeof(doing));
    rcmi_text_add(text, cap, "%s%s", answers ? " is in " : ", in ", doing);
}

/* Adds what each does instead, as far as it fits. */
static void add_each_doing(char *text, size_t cap, row_t *rows, const struct rcmi_rank_set *set,
                           int count) {
    const char *separator = ": ";
    for (uint32_t r = 0; count > 0; r++) {
        char one[256] = "";
        if (!rcmi_rank_set_has(set, r))
            continue;
        rcmi_text_add_rank(one, sizeof(one), rows, (int)r);
        add_doing(one, sizeof(one), &rows[r]);
        if (strlen(text) + strlen(one) + sizeof(", and 99999 more") > cap) {
            rcmi_text_add(text, cap, ", and %d more", count);
            return;
        }
        rcmi_text_add(text, cap, "%s%s", separator, one);
        separator = ", ";
        count--;
    }
}

static int missing_find(row_t *rows, int n, const struct rcmi_hang_barrier *barrier,
                        struct rcmi_rank_set *ret_missing) {
    const int most = barrier->first_only ? 1 : n;
    *ret_missing = (struct rcmi_rank_set){.nranks = (uint32_t)n};
    const int count = missing_collect(rows, n, barrier->number, has_not_called, most, ret_missing);
    return count > 0
               ? count
               : missing_collect(rows, n, barrier->number, does_not_answer, most, ret_missing);
}

static void add_missing(char *text, size_t cap, row_t *rows, const struct rcmi_rank_set *missing,
                        int count) {
    rcmi_text_add(text, cap, count == 1 ? "rank " : "ranks ");
    add_ranges(text, cap, missing, count);
    rcmi_text_add(text, cap, count == 1 ? " is missing" : " are missing");
    add_each_doing(text, cap, rows, missing, count);
}

int rcmi_hang_missing(const struct rcmi_hang_row *rows, int n,
                      const struct rcmi_hang_barrier *barrier, int origin,
                      struct rcmi_rank_set *ret_missing, char *text, size_t cap) {
    struct rcmi_rank_set missing;
    char why[256] = "";
    const int count = n <= RCMI_RANK_SET_MAX ? missing_find(rows, n, barrier, &missing) : 0;
    if (count == 0)
        return origin;
    if (origin >= 0 && !barrier->first_only && !rcmi_rank_set_has(&missing, (uint32_t)origin))
        rcmi_text_add(why, sizeof(why), "; %s", text); /* keeps the missing ones away */
    text[0] = '\0';
    add_missing(text, cap, rows, &missing, count);
    rcmi_text_add(text, cap, "%s", why);
    *ret_missing = missing;
    for (uint32_t r = 0; origin < 0 || barrier->first_only; r++)
        if (rcmi_rank_set_has(&missing, r))
            return (int)r;
    return origin;
}
