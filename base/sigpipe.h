/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing to a pipe without raising SIGPIPE, and without touching the process's handlers. SIGPIPE
 * of a write goes to the writing thread: it is blocked there, swallowed, and unblocked again.
 * Sockets do not need this: they have MSG_NOSIGNAL.
 */
#ifndef RCMI_SIGPIPE_H
#define RCMI_SIGPIPE_H

#include <stddef.h>
#include <sys/types.h>

/* write(2), EPIPE instead of SIGPIPE. */
ssize_t rcmi_write_nosignal(int fd, const void *buf, size_t len);

#endif
