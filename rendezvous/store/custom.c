/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store of the program's own functions (rcm_store_custom). set, try_get and compare_set are
 * required. The other operations are built from them:
 *
 *      wait          the program's function; without one, polls the keys with try_get
 *      multi_set     set of each key
 *      multi_get     wait, then try_get of each key
 *      append, add   try_get, then compare_set; repeated if another process was faster
 *
 * remove and count are optional; without them the calls fail with RCM_ERR_UNSUPPORTED.
 */
#include "store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "error.h"
#include "rendezvous.h"

#define LOOK_MS_FIRST 1
#define LOOK_MS_LAST  50

struct custom_store {
    struct rcm_store base;
    struct rcm_store_functions own;
};

static struct custom_store *custom_of(rcm_store *store) {
    return (struct custom_store *)store;
}

static const struct rcm_store_functions *own_of(rcm_store *store) {
    return &custom_of(store)->own;
}

/* ---- What the caller's functions return ------------------------------------------------------ */

/* The reason: the program's text, else the error of a library function that the program called. */
static const char *custom_reason(rcm_store *store, rcm_status status) {
    const struct rcm_store_functions *own = own_of(store);
    const char *reason = own->reason ? own->reason(own->arg) : NULL;
    if (reason)
        return reason;
    return rcmi_last_error()->status == status ? rcm_last_error() : "";
}

static rcm_status custom_fail(rcm_store *store, rcm_status status, const char *name,
                              struct rcmi_bytes key) {
    const char *reason = custom_reason(store, status);
    char why[200] = "";
    if (reason[0])
        snprintf(why, sizeof why, ": %.190s", reason);
    if (status > RCM_OK || strcmp(rcm_status_name(status), "RCM_?") == 0)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "%s of the program's store returned %d for \"%.200s\"%s", name,
                         (int)status, (const char *)key.data, why);
    return rcmi_fail(status, 0, "%s of the program's store failed for \"%.200s\"%s", name,
                     (const char *)key.data, why);
}

static rcm_status custom_result(rcm_store *store, rcm_status status, const char *name,
                                struct rcmi_bytes key) {
    return status == RCM_OK || status == RCM_ERR_NOT_FOUND ? status
                                                           : custom_fail(store, status, name, key);
}

static rcm_status custom_lacks(const char *name) {
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "the program's store has no %s", name);
}

/* A new blob of what a function returned, with the NUL that callers rely on. */
static rcm_status custom_blob(void *value, size_t len, const char *name, struct rcmi_bytes key,
                              struct rcm_blob *ret_value) {
    rcm_status status;
    if ((!value && len > 0) || len > RCMI_STORE_VALUE_MAX)
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0,
                           "%s of the program's store returned %zu bytes at %p for \"%.200s\"",
                           name, len, value, (const char *)key.data);
    else
        status = rcmi_blob_copy((struct rcmi_bytes){value, len}, ret_value);
    free(value);
    return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static rcm_status custom_set(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    const struct rcm_store_functions *own = own_of(store);
    struct rcmi_store_call call;
    rcm_status status = rcmi_store_call_begin("set", &call);
    if (status != RCM_OK)
        return status;
    status = own->set(own->arg, key.data, value.data, value.len);
    rcmi_store_call_end(&call);
    return status == RCM_OK ? status : custom_fail(store, status, "set", key);
}

static rcm_status custom_multi_set(rcm_store *store, const struct rcmi_bytes *keys,
                                   const struct rcmi_bytes *values, size_t n) {
    rcm_status status = RCM_OK;
    for (size_t i = 0; i < n && status == RCM_OK; i++)
        status = custom_set(store, keys[i], values[i]);
    return status;
}

static rcm_status custom_try_get(rcm_store *store, struct rcmi_bytes key,
                                 struct rcm_blob *ret_value) {
    const struct rcm_store_functions *own = own_of(store);
    void *value = NULL;
    size_t len = 0;
    struct rcmi_store_call call;
    rcm_status status = rcmi_store_call_begin("try_get", &call);
    if (status != RCM_OK)
        return status;
    status = own->try_get(own->arg, key.data, &value, &len);
    rcmi_store_call_end(&call);
    status = custom_result(store, status, "try_get", key);
    return status == RCM_OK ? custom_blob(value, len, "try_get", key, ret_value) : status;
}

/* Checks the keys from *ret_n on. *ret_n: the first key that does not exist. */
static rcm_status custom_look(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                              size_t *ret_n) {
    struct rcm_blob value;
    for (; *ret_n < n; (*ret_n)++) {
        const rcm_status status = custom_try_get(store, keys[*ret_n], &value);
        if (status != RCM_OK)
            return status == RCM_ERR_NOT_FOUND ? RCM_PENDING : status;
        free(value.data);
    }
    return RCM_OK;
}

