/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public rcm_store_ functions. They check the arguments, convert C strings to byte strings and
 * timeouts to deadlines, call the store's kind, and name missing keys in errors.
 */
#include "store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "auth.h"
#include "entry.h"
#include "error.h"
#include "fork.h"
#include "rendezvous.h"
#include "url.h"

#define LATE_MS 1000

/* ---- Opening and closing ------------------------------------------------------------------- */

rcm_status rcmi_store_open(const char *url_text, const char *secret, int64_t timeout_ms,
                           rcm_store **ret_store) {
    struct rcmi_url url;
    rcmi_deadline deadline = rcmi_deadline_in(timeout_ms ? timeout_ms : RCMI_STORE_TIMEOUT_MS);

    rcm_status status = rcmi_url_parse(url_text, &url);
    if (status != RCM_OK)
        return status;
    switch (url.scheme) {
    case RCMI_SCHEME_HASH:
        status = rcmi_hash_open(&url, ret_store);
        break;
    case RCMI_SCHEME_FILE:
        status = rcmi_file_open(&url, deadline, ret_store);
        break;
    case RCMI_SCHEME_TCP:
        status = rcmi_tcp_open(&url, secret, deadline, ret_store);
        break;
    case RCMI_SCHEME_ENV:
        status = rcmi_fail(RCM_ERR_INVALID, 0,
                           "store URL \"%s\": env:// is for rcm_init; a store is opened by "
                           "tcp://host:port, file:///path or hash:",
                           url_text);
        break;
    }
    rcmi_url_fini(&url);
    return status;
}

static rcm_status store_open(const char *url, int64_t timeout_ms, rcm_store **ret_store) {
    RCMI_ENTRY;
    char *secret = NULL;

    if (!url || !ret_store)
        return rcmi_fail(RCM_ERR_INVALID, 0, "rcm_store_open: %s is NULL",
                         url ? "ret_store" : "url");
    rcm_status status = rcmi_secret(&secret);
    if (status == RCM_OK)
        status = rcmi_store_open(url, secret, timeout_ms, ret_store);
    free(secret);
    return status;
}

rcm_status rcm_store_open(const char *url, int64_t timeout_ms, rcm_store **ret_store) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, store_open(url, timeout_ms, ret_store));
}

/* Checks that the store is valid and belongs to this process. */
static rcm_status store_check(const rcm_store *store, const char *call) {
    if (!store)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s: store is NULL", call);
    if (!rcmi_fork_is_maker(store->generation))
        return rcmi_fail(RCM_ERR_FORKED, 0,
                         "%s: the store was opened by process %d, before fork(); open it again",
                         call, (int)store->pid);
    return RCM_OK;
}

rcm_status rcm_store_prefix(rcm_store *store, const char *prefix, rcm_store **ret_store) {
    rcm_status status = store_check(store, "rcm_store_prefix");
    if (status != RCM_OK)
        return status;
    if (!prefix || !ret_store)
        return rcmi_fail(RCM_ERR_INVALID, 0, "rcm_store_prefix: %s is NULL",
                         prefix ? "ret_store" : "prefix");
    return rcmi_prefix_open(store, prefix, ret_store);
}

/* ---- Checking arguments -------------------------------------------------------------------- */

static rcm_status key_check(const char *call, const char *key, struct rcmi_bytes *ret_key) {
    if (!key)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s: key is NULL", call);
    size_t len = strlen(key);
    if (len > RCMI_STORE_KEY_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s: key \"%.40s...\" has %zu bytes, at most %d", call,
                         key, len, RCMI_STORE_KEY_MAX);
    *ret_key = (struct rcmi_bytes){key, len};
    return RCM_OK;
}

static rcm_status value_check(const char *call, const char *key, const void *value, size_t len,
                              struct rcmi_bytes *ret_value) {
    if (!value && len > 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s: value of key \"%.200s\" is NULL, its length %zu",
                         call, key, len);
    if (len > RCMI_STORE_VALUE_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "%s: value of key \"%.200s\" has %zu bytes, at most %d", call, key, len,
                         RCMI_STORE_VALUE_MAX);
    *ret_value = (struct rcmi_bytes){value, len};
    return RCM_OK;
}

