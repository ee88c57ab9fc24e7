/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes the log of a file store: records and locks, not the meaning of keys. */
#include "file_log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "error.h"
#include "log.h"
#include "fd.h"
#include "sigpipe.h"

#define POLL_MS       10
#define WARN_MS       2000 /* while the file's folder does not exist */
#define READ_BLOCK    (64 * 1024)
#define KEY_ABSURD    (64u * 1024)          /* torch sets no limit; ours is 8 KiB */
#define VALUE_ABSURD  (1024u * 1024 * 1024) /* likewise; ours is 8 MiB */
#define RECORD_HEADER sizeof(uint32_t)

void rcmi_file_log_init(struct rcmi_file_log *log, char *path) {
    *log = (struct rcmi_file_log){.path = path};
    rcmi_map_init(&log->map);
}

void rcmi_file_log_fini(struct rcmi_file_log *log) {
    rcmi_map_fini(&log->map);
    free(log->path);
}

static void pause_ms(int ms) {
    struct timespec t = {.tv_nsec = ms * 1000000L};
    (void)nanosleep(&t, NULL);
}

/* Pauses before a retry, at most until the deadline; false if it has passed. */
static bool retry_pause(rcmi_deadline deadline) {
    int left = rcmi_deadline_left_ms(deadline);
    if (left == 0)
        return false;
    pause_ms(left < 0 || left > POLL_MS ? POLL_MS : left);
    return true;
}

static rcm_status log_open(const struct rcmi_file_log *log, enum rcmi_file_mode mode,
                           rcmi_deadline deadline, int *ret_fd) {
    int flags = mode == RCMI_FILE_READ ? O_RDONLY : O_RDWR;
    if (mode == RCMI_FILE_CREATE)
        flags |= O_CREAT;
    const rcmi_deadline warn = rcmi_deadline_in(WARN_MS);
    bool warned = false;
    for (;;) {
        int fd = rcmi_fd_high(open(log->path, flags | O_CLOEXEC, 0644));
        if (fd >= 0) {
            *ret_fd = fd;
            return RCM_OK;
        }
        if (errno == EINTR)
            continue;
        if (errno != ENOENT)
            return rcmi_fail(rcmi_status_of_errno(errno), errno, "store file %s: cannot open",
                             log->path);
        if (log->inode != 0)
            return rcmi_fail(RCM_ERR_PROTOCOL, ENOENT, "store file %s was removed", log->path);
        if (!retry_pause(deadline))
            return rcmi_fail(RCM_ERR_TIMEOUT, ENOENT,
                             mode == RCMI_FILE_CREATE
                                 ? "store file %s: its folder did not appear before the deadline"
                                 : "store file %s did not appear before the deadline",
                             log->path);
        if (mode == RCMI_FILE_CREATE && !warned && rcmi_deadline_passed(warn)) {
            warned = true;
            rcmi_log(RCMI_LOG_WARN,
                     "cannot create store file %s yet: its folder does not exist; still trying",
                     log->path);
        }
    }
}

static rcm_status log_lock(const struct rcmi_file_log *log, int fd, int how,
                           rcmi_deadline deadline) {
    while (flock(fd, how | LOCK_NB) < 0) {
        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK)
            return rcmi_fail(rcmi_status_of_errno(errno), errno, "store file %s: cannot lock",
                             log->path);
        if (rcmi_deadline_passed(deadline))
            return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                             "store file %s: another process held its lock until the deadline",
                             log->path);
        pause_ms(1);
    }
    return RCM_OK;
}

/* Checks, with the lock held, that the path still leads to the opened file. RCM_AGAIN: its last
 * user removed it between our open and lock, and this process has read nothing of it yet. */
static rcm_status log_check_path(const struct rcmi_file_log *log, int fd) {
    struct stat opened, there;
    if (fstat(fd, &opened) < 0)
        return rcmi_fail(RCM_ERR_SYSTEM, errno, "store file %s: cannot stat it", log->path);
    if (stat(log->path, &there) == 0 && there.st_ino == opened.st_ino &&
        there.st_dev == opened.st_dev)
        return RCM_OK;
    return log->inode == 0
               ? RCM_AGAIN
               : rcmi_fail(RCM_ERR_PROTOCOL, 0, "store file %s was removed or replaced", log->path);
}

