/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RINGCOMM_TRACE: one file for each rank with the last events of its communicators
 * (algorithms/trace.h), as a JSON array for Perfetto and Chrome's tracing. A process in it is a
 * rank of the world. Its threads are the operations and lanes of the communicators. Times are of
 * the machine's clock, so that ranks of one machine align.
 *
 * A communicator's events are written when it ends, and those of all when the process exits; the
 * file is complete after each. Another rank's death has no effect on it. A later rcm_init of the
 * same rank starts the file anew. Concurrent operations have separate tracks, which are threads
 * too, because events on one thread may be nested but not overlap.
 */
#ifndef RCMI_TRACE_FILE_H
#define RCMI_TRACE_FILE_H

#include "members.h"
#include "trace.h"

struct rcmi_trace_file;

/* Writes a file without events. pattern: the file's name; "%r" in it is replaced by the rank.
 * Without "%r" the rank is appended. RCM_ERR_CONFIG: the file cannot be written. */
rcm_status rcmi_trace_file_open(const char *pattern, int rank, struct rcmi_trace_file **ret_file);
/* Write all recorded events. NULL is a no-op. */
void rcmi_trace_file_close(struct rcmi_trace_file *file);
void rcmi_trace_file_write(struct rcmi_trace_file *file);

/* Begins a communicator's trace. file NULL: none, and *ret_trace is NULL. name is copied. */
rcm_status rcmi_trace_begin(struct rcmi_trace_file *file, const char *name,
                            struct rcmi_trace **ret_trace);
/* Renames it; name is copied. trace NULL is a no-op. */
void rcmi_trace_name(struct rcmi_trace_file *file, struct rcmi_trace *trace, const char *name);
/* Writes and frees its events; recording must have ended. trace NULL is a no-op. */
void rcmi_trace_end(struct rcmi_trace_file *file, struct rcmi_trace *trace);

#endif
