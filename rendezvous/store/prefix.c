/* SPDX-License-Identifier: BSD-3-Clause */
/* The prefix store: accesses another store with "prefix/" before each key. Has no keys itself. */
#include "store.h"
#include <stdlib.h>
#include <string.h>
#include "error.h"

struct prefix_store {
    struct rcm_store base;
    rcm_store *inner; /* the caller's */
    size_t prefix_len;
    char *prefix; /* with the slash */
};

/* One block: the array of byte strings, then the joined keys. NULL with the error set. */
static struct rcmi_bytes *keys_join(const struct prefix_store *p, const struct rcmi_bytes *keys,
                                    size_t n) {
    size_t total = n * sizeof(struct rcmi_bytes);
    for (size_t i = 0; i < n; i++) {
        size_t len = p->prefix_len + keys[i].len;
        if (len > RCMI_STORE_KEY_MAX) {
            (void)!rcmi_fail(RCM_ERR_INVALID, 0,
                             "key \"%.40s...\" has %zu bytes with its prefix \"%.40s\", at most %d",
                             (const char *)keys[i].data, len, p->prefix, RCMI_STORE_KEY_MAX);
            return NULL;
        }
        total += len + 1;
    }
    struct rcmi_bytes *joined = malloc(total);
    if (!joined) {
        (void)!rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %zu keys", n);
        return NULL;
    }
    char *at = (char *)(joined + n);
    for (size_t i = 0; i < n; i++) {
        joined[i] = (struct rcmi_bytes){at, p->prefix_len + keys[i].len};
        memcpy(at, p->prefix, p->prefix_len);
        if (keys[i].len > 0)
            memcpy(at + p->prefix_len, keys[i].data, keys[i].len);
        at += joined[i].len;
        *at++ = '\0';
    }
    return joined;
}

static struct prefix_store *prefix_of(rcm_store *store) {
    return (struct prefix_store *)store;
}

static rcm_status prefix_set(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, &key, 1);
    rcm_status status = k ? p->inner->ops->set(p->inner, *k, value) : rcmi_last_error()->status;
    free(k);
    return status;
}

static rcm_status prefix_multi_set(rcm_store *store, const struct rcmi_bytes *keys,
                                   const struct rcmi_bytes *values, size_t n) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, keys, n);
    rcm_status status =
        k ? p->inner->ops->multi_set(p->inner, k, values, n) : rcmi_last_error()->status;
    free(k);
    return status;
}

static rcm_status prefix_try_get(rcm_store *store, struct rcmi_bytes key,
                                 struct rcm_blob *ret_value) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, &key, 1);
    rcm_status status =
        k ? p->inner->ops->try_get(p->inner, *k, ret_value) : rcmi_last_error()->status;
    free(k);
    return status;
}

static rcm_status prefix_wait(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                              rcmi_deadline deadline) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, keys, n);
    rcm_status status =
        k ? p->inner->ops->wait(p->inner, k, n, deadline) : rcmi_last_error()->status;
    free(k);
    return status;
}

static rcm_status prefix_multi_get(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                   rcmi_deadline deadline, struct rcm_blob *ret_values) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, keys, n);
    rcm_status status = k ? p->inner->ops->multi_get(p->inner, k, n, deadline, ret_values)
                          : rcmi_last_error()->status;
    free(k);
    return status;
}

static rcm_status prefix_present(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                 bool *ret_present) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, keys, n);
    rcm_status status =
        k ? p->inner->ops->present(p->inner, k, n, ret_present) : rcmi_last_error()->status;
    free(k);
    return status;
}

static rcm_status prefix_add(rcm_store *store, struct rcmi_bytes key, int64_t delta,
                             int64_t *ret_value) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, &key, 1);
    rcm_status status =
        k ? p->inner->ops->add(p->inner, *k, delta, ret_value) : rcmi_last_error()->status;
    free(k);
    return status;
}

static rcm_status prefix_compare_set(rcm_store *store, struct rcmi_bytes key,
                                     struct rcmi_bytes expected, struct rcmi_bytes desired,
                                     bool *ret_swapped, struct rcm_blob *ret_value) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, &key, 1);
    rcm_status status =
        k ? p->inner->ops->compare_set(p->inner, *k, expected, desired, ret_swapped, ret_value)
          : rcmi_last_error()->status;
    free(k);
    return status;
}

static rcm_status prefix_remove(rcm_store *store, struct rcmi_bytes key, bool *ret_deleted) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, &key, 1);
    rcm_status status =
        k ? p->inner->ops->remove(p->inner, *k, ret_deleted) : rcmi_last_error()->status;
    free(k);
    return status;
}

/* Counts the keys of the whole inner store, because a store cannot list its keys. */
static rcm_status prefix_count(rcm_store *store, size_t *ret_count) {
    struct prefix_store *p = prefix_of(store);
    return p->inner->ops->count(p->inner, ret_count);
}

static rcm_status prefix_append(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    struct prefix_store *p = prefix_of(store);
    struct rcmi_bytes *k = keys_join(p, &key, 1);
    rcm_status status = k ? p->inner->ops->append(p->inner, *k, value) : rcmi_last_error()->status;
    free(k);
    return status;
}

static void prefix_close(rcm_store *store, bool forked) {
    (void)forked;
    free(prefix_of(store)->prefix);
}

static const struct rcmi_store_ops prefix_ops = {
    .name = "prefix store",
    .set = prefix_set,
    .multi_set = prefix_multi_set,
    .try_get = prefix_try_get,
    .wait = prefix_wait,
    .multi_get = prefix_multi_get,
    .present = prefix_present,
    .add = prefix_add,
    .compare_set = prefix_compare_set,
    .remove = prefix_remove,
    .count = prefix_count,
    .append = prefix_append,
    .close = prefix_close,
};

rcm_status rcmi_prefix_open(rcm_store *inner, const char *prefix, rcm_store **ret_store) {
    size_t len = strlen(prefix);
    if (len >= RCMI_STORE_KEY_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "rcm_store_prefix: prefix has %zu bytes, at most %d",
                         len, RCMI_STORE_KEY_MAX - 1);
    struct prefix_store *store = rcmi_store_alloc(sizeof *store, &prefix_ops, inner->url);
    if (!store)
        return RCM_ERR_NOMEM;
    store->prefix = malloc(len + 2);
    if (!store->prefix) {
        free(store->base.url);
        free(store);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a prefix");
    }
    memcpy(store->prefix, prefix, len);
    store->prefix[len] = '/';
    store->prefix[len + 1] = '\0';
    store->prefix_len = len + 1;
    store->inner = inner;
    *ret_store = &store->base;
    return RCM_OK;
}
