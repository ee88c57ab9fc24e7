/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One suite for every kind of store:
 *     conformance hash|file|tcp|custom|custom-least|prefix-hash|prefix-file|prefix-tcp
 * "custom" implements all functions, "custom-least" all but wait. Where the kind allows it, `other`
 * is a second opening of the same store, like that of another rank.
 */
#include "check.h"
#include "rendezvous.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *kind;      /* "tcp" */
static const char *base_kind; /* without "prefix-" */

struct stores {
    rcm_store *base, *base_other; /* the store behind the prefix stores */
    rcm_store *store, *other;
    char *path;
};

/* ---- Custom stores, on top of a hash store --------------------------------------------------- */

static rcm_status own_set(void *arg, const char *key, const void *value, size_t len) {
    return rcm_store_set(arg, key, value, len);
}
static rcm_status own_try_get(void *arg, const char *key, void **value, size_t *len) {
    return rcm_store_try_get(arg, key, value, len);
}
static rcm_status own_wait(void *arg, const char *key, int64_t timeout_ms) {
    return rcm_store_wait(arg, &key, 1, timeout_ms);
}
static rcm_status own_compare_set(void *arg, const char *key, const void *expected,
                                  size_t expected_len, const void *desired, size_t desired_len,
                                  int *swapped, void **value, size_t *len) {
    return rcm_store_compare_set(arg, key, expected, expected_len, desired, desired_len, swapped,
                                 value, len);
}
static rcm_status own_remove(void *arg, const char *key, int *deleted) {
    return rcm_store_delete(arg, key, deleted);
}
static rcm_status own_count(void *arg, size_t *count) {
    return rcm_store_count(arg, count);
}
static void own_close(void *arg) {
    rcm_store_close(arg);
}

static void own_open(rcm_store **store) {
    struct rcm_store_functions own = {.size = sizeof own,
                                      .set = own_set,
                                      .try_get = own_try_get,
                                      .wait = own_wait,
                                      .compare_set = own_compare_set,
                                      .remove = own_remove,
                                      .count = own_count,
                                      .close = own_close};
    rcm_store *inner;
    check_ok(rcm_store_open("hash:conformance", 0, &inner));
    own.arg = inner;
    if (strchr(base_kind, '-'))
        own.wait = NULL;
    check_ok(rcmi_custom_open(&own, store));
}

static void base_open(struct stores *s) {
    char url[512];
    if (strcmp(base_kind, "hash") == 0) {
        check_ok(rcm_store_open("hash:conformance", 0, &s->base));
        check_ok(rcm_store_open("hash:conformance", 0, &s->base_other));
    } else if (strncmp(base_kind, "custom", 6) == 0) {
        own_open(&s->base);
        own_open(&s->base_other);
    } else if (strcmp(base_kind, "file") == 0) {
        s->path = fresh_path();
        snprintf(url, sizeof url, "file://%s?world_size=2", s->path);
        check_ok(rcm_store_open(url, 0, &s->base));
        check_ok(rcm_store_open(url, 0, &s->base_other));
    } else {
        check_ok(rcm_store_open("tcp://127.0.0.1:0?rank=0&world_size=2", 0, &s->base));
        snprintf(url, sizeof url, "%s?rank=1&world_size=2", rcm_store_url(s->base));
        check_ok(rcm_store_open(url, 0, &s->base_other));
    }
}

static int setup(void **state) {
    struct stores *s = calloc(1, sizeof *s);
    base_open(s);
    s->store = s->base;
    s->other = s->base_other;
    if (base_kind != kind) {
        check_ok(rcm_store_prefix(s->base, "job 7/x", &s->store));
        check_ok(rcm_store_prefix(s->base_other, "job 7/x", &s->other));
    }
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct stores *s = *state;
    if (s->other != s->base_other)
        rcm_store_close(s->other);
    if (s->store != s->base)
        rcm_store_close(s->store);
    rcm_store_close(s->base_other);
    rcm_store_close(s->base);
    if (s->path) {
        assert_int_not_equal(access(s->path, F_OK), 0); /* the last of world_size removed it */
        remove_path(s->path);
    }
    free(s);
    return 0;
}

