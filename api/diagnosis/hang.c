/* SPDX-License-Identifier: BSD-3-Clause */
/* See hang.h. */
#include "hang.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "plan.h"
#include "ringcomm.h"

#define SINGLE_ROWS_MAX 16 /* of more ranks, equal ones share a line */
#define LINES_MAX       40
#define FOLLOW_MAX      1024 /* of more ranks it is not looked whether all wait for one */
#define RANGES_TEXT     60   /* of a list of ranks in a sentence; then it says how many more */

typedef const struct rcmi_hang_row row_t;

/* ---- Waiting -------------------------------------------------------------------------------- */

void rcmi_hang_follow(struct rcmi_hang_row *rows, int n, int rank) {
    for (int hops = 0; hops < n && rows[rank].known; hops++) {
        rank = rows[rank].activity.waits_for;
        if (rank < 0 || rank >= n || rows[rank].on_chain)
            return;
        rows[rank].on_chain = true;
    }
}

static bool waits_through_to(row_t *rows, int n, int rank, int target) {
    for (int hops = 0; hops < n; hops++) {
        if (rank == target)
            return true;
        if (rows[rank].state != RCMI_ROW_WAITS)
            return false;
        rank = rows[rank].activity.waits_for;
        if (rank < 0 || rank >= n)
            return false;
    }
    return false;
}

static bool all_wait_for(row_t *rows, int n, int target) {
    if (n < 3 || n > FOLLOW_MAX)
        return false;
    for (int r = 0; r < n; r++)
        if (!waits_through_to(rows, n, r, target))
            return false;
    return true;
}

/* ---- Sentences ------------------------------------------------------------------------------ */

/* Appends; what does not fit is cut. */
static void add(char *text, size_t cap, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t cap, const char *format, ...) {
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, cap - used, format, args);
    va_end(args);
}

static void add_who(char *text, size_t cap, row_t *rows, int rank) {
    add(text, cap, "rank %d", rank);
    if (rows[rank].pid > 0)
        add(text, cap, " (pid %d%s%.64s)", rows[rank].pid, rows[rank].host[0] ? " on " : "",
            rows[rank].host);
}

/* The rank that waits in the first collective that `rank` has not called; -1. */
static int waits_in_one_not_called(row_t *rows, int n, int rank) {
    int found = -1;
    for (int r = 0; r < n && rows[rank].known; r++)
        if (r != rank && rows[r].state == RCMI_ROW_WAITS &&
            rows[r].activity.sequence > rows[rank].activity.called &&
            (found < 0 || rows[r].activity.sequence < rows[found].activity.sequence))
            found = r;
    return found;
}

/* "never called all_reduce number 12: it is in ..." */
static void add_never_called(char *text, size_t cap, row_t *rows, int n, int rank) {
    const int other = waits_in_one_not_called(rows, n, rank);
    char doing[128];
    if (!rows[rank].known)
        return;
    if (other >= 0 && rows[other].activity.parting)
        add(text, cap, " never called rcm_destroy:");
    else if (other >= 0)
        add(text, cap, " never called %s number %" PRIu64 ":",
            rcmi_collective_name((enum rcm_collective)rows[other].activity.collective),
            rows[other].activity.sequence);
    rcmi_activity_describe(&rows[rank].activity, doing, sizeof(doing));
    add(text, cap, "%s is %sin %s", other >= 0 ? " it" : "",
        rows[rank].state == RCMI_ROW_IDLE ? "alive, but " : "", doing);
}

/* ---- Rules, the first that applies decides; each returns a rank or -1 ----------------------- */

static int find_stopped(row_t *rows, int n, bool on_chain) {
    for (int r = 0; r < n; r++)
        if (rows[r].on_chain == on_chain && rows[r].state == RCMI_ROW_STOPPED)
            return r;
    return -1;
}