/* Sleeps, longer each time. */
static void custom_pause(int *ms, rcmi_deadline deadline) {
    const int left_ms = rcmi_deadline_left_ms(deadline);
    const int pause_ms = left_ms >= 0 && left_ms < *ms ? left_ms : *ms;
    const struct timespec t = {.tv_nsec = pause_ms * 1000000L};
    (void)nanosleep(&t, NULL);
    *ms = *ms * 2 < LOOK_MS_LAST ? *ms * 2 : LOOK_MS_LAST;
}

static rcm_status custom_wait_looking(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                      rcmi_deadline deadline) {
    int ms = LOOK_MS_FIRST;
    for (size_t have = 0;;) {
        const rcm_status status = custom_look(store, keys, n, &have);
        if (status != RCM_PENDING || rcmi_deadline_passed(deadline))
            return status;
        custom_pause(&ms, deadline);
    }
}

static rcm_status custom_wait(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                              rcmi_deadline deadline) {
    const struct rcm_store_functions *own = own_of(store);
    if (!own->wait)
        return custom_wait_looking(store, keys, n, deadline);
    for (size_t i = 0; i < n; i++) {
        const int64_t left_ms = deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(deadline);
        const rcm_status status = own->wait(own->arg, keys[i].data, left_ms);
        if (status == RCM_ERR_TIMEOUT)
            return RCM_PENDING;
        if (status != RCM_OK)
            return custom_fail(store, status, "wait", keys[i]);
    }
    return RCM_OK;
}

/* Repeats if a key was deleted between wait and try_get. */
static rcm_status custom_multi_get(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                   rcmi_deadline deadline, struct rcm_blob *ret_values) {
    for (;;) {
        size_t got = 0;
        rcm_status status = custom_wait(store, keys, n, deadline);
        if (status != RCM_OK)
            return status;
        while (got < n && (status = custom_try_get(store, keys[got], &ret_values[got])) == RCM_OK)
            got++;
        if (status == RCM_OK)
            return status;
        rcmi_blobs_free(ret_values, got);
        if (status != RCM_ERR_NOT_FOUND)
            return status;
    }
}

static rcm_status custom_present(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                 bool *ret_present) {
    for (size_t i = 0; i < n; i++) {
        size_t have = 0;
        const rcm_status status = custom_look(store, &keys[i], 1, &have);
        if (status != RCM_OK && status != RCM_PENDING)
            return status;
        ret_present[i] = status == RCM_OK;
    }
    return RCM_OK;
}

/* ---- Compare and set ------------------------------------------------------------------------- */

static rcm_status custom_compare_set(rcm_store *store, struct rcmi_bytes key,
                                     struct rcmi_bytes expected, struct rcmi_bytes desired,
                                     bool *ret_swapped, struct rcm_blob *ret_value) {
    const struct rcm_store_functions *own = own_of(store);
    void *value = NULL;
    size_t len = 0;
    int swapped = 0;
    struct rcmi_store_call call;
    rcm_status status = rcmi_store_call_begin("compare_set", &call);
    if (status != RCM_OK)
        return status;
    status = own->compare_set(own->arg, key.data, expected.data, expected.len, desired.data,
                              desired.len, &swapped, &value, &len);
    rcmi_store_call_end(&call);
    status = custom_result(store, status, "compare_set", key);
    if (status == RCM_OK)
        status = custom_blob(value, len, "compare_set", key, ret_value);
    if (status == RCM_OK)
        *ret_swapped = swapped != 0;
    return status;
}

/* ---- Built from compare and set -------------------------------------------------------------- */

/* Computes the new value from the old one; RCM_OK with a new blob, or an error. */
struct change {
    rcm_status (*make)(struct rcmi_bytes key, const struct rcmi_entry *old, void *arg,
                       struct rcm_blob *ret_value);
    void *arg;
};

/* Reads the value, computes the new one, and sets it if the value is unchanged; else RCM_AGAIN. */
static rcm_status change_once(rcm_store *store, struct rcmi_bytes key,
                              const struct change *change) {
    struct rcm_blob old = {NULL, 0}, new = {NULL, 0}, now = {NULL, 0};
    bool swapped = false;
    rcm_status status = custom_try_get(store, key, &old);
    const struct rcmi_entry entry = {.value = old.data, .value_len = old.len};
    if (status == RCM_OK || status == RCM_ERR_NOT_FOUND)
        status = change->make(key, status == RCM_OK ? &entry : NULL, change->arg, &new);
    if (status == RCM_OK)
        status = custom_compare_set(store, key, (struct rcmi_bytes){old.data, old.len},
                                    (struct rcmi_bytes){new.data, new.len}, &swapped, &now);
    free(old.data);
    free(new.data);
    free(now.data);
    if (status == RCM_ERR_NOT_FOUND) /* deleted meanwhile */
        return RCM_AGAIN;
    return status == RCM_OK && !swapped ? RCM_AGAIN : status;
}

