/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file store: all ranks append to one file and poll it. It is for machines that share only a
 * file system. The format is that of torch.distributed's FileStore (file_log.h), so ranks of both
 * can use one file. The last of world_size ranks to close the store removes the file.
 */
#include "store.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "error.h"
#include "fd.h"
#include "file_log.h"
#include "log.h"
#include "url.h"

#define POLL_NS 10000000 /* no inotify: it does not work on network file systems */

static const struct rcmi_bytes refcount_key = {"refcount/", 9};
static const struct rcmi_bytes cleanup_key = {"cleanup/", 8};

struct file_store {
    struct rcm_store base;
    int world_size;       /* 0: unknown, the file stays */
    pthread_mutex_t lock; /* guards began and log */
    int64_t began;        /* start of the call that holds the lock */
    struct rcmi_file_log log;
};

/* ---- Keys ---------------------------------------------------------------------------------- */

/* "/key", or "-/key" for the record that deletes it. */
struct file_key {
    char text[RCMI_STORE_KEY_MAX + 2];
    struct rcmi_bytes name, deleted;
};

static void key_make(struct file_key *k, struct rcmi_bytes key) {
    k->text[0] = '-';
    k->text[1] = '/';
    if (key.len > 0)
        memcpy(k->text + 2, key.data, key.len);
    k->deleted = (struct rcmi_bytes){k->text, key.len + 2};
    k->name = (struct rcmi_bytes){k->text + 1, key.len + 1};
}

static struct rcmi_entry *key_find(struct file_store *f, struct rcmi_bytes key) {
    struct file_key k;
    key_make(&k, key);
    return rcmi_map_present(&f->log.map, k.name);
}

/* ---- One call: lock, replay, write if needed ----------------------------------------------- */

static struct file_store *file_lock(rcm_store *store) {
    struct file_store *f = (struct file_store *)store;
    pthread_mutex_lock(&f->lock);
    f->began = rcmi_now_ns();
    return f;
}

static void file_unlock(struct file_store *f, int *fd) {
    rcmi_fd_close(fd);
    rcmi_store_counted("an access of the file", f->began);
    pthread_mutex_unlock(&f->lock);
}

/* Writes one record; fd from rcmi_file_log_begin for writing. */
static rcm_status file_put(struct file_store *f, int fd, struct rcmi_bytes name,
                           struct rcmi_bytes value) {
    struct rcmi_buffer batch = {0};
    rcm_status status = rcmi_file_log_record(&batch, name, value);
    if (status == RCM_OK)
        status = rcmi_file_log_append(&f->log, fd, &batch);
    rcmi_buffer_fini(&batch);
    return status;
}

static rcm_status file_put_user(struct file_store *f, int fd, struct rcmi_bytes key,
                                struct rcmi_bytes value) {
    struct file_key k;
    key_make(&k, key);
    return file_put(f, fd, k.name, value);
}

static rcm_status file_multi_set(rcm_store *store, const struct rcmi_bytes *keys,
                                 const struct rcmi_bytes *values, size_t n) {
    struct file_store *f = file_lock(store);
    struct rcmi_buffer batch = {0};
    struct file_key k;
    int fd = -1;
    rcm_status status = rcmi_file_log_begin(&f->log, RCMI_FILE_WRITE, rcmi_call_deadline(), &fd);
    for (size_t i = 0; i < n && status == RCM_OK; i++) {
        key_make(&k, keys[i]);
        status = rcmi_file_log_record(&batch, k.name, values[i]);
    }
    if (status == RCM_OK)
        status = rcmi_file_log_append(&f->log, fd, &batch);
    file_unlock(f, &fd);
    rcmi_buffer_fini(&batch);
    return status;
}

static rcm_status file_set(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    return file_multi_set(store, &key, &value, 1);
}

static rcm_status file_try_get(rcm_store *store, struct rcmi_bytes key,
                               struct rcm_blob *ret_value) {
    struct file_store *f = file_lock(store);
    int fd = -1;
    rcm_status status = rcmi_file_log_look(&f->log, rcmi_call_deadline());
    if (status == RCM_OK) {
        struct rcmi_entry *e = key_find(f, key);
        status = e ? rcmi_blob_copy(rcmi_entry_value(e), ret_value) : RCM_ERR_NOT_FOUND;
    }
    file_unlock(f, &fd);
    return status;
}

/* Checks once, under the lock: copies the values if all keys exist (ret_values may be NULL). */
static rcm_status file_fetch(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                             struct rcm_blob *ret_values) {
    struct file_store *f = file_lock(store);
    int fd = -1;
    size_t i = 0;
    rcm_status status = rcmi_file_log_look(&f->log, rcmi_call_deadline());
    for (; i < n && status == RCM_OK; i += status == RCM_OK) {
        struct rcmi_entry *e = key_find(f, keys[i]);
        if (!e)
            status = RCM_PENDING;
        else if (ret_values)
            status = rcmi_blob_copy(rcmi_entry_value(e), &ret_values[i]);
    }
    file_unlock(f, &fd);
    if (status != RCM_OK && ret_values)
        rcmi_blobs_free(ret_values, i);
    return status;
}

