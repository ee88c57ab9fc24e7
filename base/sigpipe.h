/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing without raising SIGPIPE or SIGXFSZ, and without touching the process's handlers. Such a
 * signal goes to the writing thread: it is blocked there, discarded, and unblocked again. Sockets
 * use MSG_NOSIGNAL instead.
 */
#ifndef RCMI_SIGPIPE_H
#define RCMI_SIGPIPE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* write(2), pwrite(2), fallocate(2): return EPIPE instead of raising SIGPIPE, and at the file size
 * limit (ulimit -f) EFBIG instead of SIGXFSZ. */
ssize_t rcmi_write_nosignal(int fd, const void *buf, size_t len);
ssize_t rcmi_pwrite_nosignal(int fd, const void *buf, size_t len, int64_t offset);
int rcmi_fallocate_nosignal(int fd, int64_t offset, int64_t len);

#endif