/* Checks store and key. */
static rcm_status call_check(const char *call, const rcm_store *store, const char *key,
                             struct rcmi_bytes *ret_key) {
    rcm_status status = store_check(store, call);
    return status == RCM_OK ? key_check(call, key, ret_key) : status;
}

static rcm_status output_check(const char *call, bool there) {
    return there ? RCM_OK : rcmi_fail(RCM_ERR_INVALID, 0, "%s: an output pointer is NULL", call);
}

/* The same for an array of keys; *ret_keys is malloc'd. */
static rcm_status keys_check(const char *call, const rcm_store *store, const char *const *keys,
                             size_t nkeys, struct rcmi_bytes **ret_keys) {
    rcm_status status = store_check(store, call);
    if (status != RCM_OK)
        return status;
    if (!keys)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s: keys is NULL", call);
    struct rcmi_bytes *bytes = calloc(nkeys, sizeof *bytes);
    if (!bytes)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "%s: no memory for %zu keys", call, nkeys);
    for (size_t i = 0; i < nkeys && status == RCM_OK; i++)
        status = key_check(call, keys[i], &bytes[i]);
    if (status != RCM_OK)
        free(bytes);
    else
        *ret_keys = bytes;
    return status;
}

/* ---- Errors about missing keys ------------------------------------------------------------- */

static const char *store_where(const rcm_store *store) {
    return store->url[0] ? store->url : store->ops->name;
}

/* "150 ms", "30 s". */
static const char *timeout_text(int64_t timeout_ms, char text[32]) {
    if (timeout_ms % 1000 == 0 && timeout_ms > 0)
        snprintf(text, 32, "%lld s", (long long)timeout_ms / 1000);
    else
        snprintf(text, 32, "%lld ms", (long long)timeout_ms);
    return text;
}

/* After RCM_PENDING: an error with the first missing key. RCM_OK if all keys exist by now. */
static rcm_status missing_fail(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                               int64_t timeout_ms) {
    char text[32];
    size_t first = 0, missing = 0;
    bool *present = calloc(n, sizeof *present);

    if (!present)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %zu keys", n);
    rcm_status status = store->ops->present(store, keys, n, present);
    for (size_t i = n; i-- > 0 && status == RCM_OK;) {
        if (!present[i]) {
            first = i;
            missing++;
        }
    }
    free(present);
    if (status == RCM_OK && missing == 0)
        return RCM_OK;
    timeout_text(timeout_ms, text);
    if (missing > 1)
        return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                         "key \"%.200s\" and %zu more were not set within %s (store %s)",
                         (const char *)keys[first].data, missing - 1, text, store_where(store));
    return rcmi_fail(RCM_ERR_TIMEOUT, 0, "key \"%.200s\" was not set within %s (store %s)",
                     (const char *)keys[first].data, text, store_where(store));
}

static rcm_status not_found(const rcm_store *store, const char *key) {
    return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "there is no key \"%.200s\" (store %s)", key,
                     store_where(store));
}

/* ---- Values -------------------------------------------------------------------------------- */

rcm_status rcm_store_set(rcm_store *store, const char *key, const void *value, size_t len) {
    RCMI_ENTRY;
    struct rcmi_bytes k, v;
    rcm_status status = call_check("rcm_store_set", store, key, &k);
    if (status == RCM_OK)
        status = value_check("rcm_store_set", key, value, len, &v);
    return status == RCM_OK ? store->ops->set(store, k, v) : status;
}

rcm_status rcm_store_append(rcm_store *store, const char *key, const void *value, size_t len) {
    RCMI_ENTRY;
    struct rcmi_bytes k, v;
    rcm_status status = call_check("rcm_store_append", store, key, &k);
    if (status == RCM_OK)
        status = value_check("rcm_store_append", key, value, len, &v);
    return status == RCM_OK ? store->ops->append(store, k, v) : status;
}