static void expect_text(rcm_store *store, const char *key, const char *expected) {
    char *text = get_text(store, key);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- Setting and getting ------------------------------------------------------------------- */

static void set_and_get(void **state) {
    struct stores *s = *state;
    check_ok(rcm_store_set(s->store, "k", "one", 3));
    expect_text(s->store, "k", "one");
    expect_text(s->other, "k", "one");
    check_ok(rcm_store_set(s->other, "k", "two!", 4));
    expect_text(s->store, "k", "two!");
    check_ok(rcm_store_set(s->store, "k", NULL, 0)); /* an empty value is a value */
    expect_text(s->other, "k", "");
    check_ok(rcm_store_set(s->store, "", "empty key", 9));
    expect_text(s->other, "", "empty key");
}

static void try_get(void **state) {
    struct stores *s = *state;
    void *value = &value;
    size_t len = 77;
    check_status(RCM_ERR_NOT_FOUND, rcm_store_try_get(s->store, "nothing", &value, &len));
    check_error_names("nothing");
    assert_ptr_equal(value, &value); /* outputs are set only on success */
    assert_int_equal(len, 77);
    check_ok(rcm_store_set(s->other, "nothing", "", 0));
    check_ok(rcm_store_try_get(s->store, "nothing", &value, &len));
    assert_int_equal(len, 0);
    free(value);
}

static void binary_values(void **state) {
    struct stores *s = *state;
    unsigned char all[256], odd_key[256];
    void *value;
    size_t len;
    for (int i = 0; i < 256; i++)
        all[i] = (unsigned char)i;
    for (int i = 0; i < 255; i++)
        odd_key[i] = (unsigned char)(i + 1); /* every byte but NUL */
    odd_key[255] = 0;
    check_ok(rcm_store_set(s->store, (char *)odd_key, all, sizeof all));
    check_ok(rcm_store_get(s->other, (char *)odd_key, 1000, &value, &len));
    assert_int_equal(len, sizeof all);
    assert_memory_equal(value, all, sizeof all);
    assert_int_equal(((char *)value)[len], 0); /* the NUL that follows */
    free(value);
}

static void large_values(void **state) {
    struct stores *s = *state;
    size_t big = 8 * 1024 * 1024, len;
    char *data = malloc(big + 1), *key = malloc(8194);
    void *value;
    for (size_t i = 0; i < big; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    check_ok(rcm_store_set(s->store, "big", data, big));
    check_ok(rcm_store_get(s->other, "big", 20000, &value, &len));
    assert_int_equal(len, big);
    assert_memory_equal(value, data, big);
    free(value);
    check_status(RCM_ERR_INVALID, rcm_store_set(s->store, "too big", data, big + 1));
    check_error_names("too big");
    check_error_names("8388609");
    check_status(RCM_ERR_INVALID, rcm_store_append(s->store, "big", "x", 1));
    check_status(RCM_ERR_NOT_FOUND, rcm_store_try_get(s->other, "too big", &value, &len));

    size_t longest = 8192 - (base_kind != kind ? strlen("job 7/x/") : 0);
    memset(key, 'k', 8193);
    key[8193] = 0;
    check_status(RCM_ERR_INVALID, rcm_store_set(s->store, key, "v", 1));
    check_error_names("8193");
    key[longest + 1] = 0;
    check_status(RCM_ERR_INVALID, rcm_store_set(s->store, key, "v", 1));
    key[longest] = 0;
    check_ok(rcm_store_set(s->store, key, "v", 1));
    expect_text(s->other, key, "v");
    free(key);
    free(data);
}

static void wrong_arguments(void **state) {
    struct stores *s = *state;
    void *value;
    size_t len;
    int64_t n;
    check_status(RCM_ERR_INVALID, rcm_store_set(NULL, "k", "v", 1));
    check_status(RCM_ERR_INVALID, rcm_store_set(s->store, NULL, "v", 1));
    check_status(RCM_ERR_INVALID, rcm_store_set(s->store, "k", NULL, 1));
    check_status(RCM_ERR_INVALID, rcm_store_get(s->store, "k", 0, NULL, &len));
    check_status(RCM_ERR_INVALID, rcm_store_get(s->store, "k", 0, &value, NULL));
    check_status(RCM_ERR_INVALID, rcm_store_add(s->store, NULL, 1, &n));
    check_status(RCM_ERR_INVALID, rcm_store_wait(s->store, NULL, 1, 0));
    check_ok(rcm_store_wait(s->store, NULL, 0, 0));
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static void deadlines(void **state) {
    struct stores *s = *state;
    const char *keys[] = {"there", "missing-a", "missing-b"};
    void *value;
    size_t len;
    check_ok(rcm_store_set(s->store, "there", "v", 1));
    for (int ms = 0; ms <= 300; ms += 150) {
        double least = 1e9; /* of ten tries: the machine may be busy */
        for (int try = 0; try < 10 && least > ms + 100; try++) {
            double start = seconds_now();
            check_status(RCM_ERR_TIMEOUT, rcm_store_get(s->store, "never", ms, &value, &len));
            double took = (seconds_now() - start) * 1e3;
            check_error_names("never");
            if (took < ms)
                fail_msg("a get with %d ms took %.1f ms", ms, took);
            least = took < least ? took : least;
        }
        if (least > ms + 100)
            fail_msg("a get with %d ms took %.1f ms", ms, least);
    }
    double least = 1e9;
    for (int try = 0; try < 10 && least > 1000; try++) {
        const double start = seconds_now();
        check_status(RCM_ERR_TIMEOUT, rcm_store_wait(s->store, keys, 3, 200));
        const double took = (seconds_now() - start) * 1e3;
        check_error_names("missing-a"); /* the first missing one */
        assert_true(took >= 200);
        least = took < least ? took : least;
    }
    if (least > 1000)
        fail_msg("a wait with 200 ms took %.1f ms", least);
    check_ok(rcm_store_wait(s->store, keys, 1, 0)); /* 0 checks once */
    check_ok(rcm_store_get(s->store, "there", 0, &value, &len));
    free(value);
    /* The store still works. */
    check_ok(rcm_store_set(s->store, "after", "x", 1));
    expect_text(s->other, "after", "x");
}

struct waker {
    rcm_store *store;
    const char *key;
    int after_ms;
};

static void *set_later(void *arg) {
    struct waker *w = arg;
    sleep_ms(w->after_ms);
    if (rcm_store_set(w->store, w->key, w->key, strlen(w->key)) != RCM_OK)
        abort();
    return NULL;
}

/* How long two waits took, in seconds. late-2 is set through the store that waits: a wait must not
 * block other calls. */
static double waits_took(struct stores *s) {
    struct waker w[] = {{s->other, "late-1", 100}, {s->store, "late-2", 200}};
    const char *keys[] = {"late-2", "late-1", "late-1"};
    pthread_t threads[2];
    int deleted;
    double start = seconds_now();
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, set_later, &w[i]), 0);
    expect_text(s->store, "late-1", "late-1");
    assert_true(seconds_now() - start >= 0.09);
    check_ok(rcm_store_wait(s->store, keys, 3, 10000));
    double took = seconds_now() - start;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    check_ok(rcm_store_wait(s->store, keys, 3, -1)); /* all keys exist: -1 returns at once */
    for (int i = 0; i < 2; i++)
        check_ok(rcm_store_delete(s->store, keys[i], &deleted));
    return took;
}

static void waiters_woken(void **state) {
    double least = 1e9; /* of ten tries: the machine may be busy */
    for (int try = 0; try < 10 && least > 1.0; try++) {
        const double took = waits_took(*state);
        assert_true(took >= 0.19);
        least = took < least ? took : least;
    }
    if (least > 1.0)
        fail_msg("woken after %.3f s", least);
}

static void *add_later(void *arg) {
    struct waker *w = arg;
    int64_t n;
    int swapped;
    void *value;
    size_t len;
    sleep_ms(w->after_ms);
    rcm_status status = RCM_OK;
    if (strcmp(w->key, "by-add") == 0)
        status = rcm_store_add(w->store, w->key, 1, &n);
    else if (strcmp(w->key, "by-append") == 0)
        status = rcm_store_append(w->store, w->key, "x", 1);
    else
        status = rcm_store_compare_set(w->store, w->key, "", 0, "x", 1, &swapped, &value, &len);
    if (status != RCM_OK)
        abort();
    if (strcmp(w->key, "by-compare") == 0)
        free(value);
    return NULL;
}

static void woken_by_everything(void **state) {
    struct stores *s = *state;
    struct waker w[] = {
        {s->other, "by-add", 50}, {s->other, "by-append", 50}, {s->other, "by-compare", 50}};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, add_later, &w[i]), 0);
        check_ok(rcm_store_wait(s->store, &w[i].key, 1, 10000));
        pthread_join(thread, NULL);
    }
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static void adding(void **state) {
    struct stores *s = *state;
    int64_t n = 99;
    check_ok(rcm_store_add(s->store, "n", 0, &n));
    assert_int_equal(n, 0);
    check_ok(rcm_store_add(s->other, "n", 41, &n));
    check_ok(rcm_store_add(s->store, "n", -42, &n));
    assert_int_equal(n, -1);
    expect_text(s->store, "n", "-1"); /* decimal text */
    check_ok(rcm_store_set(s->store, "n", "1000000007", 10));
    check_ok(rcm_store_add(s->other, "n", 1, &n));
    assert_int_equal(n, 1000000008);
    check_ok(rcm_store_set(s->store, "text", "12 apples", 9));
    check_status(RCM_ERR_INVALID, rcm_store_add(s->store, "text", 1, &n));
    check_error_names(base_kind == kind ? "key \"text\"" : "text\"");
    check_ok(rcm_store_set(s->store, "none", "", 0));
    check_status(RCM_ERR_INVALID, rcm_store_add(s->store, "none", 1, &n));
    check_ok(rcm_store_set(s->store, "max", "9223372036854775807", 19));
    check_status(RCM_ERR_INVALID, rcm_store_add(s->store, "max", 1, &n));
    check_ok(rcm_store_add(s->store, "max", 0, &n));
    assert_true(n == INT64_MAX);
    check_ok(rcm_store_set(s->store, "min", "-9223372036854775808", 20));
    check_ok(rcm_store_add(s->store, "min", 0, &n));
    assert_true(n == INT64_MIN);
    expect_text(s->store, "text", "12 apples");
}

