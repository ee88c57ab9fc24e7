/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of the file store; files that are damaged, missing, locked or stale. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char *url_of(const char *path, const char *query) {
    char *url;
    assert_true(asprintf(&url, "file://%s%s", path, query) > 0);
    return url;
}

static rcm_status open_file(const char *path, int64_t timeout_ms, rcm_store **store) {
    char *url = url_of(path, "");
    rcm_status status = rcm_store_open(url, timeout_ms, store);
    free(url);
    return status;
}

static void file_write(const char *path, const void *data, size_t len) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    fclose(f);
}

static void file_expect(const char *path, const void *data, size_t len) {
    char got[4096];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof got, f), len);
    fclose(f);
    assert_memory_equal(got, data, len);
}

#define REC_REFCOUNT_1                                                                             \
    "\x09\0\0\0refcount/\x01\0\0\0"                                                                \
    "1"
#define REC_REFCOUNT_0                                                                             \
    "\x09\0\0\0refcount/\x01\0\0\0"                                                                \
    "0"
#define REC_CLEANUP_1                                                                              \
    "\x08\0\0\0cleanup/\x01\0\0\0"                                                                 \
    "1"
#define REC_SET_K "\x02\0\0\0/k\x01\0\0\0v"
#define REC_ADD_C                                                                                  \
    "\x02\0\0\0/c\x01\0\0\0"                                                                       \
    "5"
#define REC_DELETE_K "\x03\0\0\0-/k\0\0\0\0"

static void format(void **state) {
    /* What torch.distributed's FileStore writes for the same calls. */
    static const char expected[] =
        REC_REFCOUNT_1 REC_SET_K REC_ADD_C REC_DELETE_K REC_CLEANUP_1 REC_REFCOUNT_0;
    char *path = fresh_path();
    rcm_store *store;
    int64_t n;
    int deleted;
    (void)state;
    check_ok(open_file(path, 0, &store));
    check_ok(rcm_store_set(store, "k", "v", 1));
    check_ok(rcm_store_add(store, "c", 5, &n));
    check_ok(rcm_store_delete(store, "k", &deleted));
    assert_int_equal(deleted, 1);
    check_ok(rcm_store_delete(store, "k", &deleted)); /* nothing to delete: no record */
    assert_int_equal(deleted, 0);
    rcm_store_close(store);
    file_expect(path, expected, sizeof expected - 1);
    assert_int_equal(access(path, F_OK), 0); /* no world_size: the file stays */
    remove_path(path);
}

static void foreign_file(void **state) {
    /* Written by torch 1.13, which writes no refcount record. */
    static const char torch[] = REC_SET_K REC_ADD_C "\x02\0\0\0/e\0\0\0\0" REC_DELETE_K;
    char *path = fresh_path(), *text;
    rcm_store *store;
    void *value;
    size_t len, count;
    (void)state;
    file_write(path, torch, sizeof torch - 1);
    check_ok(open_file(path, 0, &store));
    check_status(RCM_ERR_NOT_FOUND, rcm_store_try_get(store, "k", &value, &len));
    text = get_text(store, "c");
    assert_string_equal(text, "5");
    free(text);
    text = get_text(store, "e");
    assert_string_equal(text, "");
    free(text);
    check_ok(rcm_store_count(store, &count));
    assert_int_equal(count, 2);
    rcm_store_close(store);
    remove_path(path);
}

static void damaged(const char *data, size_t len, const char *word, const char *offset) {
    char *path = fresh_path();
    rcm_store *store;
    file_write(path, data, len);
    check_status(RCM_ERR_PROTOCOL, open_file(path, 1000, &store));
    check_error_names(path);
    check_error_names(word);
    check_error_names(offset);
    file_expect(path, data, len); /* the store wrote nothing */
    remove_path(path);
}

static void damaged_files(void **state) {
    static const char set[] = REC_SET_K; /* 11 bytes */
    (void)state;
    for (size_t len = 1; len < sizeof set - 1; len++)
        damaged(set, len, "torn", "offset 0");
    damaged(REC_SET_K REC_SET_K, 15, "torn", "offset 11");
    damaged(REC_SET_K "\xff\xff\xff\xff/k", 17, "absurd key length", "offset 11");
    damaged(REC_SET_K "\x02\0\0\0/k\xff\xff\xff\xff", 21, "absurd value length", "offset 11");
    damaged("#!/bin/sh\necho hello\n", 21, "absurd key length", "offset 0");
}

static void damaged_later(void **state) {
    char *path = fresh_path();
    rcm_store *store;
    void *value;
    size_t len;
    (void)state;
    check_ok(open_file(path, 0, &store));
    check_ok(rcm_store_set(store, "k", "v", 1));
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "\x05\0", 2), 2);
    close(fd);
    check_status(RCM_ERR_PROTOCOL, rcm_store_try_get(store, "k", &value, &len));
    check_error_names("torn");
    check_status(RCM_ERR_PROTOCOL, rcm_store_set(store, "k", "w", 1));
    assert_int_equal(truncate(path, 3), 0);
    check_status(RCM_ERR_PROTOCOL, rcm_store_try_get(store, "k", &value, &len));
    check_error_names("truncated or replaced");
    rcm_store_close(store);
    remove_path(path);
}

