/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.c: see output.h. Writes whole lines, so that lines of different ranks never mix. Bytes in
 * a line, including NUL, are unchanged. A line longer than LINE_MAX_LEN is split, and a last line
 * without a newline gets one. The log files get the bytes unchanged.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <err.h>

#include "output.h"

#define LINE_MAX_LEN ((size_t)1 << 20)
#define SINK_LIMIT   ((size_t)1 << 20)

/* Exits if memory is exhausted: the launcher cannot manage its ranks then, and they end with it. */
static void buffer_reserve(struct run_buffer *buffer, size_t more) {
    if (buffer->begin > 0) {
        memmove(buffer->data, buffer->data + buffer->begin, buffer->end - buffer->begin);
        buffer->end -= buffer->begin;
        buffer->begin = 0;
    }
    if (buffer->room - buffer->end >= more)
        return;
    size_t room = 2 * buffer->room + more;
    char *data = realloc(buffer->data, room);
    if (!data)
        err(1, "cannot keep %zu bytes of output", room);
    buffer->data = data;
    buffer->room = room;
}

static void buffer_append(struct run_buffer *buffer, const void *data, size_t len) {
    if (len == 0)
        return;
    if (buffer->room - buffer->end < len)
        buffer_reserve(buffer, len);
    memcpy(buffer->data + buffer->end, data, len);
    buffer->end += len;
}

static void buffer_free(struct run_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct run_buffer){0};
}

void run_sink_init(struct run_sink *sink, int fd) {
    struct stat st;
    *sink = (struct run_sink){.fd = fd, .chunk = PIPE_BUF};
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        sink->chunk = SINK_LIMIT;
}

bool run_sink_full(const struct run_sink *sink) {
    return sink->pending.end - sink->pending.begin > SINK_LIMIT;
}

bool run_sink_empty(const struct run_sink *sink) {
    return sink->pending.begin == sink->pending.end;
}

void run_sink_flush(struct run_sink *sink) {
    struct run_buffer *pending = &sink->pending;
    size_t len = pending->end - pending->begin;
    if (len > sink->chunk)
        len = sink->chunk;
    ssize_t n = len > 0 ? write(sink->fd, pending->data + pending->begin, len) : 0;
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0) {
        sink->broken = errno;
        pending->begin = pending->end = 0;
        return;
    }
    pending->begin += (size_t)n;
    if (pending->begin == pending->end)
        pending->begin = pending->end = 0;
}

static void sink_put(struct run_sink *sink, const void *data, size_t len) {
    if (!sink->broken)
        buffer_append(&sink->pending, data, len);
}

void run_sink_printf(struct run_sink *sink, const char *format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n > 0)
        sink_put(sink, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void run_sink_free(struct run_sink *sink) {
    buffer_free(&sink->pending);
}

static void log_write(int fd, const char *data, size_t len) {
    while (fd >= 0 && len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) /* a full disk must not end the run; the terminal still has the output */
            return;
        data += n;
        len -= (size_t)n;
    }
}

static void tail_keep(struct run_stream *stream, const char *data, size_t len) {
    if (len > RUN_TAIL_BYTES) {
        data += len - RUN_TAIL_BYTES;
        len = RUN_TAIL_BYTES;
    }
    size_t keep = stream->tail_len;
    if (keep > RUN_TAIL_BYTES - len)
        keep = RUN_TAIL_BYTES - len;
    memmove(stream->tail, stream->tail + stream->tail_len - keep, keep);
    memcpy(stream->tail + keep, data, len);
    stream->tail_len = keep + len;
}

/* Writes the unfinished line and len more bytes as one line of the rank. */
static void stream_emit(struct run_stream *stream, const char *data, size_t len) {
    char prefix[24];
    int n = snprintf(prefix, sizeof(prefix), "[%d] ", stream->rank);
    struct run_buffer *line = &stream->line;
    sink_put(stream->sink, prefix, (size_t)n);
    if (line->end > line->begin)
        sink_put(stream->sink, line->data + line->begin, line->end - line->begin);
    sink_put(stream->sink, data, len);
    sink_put(stream->sink, "\n", 1);
    line->begin = line->end = 0;
}

static void stream_cut(struct run_stream *stream, const char *data, size_t len) {
    const char *end = data + len;
    for (const char *nl; (nl = memchr(data, '\n', (size_t)(end - data))); data = nl + 1)
        stream_emit(stream, data, (size_t)(nl - data));
    buffer_append(&stream->line, data, (size_t)(end - data));
    if (stream->line.end - stream->line.begin >= LINE_MAX_LEN)
        stream_emit(stream, "", 0);
}

enum run_read run_stream_read(struct run_stream *stream) {
    static char data[65536];
    ssize_t n = read(stream->fd, data, sizeof(data));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return RUN_READ_NOTHING;
    if (n <= 0)
        return RUN_READ_END;
    log_write(stream->log_fd, data, (size_t)n);
    tail_keep(stream, data, (size_t)n);
    stream_cut(stream, data, (size_t)n);
    return RUN_READ_SOME;
}

void run_stream_close(struct run_stream *stream) {
    if (stream->line.end > stream->line.begin)
        stream_emit(stream, "", 0);
    buffer_free(&stream->line);
    if (stream->fd >= 0)
        close(stream->fd);
    if (stream->log_fd >= 0)
        close(stream->log_fd);
    stream->fd = stream->log_fd = -1;
}

void run_stream_tail(const struct run_stream *stream, int lines, struct run_sink *sink) {
    size_t end = stream->tail_len;
    if (end > 0 && stream->tail[end - 1] == '\n')
        end--;
    size_t begin = end;
    while (begin > 0 && (stream->tail[begin - 1] != '\n' || --lines > 0))
        begin--;
    while (begin < end) {
        const char *text = stream->tail + begin;
        const char *nl = memchr(text, '\n', end - begin);
        size_t len = nl ? (size_t)(nl - text) : end - begin;
        sink_put(sink, "  | ", 4);
        sink_put(sink, text, len);
        sink_put(sink, "\n", 1);
        begin += len + 1;
    }
}
