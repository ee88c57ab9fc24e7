/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/: what every other room stands on.
 *
 *   error.h, log.h                    what went wrong, log lines
 *   settings/                         RINGCOMM_ variables, and the texts that are values of them
 *   clock.h, os/wait.h yield.h loop.h deadlines, and how a thread waits: spin, yield, sleep
 *   os/                               descriptors, sockets, shared memory, processes, threads, CPU
 *   mem.h, mem_kind.h                 a piece of a user's memory; kinds of memory
 *   auth.h, wire_version.h            proof of the secret, version of what ranks say
 *
 * Not for: anything that knows of ranks, transports or collectives. It includes nothing of the
 * other rooms but the types of ringcomm.h.
 *
 * This header: the thread's last error: status, errno, origin rank, and a sentence. Whoever first
 * decides that something failed calls rcmi_fail on that line and returns its result; callers pass
 * the status on unchanged (or add context with rcmi_fail_context). api/ copies the record into a
 * communicator.
 */
#ifndef RCMI_ERROR_H
#define RCMI_ERROR_H

#include <stdbool.h>
#include "ringcomm.h"

struct rcmi_error {
    rcm_status status;
    int sys_errno; /* 0 if no system call was at fault */
    int origin;    /* rank at fault, -1 unknown */
    bool of_world; /* origin is its number in the world, not in a communicator */
    char text[512];
};

/* Sets the thread's record and returns status; keeps errno. The arguments may point into the
 * record. The text is a sentence without a full stop that
 * names argument and value; errno's own text is appended if sys_errno is not 0. */
rcm_status rcmi_fail(rcm_status status, int sys_errno, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with the rank of a communicator at fault. */
rcm_status rcmi_fail_origin(rcm_status status, int origin, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with the rank of the world at fault, the only one that transports know. */
rcm_status rcmi_fail_peer(rcm_status status, int peer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the thread's text; returns its status. */
rcm_status rcmi_fail_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The status that suits an errno: ENOMEM -> NOMEM; EMFILE, ENFILE, ENOSPC, ENOBUFS, EDQUOT,
 * ETOOMANYREFS, EAGAIN on limits -> RESOURCE; ETIMEDOUT -> TIMEOUT; ECONNRESET, ECONNABORTED,
 * ECONNREFUSED, EPIPE, ENOTCONN and unreachable or down hosts and networks -> PEER; else SYSTEM. */
rcm_status rcmi_status_of_errno(int sys_errno);

/* Replaces control characters, and what is not UTF-8, by '?'. Every record and every line of the
 * log went through it, so what peers say may be quoted as it came. */
void rcmi_text_clean(char *text);

/* The thread's record; never NULL. */
struct rcmi_error *rcmi_last_error(void);

/*
 * For public functions in which something may fail that is then done otherwise: a call that
 * succeeds leaves rcm_last_error as it was. Between begin and end the thread has an empty record;
 * end drops it if status is no error, and returns status. Within others they do nothing.
 */
struct rcmi_error *rcmi_errors_begin(void);
rcm_status rcmi_errors_end(struct rcmi_error *before, rcm_status status);

#endif
