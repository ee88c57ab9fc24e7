/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding an algorithm by name, or by estimated cost. */
#include "plan.h"

#include <stdio.h>
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
        return rcmi_fail(RCM_ERR_INVALID, 0, "no %s algorithm is called \"%.64s\"; there are %s",
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

rcm_status rcmi_algorithm_check_order(const struct rcmi_algorithm *algorithm, const char *op) {
    if (rcmi_algorithm_is_ordered(algorithm))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "%s is not commutative, and %s algorithm %s does not keep the order of ranks",
                     op, rcmi_collective_name(algorithm->collective), algorithm->name);
}

const struct rcmi_algorithm *rcmi_algorithm_select(enum rcm_collective collective,
                                                   const struct rcmi_shape *shape, size_t bytes,
                                                   bool ordered) {
    const struct rcmi_algorithm *best = NULL;
    double best_us = 0;
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        const struct rcmi_algorithm *candidate = rcmi_algorithms[i];
        if (!rcmi_algorithm_does(candidate, collective) || !candidate->supports(shape) ||
            (ordered && !rcmi_algorithm_is_ordered(candidate)))
            continue;
        const double us = candidate->cost_us(candidate, shape, bytes);
        if (!best || us < best_us) {
            best = candidate;
            best_us = us;
        }
    }
    return best;
}
