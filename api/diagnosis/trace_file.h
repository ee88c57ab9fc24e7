/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RINGCOMM_TRACE: a file for each rank with the last events of its communicators (algorithms/
 * trace.h), in the JSON array that Perfetto and Chrome's tracing open. A process is a rank of the
 * world, its threads are what a communicator's operations and lanes did. Times are of the machine's
 * clock, so that ranks of one machine are side by side.
 *
 * The file gets a communicator's events when that ends, and those of all when the process exits; it
 * is complete each time. Another rank's death does not concern it. A later rcm_init of the same
 * rank begins it anew. Operations that run at a time are on tracks of their own, threads too, for
 * what is on one thread may lie inside one another but not overlap.
 */
#ifndef RCMI_TRACE_FILE_H
#define RCMI_TRACE_FILE_H

#include "members.h"
#include "trace.h"

struct rcmi_trace_file;

/* pattern: a file's name; "%r" in it is the rank, or it is appended where there is none. Writes a
 * file without events; RCM_ERR_CONFIG if it cannot. */
rcm_status rcmi_trace_file_open(const char *pattern, int rank, struct rcmi_trace_file **ret_file);
/* Writes what there is. NULL is a no-op. */
void rcmi_trace_file_close(struct rcmi_trace_file *file);
void rcmi_trace_file_write(struct rcmi_trace_file *file);

/* A communicator's events. file NULL: none, and *ret_trace is NULL. name is copied. */
rcm_status rcmi_trace_begin(struct rcmi_trace_file *file, const char *name,
                            struct rcmi_trace **ret_trace);
/* What it is called from now on; copied. trace NULL is a no-op. */
void rcmi_trace_name(struct rcmi_trace_file *file, struct rcmi_trace *trace, const char *name);
/* Writes and frees them; nothing is recorded any more. trace NULL is a no-op. */
void rcmi_trace_end(struct rcmi_trace_file *file, struct rcmi_trace *trace);

#endif
