/* SPDX-License-Identifier: BSD-3-Clause */
/* A hash multimap: see keyed.h. */
#include "keyed.h"
#include <stdlib.h>

#define BUCKETS_MIN ((size_t)16)

static bool key_equals(struct rcmi_key a, struct rcmi_key b) {
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* The finalizer of MurmurHash3 over both words. */
static uint64_t key_hash(struct rcmi_key key) {
    uint64_t h = key.word[0] * UINT64_C(0x9e3779b97f4a7c15) ^ key.word[1];
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

static struct rcmi_keyed_item **keyed_bucket(struct rcmi_keyed *keyed, struct rcmi_key key) {
    return keyed->buckets ? &keyed->buckets[key_hash(key) & keyed->mask] : &keyed->bucket;
}

/* The link to the first item of a key, or to the end of the chain. */
static struct rcmi_keyed_item **keyed_at(struct rcmi_keyed *keyed, struct rcmi_key key) {
    struct rcmi_keyed_item **at = keyed_bucket(keyed, key);
    while (*at && !key_equals((*at)->key, key))
        at = &(*at)->chain;
    return at;
}

static void chain_move(struct rcmi_keyed *to, struct rcmi_keyed_item *chain) {
    while (chain) {
        struct rcmi_keyed_item *item = chain;
        struct rcmi_keyed_item **bucket = keyed_bucket(to, item->key);
        chain = item->chain;
        item->chain = *bucket;
        *bucket = item;
    }
}

static void keyed_grow(struct rcmi_keyed *keyed) {
    const size_t now = keyed->mask + 1, n = keyed->buckets ? now * 2 : BUCKETS_MIN;
    struct rcmi_keyed grown = *keyed;
    grown.buckets = calloc(n, sizeof(struct rcmi_keyed_item *));
    if (!grown.buckets)
        return;
    grown.bucket = NULL;
    grown.mask = n - 1;
    chain_move(&grown, keyed->bucket);
    for (size_t i = 0; keyed->buckets && i < now; i++)
        chain_move(&grown, keyed->buckets[i]);
    free(keyed->buckets);
    *keyed = grown;
}

void rcmi_keyed_add(struct rcmi_keyed *keyed, struct rcmi_key key, struct rcmi_keyed_item *item) {
    struct rcmi_keyed_item **at = keyed_at(keyed, key), *first = *at;
    *item = (struct rcmi_keyed_item){.key = key, .prev = first ? first->prev : item};
    keyed->n++;
    if (first) {
        first->prev->next = item;
        first->prev = item;
        return;
    }
    *at = item;
    if (++keyed->nkeys > keyed->mask + 1)
        keyed_grow(keyed);
}

struct rcmi_keyed_item *rcmi_keyed_find(const struct rcmi_keyed *keyed, struct rcmi_key key) {
    return *keyed_at((struct rcmi_keyed *)keyed, key); /* does not modify */
}

/* The second item of a key becomes the first. */
static void keyed_remove_first(struct rcmi_keyed *keyed, struct rcmi_keyed_item **at) {
    const struct rcmi_keyed_item *first = *at;
    struct rcmi_keyed_item *second = first->next;
    if (!second) {
        *at = first->chain;
        keyed->nkeys--;
        return;
    }
    second->prev = first->prev;
    second->chain = first->chain;
    *at = second;
}

void rcmi_keyed_remove(struct rcmi_keyed *keyed, struct rcmi_keyed_item *item) {
    struct rcmi_keyed_item **at = keyed_at(keyed, item->key);
    keyed->n--;
    if (*at == item) {
        keyed_remove_first(keyed, at);
        return;
    }
    item->prev->next = item->next;
    if (item->next)
        item->next->prev = item->prev;
    else
        (*at)->prev = item->prev;
}

struct rcmi_keyed_item *rcmi_keyed_any(const struct rcmi_keyed *keyed) {
    if (keyed->n == 0 || !keyed->buckets)
        return keyed->bucket;
    for (size_t i = 0; i <= keyed->mask; i++)
        if (keyed->buckets[i])
            return keyed->buckets[i];
    return NULL;
}

static bool chain_each(struct rcmi_keyed_item *chain,
                       bool (*visit)(void *arg, struct rcmi_keyed_item *item), void *arg) {
    for (; chain; chain = chain->chain)
        for (struct rcmi_keyed_item *item = chain; item; item = item->next)
            if (!visit(arg, item))
                return false;
    return true;
}

bool rcmi_keyed_each(const struct rcmi_keyed *keyed,
                     bool (*visit)(void *arg, struct rcmi_keyed_item *item), void *arg) {
    for (size_t i = 0; keyed->buckets && keyed->n > 0 && i <= keyed->mask; i++)
        if (!chain_each(keyed->buckets[i], visit, arg))
            return false;
    return chain_each(keyed->bucket, visit, arg);
}

void rcmi_keyed_fini(struct rcmi_keyed *keyed) {
    free(keyed->buckets);
    *keyed = (struct rcmi_keyed){0};
}
