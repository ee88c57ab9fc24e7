/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of the ranks. A *stream* is the read end of one rank's stdout or stderr, split into lines.
 * A *sink* is the launcher's stdout or stderr, which gets whole lines of all ranks. This file does
 * not handle processes or signals.
 */
#ifndef RUN_OUTPUT_H
#define RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_TAIL_BYTES 2048 /* of a rank's stderr, kept for the report of a failure */

/* A growing byte buffer: data[begin..end) is pending. */
struct run_buffer {
    char *data;
    size_t begin, end, room;
};

struct run_sink {
    int fd;
    size_t chunk; /* bytes that one write accepts without blocking after POLLOUT */
    int broken;   /* errno of a failed write; all later output is dropped */
    struct run_buffer pending;
};

struct run_stream {
    int fd;      /* read end, non-blocking; -1 when closed */
    int log_fd;  /* --log-dir file, -1 for none */
    int poll_at; /* its index in the poll array; -1: not in it */
    int rank;
    struct run_sink *sink;
    struct run_buffer line; /* an unfinished line */
    char tail[RUN_TAIL_BYTES];
    size_t tail_len;
};

void run_sink_init(struct run_sink *sink, int fd);
/* Whether too much output is pending, so that no more should be read from the ranks. */
bool run_sink_full(const struct run_sink *sink);
bool run_sink_empty(const struct run_sink *sink);
/* After POLLOUT (or POLLERR): writes as much as is possible without blocking. */
void run_sink_flush(struct run_sink *sink);
void run_sink_printf(struct run_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void run_sink_free(struct run_sink *sink);

enum run_read { RUN_READ_SOME, RUN_READ_NOTHING, RUN_READ_END };

/* Reads once and writes the completed lines. RUN_READ_END: no process has the write end open. */
enum run_read run_stream_read(struct run_stream *stream);
/* Writes an unfinished line and closes both descriptors. Idempotent. */
void run_stream_close(struct run_stream *stream);
/* Writes the last lines read (at most `lines`), each after "  | ", to sink. */
void run_stream_tail(const struct run_stream *stream, int lines, struct run_sink *sink);

#endif