/* One that is not seen to run comes first. */
static int find_silent(row_t *rows, int n, bool on_chain) {
    int found = -1;
    for (int r = 0; r < n; r++) {
        if (rows[r].on_chain != on_chain || rows[r].state != RCMI_ROW_SILENT)
            continue;
        if (!rows[r].runs)
            return r;
        if (found < 0)
            found = r;
    }
    return found;
}

/* The sentence on a rank that does not answer; rank may be -1. Returns it. */
static int add_mute(char *text, size_t cap, row_t *rows, int n, int rank) {
    if (rank < 0)
        return -1;
    add_who(text, cap, rows, rank);
    add(text, cap, " %s",
        rows[rank].state == RCMI_ROW_STOPPED ? "is stopped"
        : rows[rank].runs ? "does not answer, though it is not stopped: it hangs, or waits for a "
                            "processor"
                          : "does not answer: it is stopped, hangs, or cannot be reached");
    if (rows[rank].known) {
        add(text, cap, "; it");
        add_never_called(text, cap, rows, n, rank);
    }
    return rank;
}

static int rule_stopped(row_t *rows, int n, char *text, size_t cap) {
    return add_mute(text, cap, rows, n, find_stopped(rows, n, true));
}

/* The chain goes on behind a rank that runs, but was too late with its answer: more likely than not
 * it ends at one that is stopped. */
static int rule_silent(row_t *rows, int n, char *text, size_t cap) {
    const int silent = find_silent(rows, n, true);
    const int stopped = silent >= 0 && rows[silent].runs ? find_stopped(rows, n, false) : -1;
    return add_mute(text, cap, rows, n, stopped >= 0 ? stopped : silent);
}

/* The chain goes on behind a rank that did not come to answer what it waits for. */
static int rule_silent_behind(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++)
        if (rows[r].on_chain && rows[r].state == RCMI_ROW_BUSY) {
            const int stopped = find_stopped(rows, n, false);
            return add_mute(text, cap, rows, n,
                            stopped >= 0 ? stopped : find_silent(rows, n, false));
        }
    return -1;
}

/* A send or receive with a rank that has come to rcm_destroy. */
static int rule_parting(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        row_t *row = &rows[r];
        const int peer = row->known && row->activity.sequence == 0 ? row->activity.waits_for : -1;
        if (row->state != RCMI_ROW_WAITS || peer < 0 || peer >= n || !rows[peer].on_chain ||
            !rows[peer].known || !rows[peer].activity.parting)
            continue;
        char doing[128];
        rcmi_activity_describe(&row->activity, doing, sizeof(doing));
        add_who(text, cap, rows, peer);
        add(text, cap, " is in rcm_destroy, and ");
        add_who(text, cap, rows, r);
        add(text, cap, " still in %s", doing);
        return peer;
    }
    return -1;
}

/* In no collective, and not about to be. */
static bool stays_away(row_t *row) {
    return row->known && row->activity.sequence == 0 &&
           (row->state == RCMI_ROW_IDLE || row->state == RCMI_ROW_WAITS);
}

/* The rank that keeps `rank`, which is in no collective, from coming: one that waits in a send or
 * receive for one that is in none either is not the origin, that one is. -1: they wait in a circle,
 * or for one that nothing is known of. */
static int end_of_transfers(row_t *rows, int n, int rank) {
    for (int hops = 0; hops < n; hops++) {
        const int peer = rows[rank].activity.waits_for;
        if (rows[rank].state != RCMI_ROW_WAITS || peer < 0 || peer >= n ||
            (rows[peer].known && rows[peer].activity.sequence > 0))
            return rank;
        if (!stays_away(&rows[peer]))
            return -1;
        rank = peer;
    }
    return -1;
}

