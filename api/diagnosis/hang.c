/* SPDX-License-Identifier: BSD-3-Clause */
/* See hang.h: which rank is waited for, and why, by a list of rules. */
#include <inttypes.h>
#include <string.h>
#include "hang_text.h"
#include "plan.h"
#include "ringcomm.h"

#define FOLLOW_MAX 1024 /* with more ranks it is not checked whether all wait for one */

/* ---- Waiting --------------------------------------------------------------------------------- */

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

/* ---- Sentences ------------------------------------------------------------------------------- */

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

/* Adds "never called all_reduce number 12: it is in ...". */
static void add_never_called(char *text, size_t cap, row_t *rows, int n, int rank) {
    const int other = waits_in_one_not_called(rows, n, rank);
    char doing[128];
    if (!rows[rank].known)
        return;
    if (other >= 0 && rows[other].activity.parting)
        rcmi_text_add(text, cap, " never called rcm_destroy:");
    else if (other >= 0)
        rcmi_text_add(text, cap, " never called %s number %" PRIu64 ":",
                      rcmi_collective_name((enum rcm_collective)rows[other].activity.collective),
                      rows[other].activity.sequence);
    rcmi_activity_describe(&rows[rank].activity, doing, sizeof(doing));
    rcmi_text_add(text, cap, "%s is %sin %s", other >= 0 ? " it" : "",
                  rows[rank].state == RCMI_ROW_IDLE ? "alive, but " : "", doing);
}

/* ---- Rules: the first that applies decides; each returns a rank or -1 ------------------------ */

static int find_stopped(row_t *rows, int n, bool on_chain) {
    for (int r = 0; r < n; r++)
        if (rows[r].on_chain == on_chain && rows[r].state == RCMI_ROW_STOPPED)
            return r;
    return -1;
}

/* Prefers a rank that is not known to run. */
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

/* Adds the sentence about a rank that does not answer. Returns rank, which may be -1. */
static int add_mute(char *text, size_t cap, row_t *rows, int n, int rank) {
    if (rank < 0)
        return -1;
    rcmi_text_add_rank(text, cap, rows, rank);
    rcmi_text_add(text, cap, " %s",
                  rows[rank].state == RCMI_ROW_STOPPED ? "is stopped"
                  : rows[rank].runs
                      ? "does not answer, though it is not stopped: it hangs, or waits for a "
                        "processor"
                      : "does not answer: it is stopped, hangs, or cannot be reached");
    if (rows[rank].known) {
        rcmi_text_add(text, cap, "; it");
        add_never_called(text, cap, rows, n, rank);
    }
    return rank;
}

static int rule_stopped(row_t *rows, int n, char *text, size_t cap) {
    return add_mute(text, cap, rows, n, find_stopped(rows, n, true));
}

/* The chain continues behind a rank that runs, but answered too late. It most likely ends at a
 * stopped rank. */
static int rule_silent(row_t *rows, int n, char *text, size_t cap) {
    const int silent = find_silent(rows, n, true);
    const int stopped = silent >= 0 && rows[silent].runs ? find_stopped(rows, n, false) : -1;
    return add_mute(text, cap, rows, n, stopped >= 0 ? stopped : silent);
}

/* The chain continues behind a rank that did not answer what it waits for. */
static int rule_silent_behind(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++)
        if (rows[r].on_chain && rows[r].state == RCMI_ROW_BUSY) {
            const int stopped = find_stopped(rows, n, false);
            return add_mute(text, cap, rows, n,
                            stopped >= 0 ? stopped : find_silent(rows, n, false));
        }
    return -1;
}

/* A send or receive with a rank that is in rcm_destroy. */
static int rule_parting(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        row_t *row = &rows[r];
        const int peer = row->known && row->activity.sequence == 0 ? row->activity.waits_for : -1;
        if (row->state != RCMI_ROW_WAITS || peer < 0 || peer >= n || !rows[peer].on_chain ||
            !rows[peer].known || !rows[peer].activity.parting)
            continue;
        char doing[128];
        rcmi_activity_describe(&row->activity, doing, sizeof(doing));
        rcmi_text_add_rank(text, cap, rows, peer);
        rcmi_text_add(text, cap, " is in rcm_destroy, and ");
        rcmi_text_add_rank(text, cap, rows, r);
        rcmi_text_add(text, cap, " still in %s", doing);
        return peer;
    }
    return -1;
}