static rcm_status file_multi_get(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                                 rcmi_deadline deadline, struct rcm_blob *ret_values) {
    for (;;) {
        struct timespec pause = {.tv_nsec = POLL_NS};
        rcm_status status = file_fetch(store, keys, n, ret_values);
        if (status != RCM_PENDING || rcmi_deadline_passed(deadline))
            return status;
        if (deadline != RCMI_NEVER && deadline - rcmi_now_ns() < POLL_NS)
            pause.tv_nsec = 1000000; /* the last polls are closer, to meet the deadline */
        (void)nanosleep(&pause, NULL);
    }
}

static rcm_status file_wait(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline) {
    return file_multi_get(store, keys, n, deadline, NULL);
}

static rcm_status file_present(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                               bool *ret_present) {
    struct file_store *f = file_lock(store);
    int fd = -1;
    rcm_status status = rcmi_file_log_look(&f->log, rcmi_call_deadline());
    for (size_t i = 0; i < n && status == RCM_OK; i++)
        ret_present[i] = key_find(f, keys[i]) != NULL;
    file_unlock(f, &fd);
    return status;
}

/* Adds to the record `name` of the file; key: its name in errors. */
static rcm_status file_add_name(struct file_store *f, int fd, struct rcmi_bytes name,
                                struct rcmi_bytes key, int64_t delta, int64_t *ret_value) {
    char text[RCMI_INT_TEXT];
    rcm_status status =
        rcmi_add_text(key, rcmi_map_present(&f->log.map, name), delta, ret_value, text);
    return status == RCM_OK ? file_put(f, fd, name, (struct rcmi_bytes){text, strlen(text)})
                            : status;
}

static rcm_status file_add(rcm_store *store, struct rcmi_bytes key, int64_t delta,
                           int64_t *ret_value) {
    struct file_store *f = file_lock(store);
    struct file_key k;
    int64_t sum;
    int fd = -1;
    key_make(&k, key);
    rcm_status status = rcmi_file_log_begin(&f->log, RCMI_FILE_WRITE, rcmi_call_deadline(), &fd);
    if (status == RCM_OK)
        status = file_add_name(f, fd, k.name, key, delta, &sum);
    file_unlock(f, &fd);
    if (status == RCM_OK)
        *ret_value = sum;
    return status;
}

static rcm_status file_compare_set(rcm_store *store, struct rcmi_bytes key,
                                   struct rcmi_bytes expected, struct rcmi_bytes desired,
                                   bool *ret_swapped, struct rcm_blob *ret_value) {
    struct file_store *f = file_lock(store);
    struct rcm_blob blob = {NULL, 0};
    enum rcmi_compare what = RCMI_COMPARE_MISSING;
    int fd = -1;
    rcm_status status = rcmi_file_log_begin(&f->log, RCMI_FILE_WRITE, rcmi_call_deadline(), &fd);
    if (status == RCM_OK) {
        struct rcmi_entry *e = key_find(f, key);
        what = rcmi_compare(e, expected);
        status = RCM_ERR_NOT_FOUND;
        if (what == RCMI_COMPARE_KEEP)
            status = rcmi_blob_copy(rcmi_entry_value(e), &blob);
        if (what == RCMI_COMPARE_SET)
            status = rcmi_blob_copy(desired, &blob);
        if (what == RCMI_COMPARE_SET && status == RCM_OK)
            status = file_put_user(f, fd, key, desired);
    }
    file_unlock(f, &fd);
    if (status != RCM_OK) {
        free(blob.data);
        return status;
    }
    *ret_swapped = what == RCMI_COMPARE_SET;
    *ret_value = blob;
    return RCM_OK;
}

static rcm_status file_remove(rcm_store *store, struct rcmi_bytes key, bool *ret_deleted) {
    struct file_store *f = file_lock(store);
    struct file_key k;
    bool there = false;
    int fd = -1;
    key_make(&k, key);
    rcm_status status = rcmi_file_log_begin(&f->log, RCMI_FILE_WRITE, rcmi_call_deadline(), &fd);
    if (status == RCM_OK) {
        there = rcmi_map_present(&f->log.map, k.name) != NULL;
        if (there)
            status = file_put(f, fd, k.deleted, (struct rcmi_bytes){NULL, 0});
    }
    file_unlock(f, &fd);
    if (status == RCM_OK)
        *ret_deleted = there;
    return status;
}

static void count_user(void *arg, const struct rcmi_entry *e) {
    *(size_t *)arg += e->key_len > 0 && e->key[0] == '/';
}