static int rule_never_called(row_t *rows, int n, char *text, size_t cap) {
    int found = -1;
    for (int r = 0; r < n; r++) {
        if (!rows[r].on_chain || !stays_away(&rows[r]))
            continue;
        const int end = end_of_transfers(rows, n, r);
        if (end >= 0 && waits_in_one_not_called(rows, n, end) >= 0 &&
            (found < 0 || rows[end].activity.called < rows[found].activity.called))
            found = end;
    }
    if (found < 0)
        return -1;
    add_who(text, cap, rows, found);
    add_never_called(text, cap, rows, n, found);
    return found;
}

static int rule_idle(row_t *rows, int n, char *text, size_t cap) {
    char doing[128] = "no operation";
    for (int r = 0; r < n; r++) {
        if (!rows[r].on_chain || rows[r].state != RCMI_ROW_IDLE)
            continue;
        if (rows[r].known)
            rcmi_activity_describe(&rows[r].activity, doing, sizeof(doing));
        add_who(text, cap, rows, r);
        add(text, cap, " is alive, but in %s", doing);
        return r;
    }
    return -1;
}

/* A rank that was not asked. */
static int rule_unknown(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        if (!rows[r].on_chain || rows[r].state != RCMI_ROW_NOT_ASKED)
            continue;
        add_who(text, cap, rows, r);
        add(text, cap, " is waited for; what it does is not known here");
        return r;
    }
    return -1;
}

/* A rank that moves, or did not come to look, while others wait in a collective that it has not
 * begun; it may have called it a moment ago. */
static int rule_not_begun(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        row_t *row = &rows[r];
        if (!row->on_chain || !row->known || row->state != RCMI_ROW_BUSY ||
            row->activity.sequence > 0)
            continue;
        const int other = waits_in_one_not_called(rows, n, r);
        if (other < 0 || rows[other].activity.parting)
            continue;
        add_who(text, cap, rows, r);
        add(text, cap, " is at work, and has not begun %s number %" PRIu64,
            rcmi_collective_name((enum rcm_collective)rows[other].activity.collective),
            rows[other].activity.sequence);
        return r;
    }
    return -1;
}

/* A rank that waits for whoever sends to it. */
static int rule_any_source(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        const struct rcmi_activity *a = &rows[r].activity;
        char doing[128];
        if (rows[r].state != RCMI_ROW_WAITS || !rows[r].known || a->sequence > 0 ||
            a->transfer == RCMI_TRANSFER_NONE || a->peer != RCM_ANY_SOURCE)
            continue;
        rcmi_activity_describe(a, doing, sizeof(doing));
        add_who(text, cap, rows, r);
        add(text, cap, " is in %s, and no rank sent to it", doing);
        return r;
    }
    return -1;
}

static bool is_behind(const struct rcmi_activity *a, const struct rcmi_activity *b) {
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence;
    if (a->done != b->done)
        return a->done < b->done;
    return a->step < b->step;
}

/* The rank that a waiting rank waits for, if that waits itself; -1. */
static int waits_for_one_that_waits(row_t *rows, int n, int rank) {
    const int peer = rows[rank].activity.waits_for;
    const bool waits = rows[rank].state == RCMI_ROW_WAITS && rows[rank].known && peer >= 0 &&
                       peer < n && rows[peer].state == RCMI_ROW_WAITS;
    return waits ? peer : -1;
}

/* A collective's own copy or reduction is under way, in memory whose operations finish later, or
 * comes after what a stream has not done. */
static int rule_operation(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        row_t *row = &rows[r];
        if (!row->on_chain || !row->known || row->state != RCMI_ROW_WAITS ||
            row->activity.sequence == 0 || row->activity.waits_for != r)
            continue;
        add_who(text, cap, rows, r);
        add(text, cap, " waits for its device: for an operation on its memory, or for the stream");
        return r;
    }
    return -1;
}

