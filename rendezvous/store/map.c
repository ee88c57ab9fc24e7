/* SPDX-License-Identifier: BSD-3-Clause */
/* The dictionary: chained hashing, doubled when there are more entries than buckets. */
#include "map.h"
#include <stdlib.h>
#include <string.h>
#include "auth.h"
#include "error.h"

#define FIRST_BUCKETS 64

void rcmi_map_init(struct rcmi_map *map) {
    memset(map, 0, sizeof *map);
    if (rcmi_random(&map->seed, sizeof map->seed) != RCM_OK)
        map->seed = (uint64_t)(uintptr_t)map; /* works, but collisions are easier to force */
}

static void entry_free(struct rcmi_entry *entry) {
    free(entry->value);
    free(entry);
}

void rcmi_map_fini(struct rcmi_map *map) {
    for (size_t i = 0; i < map->nbuckets; i++) {
        struct rcmi_entry *e = map->buckets[i], *next;
        for (; e; e = next) {
            next = e->next;
            entry_free(e);
        }
    }
    free(map->buckets);
    memset(map, 0, sizeof *map);
}

/* FNV-1a over the bytes from a secret start, then mixed so that the low bits depend on all. */
static uint64_t key_hash(const struct rcmi_map *map, struct rcmi_bytes key) {
    const unsigned char *p = key.data;
    uint64_t h = map->seed ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < key.len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 29);
}

static struct rcmi_entry *bucket_find(const struct rcmi_map *map, struct rcmi_bytes key,
                                      uint64_t h) {
    if (map->nbuckets == 0)
        return NULL;
    struct rcmi_entry *e = map->buckets[h & (map->nbuckets - 1)];
    while (e && (e->hash != h || e->key_len != key.len ||
                 (key.len > 0 && memcmp(e->key, key.data, key.len) != 0)))
        e = e->next;
    return e;
}

struct rcmi_entry *rcmi_map_find(const struct rcmi_map *map, struct rcmi_bytes key) {
    return bucket_find(map, key, key_hash(map, key));
}

struct rcmi_entry *rcmi_map_present(const struct rcmi_map *map, struct rcmi_bytes key) {
    struct rcmi_entry *e = rcmi_map_find(map, key);
    return e && e->present ? e : NULL;
}

static rcm_status map_grow(struct rcmi_map *map) {
    size_t n = map->nbuckets ? map->nbuckets * 2 : FIRST_BUCKETS;
    struct rcmi_entry **buckets = calloc(n, sizeof *buckets);
    if (!buckets)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a store of %zu keys", n);
    for (size_t i = 0; i < map->nbuckets; i++) {
        struct rcmi_entry *e = map->buckets[i], *next;
        for (; e; e = next) {
            next = e->next;
            e->next = buckets[e->hash & (n - 1)];
            buckets[e->hash & (n - 1)] = e;
        }
    }
    free(map->buckets);
    map->buckets = buckets;
    map->nbuckets = n;
    return RCM_OK;
}

rcm_status rcmi_map_entry(struct rcmi_map *map, struct rcmi_bytes key, struct rcmi_entry **ret) {
    uint64_t h = key_hash(map, key);
    struct rcmi_entry *e = bucket_find(map, key, h);
    if (e) {
        *ret = e;
        return RCM_OK;
    }
    if (map->nentries >= map->nbuckets) {
        rcm_status status = map_grow(map);
        if (status != RCM_OK)
            return status;
    }
    e = calloc(1, sizeof *e + key.len + 1);
    if (!e)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a store key of %zu bytes", key.len);
    e->hash = h;
    e->key_len = key.len;
    if (key.len > 0)
        memcpy(e->key, key.data, key.len);
    e->next = map->buckets[h & (map->nbuckets - 1)];
    map->buckets[h & (map->nbuckets - 1)] = e;
    map->nentries++;
    *ret = e;
    return RCM_OK;
}

static void entry_appear(struct rcmi_map *map, struct rcmi_entry *entry) {
    if (!entry->present)
        map->npresent++;
    entry->present = true;
}

rcm_status rcmi_map_put(struct rcmi_map *map, struct rcmi_entry *entry, struct rcmi_bytes value) {
    void *copy = NULL;
    if (value.len > 0) {
        copy = malloc(value.len);
        if (!copy)
            return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a value of %zu bytes", value.len);
        memcpy(copy, value.data, value.len);
    }
    free(entry->value);
    entry->value = copy;
    entry->value_len = entry->value_cap = value.len;
    entry_appear(map, entry);
    return RCM_OK;
}

rcm_status rcmi_map_append(struct rcmi_map *map, struct rcmi_entry *entry,
                           struct rcmi_bytes value) {
    size_t need = entry->value_len + value.len;
    if (need > entry->value_cap) {
        size_t cap = need < 2 * entry->value_cap ? 2 * entry->value_cap : need;
        void *grown = realloc(entry->value, cap);
        if (!grown)
            return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a value of %zu bytes", need);
        entry->value = grown;
        entry->value_cap = cap;
    }
    if (value.len > 0)
        memcpy((char *)entry->value + entry->value_len, value.data, value.len);
    entry->value_len = need;
    entry_appear(map, entry);
    return RCM_OK;
}

rcm_status rcmi_map_set(struct rcmi_map *map, struct rcmi_bytes key, struct rcmi_bytes value) {
    struct rcmi_entry *entry;
    rcm_status status = rcmi_map_entry(map, key, &entry);
    if (status != RCM_OK)
        return status;
    status = rcmi_map_put(map, entry, value);
    if (status != RCM_OK)
        rcmi_map_release(map, entry);
    return status;
}

bool rcmi_map_remove(struct rcmi_map *map, struct rcmi_bytes key) {
    struct rcmi_entry *entry = rcmi_map_present(map, key);
    if (!entry)
        return false;
    entry->present = false;
    map->npresent--;
    free(entry->value);
    entry->value = NULL;
    entry->value_len = entry->value_cap = 0;
    rcmi_map_release(map, entry);
    return true;
}

void rcmi_map_release(struct rcmi_map *map, struct rcmi_entry *entry) {
    if (entry->present || entry->waiters)
        return;
    struct rcmi_entry **at = &map->buckets[entry->hash & (map->nbuckets - 1)];
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    map->nentries--;
    entry_free(entry);
}

void rcmi_map_each(const struct rcmi_map *map, void (*fn)(void *arg, const struct rcmi_entry *e),
                   void *arg) {
    for (size_t i = 0; i < map->nbuckets; i++) {
        for (struct rcmi_entry *e = map->buckets[i]; e; e = e->next) {
            if (e->present)
                fn(arg, e);
        }
    }
}
