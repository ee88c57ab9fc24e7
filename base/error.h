/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/: the foundation of all other folders.
 *
 *   error.h, log.h                    errors, log lines
 *   settings/                         RINGCOMM_ variables and their value syntax
 *   clock.h, os/wait.h yield.h loop.h deadlines, and how a thread waits: spin, yield, sleep
 *   os/                               descriptors, sockets, shared memory, processes, threads, CPU
 *   mem.h, mem_kind.h                 a piece of a user's memory; kinds of memory
 *   auth.h, wire_version.h            authentication, version of the wire protocols
 *
 * Not for: anything about ranks, transports or collectives. Includes nothing from other folders
 * except the types of ringcomm.h.
 *
 * This header: the thread's last error, with status, errno, origin rank and text. The code that
 * first detects a failure calls rcmi_fail on that line and returns its result; callers return the
 * status unchanged, or add context with rcmi_fail_context. api/ copies the record into a
 * communicator.
 */
#ifndef RCMI_ERROR_H
#define RCMI_ERROR_H

#include <stdbool.h>
#include "ringcomm.h"

struct rcmi_error {
    rcm_status status;
    int sys_errno; /* 0: no system call failed */
    int origin;    /* rank at fault; -1: unknown */
    bool of_world; /* origin is a world rank, not a rank of a communicator */
    char text[512];
};

/* Sets the thread's record and returns status; keeps errno. The arguments may point into the
 * record. The text has no full stop and names argument and value. If sys_errno is not 0, its text
 * is appended. */
rcm_status rcmi_fail(rcm_status status, int sys_errno, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with the failed rank of a communicator. */
rcm_status rcmi_fail_origin(rcm_status status, int origin, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with the failed world rank; transports have only world ranks. */
rcm_status rcmi_fail_peer(rcm_status status, int peer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the thread's text; returns its status. */
rcm_status rcmi_fail_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Maps errno to a status: ENOMEM -> NOMEM; EMFILE, ENFILE, ENOSPC, ENOBUFS, EDQUOT, ETOOMANYREFS,
 * EAGAIN on limits -> RESOURCE; ETIMEDOUT -> TIMEOUT; ECONNRESET, ECONNABORTED, ECONNREFUSED,
 * EPIPE, ENOTCONN and unreachable or down hosts and networks -> PEER; else SYSTEM. */
rcm_status rcmi_status_of_errno(int sys_errno);

/* Replaces control characters and invalid UTF-8 by '?'. Every record and every log line passes
 * through it, so texts of peers may be quoted directly. */
void rcmi_text_clean(char *text);

/* The thread's record; never NULL. */
struct rcmi_error *rcmi_last_error(void);

/*
 * For public functions that may recover from an internal failure: a successful call leaves
 * rcm_last_error unchanged. Between begin and end the thread has an empty record. end drops it if
 * status is no error, and returns status. Nested pairs do nothing.
 */
struct rcmi_error *rcmi_errors_begin(void);
rcm_status rcmi_errors_end(struct rcmi_error *before, rcm_status status);

#endif
