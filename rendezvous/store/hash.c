/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash store: a dictionary in this process, for ranks that are threads. Each open of "hash:"
 * makes a separate store. All opens of "hash:NAME" in the process share one store while it is open.
 */
#include "store.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "thread.h"
#include "url.h"

/* Shared by all opens of one name. */
struct hash_table {
    struct hash_table *next; /* in the list of named tables */
    char *name;              /* "": not shared */
    int users;
    pthread_mutex_t lock; /* guards map */
    pthread_cond_t changed;
    struct rcmi_map map;
};

struct hash_store {
    struct rcm_store base;
    struct hash_table *table;
};

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER; /* guards names and users */
static struct hash_table *names;

static struct hash_table *store_table(rcm_store *store) {
    return ((struct hash_store *)store)->table;
}

static rcm_status hash_put(struct hash_table *t, struct rcmi_bytes key, struct rcmi_bytes value) {
    rcm_status status = rcmi_map_set(&t->map, key, value);
    if (status == RCM_OK)
        pthread_cond_broadcast(&t->changed);
    return status;
}

static rcm_status hash_multi_set(rcm_store *store, const struct rcmi_bytes *keys,
                                 const struct rcmi_bytes *values, size_t n) {
    struct hash_table *t = store_table(store);
    rcm_status status = RCM_OK;
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < n && status == RCM_OK; i++)
        status = hash_put(t, keys[i], values[i]);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static rcm_status hash_set(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    return hash_multi_set(store, &key, &value, 1);
}