static rcm_status log_size(struct rcmi_file_log *log, int fd, int64_t *ret_size) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return rcmi_fail(RCM_ERR_SYSTEM, errno, "store file %s: cannot read its size", log->path);
    if (log->inode == 0) {
        log->dev = st.st_dev;
        log->inode = st.st_ino;
    }
    if (st.st_size < log->pos || st.st_ino != log->inode || st.st_dev != log->dev)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "store file %s was truncated or replaced: it has %lld bytes, but %lld "
                         "bytes were read before",
                         log->path, (long long)st.st_size, (long long)log->pos);
    *ret_size = st.st_size;
    return RCM_OK;
}

/* ---- Records ------------------------------------------------------------------------------- */

struct record {
    struct rcmi_bytes key, value;
    size_t bytes; /* of the whole record; more than available if it is incomplete */
};

static uint32_t length_at(const unsigned char *p) {
    uint32_t n;
    memcpy(&n, p, sizeof n);
    return n;
}

/* Parses `len` bytes; returns NULL, or the name of an absurd field. ret->bytes > len: the record
 * needs that many bytes. */
static const char *record_parse(const unsigned char *p, size_t len, struct record *ret) {
    ret->bytes = RECORD_HEADER;
    if (len < ret->bytes)
        return NULL;
    ret->key = (struct rcmi_bytes){p + RECORD_HEADER, length_at(p)};
    if (ret->key.len > KEY_ABSURD)
        return "key length";
    ret->bytes += ret->key.len + RECORD_HEADER;
    if (len < ret->bytes)
        return NULL;
    ret->value = (struct rcmi_bytes){p + ret->bytes, length_at(p + ret->bytes - RECORD_HEADER)};
    if (ret->value.len > VALUE_ABSURD)
        return "value length";
    ret->bytes += ret->value.len;
    return NULL;
}

static rcm_status record_apply(struct rcmi_file_log *log, const struct record *r) {
    const char *key = r->key.data;
    if (r->key.len > 0 && key[0] == '-') {
        rcmi_map_remove(&log->map, (struct rcmi_bytes){key + 1, r->key.len - 1});
        return RCM_OK;
    }
    return rcmi_map_set(&log->map, r->key, r->value);
}

/* Applies the complete records at the front of the buffer. *ret_need: bytes of the next one. */
static rcm_status buffer_apply(struct rcmi_file_log *log, struct rcmi_buffer *in,
                               size_t *ret_need) {
    for (;;) {
        struct record r;
        size_t len = rcmi_buffer_len(in);
        const char *absurd = record_parse(rcmi_buffer_front(in), len, &r);
        if (absurd)
            return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                             "store file %s: absurd %s in the record at offset %lld; the file is "
                             "damaged or not a store",
                             log->path, absurd, (long long)log->pos);
        *ret_need = r.bytes;
        if (len < r.bytes)
            return RCM_OK;
        rcm_status status = record_apply(log, &r);
        if (status != RCM_OK)
            return status;
        rcmi_buffer_drop(in, r.bytes);
        log->pos += (int64_t)r.bytes;
    }
}

static rcm_status file_read(const struct rcmi_file_log *log, int fd, int64_t offset, size_t len,
                            struct rcmi_buffer *in) {
    void *space;
    rcm_status status = rcmi_buffer_reserve(in, len, &space);
    if (status != RCM_OK)
        return status;
    ssize_t n;
    do
        n = pread(fd, space, len, offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return rcmi_fail(RCM_ERR_SYSTEM, errno, "store file %s: cannot read at offset %lld",
                         log->path, (long long)offset);
    if (n == 0)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "store file %s was truncated during a read at %lld",
                         log->path, (long long)offset);
    rcmi_buffer_filled(in, (size_t)n);
    return RCM_OK;
}

/* Replays [log->pos, size). With a lock held. */
static rcm_status log_replay(struct rcmi_file_log *log, int fd, int64_t size) {
    struct rcmi_buffer in = {0};
    size_t need = RECORD_HEADER;
    rcm_status status = RCM_OK;

    while (status == RCM_OK && log->pos < size) {
        int64_t at = log->pos + (int64_t)rcmi_buffer_len(&in);
        if (log->pos + (int64_t)need > size) {
            status = rcmi_fail(RCM_ERR_PROTOCOL, 0,
                               "store file %s: the record at offset %lld is torn: it needs %zu "
                               "bytes, the file ends after %lld",
                               log->path, (long long)log->pos, need, (long long)(size - log->pos));
            break;
        }
        size_t want = need - rcmi_buffer_len(&in);
        if (want < READ_BLOCK)
            want = READ_BLOCK;
        if ((int64_t)want > size - at)
            want = (size_t)(size - at);
        status = file_read(log, fd, at, want, &in);
        if (status == RCM_OK)
            status = buffer_apply(log, &in, &need);
    }
    rcmi_buffer_fini(&in);
    return status;
}