static void *mkdir_later(void *arg) {
    sleep_ms(150);
    if (mkdir(arg, 0755) != 0)
        abort();
    return NULL;
}

static void missing(void **state) {
    char *path = fresh_path(), *inner;
    rcm_store *store;
    pthread_t thread;
    (void)state;
    assert_true(asprintf(&inner, "%s/store", path) > 0);
    double start = seconds_now();
    check_status(RCM_ERR_TIMEOUT, open_file(inner, 200, &store));
    double took = seconds_now() - start;
    check_error_names(inner);
    assert_true(took > 0.19 && took < 1.5);
    /* Opening is retried until the deadline. */
    assert_int_equal(pthread_create(&thread, NULL, mkdir_later, path), 0);
    check_ok(open_file(inner, 5000, &store));
    pthread_join(thread, NULL);
    rcm_store_close(store);
    unlink(inner);
    /* Errors that waiting cannot remove are returned at once. */
    start = seconds_now();
    check_status(RCM_ERR_SYSTEM, open_file(path, 5000, &store));
    check_error_names(path);
    assert_true(seconds_now() - start < 1);
    rmdir(path);
    free(inner);
    remove_path(path);
}

struct opening {
    const char *url;
    rcm_store *store;
    rcm_status status;
    char text[512];
};

static void *open_in_thread(void *arg) {
    struct opening *o = arg;
    o->status = rcm_store_open(o->url, 20000, &o->store);
    snprintf(o->text, sizeof o->text, "%s", o->status == RCM_OK ? "" : rcm_last_error());
    return NULL;
}

static void locked(void **state) {
    char *path = fresh_path();
    rcm_store *store;
    int fd;
    (void)state;
    file_write(path, "", 0);
    fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    double start = seconds_now();
    check_status(RCM_ERR_TIMEOUT, open_file(path, 200, &store));
    double took = seconds_now() - start;
    check_error_names("held its lock");
    assert_true(took > 0.19 && took < 1.5);
    close(fd);
    check_ok(open_file(path, 200, &store));
    rcm_store_close(store);
    remove_path(path);
}

/* The file is removed or replaced while it is in use. */
static void removed_or_replaced(void **state) {
    static const char other[] = REC_SET_K REC_SET_K REC_SET_K REC_SET_K REC_SET_K REC_SET_K;
    char *path = fresh_path(), *second;
    rcm_store *store;
    void *value;
    size_t len;
    (void)state;
    assert_true(asprintf(&second, "%s2", path) > 0);
    file_write(second, other, sizeof other - 1); /* now, so that it has another inode */
    check_ok(open_file(path, 0, &store));
    check_ok(rcm_store_set(store, "k", "v", 1));
    double start = seconds_now();
    unlink(path);
    check_status(RCM_ERR_PROTOCOL, rcm_store_try_get(store, "k", &value, &len));
    check_error_names("was removed");
    check_error_names(path);
    check_status(RCM_ERR_PROTOCOL, rcm_store_set(store, "k", "w", 1));
    assert_true(seconds_now() - start < 10); /* and not after the 30 s of a call */
    assert_int_equal(rename(second, path), 0);
    free(second);
    check_status(RCM_ERR_PROTOCOL, rcm_store_try_get(store, "k", &value, &len));
    check_error_names("replaced");
    rcm_store_close(store);
    file_expect(path, other, sizeof other - 1); /* the other file is unchanged */
    remove_path(path);
}

/* The last user removes the file while the next one has opened it and waits for the lock. */
static void removed_while_opened(void **state) {
    char *path = fresh_path(), *url = url_of(path, "");
    struct opening opening = {.url = url};
    struct stat st;
    pthread_t thread;
    (void)state;
    file_write(path, "", 0);
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(pthread_create(&thread, NULL, open_in_thread, &opening), 0);
    sleep_ms(200);
    unlink(path);
    close(fd);
    pthread_join(thread, NULL);
    if (opening.status != RCM_OK)
        fail_msg("%s", opening.text);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 0); /* its records are in the file at the path */
    rcm_store_close(opening.store);
    free(url);
    remove_path(path);
}

static void removed_by_the_last(void **state) {
    char *path = fresh_path(), *url = url_of(path, "?world_size=3");
    rcm_store *stores[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        check_ok(rcm_store_open(url, 0, &stores[i]));
        assert_string_equal(rcm_store_url(stores[i]), url);
    }
    rcm_store_close(stores[1]);
    assert_int_equal(access(path, F_OK), 0);
    rcm_store_close(stores[0]);
    assert_int_equal(access(path, F_OK), 0);
    rcm_store_close(stores[2]);
    assert_int_not_equal(access(path, F_OK), 0);
    free(url);
    remove_path(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format),
        cmocka_unit_test(foreign_file),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(damaged_later),
        cmocka_unit_test(missing),
        cmocka_unit_test(locked),
        cmocka_unit_test(removed_by_the_last),
        cmocka_unit_test(removed_or_replaced),
        cmocka_unit_test(removed_while_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