enum { ADDERS = 16, ADDS = 50 };

static void *add_many(void *arg) {
    int64_t n, before = 0;
    for (int i = 0; i < ADDS; i++) {
        if (rcm_store_add(arg, "sum", 1, &n) != RCM_OK || n <= before)
            abort();
        before = n;
    }
    return NULL;
}

static void many_adders(void **state) {
    struct stores *s = *state;
    pthread_t threads[ADDERS];
    int64_t n;
    for (int i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, i % 2 ? s->store : s->other),
                         0);
    for (int i = 0; i < ADDERS; i++)
        pthread_join(threads[i], NULL);
    check_ok(rcm_store_add(s->store, "sum", 0, &n));
    assert_int_equal(n, ADDERS * ADDS);
}

/* ---- Compare and set, delete, count, append ------------------------------------------------ */

static void expect_compare(rcm_store *store, const char *expected, const char *desired,
                           int expect_swapped, const char *expect_value) {
    int swapped = -1;
    void *value;
    size_t len;
    check_ok(rcm_store_compare_set(store, "c", expected, strlen(expected), desired, strlen(desired),
                                   &swapped, &value, &len));
    assert_int_equal(swapped, expect_swapped);
    assert_string_equal(value, expect_value);
    assert_int_equal(len, strlen(expect_value));
    free(value);
}

