/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log behind a file store, in the format of torch.distributed's FileStore: records of
 *
 *   uint32 key length, key, uint32 value length, value          (in the machine's byte order)
 *
 * The file is append-only. Keys of users begin with "/". "cleanup/" and "refcount/" count the
 * processes that closed the store and those that have it open. "-" followed by a key, with an empty
 * value, deletes that key. Writers hold flock(2) exclusively, readers shared. Every call opens the
 * file anew, so that a network file system shows the other machines' writes. Each process replays
 * the new records into its own map.
 */
#ifndef RCMI_FILE_LOG_H
#define RCMI_FILE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include "ringcomm.h"
#include "buffer.h"
#include "clock.h"
#include "map.h"

struct rcmi_file_log {
    char *path;
    int64_t pos;         /* replayed up to this offset */
    uint64_t dev, inode; /* of the file; 0: not opened yet */
    struct rcmi_map map; /* with the keys as written in the file */
};

/* Takes ownership of the path (malloc'd). */
void rcmi_file_log_init(struct rcmi_file_log *log, char *path);
void rcmi_file_log_fini(struct rcmi_file_log *log);

/* Opens, locks and replays; the caller closes *ret_fd with rcmi_fd_close, which unlocks. Retries a
 * missing file and a lock that others hold until the deadline. A truncated or invalid record is
 * RCM_ERR_PROTOCOL with path and offset. A file that was removed or replaced since the last call is
 * RCM_ERR_PROTOCOL too; before the first successful call the new file is used instead. */
enum rcmi_file_mode { RCMI_FILE_READ, RCMI_FILE_WRITE, RCMI_FILE_CREATE };
rcm_status rcmi_file_log_begin(struct rcmi_file_log *log, enum rcmi_file_mode mode,
                               rcmi_deadline deadline, int *ret_fd);

/* Replays the new records for a reader; takes no lock if the file has not grown. */
rcm_status rcmi_file_log_look(struct rcmi_file_log *log, rcmi_deadline deadline);

/* Appends a record to `batch`. */
rcm_status rcmi_file_log_record(struct rcmi_buffer *batch, struct rcmi_bytes key,
                                struct rcmi_bytes value);

/* Writes the batch at the end (fd from begin for writing) and replays it into the map. A failed
 * write is undone by truncating the file. */
rcm_status rcmi_file_log_append(struct rcmi_file_log *log, int fd, const struct rcmi_buffer *batch);

#endif
