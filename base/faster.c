/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of two ways is faster: see faster.h. */
#include "faster.h"

#include <stdatomic.h>
#include "clock.h"

#define INTERVAL_MIN    32
#define INTERVAL_MAX    1024
#define SMALL_EVERY     16    /* of the uses for small pieces is measured */
#define WEIGHT          0.25f /* of a new cost in what is known */
#define OUTLIER         8.0f  /* times what is known: the thread was interrupted */
#define CLEARLY         0.8f  /* the other way must be this much cheaper ... */
#define CLEARLY_OF_ROWS 0.9f  /* ... if the best of a row is known of each */

#define ROW 4 /* uses */
/* A row of the other way ends when the best of this many was this much dearer. */
#define ROW_AT_LEAST 2
#define HOPELESS     1.25f
/* So many times the other way is tried after so few rows, since what was measured first may have
 * been slow because it was the first. */
#define TRIES_EARLY 3
#define ROWS_EARLY  3

int rcmi_faster_way(struct rcmi_faster *faster) {
    if (faster->left > 0) {
        faster->left--;
        return faster->way;
    }
    if (faster->interval == 0)
        faster->interval = INTERVAL_MIN;
    faster->left = faster->interval;
    return !faster->way;
}

static void faster_switch(struct rcmi_faster *faster, int way) {
    faster->way = (uint8_t)way;
    faster->interval = faster->left = INTERVAL_MIN;
}

static void faster_learn(struct rcmi_faster *faster, int way, float cost, float clearly) {
    float *known = &faster->cost[way];
    if (way != faster->way) {
        *known = cost; /* what was known is old */
        if (faster->cost[faster->way] > 0 && cost < clearly * faster->cost[faster->way])
            faster_switch(faster, way);
        else if (faster->interval < INTERVAL_MAX)
            faster->interval *= 2;
        return;
    }
    const float seen = *known > 0 && cost > OUTLIER * *known ? OUTLIER * *known : cost;
    *known += *known > 0 ? WEIGHT * (seen - *known) : seen;
    if (faster->cost[!way] > 0 && faster->cost[!way] < clearly * *known)
        faster_switch(faster, !way);
}

void rcmi_faster_learn(struct rcmi_faster *faster, int way, float cost) {
    faster_learn(faster, way, cost, CLEARLY);
}

static int size_class(size_t bytes) {
    if (bytes >= RCMI_FASTER_LARGE)
        return bytes >= RCMI_FASTER_ALL ? 6 : bytes >= 2 * RCMI_FASTER_LARGE ? 5 : 4;
    return bytes >= 8 * RCMI_FASTER_MIN   ? 3
           : bytes >= 4 * RCMI_FASTER_MIN ? 2
           : bytes >= 2 * RCMI_FASTER_MIN ? 1
                                          : 0;
}

/* Is this use worth two looks at the clock? */
static bool faster_looks(const struct rcmi_faster *faster, int way, size_t bytes) {
    return bytes >= RCMI_FASTER_ALL || way != faster->way || faster->cost[way] == 0 ||
           faster->left % SMALL_EVERY == 0;
}

struct rcmi_try rcmi_try_begin(struct rcmi_faster_sizes *sizes, size_t bytes) {
    struct rcmi_try try = {.of = NULL};
    if (bytes < RCMI_FASTER_MIN)
        return try;
    struct rcmi_faster *faster = &sizes->of[size_class(bytes)];
    try.way = rcmi_faster_way(faster);
    if (faster_looks(faster, try.way, bytes)) {
        try.of = faster;
        try.began = rcmi_now_ns();
    }
    return try;
}

void rcmi_try_end(const struct rcmi_try *try, size_t bytes) {
    if (!try->of)
        return;
    /* What is still on its way to the caches costs as well. Orders nothing, has no partner. */
    atomic_thread_fence(memory_order_seq_cst);
    const float own = (float)(rcmi_now_ns() - try->began) * 1024.0f / (float)bytes;
    rcmi_faster_learn(try->of, try->way, own + try->more);
}

int rcmi_rows_size(size_t bytes) {
    return bytes > (size_t)8 << 20   ? 5
           : bytes > (size_t)1 << 20 ? 4
           : bytes > (size_t)1 << 17 ? 3
           : bytes > (size_t)1 << 15 ? 2
           : bytes > (size_t)1 << 14 ? 1
                                     : 0;
}

int rcmi_rows_way(struct rcmi_rows *rows) {
    if (rows->left == 0) {
        rows->way = (uint8_t)rcmi_faster_way(&rows->faster);
        rows->left = ROW;
        rows->best = 0;
    }
    return rows->way;
}

static bool row_is_hopeless(const struct rcmi_rows *rows) {
    const float known = rows->faster.cost[rows->faster.way];
    return rows->way != rows->faster.way && rows->left <= ROW - ROW_AT_LEAST && known > 0 &&
           rows->best > HOPELESS * known;
}

void rcmi_rows_learn(struct rcmi_rows *rows, int way, float cost) {
    if (rows->left == 0 || rows->unseen || way != rows->way)
        return;
    if (rows->best == 0 || cost < rows->best)
        rows->best = cost;
    if (--rows->left > 0 && !row_is_hopeless(rows))
        return;
    rows->left = 0;
    faster_learn(&rows->faster, way, rows->best, CLEARLY_OF_ROWS);
    if (way != rows->faster.way && rows->tries < TRIES_EARLY) {
        rows->tries++;
        rows->faster.left = ROWS_EARLY;
    }
}

bool rcmi_rows_may_pass(const struct rcmi_rows *rows) {
    const struct rcmi_faster *faster = &rows->faster;
    if (rows->left > 0)
        return rows->unseen;
    return faster->cost[faster->way] > 0 && faster->left % RCMI_ROWS_SEEN > 1;
}

void rcmi_rows_pass(struct rcmi_rows *rows) {
    (void)rcmi_rows_way(rows);
    rows->unseen = --rows->left > 0;
}

void rcmi_rows_see(struct rcmi_rows *rows) {
    if (rows->unseen)
        rows->left = 0;
    rows->unseen = false;
}
