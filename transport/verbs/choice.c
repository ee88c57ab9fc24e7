/* SPDX-License-Identifier: BSD-3-Clause */
#include "choice.h"

static bool ports_match(const struct verbs_offered *a, const struct verbs_offered *b) {
    return a->layer == b->layer && a->subnet == b->subnet;
}

/* Of the pair: the slower port's. */
static uint32_t pair_speed(const struct verbs_offered *a, const struct verbs_offered *b) {
    return a->speed < b->speed ? a->speed : b->speed;
}

bool verbs_choose(const struct verbs_offered *mine, int nmine, const struct verbs_offered *theirs,
                  int ntheirs, unsigned spread, struct verbs_choice *ret_choice) {
    struct verbs_choice best[VERBS_PORTS_MAX * VERBS_PORTS_MAX];
    unsigned n = 0;
    uint32_t fastest = 0;
    for (int i = 0; i < nmine && i < VERBS_PORTS_MAX; i++)
        for (int k = 0; k < ntheirs && k < VERBS_PORTS_MAX; k++) {
            const uint32_t speed = pair_speed(&mine[i], &theirs[k]);
            if (!ports_match(&mine[i], &theirs[k]) || (n > 0 && speed < fastest))
                continue;
            if (n > 0 && speed > fastest)
                n = 0;
            fastest = speed;
            best[n++] = (struct verbs_choice){i, k};
        }
    if (n > 0)
        *ret_choice = best[spread % n];
    return n > 0;
}
