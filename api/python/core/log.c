/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of the library's log for Python. The logging thread appends to a bounded list and never
 * waits for the GIL. A thread of the package passes the lines to `logging`. */
#include "core.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINES_MAX = 1000 };

struct line {
    struct line *next;
    enum rcm_log_level level;
    int rank;
    char text[];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct line *first, **end;
    int count;
} lines = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

/* Without memory, or with a full list, the line is lost: a log must not block the library. */
static void append(CORE_UNUSED void *arg, enum rcm_log_level level, int rank, const char *text) {
    struct line *line = malloc(sizeof *line + strlen(text) + 1);
    if (!line)
        return;
    *line = (struct line){.level = level, .rank = rank};
    strcpy(line->text, text);
    pthread_mutex_lock(&lines.lock);
    bool full = lines.count == LINES_MAX;
    if (!full) {
        *lines.end = line;
        lines.end = &line->next;
        lines.count++;
        pthread_cond_signal(&lines.filled);
    }
    pthread_mutex_unlock(&lines.lock);
    if (full)
        free(line);
}

/* The child has no thread that takes lines: they go to stderr there. */
static void after_fork(void) {
    lines.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    lines.filled = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    lines.first = NULL;
    lines.end = &lines.first;
    lines.count = 0;
    CORE_UNUSED rcm_status status = rcm_log_set(NULL, NULL);
}

/* After the first rcm_log_set, so that the library's own fork handler runs before this one. */
static void watch_forks(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

PyObject *core_log_collect(CORE_UNUSED PyObject *module, PyObject *on) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int is_on = PyObject_IsTrue(on);
    if (is_on < 0)
        return NULL;
    pthread_mutex_lock(&lines.lock);
    if (!lines.end)
        lines.end = &lines.first;
    pthread_mutex_unlock(&lines.lock);
    rcm_status status = rcm_log_set(is_on ? append : NULL, NULL);
    if (status != RCM_OK)
        return core_raise(status, NULL);
    pthread_once(&once, watch_forks);
    Py_RETURN_NONE;
}

static struct line *pop(int64_t timeout_ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&lines.lock);
    if (!lines.first && timeout_ms > 0) /* after a wake-up without a line the caller repeats */
        pthread_cond_timedwait(&lines.filled, &lines.lock, &until);
    struct line *line = lines.first;
    if (line) {
        lines.first = line->next;
        lines.count--;
        if (!lines.first)
            lines.end = &lines.first;
    }
    pthread_mutex_unlock(&lines.lock);
    return line;
}

PyObject *core_log_next(CORE_UNUSED PyObject *module, PyObject *argument) {
    int64_t timeout_ms;
    if (!core_int64(argument, "timeout_ms", &timeout_ms))
        return NULL;
    struct line *line;
    Py_BEGIN_ALLOW_THREADS line = pop(timeout_ms);
    Py_END_ALLOW_THREADS if (!line) Py_RETURN_NONE;
    PyObject *text = PyUnicode_DecodeUTF8(line->text, (Py_ssize_t)strlen(line->text), "replace");
    PyObject *result = text ? Py_BuildValue("iiN", (int)line->level, line->rank, text) : NULL;
    free(line);
    return result;
}

PyObject *core_log_level(CORE_UNUSED PyObject *module, PyObject *number) {
    int level;
    if (!core_int(number, "level", &level))
        return NULL;
    rcm_status status = rcm_log_set_level((enum rcm_log_level)level);
    if (status != RCM_OK)
        return core_raise(status, NULL);
    Py_RETURN_NONE;
}
