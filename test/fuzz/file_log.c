/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: the log of a file store (rendezvous/store/file_log.c), written by anyone with access
 * to the file. The first byte is the position of a cut: the part before it is read first, the rest
 * appears later, like the writes of another process. Then a store is opened on it.
 */
#include "fuzz.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "clock.h"
#include "fd.h"
#include "file_log.h"

struct compare {
    const struct rcmi_map *other;
    bool equal;
};

static void compare_entry(void *arg, const struct rcmi_entry *e) {
    struct compare *c = arg;
    struct rcmi_bytes key = {e->key, e->key_len};
    const struct rcmi_entry *o = rcmi_map_present(c->other, key);
    c->equal = c->equal && o && o->value_len == e->value_len &&
               (e->value_len == 0 || memcmp(o->value, e->value, e->value_len) == 0);
}

static bool maps_equal(const struct rcmi_map *a, const struct rcmi_map *b) {
    struct compare c = {.other = b, .equal = a->npresent == b->npresent};
    rcmi_map_each(a, compare_entry, &c);
    return c.equal;
}

/* Appends one more record. */
static void append(struct rcmi_file_log *log) {
    const struct rcmi_bytes key = {"/own", 4}, value = {"value", 5};
    struct rcmi_buffer batch = {0};
    int fd = -1;
    fuzz_require(rcmi_file_log_begin(log, RCMI_FILE_WRITE, 0, &fd) == RCM_OK,
                 "a file that was read can be written");
    fuzz_require(rcmi_file_log_record(&batch, key, value) == RCM_OK, "a record can be made");
    fuzz_require(rcmi_file_log_append(log, fd, &batch) == RCM_OK, "and appended");
    rcmi_buffer_fini(&batch);
    rcmi_fd_close(&fd);
}

/* Reading in pieces and reading at once give the same. */
static void check_whole(const struct rcmi_file_log *log, const char *path) {
    struct rcmi_file_log whole;
    rcmi_file_log_init(&whole, strdup(path));
    fuzz_require(rcmi_file_log_look(&whole, 0) == RCM_OK, "a good file is good as a whole");
    fuzz_require(maps_equal(&log->map, &whole.map), "a file means one thing");
    rcmi_file_log_fini(&whole);
}

static void use_store(const char *path) {
    char url[64];
    rcm_store *store;
    int64_t sum;
    size_t count, len;
    void *value;
    int deleted;
    snprintf(url, sizeof url, "file://%s", path);
    if (rcm_store_open(url, 0, &store) != RCM_OK)
        return;
    if (rcm_store_try_get(store, "a", &value, &len) == RCM_OK) {
        fuzz_require(((const char *)value)[len] == '\0', "a value has its zero");
        free(value);
    }
    (void)!rcm_store_add(store, "n", 1, &sum);
    (void)!rcm_store_append(store, "a", "more", 4);
    (void)!rcm_store_delete(store, "b", &deleted);
    fuzz_require(rcm_store_count(store, &count) != RCM_OK || count < 10000, "keys are counted");
    rcm_store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rcmi_file_log log;
    char path[32];
    if (size == 0)
        return 0;
    size_t all = size - 1, first = all * data[0] / 255;
    int fd = fuzz_file(data + 1, first, path);
    rcmi_file_log_init(&log, strdup(path));
    fuzz_require(rcmi_map_present(&log.map, (struct rcmi_bytes){"", 0}) == NULL, "it is empty");
    (void)!rcmi_file_log_look(&log, 0);
    if (all > first)
        fuzz_require(pwrite(fd, data + 1 + first, all - first, (off_t)first) > 0, "it grows");
    rcm_status status = rcmi_file_log_look(&log, 0);
    fuzz_judge(status);
    if (status == RCM_OK) {
        append(&log);
        check_whole(&log, path);
    }
    rcmi_file_log_fini(&log);
    enum fuzz_verdict verdict = fuzz_verdict;
    use_store(path);
    fuzz_verdict = verdict;
    return 0;
}