static rcm_status change_value(rcm_store *store, struct rcmi_bytes key,
                               const struct change *change) {
    const rcmi_deadline deadline = rcmi_call_deadline();
    int ms = LOOK_MS_FIRST;
    rcm_status status;
    while ((status = change_once(store, key, change)) == RCM_AGAIN) {
        if (rcmi_deadline_passed(deadline))
            return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                             "key \"%.200s\" of the program's store keeps "
                             "changing",
                             (const char *)key.data);
        custom_pause(&ms, deadline);
    }
    return status;
}

struct addition {
    int64_t delta, sum;
};

static rcm_status make_sum(struct rcmi_bytes key, const struct rcmi_entry *old, void *arg,
                           struct rcm_blob *ret_value) {
    struct addition *addition = arg;
    char text[RCMI_INT_TEXT];
    const rcm_status status = rcmi_add_text(key, old, addition->delta, &addition->sum, text);
    return status == RCM_OK ? rcmi_blob_copy((struct rcmi_bytes){text, strlen(text)}, ret_value)
                            : status;
}

static rcm_status custom_add(rcm_store *store, struct rcmi_bytes key, int64_t delta,
                             int64_t *ret_value) {
    struct addition addition = {.delta = delta};
    const struct change change = {make_sum, &addition};
    const rcm_status status = change_value(store, key, &change);
    if (status == RCM_OK)
        *ret_value = addition.sum;
    return status;
}

static rcm_status make_longer(struct rcmi_bytes key, const struct rcmi_entry *old, void *arg,
                              struct rcm_blob *ret_value) {
    const struct rcmi_bytes *more = arg;
    const size_t len = old ? old->value_len : 0;
    const rcm_status status = rcmi_append_check(key, old, more->len);
    if (status != RCM_OK)
        return status;
    char *value = malloc(len + more->len + 1);
    if (!value)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a value of %zu bytes", len + more->len);
    if (len > 0)
        memcpy(value, old->value, len);
    if (more->len > 0)
        memcpy(value + len, more->data, more->len);
    *ret_value = (struct rcm_blob){value, len + more->len};
    return RCM_OK;
}

static rcm_status custom_append(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    const struct change change = {make_longer, &value};
    return change_value(store, key, &change);
}

/* ---- Optional functions ---------------------------------------------------------------------- */

static rcm_status custom_remove(rcm_store *store, struct rcmi_bytes key, bool *ret_deleted) {
    const struct rcm_store_functions *own = own_of(store);
    int deleted = 0;
    struct rcmi_store_call call;
    if (!own->remove)
        return custom_lacks("remove");
    rcm_status status = rcmi_store_call_begin("remove", &call);
    if (status != RCM_OK)
        return status;
    status = own->remove(own->arg, key.data, &deleted);
    rcmi_store_call_end(&call);
    *ret_deleted = deleted != 0;
    return status == RCM_OK ? status : custom_fail(store, status, "remove", key);
}

static rcm_status custom_count(rcm_store *store, size_t *ret_count) {
    const struct rcm_store_functions *own = own_of(store);
    if (!own->count)
        return custom_lacks("count");
    const rcm_status status = own->count(own->arg, ret_count);
    return status == RCM_OK ? status
                            : custom_fail(store, status, "count", (struct rcmi_bytes){"", 0});
}

static void custom_close(rcm_store *store, bool forked) {
    const struct rcm_store_functions *own = own_of(store);
    if (own->close && !forked)
        own->close(own->arg);
}

static const struct rcmi_store_ops custom_ops = {
    .name = "the program's store",
    .set = custom_set,
    .multi_set = custom_multi_set,
    .try_get = custom_try_get,
    .wait = custom_wait,
    .multi_get = custom_multi_get,
    .present = custom_present,
    .add = custom_add,
    .compare_set = custom_compare_set,
    .remove = custom_remove,
    .count = custom_count,
    .append = custom_append,
    .close = custom_close,
};

rcm_status rcmi_custom_open(const struct rcm_store_functions *functions, rcm_store **ret_store) {
    struct custom_store *store = rcmi_store_alloc(sizeof *store, &custom_ops, "");
    if (!store)
        return RCM_ERR_NOMEM;
    store->own = *functions;
    *ret_store = &store->base;
    return RCM_OK;
}