static void compare_set(void **state) {
    struct stores *s = *state;
    int swapped = -1;
    void *value;
    size_t len;
    check_status(RCM_ERR_NOT_FOUND,
                 rcm_store_compare_set(s->store, "c", "a", 1, "b", 1, &swapped, &value, &len));
    check_error_names("\"c\"");
    assert_int_equal(swapped, -1);
    check_status(RCM_ERR_NOT_FOUND, rcm_store_try_get(s->store, "c", &value, &len));
    expect_compare(s->store, "", "first", 1, "first");
    expect_compare(s->other, "", "second", 0, "first");
    expect_compare(s->other, "wrong", "first", 0, "first"); /* returns the current value */
    expect_compare(s->other, "first", "first", 1, "first");
    expect_compare(s->other, "first", "", 1, "");
    expect_compare(s->store, "", "third", 1, "third");
    expect_text(s->other, "c", "third");
}

static void *lock_many(void *arg) {
    rcm_store *store = arg;
    long wins = 0;
    for (int round = 0; round < 20; round++) {
        char key[32];
        int swapped;
        void *value;
        size_t len;
        snprintf(key, sizeof key, "lock-%d", round);
        /* All request the same change: exactly one may get `swapped`. */
        if (rcm_store_compare_set(store, key, "", 0, "taken", 5, &swapped, &value, &len) != RCM_OK)
            abort();
        free(value);
        wins += swapped;
    }
    return (void *)wins;
}