rcm_status rcm_store_multi_set(rcm_store *store, const char *const *keys,
                               const struct rcm_blob *values, size_t nkeys) {
    RCMI_ENTRY;
    const char *call = "rcm_store_multi_set";
    struct rcmi_bytes *k, *v = NULL;

    if (nkeys == 0)
        return store_check(store, call);
    rcm_status status = keys_check(call, store, keys, nkeys, &k);
    if (status != RCM_OK)
        return status;
    status = values ? RCM_OK : rcmi_fail(RCM_ERR_INVALID, 0, "%s: values is NULL", call);
    if (status == RCM_OK) {
        v = calloc(nkeys, sizeof *v);
        status = v ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "%s: no memory", call);
    }
    for (size_t i = 0; i < nkeys && status == RCM_OK; i++)
        status = value_check(call, keys[i], values[i].data, values[i].len, &v[i]);
    if (status == RCM_OK)
        status = store->ops->multi_set(store, k, v, nkeys);
    free(v);
    free(k);
    return status;
}

rcm_status rcm_store_try_get(rcm_store *store, const char *key, void **ret_value, size_t *ret_len) {
    RCMI_ENTRY;
    struct rcmi_bytes k;
    struct rcm_blob value;
    rcm_status status = call_check("rcm_store_try_get", store, key, &k);
    if (status == RCM_OK)
        status = output_check("rcm_store_try_get", ret_value && ret_len);
    if (status == RCM_OK)
        status = store->ops->try_get(store, k, &value);
    if (status == RCM_ERR_NOT_FOUND)
        return not_found(store, key);
    if (status == RCM_OK) {
        *ret_value = value.data;
        *ret_len = value.len;
    }
    return status;
}

/* The limit for calls after the deadline of a fetch: the fetch's timeout, but at least LATE_MS. It
 * is bounded because the store may be gone and the caller is already late. */
static int64_t late_patience(int64_t timeout_ms, int64_t patience) {
    const int64_t most = timeout_ms > LATE_MS ? timeout_ms : LATE_MS;
    return timeout_ms == 0 || (patience >= 0 && patience < most) ? patience : most;
}

/* Fails with the missing keys, or fetches them if all were set after the deadline. A timeout of 0
 * checks once and takes the time of one reply. */
static rcm_status store_fetch_late(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                   int64_t timeout_ms, struct rcm_blob *ret_values) {
    const int64_t patience = rcmi_store_patience(0), late = late_patience(timeout_ms, patience);
    (void)rcmi_store_patience(late);
    rcm_status status = missing_fail(store, keys, n, timeout_ms);
    if (status == RCM_OK && ret_values)
        status = store->ops->multi_get(store, keys, n, rcmi_deadline_in(late), ret_values);
    (void)rcmi_store_patience(patience);
    if (status == RCM_PENDING)
        return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                         "keys were set and deleted again while they were read");
    return status;
}

/* wait or multi_get (ret_values not NULL), n > 0. */
static rcm_status store_fetch(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                              int64_t timeout_ms, struct rcm_blob *ret_values) {
    const rcmi_deadline deadline = rcmi_deadline_in(timeout_ms);
    rcm_status status = RCM_PENDING;
    if (timeout_ms != 0)
        status = ret_values ? store->ops->multi_get(store, keys, n, deadline, ret_values)
                            : store->ops->wait(store, keys, n, deadline);
    return status == RCM_PENDING ? store_fetch_late(store, keys, n, timeout_ms, ret_values)
                                 : status;
}

