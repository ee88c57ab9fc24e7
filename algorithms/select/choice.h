/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Algorithms that are named instead of chosen by price: RINGCOMM_ALGORITHM, and the same items in
 * the file of RINGCOMM_TUNING.
 *
 *      all_reduce=ring                         for all sizes
 *      all_reduce=binomial:0-32K,ring:32K-     by the bytes of the larger buffer of a rank; of two
 *                                              that hold a size the later one counts
 *      ring                                    for each collective that has one of that name
 *
 * Sizes that none holds, and collectives that are not named, go by price (select.c).
 */
#ifndef RCMI_CHOICE_H
#define RCMI_CHOICE_H

#include "items.h"
#include "plan.h"
#include "protocol.h"

struct rcmi_choice {
    enum rcm_collective collective;
    const struct rcmi_algorithm *algorithm;
    struct rcmi_range sizes;
    bool lenient; /* where it cannot do what is called, it is as if nothing named it */
};
struct rcmi_choices {
    size_t n;
    struct rcmi_choice *all; /* in the order in which they were said */
};

/* Does the item begin with a collective's name? */
bool rcmi_choice_known(const struct rcmi_item *item);
/* Takes all items of a text. RCM_ERR_CONFIG, RCM_ERR_INVALID or RCM_ERR_UNSUPPORTED name origin and
 * the piece; with `lenient`, algorithms that cannot run the shape are left out. RCM_ERR_NOMEM. */
rcm_status rcmi_choices_read(struct rcmi_choices *choices, const char *text, const char *origin,
                             const struct rcmi_shape *shape, bool lenient);
/* What is named for a size; NULL: nothing. The algorithm meets `needs` (enum rcmi_needs), or the
 * choice is not lenient. */
const struct rcmi_algorithm *rcmi_choices_find(const struct rcmi_choices *choices,
                                               enum rcm_collective collective, size_t bytes,
                                               uint32_t needs);
/* Those of another shape that can run this one. The others are logged. */
rcm_status rcmi_choices_keep(const struct rcmi_choices *from, const struct rcmi_shape *shape,
                             struct rcmi_choices *to);
void rcmi_choices_free(struct rcmi_choices *choices);

#endif
