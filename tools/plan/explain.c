/* SPDX-License-Identifier: BSD-3-Clause */
/* ringcomm-plan --explain; see explain.h. */
#include "explain.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "../common.h"
#include "cost.h"
#include "error.h"
#include "price.h"
#include "settings.h"

#define ELEMENT_BYTES 4 /* float32 */
#define MIB           1048576.0

bool explain_prices(struct rcmi_prices *ret_prices) {
    char *text;
    const char *at;
    struct rcmi_item item;
    rcm_status status = rcmi_tuning_text(&text);
    *ret_prices = *rcmi_prices_of(rcmi_cpu());
    if (status == RCM_OK) {
        at = text;
        while ((status == RCM_OK || status == RCM_ERR_NOT_FOUND) && rcmi_item_next(&at, &item))
            status = rcmi_prices_take(&item, rcmi_setting("RINGCOMM_TUNING"), ret_prices);
        free(text);
    }
    if (status != RCM_OK && status != RCM_ERR_NOT_FOUND) {
        tool_error("%s", rcmi_last_error()->text);
        return false;
    }
    return true;
}

struct candidate {
    const struct rcmi_algorithm *algorithm;
    struct rcmi_cost cost;
    struct rcmi_price price;
};

static int candidate_compare(const void *x, const void *y) {
    const struct candidate *a = x, *b = y;
    const double us = rcmi_price_us(&a->price), other = rcmi_price_us(&b->price);
    if (us != other)
        return us < other ? -1 : 1;
    return a < b ? -1 : 1; /* the candidates are in the table's order: the earlier one wins */
}

static struct candidate *candidates_make(enum rcm_collective collective,
                                         const struct rcmi_shape *shape, size_t bytes,
                                         size_t *ret_n) {
    size_t lines = 0, n = 0;
    while (rcmi_algorithms[lines])
        lines++;
    struct candidate *all = calloc(lines, sizeof(*all));
    for (size_t i = 0; all && i < lines; i++) {
        struct candidate *c = &all[n];
        c->algorithm = rcmi_algorithms[i];
        if (!rcmi_algorithm_does(c->algorithm, collective) || !c->algorithm->supports(shape))
            continue;
        if (rcmi_cost_count(c->algorithm, shape, 0, &c->cost) != RCM_OK) {
            free(all);
            return NULL;
        }
        c->price = rcmi_price(&c->cost, rcmi_shape_prices(shape), shape, bytes);
        n++;
    }
    if (all)
        qsort(all, n, sizeof(*all), candidate_compare);
    *ret_n = n;
    return all;
}

/* ---- The table ------------------------------------------------------------------------------- */

static void print_head(enum rcm_collective collective, const struct rcmi_shape *shape,
                       size_t bytes) {
    printf("# %s of %zu bytes, %d rank%s on %d host%s%s; %s\n", rcmi_collective_name(collective),
           bytes, shape->nranks, shape->nranks == 1 ? "" : "s", shape->nhosts,
           shape->nhosts == 1 ? "" : "s",
           shape->loopback && shape->nhosts > 1 ? " of one machine" : "",
           shape->ranks_per_cpu > 1 ? "ranks share CPUs" : "each rank has a CPU");
    printf("# counted work: messages in a row, of these between hosts; of the busiest rank: "
           "messages at\n"
           "#   both ends, MiB moved, MiB added. Predicted microseconds, and what they are made "
           "of.\n");
    printf("# %-18s %5s %7s %8s %9s %9s %11s %9s %9s %9s %9s %9s\n", "algorithm", "hops", "between",
           "messages", "moved", "added", "predict_us", "hops", "messages", "moved", "sums", "wire");
}

static void print_candidate(const struct candidate *c, size_t bytes) {
    const struct rcmi_load *busiest = &c->cost.busiest;
    const double mib = (double)bytes / MIB;
    printf("%-20s %5.0f %7.1f %8.0f %9.4g %9.4g %11.2f %9.2f %9.2f %9.2f %9.2f %9.2f\n",
           c->algorithm->name, c->cost.hops[RCMI_WITHIN] + c->cost.hops[RCMI_BETWEEN],
           c->cost.hops[RCMI_BETWEEN],
           busiest->messages[RCMI_WITHIN] + busiest->messages[RCMI_BETWEEN],
           (busiest->moved[RCMI_WITHIN] + busiest->moved[RCMI_BETWEEN]) * mib, busiest->sums * mib,
           rcmi_price_us(&c->price), c->price.hops, c->price.messages, c->price.moved,
           c->price.sums, c->price.wire);
}