static rcm_status log_begin(struct rcmi_file_log *log, enum rcmi_file_mode mode,
                            rcmi_deadline deadline, int *ret_fd) {
    int fd = -1;
    int64_t size;
    rcm_status status = log_open(log, mode, deadline, &fd);
    if (status == RCM_OK)
        status = log_lock(log, fd, mode == RCMI_FILE_READ ? LOCK_SH : LOCK_EX, deadline);
    if (status == RCM_OK)
        status = log_check_path(log, fd);
    if (status == RCM_OK)
        status = log_size(log, fd, &size);
    if (status == RCM_OK)
        status = log_replay(log, fd, size);
    if (status == RCM_OK)
        *ret_fd = fd;
    else
        rcmi_fd_close(&fd);
    return status;
}

rcm_status rcmi_file_log_begin(struct rcmi_file_log *log, enum rcmi_file_mode mode,
                               rcmi_deadline deadline, int *ret_fd) {
    for (;;) {
        rcm_status status = log_begin(log, mode, deadline, ret_fd);
        if (status != RCM_AGAIN)
            return status;
        if (rcmi_deadline_passed(deadline))
            return rcmi_fail(RCM_ERR_TIMEOUT, 0, "store file %s: other processes keep removing it",
                             log->path);
    }
}

rcm_status rcmi_file_log_look(struct rcmi_file_log *log, rcmi_deadline deadline) {
    int fd = -1;
    int64_t size;
    rcm_status status = log_open(log, RCMI_FILE_READ, deadline, &fd);
    if (status == RCM_OK)
        status = log_size(log, fd, &size);
    if (status == RCM_OK && size != log->pos) {
        status = log_lock(log, fd, LOCK_SH, deadline);
        if (status == RCM_OK) /* again: a writer may have been in the middle of a record */
            status = log_size(log, fd, &size);
        if (status == RCM_OK)
            status = log_replay(log, fd, size);
    }
    rcmi_fd_close(&fd);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------- */

rcm_status rcmi_file_log_record(struct rcmi_buffer *batch, struct rcmi_bytes key,
                                struct rcmi_bytes value) {
    uint32_t key_len = (uint32_t)key.len, value_len = (uint32_t)value.len;
    void *space;
    /* Reserve all space first: a partial record must not stay in the batch. */
    rcm_status status = rcmi_buffer_reserve(batch, key.len + value.len + 2 * RECORD_HEADER, &space);
    if (status == RCM_OK)
        status = rcmi_buffer_put(batch, &key_len, sizeof key_len);
    if (status == RCM_OK)
        status = rcmi_buffer_put(batch, key.data, key.len);
    if (status == RCM_OK)
        status = rcmi_buffer_put(batch, &value_len, sizeof value_len);
    return status == RCM_OK ? rcmi_buffer_put(batch, value.data, value.len) : status;
}

static rcm_status file_write(const struct rcmi_file_log *log, int fd, const unsigned char *data,
                             size_t len) {
    int64_t start = log->pos;
    size_t done = 0;
    while (done < len) {
        ssize_t n = rcmi_pwrite_nosignal(fd, data + done, len - done, start + (int64_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int error = errno;
            int cut = ftruncate(fd, start);
            return rcmi_fail(rcmi_status_of_errno(error), error,
                             "store file %s: cannot write %zu bytes%s", log->path, len,
                             cut < 0 ? ", and its last record is torn now" : "");
        }
        done += (size_t)n;
    }
    return RCM_OK;
}

rcm_status rcmi_file_log_append(struct rcmi_file_log *log, int fd,
                                const struct rcmi_buffer *batch) {
    struct rcmi_buffer view = *batch; /* iterates over the batch's bytes; does not own them */
    rcm_status status = file_write(log, fd, rcmi_buffer_front(batch), rcmi_buffer_len(batch));
    while (status == RCM_OK && rcmi_buffer_len(&view) > 0) {
        struct record r;
        (void)record_parse(rcmi_buffer_front(&view), rcmi_buffer_len(&view), &r);
        status = record_apply(log, &r);
        view.head += r.bytes;
        log->pos += (int64_t)r.bytes;
    }
    return status;
}
