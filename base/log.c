/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines on stderr, each with one write() so that lines of several ranks do not mix; or passed
 * to a function of the program. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clock.h"
#include "error.h"
#include "settings.h"
#include "sigpipe.h"

enum { LOG_LEVELS = RCMI_LOG_DEBUG + 1, LEVEL_UNREAD = -1 };

static const char *const level_setting[LOG_LEVELS] = {"error", "warn", "info", "debug"};
static const char *const level_shown[LOG_LEVELS] = {"error", "warning", "info", "debug"};

/* A cache of the environment. All writers store the same value, and it orders nothing. */
static _Atomic int threshold = LEVEL_UNREAD;

static _Thread_local int thread_rank = -1;

/* A program's stderr is not close-on-exec; connections and files that reuse descriptor 2 mostly
 * are. Once stderr was closed, descriptor 2 may be anything. */
bool rcmi_log_has_stderr(void) {
    static _Atomic bool closed;
    const int saved_errno = errno;
    const int flags = fcntl(STDERR_FILENO, F_GETFD);
    if (flags < 0)
        atomic_store_explicit(&closed, true, memory_order_relaxed);
    errno = saved_errno;
    return !atomic_load_explicit(&closed, memory_order_relaxed) && !(flags & FD_CLOEXEC);
}

/* Output that cannot be written (closed, full) is lost: logging must not stop the work. */
static void log_out(const char *text, size_t len) {
    if (!rcmi_log_has_stderr())
        return;
    while (rcmi_write_nosignal(STDERR_FILENO, text, len) < 0 && errno == EINTR)
        ;
}

/* ---- The program's log function -------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock; /* guards the other members; held while function runs */
    rcm_log_function function;
    void *arg;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER};
/* Is there a function? A hint that keeps lines for stderr from waiting for each other. */
static _Atomic bool sink_is_set;
/* This thread is in the function and holds the lock. */
static _Thread_local bool in_sink;

static void sink_lock(void) {
    if (!in_sink)
        pthread_mutex_lock(&sink.lock);
}

static void sink_unlock(void) {
    if (!in_sink)
        pthread_mutex_unlock(&sink.lock);
}

/* A forked child has no thread that would release the lock. */
static void sink_watch_forks(void) {
    (void)pthread_atfork(sink_lock, sink_unlock, sink_unlock);
}

/* text: a line without its head. False: the line goes to stderr. */
static bool sink_takes(enum rcmi_log_level level, const char *text) {
    if (!atomic_load_explicit(&sink_is_set, memory_order_relaxed) || in_sink)
        return false;
    sink_lock();
    const bool takes = sink.function != NULL;
    in_sink = true;
    if (takes)
        sink.function(sink.arg, (enum rcm_log_level)level, thread_rank, text);
    in_sink = false;
    sink_unlock();
    return takes;
}

rcm_status rcm_log_set(rcm_log_function function, void *arg) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, sink_watch_forks);
    sink_lock();
    sink.function = function;
    sink.arg = arg;
    atomic_store_explicit(&sink_is_set, function != NULL, memory_order_relaxed);
    sink_unlock();
    return RCM_OK;
}

rcm_status rcm_log_set_level(enum rcm_log_level level) {
    if ((int)level < 0 || (int)level >= LOG_LEVELS)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "level is %d. Use RCM_LOG_ERROR, _WARN, _INFO or _DEBUG", (int)level);
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
    return RCM_OK;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static size_t log_head(enum rcmi_log_level level, char *text, size_t cap) {
    if (thread_rank >= 0)
        return (size_t)snprintf(text, cap, "ringcomm [rank %d] %s: ", thread_rank,
                                level_shown[level]);
    return (size_t)snprintf(text, cap, "ringcomm %s: ", level_shown[level]);
}

static void log_write(enum rcmi_log_level level, const char *format, va_list args) {
    char line[1024];
    const size_t room = sizeof line - 1; /* the last byte is for the newline */
    const size_t head = log_head(level, line, room);
    size_t used = head;
    int len = vsnprintf(line + used, room - used, format, args);
    if (len > 0)
        used += (size_t)len < room - used ? (size_t)len : room - used - 1;
    line[used] = '\0';
    rcmi_text_clean(line);
    if (sink_takes(level, line + head))
        return;
    line[used++] = '\n';
    log_out(line, used);
}

static void log_line(enum rcmi_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void log_line(enum rcmi_log_level level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_write(level, format, args);
    va_end(args);
}

static int log_threshold_read(void) {
    const char *text = rcmi_setting("RINGCOMM_LOG");
    for (int i = 0; i < LOG_LEVELS; i++)
        if (strcmp(text, level_setting[i]) == 0)
            return i;
    log_line(RCMI_LOG_WARN, "RINGCOMM_LOG=%s is not one of error, warn, info, debug; using warn",
             text);
    return RCMI_LOG_WARN;
}

bool rcmi_log_enabled(enum rcmi_log_level level) {
    int now = atomic_load_explicit(&threshold, memory_order_relaxed);
    if (now == LEVEL_UNREAD) {
        now = log_threshold_read();
        atomic_store_explicit(&threshold, now, memory_order_relaxed);
    }
    return (int)level <= now;
}

void rcmi_log(enum rcmi_log_level level, const char *format, ...) {
    int saved_errno = errno;
    if (rcmi_log_enabled(level)) {
        va_list args;
        va_start(args, format);
        log_write(level, format, args);
        va_end(args);
    }
    errno = saved_errno;
}

static void log_each(enum rcmi_log_level level, const char *lines) {
    while (*lines) {
        const size_t len = strcspn(lines, "\n");
        log_line(level, "%.*s", (int)len, lines);
        lines += lines[len] ? len + 1 : len;
    }
}

void rcmi_log_lines(enum rcmi_log_level level, const char *lines) {
    char head[64];
    if (atomic_load_explicit(&sink_is_set, memory_order_relaxed) && rcmi_log_enabled(level)) {
        log_each(level, lines);
        return;
    }
    const int saved_errno = errno;
    const size_t head_len = log_head(level, head, sizeof head);
    size_t nlines = 1, used = 0;
    for (const char *c = lines; *c; c++)
        nlines += *c == '\n';
    char *text = rcmi_log_enabled(level) ? malloc(strlen(lines) + nlines * (head_len + 1)) : NULL;
    for (const char *line = lines; text && *line;) {
        const size_t len = strcspn(line, "\n");
        memcpy(text + used, head, head_len);
        memcpy(text + used + head_len, line, len);
        used += head_len + len;
        text[used++] = '\n';
        line += line[len] ? len + 1 : len;
    }
    if (text)
        log_out(text, used);
    free(text);
    errno = saved_errno;
}

bool rcmi_log_rate_allows(struct rcmi_log_rate *rate, char more[RCMI_LOG_MORE]) {
    const int64_t now = rcmi_now_ns();
    if (now < rate->next_ns) {
        rate->missed++;
        return false;
    }
    rate->next_ns = now + 1000000000;
    more[0] = '\0';
    if (rate->missed > 0)
        snprintf(more, RCMI_LOG_MORE, " (and %u more)", rate->missed);
    rate->missed = 0;
    return true;
}

void rcmi_log_set_rank(int rank) {
    thread_rank = rank;
}
