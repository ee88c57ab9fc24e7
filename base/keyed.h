/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items by key, those of one key in the order in which they were added. Adding one, finding the
 * first of a key and removing any takes as long among a million as among ten.
 *
 *     buckets     first of a key -- next -- next       of the same key
 *                        |
 *                      chain                           first of another key
 *
 * An item is part of a struct of its owner's: nothing is allocated for it, so adding does not fail;
 * without memory for more buckets it only takes longer. Nothing here locks.
 */
#ifndef RCMI_KEYED_H
#define RCMI_KEYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rcmi_key {
    uint64_t word[2];
};

struct rcmi_keyed_item {
    struct rcmi_key key;
    struct rcmi_keyed_item *next, *prev; /* of the same key; the first's prev is the last */
    struct rcmi_keyed_item *chain;       /* of the first */
};

struct rcmi_keyed {
    size_t n; /* items */
    size_t nkeys;
    struct rcmi_keyed_item **buckets; /* NULL: there is one, which is: */
    struct rcmi_keyed_item *bucket;
    size_t mask; /* number of buckets, a power of 2, less 1 */
};

/* One that is all 0 has no items. */
void rcmi_keyed_add(struct rcmi_keyed *keyed, struct rcmi_key key, struct rcmi_keyed_item *item);
/* The first that was added with this key; NULL: there is none. */
struct rcmi_keyed_item *rcmi_keyed_find(const struct rcmi_keyed *keyed, struct rcmi_key key);
void rcmi_keyed_remove(struct rcmi_keyed *keyed, struct rcmi_keyed_item *item);
/* Some item, to take out all one after the other; NULL: there is none. Takes longer the more there
 * were. */
struct rcmi_keyed_item *rcmi_keyed_any(const struct rcmi_keyed *keyed);
/* Calls visit on every item, in no order, until it returns false; false then. visit leaves the
 * items where they are. */
bool rcmi_keyed_each(const struct rcmi_keyed *keyed,
                     bool (*visit)(void *arg, struct rcmi_keyed_item *item), void *arg);
/* Frees the buckets; items that are left are forgotten. */
void rcmi_keyed_fini(struct rcmi_keyed *keyed);

#endif
