/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds an algorithm by name, or by price. */
#include "cost.h"
#include "entry.h"
#include "plan.h"
#include "price.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"

#define NAMES_BYTES 256

bool rcmi_algorithm_does(const struct rcmi_algorithm *algorithm, enum rcm_collective collective) {
    const struct rcmi_collective *row = rcmi_collective_at((int)collective);
    return row && algorithm->collective == row->like &&
           (row->counts != RCMI_COUNTS_PAIR || algorithm->by_step);
}

static void names_list(enum rcm_collective collective, char *names, size_t size) {
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        if (!rcmi_algorithm_does(rcmi_algorithms[i], collective) || used >= size)
            continue;
        const int n =
            snprintf(names + used, size - used, "%s%s", used ? ", " : "", rcmi_algorithms[i]->name);
        used += n > 0 ? (size_t)n : 0;
    }
}

static const struct rcmi_algorithm *algorithm_by_name(enum rcm_collective collective,
                                                      const char *name) {
    for (size_t i = 0; rcmi_algorithms[i]; i++)
        if (rcmi_algorithm_does(rcmi_algorithms[i], collective) &&
            strcmp(rcmi_algorithms[i]->name, name) == 0)
            return rcmi_algorithms[i];
    return NULL;
}

rcm_status rcmi_algorithm_find(enum rcm_collective collective, const char *name,
                               const struct rcmi_shape *shape,
                               const struct rcmi_algorithm **ret_algorithm) {
    const struct rcmi_algorithm *algorithm = algorithm_by_name(collective, name ? name : "");
    if (!algorithm) {
        char names[NAMES_BYTES];
        names_list(collective, names, sizeof(names));
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s has no algorithm \"%.64s\". Choose one of %s",
                         rcmi_collective_name(collective), name ? name : "", names);
    }
    if (!algorithm->supports(shape))
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s algorithm %s cannot run %d ranks on %d host%s",
                         rcmi_collective_name(collective), name, shape->nranks, shape->nhosts,
                         shape->nhosts == 1 ? "" : "s");
    *ret_algorithm = algorithm;
    return RCM_OK;
}

bool rcmi_algorithm_is_ordered(const struct rcmi_algorithm *algorithm) {
    const struct rcmi_collective *row = rcmi_collective_at((int)algorithm->collective);
    return algorithm->ordered || row->contributors != RCM_CONTRIBUTORS_ALL;
}

bool rcmi_algorithm_meets(const struct rcmi_algorithm *algorithm, uint32_t needs) {
    return !(needs & RCMI_NEEDS_ORDER && !rcmi_algorithm_is_ordered(algorithm)) &&
           !(needs & RCMI_NEEDS_NO_SPANS && algorithm->spans);
}

bool rcmi_spans_fit(size_t element_bytes, size_t slot_bytes, int n) {
    return element_bytes <= slot_bytes / (n < RCMI_SPAN_MAX ? (unsigned)n : RCMI_SPAN_MAX);
}

rcm_status rcmi_algorithm_check_order(const struct rcmi_algorithm *algorithm, const char *op) {
    if (rcmi_algorithm_is_ordered(algorithm))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "%s is not commutative, but %s algorithm %s does not keep the order of ranks",
                     op, rcmi_collective_name(algorithm->collective), algorithm->name);
}

/* ---- By price -------------------------------------------------------------------------------- */

struct rcmi_selection {
    const struct rcmi_shape *shape;
    bool counted[RCMI_COLLECTIVES];
    struct {
        size_t bytes;
        const struct rcmi_algorithm *algorithm; /* NULL: not computed yet */
    } last[RCMI_COLLECTIVES][RCMI_NEEDS_END];
    struct rcmi_cost *costs[]; /* by table entry; NULL until its collective was counted */
};

static size_t table_length(void) {
    size_t n = 0;
    while (rcmi_algorithms[n])
        n++;
    return n;
}

rcm_status rcmi_selection_create(const struct rcmi_shape *shape, struct rcmi_selection **ret) {
    struct rcmi_selection *selection =
        calloc(1, sizeof(*selection) + table_length() * sizeof(selection->costs[0]));
    if (!selection)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to select algorithms");
    selection->shape = shape;
    *ret = selection;
    return RCM_OK;
}

void rcmi_selection_free(struct rcmi_selection *selection) {
    for (size_t i = 0; selection && rcmi_algorithms[i]; i++)
        free(selection->costs[i]);
    free(selection);
}

static rcm_status selection_count(struct rcmi_selection *s, enum rcm_collective collective) {
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        const struct rcmi_algorithm *a = rcmi_algorithms[i];
        if (s->costs[i] || !rcmi_algorithm_does(a, collective) || !a->supports(s->shape))
            continue;
        struct rcmi_cost *cost = calloc(1, sizeof(*cost));
        if (!cost)
            return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to count the work of %s", a->name);
        const rcm_status status = rcmi_cost_count(a, s->shape, 0, cost);
        if (status != RCM_OK) {
            free(cost);
            return status;
        }
        s->costs[i] = cost;
    }
    s->counted[collective] = true;
    return RCM_OK;
}

/* Equal counts are added in different orders; smaller relative differences of prices are
 * ignored. */
#define ROUNDING 1e-9

static const struct rcmi_algorithm *selection_cheapest(const struct rcmi_selection *s,
                                                       enum rcm_collective collective, size_t bytes,
                                                       uint32_t needs) {
    const struct rcmi_algorithm *best = NULL;
    double best_us = 0;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        if (!s->costs[i] || !rcmi_algorithm_does(rcmi_algorithms[i], collective) ||
            !rcmi_algorithm_meets(rcmi_algorithms[i], needs))
            continue;
        const struct rcmi_price price =
            rcmi_price(s->costs[i], rcmi_shape_prices(s->shape), s->shape, bytes);
        if (!best || rcmi_price_us(&price) < best_us * (1 - ROUNDING)) {
            best = rcmi_algorithms[i];
            best_us = rcmi_price_us(&price);
        }
    }
    return best;
}

rcm_status rcmi_algorithm_select(struct rcmi_selection *selection, enum rcm_collective collective,
                                 size_t bytes, uint32_t needs,
                                 const struct rcmi_algorithm **ret_algorithm) {
    RCMI_ENTRY;
    if (!selection->counted[collective]) {
        const rcm_status status = selection_count(selection, collective);
        if (status != RCM_OK)
            return status;
    }
    if (!selection->last[collective][needs].algorithm ||
        selection->last[collective][needs].bytes != bytes) {
        selection->last[collective][needs].algorithm =
            selection_cheapest(selection, collective, bytes, needs);
        selection->last[collective][needs].bytes = bytes;
    }
    *ret_algorithm = selection->last[collective][needs].algorithm;
    return RCM_OK;
}
