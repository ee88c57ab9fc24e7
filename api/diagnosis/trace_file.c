/* SPDX-License-Identifier: BSD-3-Clause */
/* Trace files: see trace_file.h. */
#include "trace_file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "error.h"
#include "log.h"

enum { THREADS = 1000 }; /* thread numbers of a communicator */

/* A communicator's. */
struct traced {
    struct rcmi_trace trace; /* first: what others hold */
    struct traced *next;
    int number;
    char name[RCM_NAME_MAX];
    uint64_t written; /* events */
    uint64_t named;   /* threads that have a name in the file: bit 0, and 1 + a lane */
};

struct rcmi_trace_file {
    pthread_mutex_t lock;
    struct traced *traces;
    int rank, ntraces;
    char path[PATH_MAX];
};

/* ---- The file ------------------------------------------------------------------------------ */

/* Everything before the closing bracket is there; events come behind it. */
#define TAIL "\n]\n"

static FILE *file_open(const struct rcmi_trace_file *file, bool anew) {
    const int fd = open(file->path, O_WRONLY | O_CREAT | O_CLOEXEC | (anew ? O_TRUNC : 0), 0666);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out && fd >= 0)
        close(fd);
    if (out && !anew)
        fseek(out, -(long)strlen(TAIL), SEEK_END);
    return out;
}

static bool file_end(FILE *out) {
    const bool written = fputs(TAIL, out) >= 0 && ferror(out) == 0;
    return fclose(out) == 0 && written;
}

static void path_make(const char *pattern, int rank, char path[PATH_MAX]) {
    const char *at = strstr(pattern, "%r");
    if (at)
        snprintf(path, PATH_MAX, "%.*s%d%s", (int)(at - pattern), pattern, rank, at + 2);
    else
        snprintf(path, PATH_MAX, "%s.%d", pattern, rank);
}

static void json_string(FILE *out, const char *text) {
    putc('"', out);
    for (; *text; text++)
        if (*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\')
            putc(*text, out);
        else
            fprintf(out, "\\u%04x", (unsigned char)*text);
    putc('"', out);
}

/* What a number of the file is called: kind is process_name or thread_name. */
static void name_write(FILE *out, const char *kind, int rank, int thread, const char *name) {
    fprintf(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", kind,
            rank, thread);
    json_string(out, name);
    fputs("}}", out);
}

static bool file_begin(const struct rcmi_trace_file *file) {
    char host[65] = "", name[128];
    FILE *out = file_open(file, true);
    if (!out)
        return false;
    gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "rank %d (pid %d on %s)", file->rank, (int)getpid(), host);
    fputs("[\n", out);
    name_write(out, "process_name", file->rank, 0, name);
    fprintf(
        out,
        ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}",
        file->rank, file->rank);
    return file_end(out);
}

rcm_status rcmi_trace_file_open(const char *pattern, int rank, struct rcmi_trace_file **ret_file) {
    struct rcmi_trace_file *file = calloc(1, sizeof(*file));
    if (!file)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a trace");
    pthread_mutex_init(&file->lock, NULL);
    file->rank = rank;
    path_make(pattern, rank, file->path);
    if (!file_begin(file)) {
        const rcm_status status = rcmi_fail(RCM_ERR_CONFIG, errno,
                                            "RINGCOMM_TRACE: %.300s cannot be written", file->path);
        free(file);
        return status;
    }
    *ret_file = file;
    return RCM_OK;
}

/* ---- Events -------------------------------------------------------------------------------- */

static int thread_of(const struct traced *traced, const struct rcmi_trace_event *event) {
    return traced->number * THREADS +
           (event->kind == RCMI_TRACE_OPERATION ? 0 : 1 + event->lane % (THREADS - 1));
}

/* The name of the thread that an event is of, once. */
static void thread_write(FILE *out, struct traced *traced, const struct rcmi_trace_event *event,
                         int rank) {
    char name[RCM_NAME_MAX + 24];
    const bool whole = event->kind == RCMI_TRACE_OPERATION;
    const uint64_t bit = UINT64_C(1) << (whole ? 0 : 1 + event->lane % 63);
    if (traced->named & bit)
        return;
    traced->named |= bit;
    if (whole)
        snprintf(name, sizeof(name), "%s", traced->name);
    else
        snprintf(name, sizeof(name), "%s, lane %d", traced->name, event->lane);
    fputs(",\n", out);
    name_write(out, "thread_name", rank, thread_of(traced, event), name);
}

static void event_name_write(FILE *out, const struct rcmi_trace_event *event) {
    static const char *const categories[] = {[RCMI_TRACE_OPERATION] = "operation",
                                             [RCMI_TRACE_STEP] = "step",
                                             [RCMI_TRACE_WAIT] = "wait"};
    if (event->kind != RCMI_TRACE_WAIT)
        fprintf(out, "\"name\":\"%s\"", event->name);
    else if (event->peer >= 0)
        fprintf(out, "\"name\":\"wait for rank %d\"", (int)event->peer);
    else
        fputs("\"name\":\"wait for ranks of this host\"", out);
    fprintf(out, ",\"cat\":\"%s\"", categories[event->kind]);
}