rcm_status rcm_store_get(rcm_store *store, const char *key, int64_t timeout_ms, void **ret_value,
                         size_t *ret_len) {
    RCMI_ENTRY;
    struct rcmi_bytes k;
    struct rcm_blob value;
    rcm_status status = call_check("rcm_store_get", store, key, &k);
    if (status == RCM_OK)
        status = output_check("rcm_store_get", ret_value && ret_len);
    if (status == RCM_OK)
        status = store_fetch(store, &k, 1, timeout_ms, &value);
    if (status == RCM_OK) {
        *ret_value = value.data;
        *ret_len = value.len;
    }
    return status;
}

rcm_status rcm_store_wait(rcm_store *store, const char *const *keys, size_t nkeys,
                          int64_t timeout_ms) {
    RCMI_ENTRY;
    struct rcmi_bytes *k;
    if (nkeys == 0)
        return store_check(store, "rcm_store_wait");
    rcm_status status = keys_check("rcm_store_wait", store, keys, nkeys, &k);
    if (status != RCM_OK)
        return status;
    status = store_fetch(store, k, nkeys, timeout_ms, NULL);
    free(k);
    return status;
}

rcm_status rcm_store_multi_get(rcm_store *store, const char *const *keys, size_t nkeys,
                               int64_t timeout_ms, struct rcm_blob *ret_values) {
    RCMI_ENTRY;
    struct rcmi_bytes *k;
    if (nkeys == 0)
        return store_check(store, "rcm_store_multi_get");
    rcm_status status = keys_check("rcm_store_multi_get", store, keys, nkeys, &k);
    if (status != RCM_OK)
        return status;
    status = output_check("rcm_store_multi_get", ret_values != NULL);
    if (status == RCM_OK)
        status = store_fetch(store, k, nkeys, timeout_ms, ret_values);
    free(k);
    return status;
}

rcm_status rcm_store_add(rcm_store *store, const char *key, int64_t delta, int64_t *ret_value) {
    RCMI_ENTRY;
    struct rcmi_bytes k;
    rcm_status status = call_check("rcm_store_add", store, key, &k);
    if (status == RCM_OK)
        status = output_check("rcm_store_add", ret_value != NULL);
    return status == RCM_OK ? store->ops->add(store, k, delta, ret_value) : status;
}

rcm_status rcm_store_compare_set(rcm_store *store, const char *key, const void *expected,
                                 size_t expected_len, const void *desired, size_t desired_len,
                                 int *ret_swapped, void **ret_value, size_t *ret_len) {
    RCMI_ENTRY;
    const char *call = "rcm_store_compare_set";
    struct rcmi_bytes k, e, d;
    struct rcm_blob value;
    bool swapped;

    rcm_status status = call_check(call, store, key, &k);
    if (status == RCM_OK)
        status = value_check(call, key, expected, expected_len, &e);
    if (status == RCM_OK)
        status = value_check(call, key, desired, desired_len, &d);
    if (status == RCM_OK)
        status = output_check(call, ret_swapped && ret_value && ret_len);
    if (status == RCM_OK)
        status = store->ops->compare_set(store, k, e, d, &swapped, &value);
    if (status == RCM_ERR_NOT_FOUND)
        return not_found(store, key);
    if (status == RCM_OK) {
        *ret_swapped = swapped;
        *ret_value = value.data;
        *ret_len = value.len;
    }
    return status;
}

rcm_status rcm_store_delete(rcm_store *store, const char *key, int *ret_deleted) {
    RCMI_ENTRY;
    struct rcmi_bytes k;
    bool deleted;
    rcm_status status = call_check("rcm_store_delete", store, key, &k);
    if (status == RCM_OK)
        status = output_check("rcm_store_delete", ret_deleted != NULL);
    if (status == RCM_OK)
        status = store->ops->remove(store, k, &deleted);
    if (status == RCM_OK)
        *ret_deleted = deleted;
    return status;
}

rcm_status rcm_store_count(rcm_store *store, size_t *ret_count) {
    RCMI_ENTRY;
    rcm_status status = store_check(store, "rcm_store_count");
    if (status == RCM_OK)
        status = output_check("rcm_store_count", ret_count != NULL);
    return status == RCM_OK ? store->ops->count(store, ret_count) : status;
}