/* Whether it is in no collective, and not about to be. */
static bool stays_away(row_t *row) {
    return row->known && row->activity.sequence == 0 &&
           (row->state == RCMI_ROW_IDLE || row->state == RCMI_ROW_WAITS);
}

/* The rank that keeps `rank`, which is in no collective, from calling one. If a rank waits in a
 * send or receive for a rank that is in no collective either, the latter is the origin. -1: they
 * wait in a cycle, or for a rank whose state is unknown. */
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
    rcmi_text_add_rank(text, cap, rows, found);
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
        rcmi_text_add_rank(text, cap, rows, r);
        rcmi_text_add(text, cap, " is alive, but in %s", doing);
        return r;
    }
    return -1;
}

/* A rank that was not queried. */
static int rule_unknown(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        if (!rows[r].on_chain || rows[r].state != RCMI_ROW_NOT_QUERIED)
            continue;
        rcmi_text_add_rank(text, cap, rows, r);
        rcmi_text_add(text, cap, " keeps the others waiting; its state is unknown");
        return r;
    }
    return -1;
}

/* A rank that moves, or did not answer in time, while others wait in a collective that it has not
 * begun. It may have called it a moment ago. */
static int rule_not_begun(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        row_t *row = &rows[r];
        if (!row->on_chain || !row->known || row->state != RCMI_ROW_BUSY ||
            row->activity.sequence > 0)
            continue;
        const int other = waits_in_one_not_called(rows, n, r);
        if (other < 0 || rows[other].activity.parting)
            continue;
        rcmi_text_add_rank(text, cap, rows, r);
        rcmi_text_add(text, cap, " is at work, and has not begun %s number %" PRIu64,
                      rcmi_collective_name((enum rcm_collective)rows[other].activity.collective),
                      rows[other].activity.sequence);
        return r;
    }
    return -1;
}

/* A rank that receives from any source. */
static int rule_any_source(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        const struct rcmi_activity *a = &rows[r].activity;
        char doing[128];
        if (rows[r].state != RCMI_ROW_WAITS || !rows[r].known || a->sequence > 0 ||
            a->transfer == RCMI_TRANSFER_NONE || a->peer != RCM_ANY_SOURCE)
            continue;
        rcmi_activity_describe(a, doing, sizeof(doing));
        rcmi_text_add_rank(text, cap, rows, r);
        rcmi_text_add(text, cap, " is in %s, and no rank sent to it", doing);
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

/* The peer of a waiting rank, if that peer waits too; -1. */
static int waits_for_one_that_waits(row_t *rows, int n, int rank) {
    const int peer = rows[rank].activity.waits_for;
    const bool waits = rows[rank].state == RCMI_ROW_WAITS && rows[rank].known && peer >= 0 &&
                       peer < n && rows[peer].state == RCMI_ROW_WAITS;
    return waits ? peer : -1;
}

/* A collective's own copy or reduction is in progress, in memory with asynchronous operations, or
 * is queued behind unfinished work of a stream. */
static int rule_operation(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        row_t *row = &rows[r];
        if (!row->on_chain || !row->known || row->state != RCMI_ROW_WAITS ||
            row->activity.sequence == 0 || row->activity.waits_for != r)
            continue;
        rcmi_text_add_rank(text, cap, rows, r);
        rcmi_text_add(text, cap,
                      " waits for its device: for an operation on its memory, or for the stream");
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
    rcmi_text_add(text, cap, "all wait for each other, and ");
    rcmi_text_add_rank(text, cap, rows, last);
    rcmi_text_add(text, cap, ", which is furthest behind, for ");
    rcmi_text_add_rank(text, cap, rows, rows[last].activity.waits_for);
    return rows[last].activity.waits_for;
}

static int rule_busy(row_t *rows, int n, char *text, size_t cap) {
    for (int r = 0; r < n; r++) {
        if (!rows[r].on_chain || rows[r].state != RCMI_ROW_BUSY)
            continue;
        rcmi_text_add_rank(text, cap, rows, r);
        rcmi_text_add(text, cap, " is at work, and the others wait for it");
        return r;
    }
    rcmi_text_add(text, cap, "the others are at work");
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
            rcmi_text_add(text, cap, "; all others wait for it");
    }
    return rank;
}
