/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log behind a file store, in the format of torch.distributed's FileStore: records of
 *
 *   uint32 key length, key, uint32 value length, value          (in the machine's byte order)
 *
 * only ever appended. Keys of users begin with "/"; "cleanup/" and "refcount/" count who closed
 * and who has it open; "-" and a key, with an empty value, deletes that key. Writers hold flock(2)
 * exclusively, readers shared, and every call opens the file anew, which is what makes a network
 * file system show what others wrote. Each process replays what is new into its own map.
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
    int64_t pos;         /* replayed up to here */
    uint64_t dev, inode; /* which file that was; 0: none yet */
    struct rcmi_map map; /* with the keys as they are in the file */
};

/* Takes over the path (malloc'd). */
void rcmi_file_log_init(struct rcmi_file_log *log, char *path);
void rcmi_file_log_fini(struct rcmi_file_log *log);

/* Opens, locks and replays; the caller closes *ret_fd with rcmi_fd_close, which unlocks. A file
 * that is missing is tried again until the deadline, and so is a lock that others hold. A record
 * that is torn or absurd is RCM_ERR_PROTOCOL naming path and offset. So is a file that was removed
 * or replaced since the last call; whoever creates begins with the new one instead. */
enum rcmi_file_mode { RCMI_FILE_READ, RCMI_FILE_WRITE, RCMI_FILE_CREATE };
rcm_status rcmi_file_log_begin(struct rcmi_file_log *log, enum rcmi_file_mode mode,
                               rcmi_deadline deadline, int *ret_fd);

/* Replays what is new for a reader; without locking if the file has not grown. */
rcm_status rcmi_file_log_look(struct rcmi_file_log *log, rcmi_deadline deadline);

/* One record more in `batch`. */
rcm_status rcmi_file_log_record(struct rcmi_buffer *batch, struct rcmi_bytes key,
                                struct rcmi_bytes value);

/* Writes the batch at the end (fd from begin for writing) and replays it into the map. What could
 * not be written whole is taken back. */
rcm_status rcmi_file_log_append(struct rcmi_file_log *log, int fd, const struct rcmi_buffer *batch);

#endif