static rcm_status hash_try_get(rcm_store *store, struct rcmi_bytes key,
                               struct rcm_blob *ret_value) {
    struct hash_table *t = store_table(store);
    pthread_mutex_lock(&t->lock);
    struct rcmi_entry *e = rcmi_map_present(&t->map, key);
    rcm_status status = e ? rcmi_blob_copy(rcmi_entry_value(e), ret_value) : RCM_ERR_NOT_FOUND;
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* With the lock held. */
static rcm_status hash_wait_locked(struct hash_table *t, const struct rcmi_bytes *keys, size_t n,
                                   rcmi_deadline deadline) {
    size_t i = 0;
    for (;;) {
        while (i < n && rcmi_map_present(&t->map, keys[i]))
            i++;
        if (i == n)
            return RCM_OK;
        if (rcmi_deadline_passed(deadline))
            return RCM_PENDING;
        (void)rcmi_condition_wait(&t->changed, &t->lock, deadline);
    }
}

static rcm_status hash_wait(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline) {
    struct hash_table *t = store_table(store);
    pthread_mutex_lock(&t->lock);
    rcm_status status = hash_wait_locked(t, keys, n, deadline);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static rcm_status hash_multi_get(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                 rcmi_deadline deadline, struct rcm_blob *ret_values) {
    struct hash_table *t = store_table(store);
    rcm_status status;
    size_t got;
    pthread_mutex_lock(&t->lock);
    do { /* again if a key found early was deleted while we slept for a later one */
        status = hash_wait_locked(t, keys, n, deadline);
        for (got = 0; got < n && status == RCM_OK; got += status == RCM_OK) {
            struct rcmi_entry *e = rcmi_map_present(&t->map, keys[got]);
            status = e ? rcmi_blob_copy(rcmi_entry_value(e), &ret_values[got]) : RCM_AGAIN;
        }
        if (status != RCM_OK)
            rcmi_blobs_free(ret_values, got);
    } while (status == RCM_AGAIN);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static rcm_status hash_present(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                               bool *ret_present) {
    struct hash_table *t = store_table(store);
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < n; i++)
        ret_present[i] = rcmi_map_present(&t->map, keys[i]) != NULL;
    pthread_mutex_unlock(&t->lock);
    return RCM_OK;
}

static rcm_status hash_add(rcm_store *store, struct rcmi_bytes key, int64_t delta,
                           int64_t *ret_value) {
    struct hash_table *t = store_table(store);
    char text[RCMI_INT_TEXT];
    int64_t sum;
    pthread_mutex_lock(&t->lock);
    rcm_status status = rcmi_add_text(key, rcmi_map_present(&t->map, key), delta, &sum, text);
    if (status == RCM_OK)
        status = hash_put(t, key, (struct rcmi_bytes){text, strlen(text)});
    pthread_mutex_unlock(&t->lock);
    if (status == RCM_OK)
        *ret_value = sum;
    return status;
}

static rcm_status hash_compare_set(rcm_store *store, struct rcmi_bytes key,
                                   struct rcmi_bytes expected, struct rcmi_bytes desired,
                                   bool *ret_swapped, struct rcm_blob *ret_value) {
    struct hash_table *t = store_table(store);
    struct rcm_blob blob = {NULL, 0};
    pthread_mutex_lock(&t->lock);
    struct rcmi_entry *e = rcmi_map_present(&t->map, key);
    enum rcmi_compare what = rcmi_compare(e, expected);
    rcm_status status = RCM_ERR_NOT_FOUND;
    if (what == RCMI_COMPARE_KEEP)
        status = rcmi_blob_copy(rcmi_entry_value(e), &blob);
    if (what == RCMI_COMPARE_SET) {
        status = rcmi_blob_copy(desired, &blob);
        if (status == RCM_OK)
            status = hash_put(t, key, desired);
    }
    pthread_mutex_unlock(&t->lock);
    if (status != RCM_OK) {
        free(blob.data);
        return status;
    }
    *ret_swapped = what == RCMI_COMPARE_SET;
    *ret_value = blob;
    return RCM_OK;
}

static rcm_status hash_remove(rcm_store *store, struct rcmi_bytes key, bool *ret_deleted) {
    struct hash_table *t = store_table(store);
    pthread_mutex_lock(&t->lock);
    *ret_deleted = rcmi_map_remove(&t->map, key);
    pthread_mutex_unlock(&t->lock);
    return RCM_OK;
}

static rcm_status hash_count(rcm_store *store, size_t *ret_count) {
    struct hash_table *t = store_table(store);
    pthread_mutex_lock(&t->lock);
    *ret_count = t->map.npresent;
    pthread_mutex_unlock(&t->lock);
    return RCM_OK;
}

static rcm_status hash_append(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    struct hash_table *t = store_table(store);
    struct rcmi_entry *e;
    pthread_mutex_lock(&t->lock);
    rcm_status status = rcmi_append_check(key, rcmi_map_present(&t->map, key), value.len);
    if (status == RCM_OK)
        status = rcmi_map_entry(&t->map, key, &e);
    if (status == RCM_OK) {
        status = rcmi_map_append(&t->map, e, value);
        rcmi_map_release(&t->map, e);
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

static void table_free(struct hash_table *t) {
    rcmi_map_fini(&t->map);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t->name);
    free(t);
}

static struct hash_table *table_create(const char *name) {
    struct hash_table *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->name = strdup(name);
    if (!t->name) {
        free(t);
        return NULL;
    }
    t->users = 1;
    pthread_mutex_init(&t->lock, NULL);
    rcmi_condition_init(&t->changed);
    rcmi_map_init(&t->map);
    return t;
}

/* The open table of that name with one more user, or a new one. */
static struct hash_table *table_get(const char *name) {
    struct hash_table *t = NULL;
    pthread_mutex_lock(&names_lock);
    if (name[0]) {
        for (t = names; t && strcmp(t->name, name) != 0; t = t->next)
            ;
    }
    if (t) {
        t->users++;
    } else {
        t = table_create(name);
        if (t && name[0]) {
            t->next = names;
            names = t;
        }
    }
    pthread_mutex_unlock(&names_lock);
    return t;
}

static void table_put(struct hash_table *t) {
    pthread_mutex_lock(&names_lock);
    bool last = --t->users == 0;
    for (struct hash_table **at = &names; last && *at; at = &(*at)->next) {
        if (*at == t) {
            *at = t->next;
            break;
        }
    }
    pthread_mutex_unlock(&names_lock);
    if (last)
        table_free(t);
}

static void hash_close(rcm_store *store, bool forked) {
    /* In a forked child, threads that no longer exist may hold the locks: leak the memory. */
    if (!forked)
        table_put(store_table(store));
}

static const struct rcmi_store_ops hash_ops = {
    .name = "hash store",
    .set = hash_set,
    .multi_set = hash_multi_set,
    .try_get = hash_try_get,
    .wait = hash_wait,
    .multi_get = hash_multi_get,
    .present = hash_present,
    .add = hash_add,
    .compare_set = hash_compare_set,
    .remove = hash_remove,
    .count = hash_count,
    .append = hash_append,
    .close = hash_close,
};

rcm_status rcmi_hash_open(const struct rcmi_url *url, rcm_store **ret_store) {
    struct hash_store *store = rcmi_store_alloc(sizeof *store, &hash_ops, "");
    if (!store)
        return RCM_ERR_NOMEM;
    store->table = table_get(url->path);
    if (!store->table) {
        free(store->base.url);
        free(store);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a store");
    }
    *ret_store = &store->base;
    return RCM_OK;
}
