/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts that assign constants by name: RINGCOMM_PROTOCOL, RINGCOMM_ALGORITHM, and the file of
 * RINGCOMM_TUNING. This splits them into items. The modules with the constants define names and
 * values (transport/protocol.h, algorithms/select/price.h, algorithms/select/choice.h).
 *
 *      shm_hop.roomy = 0.3                      # the rest of a line is a comment
 *      get=64K-, eager=never
 *      all_reduce=binomial:0-32K,ring:32K-      one item: the second piece has no name
 */
#ifndef RCMI_ASSIGNMENTS_H
#define RCMI_ASSIGNMENTS_H

#include <stdbool.h>
#include <stddef.h>

struct rcmi_item {
    const char *text; /* the whole item, for errors */
    size_t len;
    size_t name_len;   /* text begins with the name */
    const char *value; /* after the "="; NULL: none */
    size_t value_len;
};

/* The next item of *text, which advances; false at the end. White space, commas and semicolons
 * separate items. */
bool rcmi_item_next(const char **text, struct rcmi_item *ret_item);

/* Is the item's name `name`, or `name` and ".something"? *ret_suffix: the part after the dot, up to
 * name_len; NULL: none. */
bool rcmi_item_is(const struct rcmi_item *item, const char *name, const char **ret_suffix,
                  size_t *ret_suffix_len);

#endif
