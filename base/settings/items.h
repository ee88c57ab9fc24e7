/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts that set constants by name: RINGCOMM_PROTOCOL, RINGCOMM_ALGORITHM, and the file of
 * RINGCOMM_TUNING. Here they are cut into items; what a name and a value mean is said where the
 * constants are (transport/protocol.h, algorithms/select/price.h, algorithms/select/choice.h).
 *
 *      shm_hop.roomy = 0.3                      # the rest of a line is a comment
 *      get=64K-, eager=never
 *      all_reduce=binomial:0-32K,ring:32K-      one item: the second piece has no name
 */
#ifndef RCMI_ITEMS_H
#define RCMI_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

struct rcmi_item {
    const char *text; /* all of it, for errors */
    size_t len;
    size_t name_len;   /* text begins with the name */
    const char *value; /* behind the "="; NULL: there is none */
    size_t value_len;
};

/* The next item of *text, which moves on; false at its end. Items lie apart by white space, commas
 * or semicolons. */
bool rcmi_item_next(const char **text, struct rcmi_item *ret_item);

/* Is the item's name that, or that and ".something"? *ret_suffix: behind the dot, its length by
 * name_len; NULL if there is none. */
bool rcmi_item_is(const struct rcmi_item *item, const char *name, const char **ret_suffix,
                  size_t *ret_suffix_len);

#endif
