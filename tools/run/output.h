/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of the ranks on its way to the terminal: a *stream* is the read end of one rank's stdout
 * or stderr, cut into lines; a *sink* is the launcher's own stdout or stderr, where whole lines of
 * all ranks meet. Nothing here knows of processes or signals.
 */
#ifndef RUN_OUTPUT_H
#define RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_TAIL_BYTES 2048 /* of a rank's stderr, kept for the last words */

/* A growing byte buffer: data[begin..end) is pending. */
struct run_buffer {
    char *data;
    size_t begin, end, room;
};

struct run_sink {
    int fd;
    size_t chunk; /* bytes that one write may take without blocking after POLLOUT */
    int broken;   /* errno of the write that failed; everything further is dropped */
    struct run_buffer pending;
};

struct run_stream {
    int fd;      /* read end, non-blocking; -1 when closed */
    int log_fd;  /* --log-dir file, -1 for none */
    int poll_at; /* for the loop: where it is in the poll array, -1 nowhere */
    int rank;
    struct run_sink *sink;
    struct run_buffer line; /* the beginning of a line whose end has not come yet */
    char tail[RUN_TAIL_BYTES];
    size_t tail_len;
};

void run_sink_init(struct run_sink *sink, int fd);
/* Too much is waiting for the reader: do not read more from the ranks. */
bool run_sink_full(const struct run_sink *sink);
bool run_sink_empty(const struct run_sink *sink);
/* After POLLOUT (or POLLERR): writes what goes without blocking. */
void run_sink_flush(struct run_sink *sink);
void run_sink_printf(struct run_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void run_sink_free(struct run_sink *sink);

enum run_read { RUN_READ_SOME, RUN_READ_NOTHING, RUN_READ_END };

/* One read: passes on the lines it completes. RUN_READ_END: nobody holds the write end any more. */
enum run_read run_stream_read(struct run_stream *stream);
/* Passes on what is left of an unfinished line and closes both descriptors. Idempotent. */
void run_stream_close(struct run_stream *stream);
/* Puts the last lines that were read (at most `lines`), each after "  | ", into sink. */
void run_stream_tail(const struct run_stream *stream, int lines, struct run_sink *sink);

#endif