static void one_winner(void **state) {
    struct stores *s = *state;
    pthread_t threads[8];
    long wins = 0;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lock_many, i % 2 ? s->store : s->other),
                         0);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wins += (long)result;
    }
    assert_int_equal(wins, 20);
}

static void delete_and_count(void **state) {
    struct stores *s = *state;
    int deleted = -1;
    size_t count = 99;
    void *value;
    size_t len;
    check_ok(rcm_store_count(s->store, &count));
    assert_int_equal(count, 0);
    check_ok(rcm_store_delete(s->store, "x", &deleted));
    assert_int_equal(deleted, 0);
    check_ok(rcm_store_set(s->store, "x", "1", 1));
    check_ok(rcm_store_set(s->other, "x", "2", 1));
    check_ok(rcm_store_set(s->other, "y", "", 0));
    check_ok(rcm_store_set(s->other, "-/x", "looks like a deletion", 21));
    check_ok(rcm_store_set(s->other, "init/", "looks like torch's", 18));
    check_ok(rcm_store_count(s->store, &count));
    assert_int_equal(count, 4);
    check_ok(rcm_store_delete(s->other, "x", &deleted));
    assert_int_equal(deleted, 1);
    check_ok(rcm_store_delete(s->store, "x", &deleted));
    assert_int_equal(deleted, 0);
    check_status(RCM_ERR_NOT_FOUND, rcm_store_try_get(s->store, "x", &value, &len));
    check_ok(rcm_store_count(s->other, &count));
    assert_int_equal(count, 3);
    check_ok(rcm_store_set(s->store, "x", "again", 5));
    expect_text(s->other, "x", "again");
    expect_text(s->store, "-/x", "looks like a deletion");
}

static void append(void **state) {
    struct stores *s = *state;
    check_ok(rcm_store_append(s->store, "log", "a", 1));
    check_ok(rcm_store_append(s->other, "log", "bc", 2));
    check_ok(rcm_store_append(s->store, "log", NULL, 0));
    expect_text(s->store, "log", "abc");
    check_ok(rcm_store_set(s->store, "log", "new", 3));
    check_ok(rcm_store_append(s->other, "log", "er", 2));
    expect_text(s->store, "log", "newer");
    check_ok(rcm_store_append(s->store, "empty", NULL, 0));
    expect_text(s->other, "empty", "");
}

