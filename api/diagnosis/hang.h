/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The report of a hang: a table of what each rank is doing, and the conclusion in a sentence. The
 * conclusion names the rank that is waited for, and why, or the ranks missing from a monitored
 * barrier. Pure functions over rows, which inquiry.c (a late operation) and tools/info/live.c
 * (ringcomm-info --live) fill.
 */
#ifndef RCMI_HANG_H
#define RCMI_HANG_H

#include <stdbool.h>
#include <stddef.h>
#include "activity.h"
#include "rank_set.h"

enum rcmi_hang_state {
    RCMI_ROW_NOT_QUERIED,
    RCMI_ROW_SILENT,  /* queried, did not answer */
    RCMI_ROW_STOPPED, /* by the kernel's state; without an answer, if it was queried */
    RCMI_ROW_BUSY,    /* moving, or about to look */
    RCMI_ROW_WAITS,
    RCMI_ROW_IDLE, /* in no operation */
};

struct rcmi_hang_row { /* in rank order: row r is rank r */
    enum rcmi_hang_state state;
    bool on_chain;    /* a waiting rank waits for it, directly or through others */
    bool runs;        /* silent, but not stopped by the kernel's state */
    bool known;       /* activity is set; for a silent rank from its status page */
    int pid;          /* 0 unknown */
    const char *host; /* "" unknown */
    struct rcmi_activity activity;
};

/* Finds the origin. Returns its rank, or -1, and always a sentence without a full stop. */
int rcmi_hang_conclude(const struct rcmi_hang_row *rows, int n, char *text, size_t cap);

/* A monitored barrier. Missing are the ranks that have not called it, and those for which this is
 * unknown because they do not answer. If there are no such ranks, those that have called it and no
 * longer answer. */
struct rcmi_hang_barrier {
    uint64_t number; /* of the collective */
    bool first_only; /* only the lowest missing rank */
};
/* Lists the missing ranks; call it after rcmi_hang_conclude, with its `origin` and its sentence in
 * text. The list replaces that sentence, or precedes it. Returns the origin; if that was -1, the
 * lowest missing rank. With none missing, or more than RCMI_RANK_SET_MAX ranks, nothing changes. */
int rcmi_hang_missing(const struct rcmi_hang_row *rows, int n,
                      const struct rcmi_hang_barrier *barrier, int origin,
                      struct rcmi_rank_set *ret_missing, char *text, size_t cap);

/* Writes the table, one line per rank, each ended by a newline. With many ranks: one line per group
 * of equal ones, and no more lines than people read. */
#define RCMI_HANG_TABLE_BYTES 12288 /* always sufficient */
void rcmi_hang_table(const struct rcmi_hang_row *rows, int n, char *text, size_t cap);

/* Sets on_chain of all ranks that `rank` waits for, directly or through others, by their
 * activities. */
void rcmi_hang_follow(struct rcmi_hang_row *rows, int n, int rank);

/* Writes a row's operation as a table cell. Also for tools. */
void rcmi_hang_operation(const struct rcmi_hang_row *row, char *text, size_t cap);

#endif
