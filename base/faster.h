/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of two ways to do the same work is faster at present, found out by doing: mostly the one
 * that was faster lately, and now and then the other one, to see whether that has changed. The
 * other one is tried the less often the more often it was slower.
 *
 * For choices that depend on the machine and its mood, such as how far apart two cores are, and
 * that matter only to the one who makes them. Not for what ranks have to agree on.
 */
#ifndef RCMI_FASTER_H
#define RCMI_FASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed: way 0 is in use, nothing is known. Not for several threads at once. */
struct rcmi_faster {
    float cost[2];     /* lately, in ns per KiB; 0: not known */
    uint16_t interval; /* from one look at the other way to the next, in uses */
    uint16_t left;     /* of it */
    uint8_t way;       /* in use */
};

/* By the size of the piece of work, since what is faster depends on it. Two looks at a clock, and
 * to wait for stores that are on their way, take up to 0.1 us: so of small pieces only some are
 * measured. */
#define RCMI_FASTER_MIN   ((size_t)1 << 10)
#define RCMI_FASTER_LARGE ((size_t)16 << 10)
#define RCMI_FASTER_ALL   ((size_t)128 << 10) /* from here on each one is */
#define RCMI_FASTER_SIZES 7
struct rcmi_faster_sizes {
    struct rcmi_faster of[RCMI_FASTER_SIZES];
};

/* One use. */
struct rcmi_try {
    struct rcmi_faster *of; /* NULL: not measured */
    int way;
    int64_t began; /* by rcmi_now_ns */
    float more;    /* what this way costs somebody else beside, in ns per KiB */
};

/* Which way shall this piece go? */
struct rcmi_try rcmi_try_begin(struct rcmi_faster_sizes *sizes, size_t bytes);
/* It is done, and the CPU's stores too before the clock is looked at. */
void rcmi_try_end(const struct rcmi_try *try, size_t bytes);

/* What the two above are made of: the way of the next use, and what a use did cost. */
int rcmi_faster_way(struct rcmi_faster *faster);
void rcmi_faster_learn(struct rcmi_faster *faster, int way, float cost);

/* The same for uses of which the first one after a change says little, since it finds the caches as
 * the other way has left them, and of which any may be interrupted: a few are made in a row, and
 * the best one of them counts. Two are enough of a way that is far slower. Zeroed: nothing is
 * known. */
struct rcmi_rows {
    struct rcmi_faster faster;
    uint8_t way, left; /* of the row of now; how many of its uses are to come */
    uint8_t tries;     /* of the other way, early */
    bool unseen;       /* the uses of this row are not measured */
    float best;        /* of the row, in ns per KiB; 0: none yet */
};

/* By size: up to 16 KiB, where a call of the kernel is dear, 32 KiB, 128 KiB, 1 MiB, 8 MiB, where
 * caches end, and beyond. */
#define RCMI_ROWS_SIZES 6
int rcmi_rows_size(size_t bytes);

/* Which way shall the next use go? */
int rcmi_rows_way(struct rcmi_rows *rows);
/* One went this way, and cost so much; only what the row was for counts. */
void rcmi_rows_learn(struct rcmi_rows *rows, int way, float cost);

/* Where to measure is dear, most rows of the way that is faster may go by unmeasured: all but two
 * of so many, one of them the last before the other way is tried. May the next use? It does. The
 * next one will be measured after all: a row that is going by ends. */
#define RCMI_ROWS_SEEN 32
bool rcmi_rows_may_pass(const struct rcmi_rows *rows);
void rcmi_rows_pass(struct rcmi_rows *rows);
void rcmi_rows_see(struct rcmi_rows *rows);

#endif