static rcm_status file_count(rcm_store *store, size_t *ret_count) {
    struct file_store *f = file_lock(store);
    int fd = -1;
    size_t count = 0;
    rcm_status status = rcmi_file_log_look(&f->log, rcmi_call_deadline());
    if (status == RCM_OK)
        rcmi_map_each(&f->log.map, count_user, &count);
    file_unlock(f, &fd);
    if (status == RCM_OK)
        *ret_count = count;
    return status;
}

/* The format has no append record: writes the whole new value. */
static rcm_status file_append(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value) {
    struct file_store *f = file_lock(store);
    struct rcmi_buffer whole = {0};
    int fd = -1;
    rcm_status status = rcmi_file_log_begin(&f->log, RCMI_FILE_WRITE, rcmi_call_deadline(), &fd);
    if (status == RCM_OK) {
        struct rcmi_entry *e = key_find(f, key);
        status = rcmi_append_check(key, e, value.len);
        if (status == RCM_OK && e)
            status = rcmi_buffer_put(&whole, e->value, e->value_len);
        if (status == RCM_OK)
            status = rcmi_buffer_put(&whole, value.data, value.len);
        if (status == RCM_OK)
            status =
                file_put_user(f, fd, key, (struct rcmi_bytes){whole.data, rcmi_buffer_len(&whole)});
    }
    file_unlock(f, &fd);
    rcmi_buffer_fini(&whole);
    return status;
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

/* Counts this process out; the last of world_size removes the file. Errors are ignored. */
static void file_leave(struct file_store *f) {
    int64_t closed = 0, open = 1;
    int fd = -1;
    if (access(f->log.path, F_OK) != 0)
        return;
    rcm_status status = rcmi_file_log_begin(&f->log, RCMI_FILE_WRITE, rcmi_call_deadline(), &fd);
    if (status == RCM_OK && !f->base.keep)
        status = file_add_name(f, fd, cleanup_key, cleanup_key, 1, &closed);
    if (status == RCM_OK)
        status = file_add_name(f, fd, refcount_key, refcount_key, -1, &open);
    if (status == RCM_OK && open == 0 && f->world_size > 0 && closed >= f->world_size)
        (void)unlink(f->log.path);
    rcmi_fd_close(&fd);
}

static void file_close(rcm_store *store, bool forked) {
    struct file_store *f = (struct file_store *)store;
    if (!forked)
        file_leave(f);
    rcmi_file_log_fini(&f->log);
    pthread_mutex_destroy(&f->lock);
}

static const struct rcmi_store_ops file_ops = {
    .name = "file store",
    .set = file_set,
    .multi_set = file_multi_set,
    .try_get = file_try_get,
    .wait = file_wait,
    .multi_get = file_multi_get,
    .present = file_present,
    .add = file_add,
    .compare_set = file_compare_set,
    .remove = file_remove,
    .count = file_count,
    .append = file_append,
    .close = file_close,
};

static rcm_status file_join(struct file_store *f, rcmi_deadline deadline) {
    int64_t open = 0;
    int fd = -1;
    rcm_status status = rcmi_file_log_begin(&f->log, RCMI_FILE_CREATE, deadline, &fd);
    if (status == RCM_OK)
        status = file_add_name(f, fd, refcount_key, refcount_key, 1, &open);
    rcmi_fd_close(&fd);
    if (status == RCM_OK && f->world_size > 0 && open > f->world_size)
        rcmi_log(RCMI_LOG_WARN,
                 "store file %s is open %lld times for a world_size of %d: an earlier job may have "
                 "left it behind; use a new file for each job",
                 f->log.path, (long long)open, f->world_size);
    return status;
}

rcm_status rcmi_file_open(const struct rcmi_url *url, rcmi_deadline deadline,
                          rcm_store **ret_store) {
    char *text, *path = strdup(url->path);
    int n = url->world_size > 0
                ? asprintf(&text, "file://%s?world_size=%d", url->path, url->world_size)
                : asprintf(&text, "file://%s", url->path);
    if (n < 0 || !path) {
        if (n >= 0)
            free(text);
        free(path);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a store");
    }
    struct file_store *f = rcmi_store_alloc(sizeof *f, &file_ops, text);
    free(text);
    if (!f) {
        free(path);
        return RCM_ERR_NOMEM;
    }
    f->world_size = url->world_size;
    pthread_mutex_init(&f->lock, NULL);
    rcmi_file_log_init(&f->log, path);
    rcm_status status = file_join(f, deadline);
    if (status != RCM_OK) {
        rcmi_file_log_fini(&f->log);
        pthread_mutex_destroy(&f->lock);
        free(f->base.url);
        free(f);
        return status;
    }
    *ret_store = &f->base;
    return RCM_OK;
}