static void event_args_write(FILE *out, const struct rcmi_trace_event *event) {
    fprintf(out, ",\"args\":{\"number\":%u,\"algorithm\":\"%s\"", event->number, event->algorithm);
    if (event->kind != RCMI_TRACE_OPERATION)
        fprintf(out, ",\"step\":%u", event->step);
    if (event->peer >= 0)
        fprintf(out, ",\"peer\":%d", (int)event->peer);
    if (event->kind == RCMI_TRACE_WAIT)
        fprintf(out, ",\"for\":\"%s\",\"finished\":%s", event->to_send ? "slot" : "message",
                event->unfinished ? "false" : "true");
    else
        fprintf(out, ",\"bytes\":%" PRIu64, event->bytes);
    fputs("}}", out);
}

/* Microseconds, to the nanosecond: more digits than a double has. */
static void time_write(FILE *out, const char *name, int64_t ns) {
    fprintf(out, "\"%s\":%" PRId64 ".%03d,", name, ns / 1000, (int)(ns % 1000));
}

/* From a trace's time to that of day. */
struct clock {
    int64_t first, first_ns;
    double unit_ns;
};

static int64_t clock_ns(const struct clock *clock, int64_t at) {
    return clock->first_ns + (int64_t)((double)(at - clock->first) * clock->unit_ns);
}

static void event_write(FILE *out, struct traced *traced, const struct rcmi_trace_event *event,
                        int rank, const struct clock *clock) {
    const int64_t begin_ns = clock_ns(clock, event->begin);
    thread_write(out, traced, event, rank);
    fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,", rank, thread_of(traced, event));
    time_write(out, "ts", begin_ns);
    time_write(out, "dur", clock_ns(clock, event->end) - begin_ns);
    event_name_write(out, event);
    event_args_write(out, event);
}

/* From CLOCK_MONOTONIC to the time of day, which machines have in common as far as they have any.
 */
static int64_t day_offset_ns(void) {
    struct timespec day, monotonic;
    clock_gettime(CLOCK_REALTIME, &day);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    return ((int64_t)day.tv_sec - monotonic.tv_sec) * 1000000000 + day.tv_nsec - monotonic.tv_nsec;
}

static void traced_write(FILE *out, struct traced *traced, int rank, int64_t offset_ns) {
    const struct clock clock = {.first = traced->trace.first,
                                .first_ns = traced->trace.first_ns + offset_ns,
                                .unit_ns = rcmi_trace_unit_ns(&traced->trace)};
    /* Acquire pairs with the release in rcmi_trace_add: the events are complete. */
    const uint64_t n = atomic_load_explicit(&traced->trace.n, memory_order_acquire);
    if (n - traced->written > RCMI_TRACE_EVENTS) {
        fprintf(out,
                ",\n{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":%d,\"args\":{\"labels\":"
                "\"%" PRIu64 " earlier events of %s are not kept\"}}",
                rank, n - RCMI_TRACE_EVENTS - traced->written,
                traced->number ? "a group" : "the world");
        traced->written = n - RCMI_TRACE_EVENTS;
    }
    for (; traced->written < n; traced->written++)
        event_write(out, traced, &traced->trace.events[traced->written % RCMI_TRACE_EVENTS], rank,
                    &clock);
}

static bool file_append(struct rcmi_trace_file *file) {
    FILE *out = file_open(file, false);
    if (!out)
        return false;
    const int64_t offset_ns = day_offset_ns();
    for (struct traced *traced = file->traces; traced; traced = traced->next)
        traced_write(out, traced, file->rank, offset_ns);
    return file_end(out);
}

void rcmi_trace_file_write(struct rcmi_trace_file *file) {
    if (!file)
        return;
    pthread_mutex_lock(&file->lock);
    if (!file_append(file))
        rcmi_log(RCMI_LOG_WARN, "the trace %.300s could not be written", file->path);
    pthread_mutex_unlock(&file->lock);
}

void rcmi_trace_file_close(struct rcmi_trace_file *file) {
    if (!file)
        return;
    rcmi_trace_file_write(file);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

/* ---- Communicators ------------------------------------------------------------------------- */

rcm_status rcmi_trace_begin(struct rcmi_trace_file *file, const char *name,
                            struct rcmi_trace **ret_trace) {
    *ret_trace = NULL;
    if (!file)
        return RCM_OK;
    struct traced *traced = calloc(1, sizeof(*traced));
    if (traced)
        traced->trace.events = calloc(RCMI_TRACE_EVENTS, sizeof(*traced->trace.events));
    if (!traced || !traced->trace.events) {
        free(traced);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a trace");
    }
    snprintf(traced->name, sizeof(traced->name), "%s", name);
    rcmi_trace_set_clock(&traced->trace);
    pthread_mutex_lock(&file->lock);
    traced->number = file->ntraces++;
    traced->next = file->traces;
    file->traces = traced;
    pthread_mutex_unlock(&file->lock);
    *ret_trace = &traced->trace;
    return RCM_OK;
}

void rcmi_trace_end(struct rcmi_trace_file *file, struct rcmi_trace *trace) {
    if (!trace)
        return;
    rcmi_trace_file_write(file);
    pthread_mutex_lock(&file->lock);
    struct traced **at = &file->traces;
    while (&(*at)->trace != trace)
        at = &(*at)->next;
    struct traced *traced = *at;
    *at = traced->next;
    pthread_mutex_unlock(&file->lock);
    free(traced->trace.events);
    free(traced);
}
