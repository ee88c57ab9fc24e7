/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Algorithms chosen by name instead of by price: RINGCOMM_ALGORITHM, and the same items in the file
 * of RINGCOMM_TUNING.
 *
 *      all_reduce=ring                         for all sizes
 *      all_reduce=binomial:0-32K,ring:32K-     by the bytes of the larger buffer of a rank; if two
 *                                              ranges contain a size, the later one counts
 *      ring                                    each collective that has an algorithm of that name
 *
 * Other sizes, and collectives that are not named, are selected by price (select.c).
 */
#ifndef RCMI_CHOICE_H
#define RCMI_CHOICE_H

#include "assignments.h"
#include "plan.h"
#include "protocol.h"

struct rcmi_choice {
    enum rcm_collective collective;
    const struct rcmi_algorithm *algorithm;
    struct rcmi_range sizes;
    bool lenient; /* ignored for calls that the algorithm cannot do */
};
struct rcmi_choices {
    size_t n;
    struct rcmi_choice *all; /* in text order */
};

/* Does the item begin with a collective's name? */
bool rcmi_choice_known(const struct rcmi_item *item);
/* Reads all items of a text. RCM_ERR_CONFIG, RCM_ERR_INVALID and RCM_ERR_UNSUPPORTED name the
 * origin and the piece; with `lenient`, algorithms that cannot run the shape are skipped.
 * RCM_ERR_NOMEM. */
rcm_status rcmi_choices_read(struct rcmi_choices *choices, const char *text, const char *origin,
                             const struct rcmi_shape *shape, bool lenient);
/* The choice for a size; NULL: none. A lenient choice must meet `needs` (enum rcmi_needs). */
const struct rcmi_algorithm *rcmi_choices_find(const struct rcmi_choices *choices,
                                               enum rcm_collective collective, size_t bytes,
                                               uint32_t needs);
/* Copies the choices that can run this shape; logs the others. */
rcm_status rcmi_choices_keep(const struct rcmi_choices *from, const struct rcmi_shape *shape,
                             struct rcmi_choices *to);
void rcmi_choices_free(struct rcmi_choices *choices);

#endif
