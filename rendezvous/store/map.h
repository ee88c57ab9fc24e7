/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A dictionary from byte strings to byte strings, used by the hash store, by the file store for its
 * replayed log, and by the TCP server. Not thread-safe: the owner locks.
 *
 * An entry may be for a key that does not exist yet. Then `present` is false, and `waiters` is the
 * list of the TCP server's clients that wait for it.
 */
#ifndef RCMI_MAP_H
#define RCMI_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

/* A byte string in memory of another owner. */
struct rcmi_bytes {
    const void *data;
    size_t len;
};

struct rcmi_entry {
    struct rcmi_entry *next; /* in the bucket */
    uint64_t hash;
    void *value; /* malloc'd; NULL if value_len is 0 */
    size_t value_len;
    size_t value_cap;
    void *waiters;
    bool present;
    size_t key_len;
    char key[]; /* followed by a NUL that key_len does not count */
};

struct rcmi_map {
    struct rcmi_entry **buckets;
    size_t nbuckets; /* a power of two, 0 before the first insertion */
    size_t nentries;
    size_t npresent;
    uint64_t seed; /* random, so that a client cannot choose keys that collide */
};

void rcmi_map_init(struct rcmi_map *map);
void rcmi_map_fini(struct rcmi_map *map);

/* NULL if there is no entry. The entry's key may be absent (only waited for). */
struct rcmi_entry *rcmi_map_find(const struct rcmi_map *map, struct rcmi_bytes key);
/* The same, but only a key that exists. */
struct rcmi_entry *rcmi_map_present(const struct rcmi_map *map, struct rcmi_bytes key);
/* Finds or creates the entry; a new one is absent. */
rcm_status rcmi_map_entry(struct rcmi_map *map, struct rcmi_bytes key, struct rcmi_entry **ret);

/* Make the entry present: put with a copy of value, append by appending to its value. */
rcm_status rcmi_map_put(struct rcmi_map *map, struct rcmi_entry *entry, struct rcmi_bytes value);
rcm_status rcmi_map_append(struct rcmi_map *map, struct rcmi_entry *entry, struct rcmi_bytes value);
/* rcmi_map_entry and rcmi_map_put in one call. */
rcm_status rcmi_map_set(struct rcmi_map *map, struct rcmi_bytes key, struct rcmi_bytes value);

/* Makes the key absent; true if it was present. Frees the entry if it has no waiters. */
bool rcmi_map_remove(struct rcmi_map *map, struct rcmi_bytes key);
/* Frees the entry if it is absent and has no waiters. */
void rcmi_map_release(struct rcmi_map *map, struct rcmi_entry *entry);

/* Calls fn for every present entry; fn may not change the map. */
void rcmi_map_each(const struct rcmi_map *map, void (*fn)(void *arg, const struct rcmi_entry *e),
                   void *arg);

#endif