static int rule_circle(row_t *rows, int n, char *text, size_t cap) {
    int last = -1;
    for (int r = 0; r < n; r++)
        if (rows[r].on_chain && rows[r].state == RCMI_ROW_BUSY)
            return -1; /* it is about to move, or to answer what it waits for */
    for (int r = 0; r < n; r++)
        if (waits_for_one_that_waits(rows, n, r) >= 0 &&
            (last < 0 || is_behind(&rows[r].activity, &rows[last].activity)))
            last = r;
    if (last < 0)
        return -1;
    add(text, cap, "all wait for each other, and ");
    add_who(text, cap, rows, last);
    add(text, cap, ", which is furthest behind, for ");
    add_who(text, cap, rows, rows[last].activity.waits_for);
    return rows[last].activity.waits_for;
}

static int rule_busy(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        if (!rows[r].on_chain || rows[r].state != RCMI_ROW_BUSY)
            continue;
        add_who(text, cap, rows, r);
        add(text, cap, " is waited for, and at work");
        return r;
    }
    add(text, cap, "the others are at work");
    return -1;
}

int rcmi_hang_conclude(const struct rcmi_hang_row *rows, int n, char *text, size_t cap) {
    static int (*const rules[])(row_t *, int, char *, size_t) = {
        rule_stopped,   rule_silent,     rule_parting,       rule_never_called,
        rule_idle,      rule_unknown,    rule_silent_behind, rule_not_begun,
        rule_operation, rule_any_source, rule_circle,        rule_busy,
    };
    const size_t nrules = sizeof(rules) / sizeof(rules[0]);
    int rank = -1;
    text[0] = '\0';
    for (size_t i = 0; i < nrules && rank < 0; i++) {
        text[0] = '\0';
        rank = rules[i](rows, n, text, cap);
        if (rank >= 0 && rules[i] != rule_circle && rules[i] != rule_busy &&
            all_wait_for(rows, n, rank))
            add(text, cap, "; everybody else waits for it");
    }
    return rank;
}

/* ---- Missing from a monitored barrier ------------------------------------------------------- */

static bool has_not_called(row_t *row, uint64_t number) {
    return row->state != RCMI_ROW_NOT_ASKED && !(row->known && row->activity.called >= number);
}

static bool does_not_answer(row_t *row, uint64_t number) {
    (void)number;
    return row->state == RCMI_ROW_STOPPED || (row->state == RCMI_ROW_SILENT && !row->runs);
}

/* Collects the ranks of which that is true, at most `most`; returns how many. */
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

/* "1, 3-7 and 12 more" */
static void add_ranges(char *text, size_t cap, const struct rcmi_rank_set *set, int count) {
    const size_t begin = strlen(text);
    for (uint32_t r = 0; count > 0; r++) {
        uint32_t last = r;
        if (!rcmi_rank_set_has(set, r))
            continue;
        if (strlen(text) - begin > RANGES_TEXT) {
            add(text, cap, " and %d more", count);
            return;
        }
        while (rcmi_rank_set_has(set, last + 1))
            last++;
        add(text, cap, "%s%" PRIu32, strlen(text) > begin ? ", " : "", r);
        if (last > r)
            add(text, cap, "%s%" PRIu32, last == r + 1 ? ", " : "-", last);
        count -= (int)(last - r + 1);
        r = last;
    }
}

/* "is in recv from rank 1 (tag 7)", "is stopped, in no operation ..." */
static void add_doing(char *text, size_t cap, row_t *row) {
    char doing[128];
    const bool answers = row->state > RCMI_ROW_STOPPED;
    if (!answers)
        add(text, cap, " %s", row->state == RCMI_ROW_STOPPED ? "is stopped" : "does not answer");
    if (!row->known)
        return;
    rcmi_activity_describe(&row->activity, doing, sizeof(doing));
    add(text, cap, "%s%s", answers ? " is in " : ", in ", doing);
}

