/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash multimap with insertion order per key. Adding an item, finding the first of a key and
 * removing any item take constant time on average.
 *
 *     buckets     first of a key -- next -- next       of the same key
 *                        |
 *                      chain                           first of another key
 *
 * Items are embedded in structs of their owners. Nothing is allocated for them, so adding cannot
 * fail; without memory for more buckets it only gets slower. No locking.
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
    struct rcmi_keyed_item *next, *prev; /* of the same key; the first item's prev is the last */
    struct rcmi_keyed_item *chain;       /* of the first item of a key */
};

struct rcmi_keyed {
    size_t n; /* items */
    size_t nkeys;
    struct rcmi_keyed_item **buckets; /* NULL: the single bucket is `bucket` */
    struct rcmi_keyed_item *bucket;
    size_t mask; /* number of buckets, a power of 2, minus 1 */
};

/* A zeroed struct is empty. */
void rcmi_keyed_add(struct rcmi_keyed *keyed, struct rcmi_key key, struct rcmi_keyed_item *item);
/* The first item added with this key; NULL: none. */
struct rcmi_keyed_item *rcmi_keyed_find(const struct rcmi_keyed *keyed, struct rcmi_key key);
void rcmi_keyed_remove(struct rcmi_keyed *keyed, struct rcmi_keyed_item *item);
/* Any item, for taking out all one by one; NULL: none. Takes time proportional to the number of
 * buckets. */
struct rcmi_keyed_item *rcmi_keyed_any(const struct rcmi_keyed *keyed);
/* Calls visit on every item, in no particular order, until it returns false; then returns false.
 * visit must not add or remove items. */
bool rcmi_keyed_each(const struct rcmi_keyed *keyed,
                     bool (*visit)(void *arg, struct rcmi_keyed_item *item), void *arg);
/* Frees the buckets; does not touch remaining items. */
void rcmi_keyed_fini(struct rcmi_keyed *keyed);

#endif
