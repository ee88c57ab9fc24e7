/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread's last error. Prints nothing: log.c does when a communicator fails. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static _Thread_local struct rcmi_error records[2] = {{.origin = -1}, {.origin = -1}};
/* The index of the thread's record; and whether rcmi_errors_begin saved the other one. */
static _Thread_local int current;
static _Thread_local bool keeps;
#define last_error (records[current])

/* Appends as much of `more` as fits; text has the size of a record's text. */
static void text_append(char *text, const char *more) {
    size_t room = sizeof records[0].text - 1, used = strlen(text), len = strlen(more);
    len = len < room - used ? len : room - used;
    memcpy(text + used, more, len);
    text[used + len] = '\0';
}

static const char *limit_text(char *text, size_t cap) {
    struct rlimit limit = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(text, cap, " (ulimit -n is %llu)", (unsigned long long)limit.rlim_cur);
    return text;
}

/* Formats into a local buffer first: the arguments may point into the record. */
static void error_set(rcm_status status, int sys_errno, int origin, const char *format,
                      va_list args) {
    char text[sizeof records[0].text];
    int len = vsnprintf(text, sizeof text, format, args);
    if (len < 0)
        text[0] = '\0';
    if (sys_errno != 0) {
        char buf[128];
        text_append(text, ": ");
        text_append(text, strerror_r(sys_errno, buf, sizeof buf));
        if (sys_errno == EMFILE)
            text_append(text, limit_text(buf, sizeof buf));
    }
    last_error.status = status;
    last_error.sys_errno = sys_errno;
    last_error.origin = origin;
    last_error.of_world = false;
    rcmi_text_clean(text);
    memcpy(last_error.text, text, sizeof text);
}

rcm_status rcmi_fail(rcm_status status, int sys_errno, const char *format, ...) {
    int saved_errno = errno;
    va_list args;
    va_start(args, format);
    error_set(status, sys_errno, -1, format, args);
    va_end(args);
    errno = saved_errno;
    return status;
}

rcm_status rcmi_fail_origin(rcm_status status, int origin, const char *format, ...) {
    int saved_errno = errno;
    va_list args;
    va_start(args, format);
    error_set(status, 0, origin, format, args);
    va_end(args);
    errno = saved_errno;
    return status;
}

rcm_status rcmi_fail_peer(rcm_status status, int peer, const char *format, ...) {
    int saved_errno = errno;
    va_list args;
    va_start(args, format);
    error_set(status, 0, peer, format, args);
    va_end(args);
    last_error.of_world = true;
    errno = saved_errno;
    return status;
}

rcm_status rcmi_fail_context(const char *format, ...) {
    int saved_errno = errno;
    char text[sizeof records[0].text];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0)
        text[0] = '\0';
    text_append(text, ": ");
    text_append(text, last_error.text);
    rcmi_text_clean(text);
    memcpy(last_error.text, text, sizeof text);
    errno = saved_errno;
    return last_error.status;
}

rcm_status rcmi_status_of_errno(int sys_errno) {
    switch (sys_errno) {
    case ENOMEM:
        return RCM_ERR_NOMEM;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case ENOBUFS:
    case ETOOMANYREFS:
    case EDQUOT:
    case EFBIG:  /* a limit on files, not on their size */
    case EAGAIN: /* of pthread_create, fork; sockets return RCM_AGAIN instead */
        return RCM_ERR_RESOURCE;
    case ETIMEDOUT:
        return RCM_ERR_TIMEOUT;
    case ECONNRESET:
    case ECONNABORTED:
    case ECONNREFUSED:
    case EPIPE:
    case ENOTCONN:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
        return RCM_ERR_PEER;
    default:
        return RCM_ERR_SYSTEM;
    }
}

struct rcmi_error *rcmi_last_error(void) {
    return &last_error;
}

const char *rcm_last_error(void) {
    return last_error.text;
}

struct rcmi_error *rcmi_errors_begin(void) {
    if (keeps)
        return NULL;
    struct rcmi_error *before = &last_error;
    keeps = true;
    current = !current;
    last_error.status = RCM_OK;
    last_error.sys_errno = 0;
    last_error.origin = -1;
    last_error.of_world = false;
    last_error.text[0] = '\0';
    return before;
}

rcm_status rcmi_errors_end(struct rcmi_error *before, rcm_status status) {
    if (!before)
        return status;
    keeps = false;
    if (status >= RCM_OK)
        current = (int)(before - records);
    return status;
}