/* ---- Many at once -------------------------------------------------------------------------- */

enum { MANY = 1000 };

static void many_keys(void **state) {
    struct stores *s = *state;
    static char names[MANY][24];
    static const char *keys[MANY];
    static struct rcm_blob in[MANY], out[MANY];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "many/%d", i);
        keys[i] = names[i];
        in[i] = (struct rcm_blob){names[i], (size_t)(i % 8)};
    }
    check_ok(rcm_store_multi_set(s->store, keys, in, MANY));
    check_ok(rcm_store_multi_get(s->other, keys, MANY, 10000, out));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(out[i].len, in[i].len);
        assert_memory_equal(out[i].data, in[i].data, in[i].len);
        assert_int_equal(((char *)out[i].data)[out[i].len], 0);
        free(out[i].data);
    }
    keys[500] = "many/none";
    check_status(RCM_ERR_TIMEOUT, rcm_store_multi_get(s->other, keys, MANY, 50, out));
    check_error_names("many/none");
    check_ok(rcm_store_multi_get(s->other, keys, 0, 50, out));
    check_ok(rcm_store_multi_set(s->other, keys, in, 0));
}

static void more_than_a_buffer(void **state) {
    /* 40 MiB in one multi_get: more than any buffer between the two holds. */
    struct stores *s = *state;
    enum { N = 10 };
    size_t len = 4 * 1024 * 1024;
    char *data = malloc(len);
    const char *keys[N] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct rcm_blob in[N], out[N];
    memset(data, 'd', len);
    for (int i = 0; i < N; i++)
        in[i] = (struct rcm_blob){data, len - (size_t)i};
    check_ok(rcm_store_multi_set(s->store, keys, in, N));
    check_ok(rcm_store_multi_get(s->other, keys, N, 20000, out));
    for (int i = 0; i < N; i++) {
        assert_int_equal(out[i].len, len - (size_t)i);
        assert_memory_equal(out[i].data, data, out[i].len);
        free(out[i].data);
    }
    free(data);
}

static void prefixes(void **state) {
    struct stores *s = *state;
    rcm_store *a, *b;
    void *value;
    size_t len;
    check_ok(rcm_store_prefix(s->store, "a", &a));
    check_ok(rcm_store_prefix(a, "b", &b));
    check_ok(rcm_store_set(b, "k", "deep", 4));
    expect_text(s->other, "a/b/k", "deep");
    expect_text(a, "b/k", "deep");
    check_status(RCM_ERR_NOT_FOUND, rcm_store_try_get(a, "k", &value, &len));
    check_status(RCM_ERR_TIMEOUT, rcm_store_get(b, "zz", 20, &value, &len));
    check_error_names("\"zz\"");
    rcm_store_close(b);
    rcm_store_close(a);
}

static void after_fork(void **state) {
    struct stores *s = *state;
    int status;
    check_ok(rcm_store_set(s->store, "k", "parent", 6));
    pid_t pid = fork();
    if (pid == 0) {
        bool refused = rcm_store_set(s->store, "k", "child", 5) == RCM_ERR_FORKED;
        if (s->store != s->base)
            rcm_store_close(s->store);
        rcm_store_close(s->base);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    expect_text(s->store, "k", "parent"); /* the child's close took nothing from the parent */
    expect_text(s->other, "k", "parent");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(set_and_get),      TEST(try_get),     TEST(binary_values), TEST(large_values),
        TEST(wrong_arguments),  TEST(deadlines),   TEST(waiters_woken), TEST(woken_by_everything),
        TEST(adding),           TEST(many_adders), TEST(compare_set),   TEST(one_winner),
        TEST(delete_and_count), TEST(append),      TEST(many_keys),     TEST(more_than_a_buffer),
        TEST(prefixes),         TEST(after_fork),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s [prefix-]hash|file|tcp\n", argv[0]);
        return 2;
    }
    kind = base_kind = argv[1];
    if (strncmp(kind, "prefix-", 7) == 0)
        base_kind = kind + 7;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