static void print_refused(enum rcm_collective collective, const struct rcmi_shape *shape) {
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        const struct rcmi_algorithm *a = rcmi_algorithms[i], *found;
        if (rcmi_algorithm_does(a, collective) &&
            rcmi_algorithm_find(collective, a->name, shape, &found) != RCM_OK)
            printf("# refused: %s\n", rcmi_last_error()->text);
    }
}

/* ---- Why ------------------------------------------------------------------------------------- */

/* The part in which a saves most compared with b. */
static const char *largest_saving(const struct rcmi_price *a, const struct rcmi_price *b,
                                  double *ret_us) {
    const struct {
        const char *name;
        double us;
    } parts[] = {{"messages in a row", b->hops - a->hops},
                 {"messages to handle", b->messages - a->messages},
                 {"bytes to move", b->moved - a->moved},
                 {"bytes to add", b->sums - a->sums},
                 {"bytes between machines", b->wire - a->wire}};
    const char *name = parts[0].name;
    *ret_us = parts[0].us;
    for (size_t i = 1; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].us > *ret_us) {
            name = parts[i].name;
            *ret_us = parts[i].us;
        }
    return name;
}

static void print_choice(const struct candidate *all, size_t n) {
    const double us = rcmi_price_us(&all[0].price);
    double saved;
    printf("# chosen: %s", all[0].algorithm->name);
    if (n == 1) {
        printf(", the only one that fits\n");
        return;
    }
    const double second = rcmi_price_us(&all[1].price);
    if (us == 0)
        printf(", the first of the table; a single rank sends nothing\n");
    else if (second == us)
        printf(", predicted to take as long as %s, which comes later in the table\n",
               all[1].algorithm->name);
    else {
        const char *what = largest_saving(&all[0].price, &all[1].price, &saved);
        printf(", predicted %.2f times as fast as %s: fewer %s (%.2f us)\n", second / us,
               all[1].algorithm->name, what, saved);
    }
}

/* Prints how the vector is cut into chunks and slices. false: an error was printed. */
static bool print_sizes(const struct rcmi_algorithm *best, const struct rcmi_shape *shape, int root,
                        size_t bytes) {
    struct rcmi_plan *plan;
    int64_t slot;
    if (best->emit(best, shape, 0, root, &plan) != RCM_OK ||
        rcmi_setting_slot_bytes(shape->nranks, &slot) != RCM_OK) {
        tool_error("%s", rcmi_last_error()->text);
        return false;
    }
    const size_t count = bytes / ELEMENT_BYTES / plan->larger;
    const size_t chunk = rcmi_chunk_max(count, ELEMENT_BYTES, plan->parts) * ELEMENT_BYTES;
    const size_t slices = chunk == 0 ? 1 : (chunk + (size_t)slot - 1) / (size_t)slot;
    if (best->collective != RCM_BARRIER)
        printf("# %u chunk%s of at most %zu bytes (float32), %zu slice%s of at most %lld bytes "
               "(RINGCOMM_SLOT_BYTES)\n",
               plan->nchunks, plan->nchunks == 1 ? "" : "s", chunk, slices, slices == 1 ? "" : "s",
               (long long)slot);
    rcmi_plan_free(plan);
    return true;
}

bool explain(enum rcm_collective collective, const struct rcmi_shape *shape, int root,
             size_t bytes) {
    size_t n;
    struct candidate *all = candidates_make(collective, shape, bytes, &n);
    if (!all) {
        tool_error("out of memory");
        return false;
    }
    print_head(collective, shape, bytes);
    for (size_t i = 0; i < n; i++)
        print_candidate(&all[i], bytes);
    print_choice(all, n);
    const bool ok = print_sizes(all[0].algorithm, shape, root, bytes);
    print_refused(collective, shape);
    free(all);
    return ok;
}