/* What each does instead, as far as there is room. */
static void add_each_doing(char *text, size_t cap, row_t *rows, const struct rcmi_rank_set *set,
                           int count) {
    const char *separator = ": ";
    for (uint32_t r = 0; count > 0; r++) {
        char one[256] = "";
        if (!rcmi_rank_set_has(set, r))
            continue;
        add_who(one, sizeof(one), rows, (int)r);
        add_doing(one, sizeof(one), &rows[r]);
        if (strlen(text) + strlen(one) + sizeof(", and 99999 more") > cap) {
            add(text, cap, ", and %d more", count);
            return;
        }
        add(text, cap, "%s%s", separator, one);
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
    add(text, cap, count == 1 ? "rank " : "ranks ");
    add_ranges(text, cap, missing, count);
    add(text, cap, count == 1 ? " is missing" : " are missing");
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
        add(why, sizeof(why), "; %s", text); /* one that keeps the missing from coming */
    text[0] = '\0';
    add_missing(text, cap, rows, &missing, count);
    add(text, cap, "%s", why);
    *ret_missing = missing;
    for (uint32_t r = 0; origin < 0 || barrier->first_only; r++)
        if (rcmi_rank_set_has(&missing, r))
            return (int)r;
    return origin;
}

/* ---- The table ------------------------------------------------------------------------------ */

static const char *state_word(enum rcmi_hang_state state) {
    return state == RCMI_ROW_SILENT    ? "no answer"
           : state == RCMI_ROW_STOPPED ? "stopped"
                                       : "not asked";
}

void rcmi_hang_operation(const struct rcmi_hang_row *row, char *text, size_t cap) {
    const struct rcmi_activity *a = &row->activity;
    const bool answers = row->state > RCMI_ROW_STOPPED;
    char doing[128], call[128];
    text[0] = '\0';
    if (!answers)
        add(text, cap, "%s%s", state_word(row->state), row->known ? ", in " : "");
    if (!row->known)
        return;
    rcmi_activity_describe(a, doing, sizeof(doing));
    rcmi_call_describe(a, call, sizeof(call));
    if (a->sequence > 0 && !a->parting) /* "all_reduce" stands at the head of both */
        add(text, cap, "%s%s", doing,
            call + strlen(rcmi_collective_name((enum rcm_collective)a->collective)));
    else
        add(text, cap, "%s", doing);
    if (a->failed != RCM_OK)
        add(text, cap, ", failed: %s", rcm_status_name((rcm_status)a->failed));
}

/* Ranks share a line if a reader would see no difference but how far they are. */
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
    add(text, cap, "%" PRIu64, low);
    if (high != low)
        add(text, cap, "-%" PRIu64, high);
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
        add(step, sizeof(step), "/%" PRIu32, line->nsteps);
        range_print(line->low_done, line->high_done, done, sizeof(done));
    }
    if (line->waits_for >= 0)
        snprintf(waits, sizeof(waits), "rank %d", line->waits_for);
    else if (line->count > 1 && row->known && rcmi_activity_is_busy(a))
        snprintf(waits, sizeof(waits), "several");
    if (row->known && rcmi_activity_is_busy(a))
        snprintf(since, sizeof(since), "%.1f s", (double)line->longest_ms / 1000);
    add(text, cap, "  %-8s  %-12.32s  %-7s  %-56s  %-5s  %-7s  %-9s  %s\n", line->ranks,
        row->host[0] ? row->host : "-", pid, operation, step, done, waits, since);
}

/* The line of row `first` and of all later ones like it. */
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
    add(text, cap, "  %-8s  %-12s  %-7s  %-56s  %-5s  %-7s  %-9s  %s\n", "rank", "host", "pid",
        "operation", "step", "bytes", "waits for", "for");
    for (int r = 0; r < n && lines < LINES_MAX; r++) {
        if (n > SINGLE_ROWS_MAX && has_a_line(rows, r, r))
            continue;
        line_make(rows, n, r, &line);
        line_print(&line, rows, text, cap);
        shown += line.count;
        lines++;
    }
    if (shown < n)
        add(text, cap, "  ... and %d more ranks\n", n - shown);
}
