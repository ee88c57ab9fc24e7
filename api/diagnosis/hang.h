/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The report of a hang: a table of what each rank is doing, and the conclusion in a sentence: which
 * rank is waited for, and why, or which ranks are missing from a monitored barrier. Pure functions
 * over rows; they are filled by inquiry.c (a late operation) and tools/info/live.c (ringcomm-info
 * --live).
 */
#ifndef RCMI_HANG_H
#define RCMI_HANG_H

#include <stdbool.h>
#include <stddef.h>
#include "activity.h"
#include "rank_set.h"

enum rcmi_hang_state {
    RCMI_ROW_NOT_ASKED,
    RCMI_ROW_SILENT,  /* asked, did not answer */
    RCMI_ROW_STOPPED, /* by the kernel; it has not answered, if it was asked */
    RCMI_ROW_BUSY,    /* moving, or about to look */
    RCMI_ROW_WAITS,
    RCMI_ROW_IDLE, /* in no operation */
};

struct rcmi_hang_row { /* rows stand in order of ranks: row r is of rank r */
    enum rcmi_hang_state state;
    bool on_chain;    /* a rank that waits waits for it, perhaps through others */
    bool runs;        /* of a silent one: by the kernel it is not stopped */
    bool known;       /* activity is there; of a rank that does not answer: from its status page */
    int pid;          /* 0 unknown */
    const char *host; /* "" unknown */
    struct rcmi_activity activity;
};

/* The origin: the rank, or -1, and a sentence without a full stop in any case. */
int rcmi_hang_conclude(const struct rcmi_hang_row *rows, int n, char *text, size_t cap);

/* Of a monitored barrier: the ranks that have not called it, and those of which that is not known
 * because they do not answer; if there are none of these, those that have, and do not answer any
 * more. */
struct rcmi_hang_barrier {
    uint64_t number; /* of the collective */
    bool first_only; /* only the lowest of them */
};
/* After rcmi_hang_conclude with `origin` and its sentence in text: lists them, in a sentence that
 * takes the place of that one or stands before it, and returns the origin, which is the lowest of
 * them if it was -1. None, or of more than RCMI_RANK_SET_MAX ranks: all is left as it is. */
int rcmi_hang_missing(const struct rcmi_hang_row *rows, int n,
                      const struct rcmi_hang_barrier *barrier, int origin,
                      struct rcmi_rank_set *ret_missing, char *text, size_t cap);

/* The table, a line per rank (of many ranks: per group of equal ones, and no more lines than people
 * read), each ended by a newline. */
#define RCMI_HANG_TABLE_BYTES 12288 /* is always enough */
void rcmi_hang_table(const struct rcmi_hang_row *rows, int n, char *text, size_t cap);

/* Sets on_chain of all that `rank` waits for, directly or through others, by their activities. */
void rcmi_hang_follow(struct rcmi_hang_row *rows, int n, int rank);

/* "a send to rank 3", as short as a cell of the table. Also for tools. */
void rcmi_hang_operation(const struct rcmi_hang_row *row, char *text, size_t cap);

#endif
